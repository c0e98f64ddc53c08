"""What only the dashboard asks: queues, sessions under way, workers, and what holds work up.

Every function takes the installation first; None means all of them, which only operators ask for.
``within`` narrows it to some repositories; empty: all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from coven.memory.book import EntryState
from coven.store.engine import Tx
from coven.store.escalations import FIELDS as ESCALATION_FIELDS
from coven.store.escalations import Escalation, Status
from coven.store.escalations import from_row as escalation_of
from coven.store.listing import Repos
from coven.store.pacing import HELD
from coven.store.tables import attempts, surfaces, tasks
from coven.store.tables_governance import escalations
from coven.store.tables_memory import memory_entries
from coven.values import InstallationId, Lane, SurfaceState, TaskId, TaskState

_LIVE = (TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING)


@dataclass(frozen=True, slots=True)
class LaneDepth:
    """One lane. ``due`` could begin now, ``later`` has a time to wait for."""

    lane: Lane
    due: int
    later: int
    running: int
    waiting: int
    oldest_due: datetime | None
    """Since when the oldest due task is wanted."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A session under way."""

    task_id: TaskId
    installation_id: InstallationId
    repo: str
    thread: int
    is_pull: bool
    title: str
    verb: str
    familiar_id: str
    number: int
    phase: str
    worker: str
    started_at: datetime
    heartbeat_at: datetime
    cancel_requested_at: datetime | None


@dataclass(frozen=True, slots=True)
class Worker:
    """Who runs sessions, as far as attempts tell."""

    name: str
    running: int
    heartbeat_at: datetime


@dataclass(frozen=True, slots=True)
class Named:
    """A task as other pages name it."""

    id: TaskId
    repo: str
    thread: int
    is_pull: bool
    title: str
    verb: str
    state: TaskState
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Publishing:
    """Surfaces that GitHub does not show yet. ``held_until``: its rate limit stopped us."""

    pending: int
    failed: int
    oldest_pending: datetime | None
    held: int
    held_until: datetime | None


def lanes(
    installation: InstallationId | None, tx: Tx, now: datetime, within: Repos = frozenset()
) -> list[LaneDepth]:
    """Depth of every lane, in the order of the lanes."""
    c = tasks.c
    queued = c.state == TaskState.QUEUED
    due = and_(queued, or_(c.not_before.is_(None), c.not_before <= now))
    rows = tx.execute(
        select(
            c.lane,
            _count(due),
            _count(and_(queued, c.not_before > now)),
            _count(c.state == TaskState.RUNNING),
            _count(c.state == TaskState.WAITING),
            func.min(case((due, c.created_at))),
        )
        .where(c.state.in_(_LIVE), *_of_tasks(installation, within))
        .group_by(c.lane)
    )
    found = {Lane(row[0]): LaneDepth(Lane(row[0]), *row[1:]) for row in rows}
    return [found.get(lane, LaneDepth(lane, 0, 0, 0, 0, None)) for lane in Lane]


def flights(
    installation: InstallationId | None, tx: Tx, within: Repos = frozenset(), limit: int = 100
) -> list[Flight]:
    """Attempts under way, the longest first."""
    t, a = tasks.c, attempts.c
    rows = tx.execute(
        select(
            t.id,
            t.installation_id,
            t.repo_owner + "/" + t.repo_name,
            t.thread,
            t.is_pull,
            t.title,
            t.verb,
            t.familiar_id,
            a.number,
            a.phase,
            a.worker,
            a.started_at,
            a.heartbeat_at,
            t.cancel_requested_at,
        )
        .join(attempts, and_(a.task_id == t.id, a.finished_at.is_(None)))
        .where(t.state == TaskState.RUNNING, *_of_tasks(installation, within))
        .order_by(a.started_at)
        .limit(limit)
    )
    return [Flight(*found) for found in map(tuple[Any, ...], rows)]


def workers(
    installation: InstallationId | None, tx: Tx, since: datetime, limit: int = 200
) -> list[Worker]:
    """Workers with an attempt that runs, or that ended after ``since``; newest sign first."""
    a = attempts.c
    running = func.sum(case((a.finished_at.is_(None), 1), else_=0))
    heard = func.max(a.heartbeat_at)
    query = (
        select(a.worker, running, heard)
        .where(or_(a.finished_at.is_(None), a.finished_at > since))
        .group_by(a.worker)
        .order_by(heard.desc())
        .limit(limit)
    )
    if installation is not None:
        query = query.where(a.installation_id == installation)
    return [Worker(str(name), int(count), at) for name, count, at in tx.execute(query)]


