"""What people read about memory on GitHub: proposals, what became of them, and citations.

Facts from the book come in, finished Markdown goes out. A proposal is always shown whole and with
everything that hides made visible: its id stands for exactly the text that is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from coven.github_limits import MEMORY_BYTES
from coven.markdown import code_span, cut_bytes, inline, link
from coven.memory.book import Entry, EntryState, shown
from coven.texts import CUT, Voice, paragraphs

PROPOSALS_BYTES = 24_000
"""Proposals are shown whole up to here; further ones are only counted."""
WHOLE = 23_000
"""Bytes of Markdown: more than any text of the book can make."""
BRIEF = 240
"""Bytes of a text that need not be read whole."""
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
    rows, left = whole_rows(voice, pending, PROPOSALS_BYTES)
    more = f"…and {left} more: {say(voice, 'memory')} shows them." if left else None
    alone = None
    if len(pending) == 1 and view.on_thread:
        alone = f"While it is the only one here, {say(voice, 'remember')} approves it too."
    return paragraphs(lead, "\n".join(rows), more, alone)


def whole_rows(voice: Voice, pending: Sequence[Entry], room: int) -> tuple[list[str], int]:
    """Proposals with their whole text and both answers, and how many did not fit."""
    rows: list[str] = []
    for entry in pending:
        row = (
            f"- {code_span(entry.id)}: {text_of(entry)}\n"
            f"  - {say(voice, f'approve {entry.id}')} or {say(voice, f'deny {entry.id}')}, "
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
        f"- {link_of(entry, pages)}: {text_of(entry, BRIEF)} · {standing(entry)}"
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
        f"- {link_of(cited.entry, pages)}: {summary_of(cited.entry, view)} · "
        f"{standing(cited.entry)} · {'**used**' if cited.used else 'supplied'}"
        # What was used says more about the result than what merely lay there.
        for cited in sorted(view.cited, key=lambda cited: not cited.used)
    ]
    rows += [f"- {code_span(key)} · **used**, not kept here" for key in view.elsewhere]
    hidden = len(rows) - view.listed
    if hidden > 0:
        rows = [*rows[: view.listed], f"- …and {hidden} more"]
    return paragraphs(lead, "\n".join(rows))


def summary_of(entry: Entry, view: MemoryView) -> str:
    """The text in short, unless it is not for everybody who reads this."""
    if view.public and entry.repo_id is None:
        return "shared by all repositories of this installation, so it is not repeated in public"
    return text_of(entry, BRIEF)


def standing(entry: Entry) -> str:
    """The state of an entry, who brought it about, and when."""
    by = f" by {inline(entry.decided_by_login, 80)}" if entry.decided_by_login else ""
    on = f" on {day(entry.decided_at)}" if entry.decided_at else ""
    if entry.state is EntryState.APPROVED:
        return f"approved{by or ' by policy'}{on}"
    if entry.state is EntryState.PENDING:
        return f"waits since {day(entry.created_at)}"
    if entry.state is EntryState.REJECTED:
        return f"denied{by}{on}"
    if entry.state is EntryState.REVOKED:
        return f"taken back{by}{on}"
    if entry.replaced_by:
        return f"replaced by {code_span(entry.replaced_by)}"
    return f"expired{on}"


def link_of(entry: Entry, pages: Pages) -> str:
    """The id, linked where the entry has a page."""
    url = pages(entry.id)
    return link(entry.id, url) if url else code_span(entry.id)


def text_of(entry: Entry, limit: int = WHOLE) -> str:
    """The text on one line, harmless, with everything that hides made visible."""
    return inline(shown(entry.summary), limit)


def day(moment: datetime) -> str:
    """The date, as people read it."""
    return f"{moment:%Y-%m-%d}"


def say(voice: Voice, words: str) -> str:
    """A command as people write it, never as a live mention."""
    return code_span(f"@{voice.handle} {words}")
