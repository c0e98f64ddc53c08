"""The attempts of a task: who ran it, since when, and how each one ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, select, update

from coven.store import usage
from coven.store.engine import Tx
from coven.store.tables import attempts
from coven.store.tasks import Task
from coven.values import InstallationId, TaskId


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task. ``outcome`` is None while it runs."""

    id: int
    task_id: TaskId
    number: int
    round: int
    lease_token: str
    worker: str
    phase: str
    started_at: datetime
    heartbeat_at: datetime
    finished_at: datetime | None
    pid: int | None
    start_sha: str | None
    exit_code: int | None
    signal: int | None
    outcome: str | None
    detail: str | None
    tolerated: list[str] | None
    timings: dict[str, float] | None
    stdout_tail: str | None
    stderr_tail: str | None


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What an attempt came to. Texts are redacted and bounded by the caller."""

    outcome: str
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    tolerated: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    stdout_tail: str | None = None
    stderr_tail: str | None = None


_FIELDS = tuple(attempts.c[name] for name in Attempt.__dataclass_fields__)


def start(installation: InstallationId, tx: Tx, task: Task, worker: str, now: datetime) -> int:
    """Write the attempt of a task just claimed, before anything is spawned; its number."""
    last = tx.execute(
        select(func.max(attempts.c.number)).where(
            attempts.c.installation_id == installation, attempts.c.task_id == task.id
        )
    ).scalar_one()
    number = (last or 0) + 1
    tx.execute(
        insert(attempts).values(
            installation_id=installation,
            task_id=task.id,
            number=number,
            round=task.round,
            lease_token=task.lease_token,
            worker=worker[:120],
            phase="claimed",
            started_at=now,
            heartbeat_at=now,
        )
    )
    return int(number)


def progress(
    installation: InstallationId, tx: Tx, task_id: TaskId, token: str, now: datetime, **facts: Any
) -> None:
    """Note a sign of life, and facts such as ``phase``, ``pid`` or ``start_sha``."""
    tx.execute(
        update(attempts)
        .where(_open(installation, task_id, token))
        .values(heartbeat_at=now, **facts)
    )


def finish(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    token: str,
    now: datetime,
    end: AttemptEnd,
) -> bool:
    """Close the open attempt that holds ``token``, and count its time.

    A closed one stays as it is: False.
    """
    closed = tx.execute(
        update(attempts)
        .where(_open(installation, task_id, token))
        .values(finished_at=now, **asdict(end))
        .returning(attempts.c.number, attempts.c.started_at)
    ).one_or_none()
    if closed is not None:
        usage.attempt_ended(installation, tx, task_id, closed.number, closed.started_at, now)
    return closed is not None


def of_task(installation: InstallationId, tx: Tx, task_id: TaskId) -> list[Attempt]:
    """All attempts of a task, first to last."""
    rows = tx.execute(
        select(*_FIELDS)
        .where(attempts.c.installation_id == installation, attempts.c.task_id == task_id)
        .order_by(attempts.c.number)
    )
    return [Attempt(**row._mapping) for row in rows]


def _open(installation: InstallationId, task_id: TaskId, token: str) -> ColumnElement[bool]:
    return and_(
        attempts.c.installation_id == installation,
        attempts.c.task_id == task_id,
        attempts.c.lease_token == token,
        attempts.c.finished_at.is_(None),
    )
