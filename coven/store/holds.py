"""Work over a limit: it waits for the reset, marked so that it is told of once, or it ends."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, and_, or_, select, update

from coven.store import tasks as tasks_ledger
from coven.store.engine import Tx
from coven.store.tables import tasks
from coven.store.task_rows import FIELDS, Ending, Task, from_row
from coven.values import InstallationId, Lane, TaskState

MARK = "limit:"
"""How ``waiting_for`` of a queued task begins that waits for a limit to reset."""


def begin(
    installation: InstallationId, tx: Tx, limit: str, until: datetime, now: datetime, most: int
) -> list[Task]:
    """Let due session tasks wait until ``until``; those that did not wait for this before.

    A task that has begun, and only comes back for another attempt, is not held twice either.
    """
    mark = f"{MARK}{limit}"
    due = (
        select(tasks.c.id)
        .where(_due(installation, now))
        .order_by(tasks.c.priority.desc(), tasks.c.seq)
        .limit(most)
    )
    rows = tx.execute(
        update(tasks)
        .where(tasks.c.id.in_(due), tasks.c.state == TaskState.QUEUED)
        .values(not_before=until, waiting_for=mark, dispatched_at=None, updated_at=now)
        .returning(*FIELDS)
    )
    return sorted((from_row(row) for row in rows), key=lambda task: task.seq)


def due(installation: InstallationId, tx: Tx, now: datetime, most: int) -> list[Task]:
    """Session tasks that would run now, the first ones first."""
    rows = tx.execute(
        select(*FIELDS)
        .where(_due(installation, now))
        .order_by(tasks.c.priority.desc(), tasks.c.seq)
        .limit(most)
    )
    return [from_row(row) for row in rows]


def any_held(installation: InstallationId, tx: Tx, now: datetime) -> bool:
    """Whether something waits for a limit."""
    found = select(tasks.c.id).where(_held(installation, now)).limit(1)
    return tx.execute(found).one_or_none() is not None


def release(installation: InstallationId, tx: Tx, now: datetime) -> int:
    """The limit was raised: what waits for it is due now. Returns how many."""
    return tx.execute(
        update(tasks)
        .where(_held(installation, now))
        .values(not_before=None, waiting_for=None, dispatched_at=None, updated_at=now)
    ).rowcount


def end_silently(
    installation: InstallationId, tx: Tx, task: Task, end: Ending, now: datetime
) -> None:
    """Queued -> terminal where nothing may be shown."""
    tasks_ledger.settle_idle(installation, tx, task.id, now, end)


def _held(installation: InstallationId, now: datetime) -> ColumnElement[bool]:
    return and_(
        tasks.c.installation_id == installation,
        tasks.c.state == TaskState.QUEUED,
        tasks.c.waiting_for.startswith(MARK, autoescape=True),
        tasks.c.not_before > now,
    )


def _due(installation: InstallationId, now: datetime) -> ColumnElement[bool]:
    return and_(
        tasks.c.installation_id == installation,
        tasks.c.state == TaskState.QUEUED,
        tasks.c.lane != Lane.CONTROL,
        tasks.c.cancel_requested_at.is_(None),
        or_(tasks.c.not_before.is_(None), tasks.c.not_before <= now),
    )
