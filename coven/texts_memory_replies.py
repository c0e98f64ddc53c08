"""Answers to what maintainers say about memory: finished Markdown that names the next step."""

from __future__ import annotations

from collections.abc import Sequence

from coven.github_limits import COMMENT
from coven.markdown import code_span, cut_bytes, inline
from coven.memory.book import SUMMARY_CHARS, Decided, Entry, EntryState, Refusal
from coven.publication import MEMORY_BUTTON
from coven.texts import CUT, Voice, count, paragraphs
from coven.texts_memory import (
    BRIEF,
    CANDIDATES,
    PROPOSALS_BYTES,
    MemoryView,
    Pages,
    link_of,
    no_pages,
    say,
    standing,
    summary_of,
    text_of,
    whole_rows,
)

LISTED = 40
"""Entries that an answer to ``memory`` lists."""


def reply_remembered(voice: Voice, decided: Decided, entry: Entry) -> str:
    """Answer to ``remember <text>`` that is in the book now."""
    lead = "Remembered" if decided.fresh else "This is remembered already"
    return paragraphs(
        f"{lead} as {code_span(entry.id)}, under {code_span(entry.key)}:",
        f"> {text_of(entry)}",
        f"Work in this repository is given it from now on. {say(voice, f'forget {entry.id}')} "
        "takes it back.",
    )


def reply_answered(rows: Sequence[str]) -> str:
    """Answer to ``approve`` and ``deny``: one finished line per id."""
    if len(rows) == 1:
        return rows[0]
    return cut_bytes("\n".join(f"- {row}" for row in rows), COMMENT - 300, CUT)


def reply_all(bodies: Sequence[str]) -> str:
    """One answer to all decisions of a comment, in their order; empty when none has words."""
    return cut_bytes("\n\n---\n\n".join(bodies), COMMENT - 300, CUT)


def approved_line(voice: Voice, decided: Decided, entry: Entry) -> str:
    """What ``approve`` did to one entry."""
    lead = "is approved" if decided.fresh else f"was {standing(entry)} already"
    return (
        f"{code_span(entry.id)} {lead}, and work here is given it from now on: {text_of(entry)} "
        f"({say(voice, f'forget {entry.id}')} takes it back.)"
    )


def denied_line(decided: Decided, entry: Entry) -> str:
    """What ``deny`` did to one entry."""
    lead = "is denied" if decided.fresh else f"was {standing(entry)} already"
    return f"{code_span(entry.id)} {lead}, and not remembered: {text_of(entry, BRIEF)}"


def refused_line(voice: Voice, entry_id: str, decided: Decided, now: Entry | None = None) -> str:
    """Why ``approve`` or ``deny`` changed nothing. ``now``: what stands at that place instead."""
    entry, why = decided.entry, decided.refused
    name = code_span(entry_id)
    if why is Refusal.OWN_CHANGE:
        return (
            f"{name} was learnt from a change of your own. Here somebody else has to approve it: "
            "another maintainer writes the same command."
        )
    if now is not None and now.id != entry_id:
        again = (
            f" {say(voice, f'approve {now.id}')} or {say(voice, f'deny {now.id}')} answers it."
            if now.state is EntryState.PENDING
            else ""
        )
        return (
            f"{name} was not approved, because the text has changed since it was shown. "
            f"It is {code_span(now.id)} now: {text_of(now)}{again}"
        )
    if why is Refusal.REVOKED_KEY and entry is not None:
        return (
            f"{name} was not approved: {code_span(entry.key)} was taken back earlier, and stays "
            f"so until the operator lifts that."
        )
    if entry is not None and why in (Refusal.NOT_PENDING, Refusal.EXPIRED, Refusal.TEXT_CHANGED):
        return f"{name} can't be answered any more: it is {standing(entry)}."
    return f"{name} is no proposal of this repository."


def reply_needs_id(voice: Voice, verb: str, pending: Sequence[Entry]) -> str:
    """``approve`` or ``deny`` without a usable id, or with words that name a second thing."""
    return paragraphs(
        f"Nothing was changed: {say(voice, verb)} needs the id of each proposal, and nothing "
        "else on its line.",
        _waiting(voice, pending),
    )


def reply_remember_what(voice: Voice, pending: Sequence[Entry]) -> str:
    """``remember`` without a text, where not exactly one proposal waits on the thread."""
    if pending:
        return paragraphs(
            f"{count(len(pending), 'proposal')} {'waits' if len(pending) == 1 else 'wait'} here, "
            "so say which one.",
            _waiting(voice, pending),
        )
    return (
        f"There is nothing to remember. **Next:** write {say(voice, 'remember <text>')}; no "
        "proposal waits on this thread."
    )


def _waiting(voice: Voice, pending: Sequence[Entry]) -> str:
    if not pending:
        return f"No proposal waits on this thread; {say(voice, 'memory')} lists all of them."
    rows, left = whole_rows(voice, pending, PROPOSALS_BYTES)
    return paragraphs(
        "\n".join(rows),
        f"…and {left} more: {say(voice, 'memory')} shows them." if left else None,
    )


def reply_withheld(kind: str | None) -> str:
    """The text holds a credential (``kind`` None) or personal data. It is never repeated."""
    if kind is None:
        return (
            "Nothing was remembered: the text holds what looks like a credential. **Next:** if it "
            "is a real one, delete the comment and replace the credential; then write the command "
            "again without it."
        )
    return (
        f"Nothing was remembered: the text holds personal data ({inline(kind, 60)}). **Next:** "
        "write it again without that, for example with a role in place of a person."
    )


