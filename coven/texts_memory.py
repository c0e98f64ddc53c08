"""What people read about memory on GitHub: proposals, citations, and answers to commands.

Facts from the book come in, finished Markdown goes out. A proposal is always shown whole and with
everything that hides made visible: its id stands for exactly the text that is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from coven.github_limits import COMMENT, MEMORY_BYTES
from coven.markdown import code_span, cut_bytes, inline, link
from coven.memory.book import SUMMARY_CHARS, Decided, Entry, EntryState, Refusal, shown
from coven.publication import MEMORY_BUTTON
from coven.texts import CUT, Voice, count, paragraphs

PROPOSALS_BYTES = 24_000
"""Proposals are shown whole up to here; further ones are only counted."""
WHOLE = 23_000
"""Bytes of Markdown: more than any text of the book can make."""
BRIEF = 240
"""Bytes of a text that need not be read whole."""
LISTED = 40
"""Entries that an answer to ``memory`` lists."""
CANDIDATES = 10

Pages = Callable[[str], str | None]
"""From an entry's id to the address of its page, where there is one."""


def no_pages(_: str) -> None:
    """There is no dashboard to link to."""


@dataclass(frozen=True, slots=True)
class Cited:
    """An entry that a run was given. ``used``: the run says that it used it."""

    entry: Entry
    used: bool


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What a piece of work has to do with memory."""

    pending: Sequence[Entry] = ()
    decided: Sequence[Entry] = ()
    """Proposals of this work that somebody has answered."""
    cited: Sequence[Cited] = ()
    elsewhere: Sequence[str] = ()
    """Keys that the run says it used and that are not in the book."""
    public: bool = False
    """Everybody reads this, so what is shared by all repositories is not repeated."""
    page: str | None = None
    """Where all memory of this work is shown."""
    note: str | None = None
    """Finished Markdown about the last click."""
    listed: int = 10
    """Citations that are listed; the others are counted."""
    on_thread: bool = False
    """Read on the thread itself, where ``remember`` alone can mean the one proposal."""


def section(voice: Voice, view: MemoryView, pages: Pages = no_pages) -> str | None:
    """Proposals, answers to them, and citations; None when there is nothing of the kind."""
    parts = [
        view.note,
        _pending(voice, view),
        _decided(view.decided, pages),
        _citations(view, pages),
    ]
    if not any(parts):
        return None
    more = link("Which memory shaped this", view.page) if view.page else None
    return cut_bytes(paragraphs(*parts, more), MEMORY_BYTES, CUT)


def _pending(voice: Voice, view: MemoryView) -> str | None:
    pending = view.pending
    if not pending:
        return None
    if len(pending) == 1:
        lead = "**One proposal for memory waits for a maintainer.** Until then no run is given it."
    else:
        lead = (
            f"**{len(pending)} proposals for memory wait for a maintainer.** "
            "Until then no run is given them."
        )
    rows, left = _whole_rows(voice, pending, PROPOSALS_BYTES)
    more = f"…and {left} more: {_say(voice, 'memory')} shows them." if left else None
    alone = None
    if len(pending) == 1 and view.on_thread:
        alone = f"While it is the only one here, {_say(voice, 'remember')} approves it too."
    return paragraphs(lead, "\n".join(rows), more, alone)


def _whole_rows(voice: Voice, pending: Sequence[Entry], room: int) -> tuple[list[str], int]:
    """Proposals with their whole text and both answers, and how many did not fit."""
    rows: list[str] = []
    for entry in pending:
        row = (
            f"- {code_span(entry.id)}: {_text(entry)}\n"
            f"  - {_say(voice, f'approve {entry.id}')} or {_say(voice, f'deny {entry.id}')}, "
            f"for {code_span(entry.key)}"
        )
        room -= len(row.encode()) + 1
        if room < 0 and rows:
            break
        rows.append(row)
    return rows, len(pending) - len(rows)


def _decided(decided: Sequence[Entry], pages: Pages) -> str | None:
    if not decided:
        return None
    rows = [
        f"- {_id(entry, pages)}: {_text(entry, BRIEF)} · {standing(entry)}"
        for entry in decided[:CANDIDATES]
    ]
    left = len(decided) - len(rows)
    return paragraphs(
        "**Proposed here and answered**",
        "\n".join([*rows, *([f"- …and {left} more"] if left > 0 else [])]),
    )


def _citations(view: MemoryView, pages: Pages) -> str | None:
    used = sum(cited.used for cited in view.cited) + len(view.elsewhere)
    total = len(view.cited) + len(view.elsewhere)
    if not total:
        return None
    given = "1 entry" if len(view.cited) == 1 else f"{len(view.cited)} entries"
    lead = f"**From memory:** {given} supplied, {used} reported as used."
    rows = [
        f"- {_id(cited.entry, pages)}: {_summary(cited.entry, view)} · "
        f"{standing(cited.entry)} · {'**used**' if cited.used else 'supplied'}"
        # What was used says more about the result than what merely lay there.
        for cited in sorted(view.cited, key=lambda cited: not cited.used)
    ]
    rows += [f"- {code_span(key)} · **used**, not kept here" for key in view.elsewhere]
    hidden = len(rows) - view.listed
    if hidden > 0:
        rows = [*rows[: view.listed], f"- …and {hidden} more"]
    return paragraphs(lead, "\n".join(rows))


def _summary(entry: Entry, view: MemoryView) -> str:
    if view.public and entry.repo_id is None:
        return "shared by all repositories of this installation, so it is not repeated in public"
    return _text(entry, BRIEF)


def standing(entry: Entry) -> str:
    """The state of an entry, who brought it about, and when."""
    by = f" by {inline(entry.decided_by_login, 80)}" if entry.decided_by_login else ""
    on = f" on {_day(entry.decided_at)}" if entry.decided_at else ""
    if entry.state is EntryState.APPROVED:
        return f"approved{by or ' by policy'}{on}"
    if entry.state is EntryState.PENDING:
        return f"waits since {_day(entry.created_at)}"
    if entry.state is EntryState.REJECTED:
        return f"denied{by}{on}"
    if entry.state is EntryState.REVOKED:
        return f"taken back{by}{on}"
    if entry.replaced_by:
        return f"replaced by {code_span(entry.replaced_by)}"
    return f"expired{on}"


# --- answers


def reply_remembered(voice: Voice, decided: Decided, entry: Entry) -> str:
    """Answer to ``remember <text>`` that is in the book now."""
    lead = "Remembered" if decided.fresh else "This is remembered already"
    return paragraphs(
        f"{lead} as {code_span(entry.id)}, under {code_span(entry.key)}:",
        f"> {_text(entry)}",
        f"Work in this repository is given it from now on. {_say(voice, f'forget {entry.id}')} "
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
        f"{code_span(entry.id)} {lead}, and work here is given it from now on: {_text(entry)} "
        f"({_say(voice, f'forget {entry.id}')} takes it back.)"
    )


def denied_line(decided: Decided, entry: Entry) -> str:
    """What ``deny`` did to one entry."""
    lead = "is denied" if decided.fresh else f"was {standing(entry)} already"
    return f"{code_span(entry.id)} {lead}, and not remembered: {_text(entry, BRIEF)}"


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
            f" {_say(voice, f'approve {now.id}')} or {_say(voice, f'deny {now.id}')} answers it."
            if now.state is EntryState.PENDING
            else ""
        )
        return (
            f"{name} was not approved, because the text has changed since it was shown. "
            f"It is {code_span(now.id)} now: {_text(now)}{again}"
        )
    if why is Refusal.REVOKED_KEY and entry is not None:
        return (
            f"{name} was not approved: {code_span(entry.key)} was taken back earlier, and stays "
            f"so until the operator lifts that."
        )
    if entry is not None and why in (Refusal.NOT_PENDING, Refusal.EXPIRED, Refusal.TEXT_CHANGED):
        return f"{name} can't be answered any more: it is {standing(entry)}."
    return f"{name} is no proposal of this repository."


def no_such_escalation(escalation_id: str) -> str:
    """An ``E-`` id while nobody knows escalations."""
    return f"There is no such escalation here: {code_span(escalation_id[:20])}."


def reply_needs_id(voice: Voice, verb: str, pending: Sequence[Entry]) -> str:
    """``approve`` or ``deny`` without a usable id, or with words that name a second thing."""
    return paragraphs(
        f"Nothing was changed: {_say(voice, verb)} needs the id of each proposal, and nothing "
        "else on its line.",
        _waiting(voice, pending),
    )


def reply_remember_what(voice: Voice, pending: Sequence[Entry]) -> str:
    """``remember`` without a text, where not exactly one proposal waits on the thread."""
    if pending:
        return paragraphs(
            f"{len(pending)} proposals wait here, so say which one.", _waiting(voice, pending)
        )
    return (
        f"There is nothing to remember. **Next:** write {_say(voice, 'remember <text>')}; no "
        "proposal waits on this thread."
    )


def _waiting(voice: Voice, pending: Sequence[Entry]) -> str:
    if not pending:
        return f"No proposal waits on this thread; {_say(voice, 'memory')} lists all of them."
    rows, left = _whole_rows(voice, pending, PROPOSALS_BYTES)
    return paragraphs(
        "\n".join(rows),
        f"…and {left} more: {_say(voice, 'memory')} shows them." if left else None,
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
        f"{inline(refused.value.replace('_', ' '), 60)}. **Next:** {_say(voice, 'memory')} shows "
        "what stands there."
    )


def reply_memory_off(voice: Voice) -> str:
    """Memory is off here; what is there can still be listed and taken back."""
    return (
        "Memory is switched off for this repository, so nothing is added to it. **Next:** the "
        f"operator of this App switches it on; {_say(voice, 'memory')} lists what is there, and "
        f"{_say(voice, 'forget')} takes it back, also now."
    )


def reply_forgotten(target: str, entries: Sequence[Entry], *, fresh: bool) -> str:
    """Answer to ``forget`` that took something back."""
    rows = [f"- {code_span(entry.id)}: {_text(entry, BRIEF)}" for entry in entries[:CANDIDATES]]
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
        f"- {_say(voice, f'forget {entry.id}')}: {_text(entry, BRIEF)} · {standing(entry)}"
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
            f"Nothing was changed. **Next:** write {_say(voice, 'forget')} with an id, a key, or "
            f"words of the text; {_say(voice, 'memory')} lists what is there."
        )
    return (
        f"Nothing was changed: no entry of this repository is meant by {code_span(wanted[:80])}. "
        f"**Next:** {_say(voice, 'memory')} lists what is there."
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
    rows, left = _whole_rows(voice, pending, PROPOSALS_BYTES)
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
        f"- {_id(entry, pages)}: {_summary(entry, view)} · {standing(entry)} · "
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
            f"Nothing is remembered about this repository. {_say(voice, 'remember <text>')} "
            "would be a start.",
        )
    elif kept:
        parts.append(f"{_say(voice, 'forget <id>')} takes an entry back.")
    return cut_bytes(paragraphs(*parts), COMMENT - 300, CUT)


# --- the button


def clicked_in_vain(who: str, why: str) -> str:
    """The button was pressed and nothing could be approved; why, as finished Markdown."""
    return f"> {inline(who, 80)} pressed **{MEMORY_BUTTON.label}**, and nothing was approved: {why}"


STALE_BUTTON = "what the button was about is not what waits here now."
OWN_BUTTON = "it was learnt from their own change, and here somebody else has to approve it."
OFF_BUTTON = "memory is switched off for this repository."


def _id(entry: Entry, pages: Pages) -> str:
    url = pages(entry.id)
    return link(entry.id, url) if url else code_span(entry.id)


def _text(entry: Entry, limit: int = WHOLE) -> str:
    return inline(shown(entry.summary), limit)


def _usage(entry: Entry) -> str:
    return f"used by {count(entry.cited, 'run')}" if entry.cited else "not used yet"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _say(voice: Voice, words: str) -> str:
    return code_span(f"@{voice.handle} {words}")
