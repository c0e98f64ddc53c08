"""Proposals and citations on the surfaces of a piece of work, as the book has them now.

Written when the work ends, and anew whenever somebody answers a proposal. Only the field for memory
changes; what else a surface says stays as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from coven import texts_memory as texts
from coven.github_limits import ACTIONS
from coven.memory.book import Entry, EntryState
from coven.publication import (
    MEMORY_BUTTON,
    CheckRunContent,
    Content,
    Proposal,
    PullRequestContent,
    StatusCommentContent,
    check_run_subject,
    status_comment_subject,
)
from coven.settings.models import Settings
from coven.store import book, surfaces, tasks
from coven.store.engine import Tx
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.surfacing import Surfacing, familiar_of, voice_of
from coven.texts_memory import Cited, MemoryView, Pages
from coven.values import LIVE_STATES, SurfaceKind, TaskId

LOOK_BACK = 30
"""Tasks of a thread whose proposals stand on it."""
PENDING = 200
"""Proposals of a repository that are looked through."""
IN_COMMENT, IN_CHECK = 5, 20
"""Citations that are listed."""


def pages_of(settings: Settings, task: Task) -> Pages:
    """Where entries have a page of their own."""
    base = settings.server.public_url
    if not base:
        return texts.no_pages
    root = f"{base.rstrip('/')}/ops/memory/{task.installation_id}"
    return lambda entry_id: f"{root}/{entry_id}"


def view_of(settings: Settings, tx: Tx, task: Task) -> MemoryView:
    """What one piece of work was given, used and proposed."""
    supplied = _entries(tx, task, "supplied")
    used = _entries(tx, task, "read")
    proposed = _entries(tx, task, "proposed")
    unknown = book.of_task(
        task.installation_id, tx, task.id, ops=("read",), outcome="unknown", limit=IN_CHECK + 1
    )
    base = settings.server.public_url
    return MemoryView(
        pending=[each for each in proposed.values() if each.state is EntryState.PENDING],
        decided=[each for each in proposed.values() if each.state is not EntryState.PENDING],
        cited=[Cited(each, each.id in used) for each in (supplied | used).values()],
        elsewhere=list(dict.fromkeys(filter(None, (each.activity.target for each in unknown)))),
        public=not task.repo_private,
        page=f"{base.rstrip('/')}/ops/tasks/{task.id}/memory" if base else None,
        listed=IN_CHECK,
    )


def _entries(tx: Tx, task: Task, op: str) -> dict[str, Entry]:
    lines = book.of_task(task.installation_id, tx, task.id, ops=(op,), outcome="accepted")
    return {line.entry.id: line.entry for line in lines if line.entry is not None}


def pending_on_thread(tx: Tx, task: Task) -> list[Entry]:
    """Proposals that wait on the thread of a task, oldest first, whichever familiar made them."""
    tenant = task.installation_id
    filters = book.Filters(repo_id=task.repo_id, states=(EntryState.PENDING,))
    waiting = book.listed(tenant, tx, filters, limit=PENDING)
    here = [each for each in waiting if each.thread == task.thread]
    if len(here) < len(waiting):
        # The same text may have been proposed on another thread before.
        on_thread = tasks.on_thread(tenant, tx, task.repo_id, task.thread, LOOK_BACK)
        again = {entry_id for each in on_thread for entry_id in _entries(tx, each, "proposed")}
        here = [each for each in waiting if each.thread == task.thread or each.id in again]
    return here[::-1]


def completed(
    settings: Settings, tx: Tx, task: Task, wanted: Iterable[Surfacing]
) -> list[Surfacing]:
    """The surfaces of ended work, with what the book says about it. After the book was written."""
    page = _Page(settings, tx, task)
    return [replace(each, content=page.filled(each.content)) for each in wanted]


def refresh(
    settings: Settings,
    tx: Tx,
    entries: Iterable[Entry],
    now: datetime,
    *,
    everywhere: bool = False,
) -> list[TaskId]:
    """Show anew what stands of these entries; returns the tasks whose surfaces have changed.

    On the Check Run and the pull request of the work that proposed it, and on the status comment
    of its thread; ``everywhere`` also where it was cited. Whoever changes the book calls it in the
    same transaction; the publisher does the rest.
    """
    sources: dict[TaskId, Task] = {}
    ops = () if everywhere else ("proposed",)
    for entry in entries:
        for line in book.tasks_of(entry.installation_id, tx, entry.id, ops=ops):
            if line.task_id not in sources:
                found = tasks.get(entry.installation_id, tx, line.task_id)
                if found is not None:
                    sources[found.id] = found
    return of_tasks(settings, tx, list(sources.values()), now)


def of_tasks(
    settings: Settings,
    tx: Tx,
    sources: Sequence[Task],
    now: datetime,
    note: str | None = None,
) -> list[TaskId]:
    """:func:`refresh` for work that is known. ``note`` is said there too."""
    owners: dict[int, tuple[Surface, Task]] = {}
    for source in sources:
        for surface in _surfaces(tx, source):
            owner = tasks.get(source.installation_id, tx, surface.task_id)
            # Work that goes on writes it when it ends.
            if owner is not None and owner.state not in LIVE_STATES:
                owners[surface.id] = surface, owner
    for surface, owner in owners.values():
        page = _Page(settings, tx, owner, note, again=True)
        content = page.filled(_MODELS[surface.kind].model_validate(surface.desired))
        surfaces.desire(
            owner.installation_id,
            tx,
            owner,
            surface.kind,
            surface.subject,
            content.model_dump(mode="json"),
            now,
        )
    return list(dict.fromkeys(owner.id for _, owner in owners.values()))


_MODELS: dict[SurfaceKind, type[Content]] = {
    SurfaceKind.CHECK_RUN: CheckRunContent,
    SurfaceKind.STATUS_COMMENT: StatusCommentContent,
    SurfaceKind.PULL_REQUEST: PullRequestContent,
}


def _surfaces(tx: Tx, source: Task) -> list[Surface]:
    tenant, repo = source.installation_id, source.repo_id
    check = check_run_subject(source.id, source.round)
    comment = status_comment_subject(source.thread, source.familiar_id)
    found = [
        surfaces.find(tenant, tx, repo, SurfaceKind.CHECK_RUN, check),
        surfaces.find(tenant, tx, repo, SurfaceKind.STATUS_COMMENT, comment),
        *(
            surface
            for surface in surfaces.of_task(tenant, tx, source.id)
            if surface.kind is SurfaceKind.PULL_REQUEST
        ),
    ]
    return [surface for surface in found if surface is not None]


@dataclass(frozen=True)
class _Page:
    """What the book says about one piece of work, read once for all its surfaces."""

    settings: Settings
    tx: Tx
    task: Task
    note: str | None = None
    again: bool = False
    """The surfaces were written before, so annotations may stand there already."""

    def filled(self, content: Content) -> Content:
        """The content with what there is to say about memory, where it has a place for that."""
        if isinstance(content, CheckRunContent):
            return self._check(content) if content.status == "completed" else content
        if isinstance(content, StatusCommentContent):
            pending = pending_on_thread(self.tx, self.task)
            view = replace(self._view, pending=pending, listed=IN_COMMENT, on_thread=True)
            return content.model_copy(update={"memory": self._section(view)})
        if isinstance(content, PullRequestContent):
            return content.model_copy(update={"memory": self._section(self._view)})
        return content

    def _check(self, content: CheckRunContent) -> CheckRunContent:
        buttons = [each for each in content.actions if each != MEMORY_BUTTON]
        offered = None
        if len(self._view.pending) == 1:
            buttons.insert(0, MEMORY_BUTTON)
            (only,) = self._view.pending
            offered = Proposal(id=only.id, text_hash=only.text_hash)
        return content.model_copy(
            update={
                "memory": self._section(self._view),
                "actions": tuple(buttons[:ACTIONS]),
                "proposal": offered,
                "first_marks": content.first_marks and not self.again,
            }
        )

    @cached_property
    def _view(self) -> MemoryView:
        return replace(view_of(self.settings, self.tx, self.task), note=self.note)

    def _section(self, view: MemoryView) -> str | None:
        voice = voice_of(self.settings, familiar_of(self.settings, self.task), self.task)
        return texts.section(voice, view, pages_of(self.settings, self.task))