def reply_not_remembered(voice: Voice, refused: Refusal, length: int, key: str | None) -> str:
    """Why ``remember <text>`` did not reach the book."""
    if refused is Refusal.TOO_LONG:
        return (
            f"Nothing was remembered: the text has {length} characters, and an entry has at most "
            f"{SUMMARY_CHARS}. **Next:** say it in fewer words, or put it into a file of the "
            "repository, which runs read anyway."
        )
    if refused is Refusal.REVOKED_KEY:
        where = f" ({code_span(key)})" if key else ""
        return (
            f"Nothing was remembered: exactly this was taken back earlier{where}, and stays so "
            "until the operator lifts that. **Next:** say it in other words if it is meant anew."
        )
    return (
        "Nothing was remembered: "
        f"{inline(refused.value.replace('_', ' '), 60)}. **Next:** {say(voice, 'memory')} shows "
        "what stands there."
    )


def reply_memory_off(voice: Voice) -> str:
    """Memory is off here; what is there can still be listed and taken back."""
    return (
        "Memory is switched off for this repository, so nothing is added to it. **Next:** the "
        f"operator of this App switches it on; {say(voice, 'memory')} lists what is there, and "
        f"{say(voice, 'forget')} takes it back, also now."
    )


def reply_forgotten(target: str, entries: Sequence[Entry], *, fresh: bool) -> str:
    """Answer to ``forget`` that took something back."""
    rows = [f"- {code_span(entry.id)}: {text_of(entry, BRIEF)}" for entry in entries[:CANDIDATES]]
    left = len(entries) - len(rows)
    lead = "Taken back" if fresh else "This was taken back already"
    return paragraphs(
        f"{lead}: {code_span(target)}.",
        "\n".join([*rows, *([f"- …and {left} more"] if left > 0 else [])]) or None,
        "No run is given it from the next one on, and what a run says of this place is refused, "
        "until the operator lifts that.",
    )


def reply_forget_which(voice: Voice, found: Sequence[Entry]) -> str:
    """``forget`` could mean several entries; nothing was changed."""
    rows = [
        f"- {say(voice, f'forget {entry.id}')}: {text_of(entry, BRIEF)} · {standing(entry)}"
        for entry in found[:CANDIDATES]
    ]
    left = len(found) - len(rows)
    return paragraphs(
        f"Nothing was changed: {len(found)} entries could be meant. **Next:** name one.",
        "\n".join([*rows, *([f"- …and {left} more"] if left > 0 else [])]),
    )


def reply_forget_nothing(voice: Voice, wanted: str) -> str:
    """``forget`` names nothing that is known here."""
    if not wanted.strip():
        return (
            f"Nothing was changed. **Next:** write {say(voice, 'forget')} with an id, a key, or "
            f"words of the text; {say(voice, 'memory')} lists what is there."
        )
    return (
        f"Nothing was changed: no entry of this repository is meant by {code_span(wanted[:80])}. "
        f"**Next:** {say(voice, 'memory')} lists what is there."
    )


def reply_forget_not_yours() -> str:
    """A key of another repository, or one that all repositories share."""
    return (
        "Nothing was changed: from here only memory of this repository is taken back. **Next:** "
        "what all repositories share is taken back by the operator of this App."
    )


def reply_memory(
    voice: Voice,
    pending: Sequence[Entry],
    approved: Sequence[Entry],
    *,
    others: Sequence[tuple[str, int]] = (),
    more: bool = False,
    enabled: bool = True,
    public: bool = False,
    pages: Pages = no_pages,
) -> str:
    """Answer to ``memory``: what waits, what work here is given, and how much is not in use.

    ``more``: there is more than was read from the book.
    """
    rows, left = whole_rows(voice, pending, PROPOSALS_BYTES)
    waiting = None
    if pending:
        waiting = paragraphs(
            f"**{count(len(pending), 'proposal')} {'waits' if len(pending) == 1 else 'wait'} for "
            "a maintainer**",
            "\n".join(rows),
            f"…and {left} more." if left else None,
        )
    view = MemoryView(public=public)
    kept = [
        f"- {link_of(entry, pages)}: {summary_of(entry, view)} · {standing(entry)} · "
        f"{_usage(entry)}\n"
        f"  - {code_span(entry.key)}"
        for entry in approved[:LISTED]
    ]
    hidden = len(approved) - len(kept)
    if hidden > 0 or more:
        kept.append(f"- …and {f'{hidden} more' if hidden > 0 and not more else 'more'}")
    unused = ", ".join(f"{number} {inline(state, 40)}" for state, number in others if number)
    parts = [
        None if enabled else "**Memory is switched off here**, so no run is given any of this.",
        waiting,
        paragraphs("**Remembered**", "\n".join(kept)) if kept else None,
        f"Not in use: {unused}." if unused else None,
    ]
    if not any(parts[1:4]):
        parts.insert(
            1,
            f"Nothing is remembered about this repository. {say(voice, 'remember <text>')} "
            "would be a start.",
        )
    elif kept:
        parts.append(f"{say(voice, 'forget <id>')} takes an entry back.")
    return cut_bytes(paragraphs(*parts), COMMENT - 300, CUT)


# --- the button


def clicked_in_vain(who: str, why: str) -> str:
    """The button was pressed and nothing could be approved; why, as finished Markdown."""
    return f"> {inline(who, 80)} pressed **{MEMORY_BUTTON.label}**, and nothing was approved: {why}"


STALE_BUTTON = "what the button was about is not what waits here now."
OWN_BUTTON = "it was learnt from their own change, and here somebody else has to approve it."
OFF_BUTTON = "memory is switched off for this repository."


def _usage(entry: Entry) -> str:
    return f"used by {count(entry.cited, 'run')}" if entry.cited else "not used yet"