def publishing(
    installation: InstallationId | None, tx: Tx, now: datetime, within: Repos = frozenset()
) -> Publishing:
    """How far GitHub is behind the ledger."""
    c = surfaces.c
    pending = c.state == SurfaceState.PENDING
    held = and_(pending, c.next_at > now, c.error.startswith(HELD, autoescape=True))
    conditions: list[ColumnElement[bool]] = [
        c.state.in_((SurfaceState.PENDING, SurfaceState.FAILED))
    ]
    if installation is not None:
        conditions.append(c.installation_id == installation)
    if within:
        conditions.append(_is_one_of(c.repo_owner + "/" + c.repo_name, within))
    row = tx.execute(
        select(
            _count(pending),
            _count(c.state == SurfaceState.FAILED),
            func.min(case((pending, c.updated_at))),
            _count(held),
            func.max(case((held, c.next_at))),
        ).where(*conditions)
    ).one()
    return Publishing(int(row[0] or 0), int(row[1] or 0), row[2], int(row[3] or 0), row[4])


def waiting_marks(
    installation: InstallationId | None, tx: Tx, within: Repos = frozenset()
) -> list[tuple[str, int]]:
    """What live tasks wait for (a limit, an escalation, an answer), most frequent first."""
    c = tasks.c
    count = func.count()
    rows = tx.execute(
        select(c.waiting_for, count)
        .where(c.state.in_(_LIVE), c.waiting_for.is_not(None), *_of_tasks(installation, within))
        .group_by(c.waiting_for)
        .order_by(count.desc(), c.waiting_for)
        .limit(50)
    )
    return [(str(what), int(number)) for what, number in rows]


def named(installation: InstallationId | None, tx: Tx, ids: Sequence[TaskId]) -> dict[str, Named]:
    """These tasks by id, as far as they are there."""
    c = tasks.c
    rows = tx.execute(
        select(
            c.id,
            c.repo_owner + "/" + c.repo_name,
            c.thread,
            c.is_pull,
            c.title,
            c.verb,
            c.state,
            c.created_at,
        ).where(c.id.in_(list(ids)[:500]), *_of_tasks(installation, frozenset()))
    )
    return {str(row[0]): Named(*row[:6], TaskState(row[6]), row[7]) for row in rows}


def asked(
    installation: InstallationId | None,
    tx: Tx,
    status: Sequence[Status],
    within: Repos = frozenset(),
    limit: int = 100,
) -> list[Escalation]:
    """Escalations in these states, newest first."""
    c = escalations.c
    query = select(*ESCALATION_FIELDS).where(c.status.in_(list(status)))
    if installation is not None:
        query = query.where(c.installation_id == installation)
    if within:
        mine = select(tasks.c.id).where(*_of_tasks(installation, within))
        query = query.where(c.task_id.in_(mine))
    rows = tx.execute(query.order_by(c.requested_at.desc(), c.id).limit(limit))
    return [escalation_of(row) for row in rows]


def pending_memory(installation: InstallationId | None, tx: Tx) -> dict[int, int]:
    """Proposals that wait for a decision, by installation."""
    e = memory_entries.c
    query = (
        select(e.installation_id, func.count())
        .where(e.state == EntryState.PENDING)
        .group_by(e.installation_id)
    )
    if installation is not None:
        query = query.where(e.installation_id == installation)
    return {int(owner): int(count) for owner, count in tx.execute(query)}


def _count(condition: ColumnElement[bool]) -> Any:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _of_tasks(installation: InstallationId | None, within: Repos) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if installation is not None:
        conditions.append(tasks.c.installation_id == installation)
    if within:
        conditions.append(_is_one_of(tasks.c.repo_owner + "/" + tasks.c.repo_name, within))
    return conditions


def _is_one_of(name: ColumnElement[str], within: Repos) -> ColumnElement[bool]:
    return func.lower(name).in_(sorted(repo.key for repo in within))
