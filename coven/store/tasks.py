"""The task ledger: this work is wanted, and this is who holds its lease.

Every change of state is one compare-and-set UPDATE whose answer says whether it won. A writer
that lost its lease changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables import tasks
from coven.store.task_rows import FIELDS, Ending, NewTask, Pulse, Task, from_row
from coven.values import (
    LIVE_STATES,
    TERMINAL_STATES,
    InstallationId,
    Lane,
    RepoId,
    TaskId,
    TaskState,
)

__all__ = [
    "FIELDS",
    "Ending",
    "NewTask",
    "Pulse",
    "Task",
    "amend",
    "automatic_review_of",
    "claim",
    "finish",
    "from_row",
    "get",
    "heartbeat",
    "insert_new",
    "live_with_key",
    "locate",
    "newest_head_at",
    "older_automatic_reviews",
    "on_thread",
    "recent",
    "request_cancel",
    "requeue",
    "resume",
    "revive_failed",
    "settle_idle",
    "wait",
]

_LIVE = tasks.c.state.in_(LIVE_STATES)
_CLAIM_LOCK = 0x636C << 48
_RELEASE: dict[str, Any] = {"lease_token": None, "lease_expires_at": None}


def insert_new(installation: InstallationId, tx: Tx, new: NewTask) -> bool:
    """Write a task. False when a live task holds the same semantic key."""
    _same_tenant(installation, new.installation_id)
    values = asdict(new) | {"updated_at": new.created_at}
    try:
        with tx.begin_nested():
            tx.execute(insert(tasks).values(**values))
    except IntegrityError:
        return False
    return True


def get(installation: InstallationId, tx: Tx, task_id: TaskId) -> Task | None:
    """The task, when it belongs to this installation."""
    row = tx.execute(select(*FIELDS).where(_mine(installation, task_id))).one_or_none()
    return from_row(row) if row is not None else None


def locate(tx: Tx, task_id: TaskId) -> Task | None:
    """Upkeep and worker entry: a queue message names a task and nothing else."""
    row = tx.execute(select(*FIELDS).where(tasks.c.id == task_id)).one_or_none()
    return from_row(row) if row is not None else None


def live_with_key(installation: InstallationId, tx: Tx, semantic_key: str) -> Task | None:
    """The queued, running or waiting task that holds this semantic key."""
    row = tx.execute(
        select(*FIELDS).where(
            tasks.c.installation_id == installation, tasks.c.semantic_key == semantic_key, _LIVE
        )
    ).one_or_none()
    return from_row(row) if row is not None else None


def automatic_review_of(
    installation: InstallationId, tx: Tx, semantic_key: str, head_sha: str
) -> Task | None:
    """The latest task, in any state, that holds this key for exactly this head."""
    row = tx.execute(
        select(*FIELDS)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.semantic_key == semantic_key,
            tasks.c.head_sha == head_sha,
        )
        .order_by(tasks.c.seq.desc())
        .limit(1)
    ).one_or_none()
    return from_row(row) if row is not None else None


def on_thread(
    installation: InstallationId, tx: Tx, repo: RepoId, thread: int, limit: int = 20
) -> list[Task]:
    """The newest tasks of one issue or pull request."""
    rows = tx.execute(
        select(*FIELDS)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.thread == thread,
        )
        .order_by(tasks.c.seq.desc())
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def recent(installation: InstallationId, tx: Tx, limit: int = 50) -> list[Task]:
    """The newest tasks of one installation."""
    rows = tx.execute(
        select(*FIELDS)
        .where(tasks.c.installation_id == installation)
        .order_by(tasks.c.created_at.desc())
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def claim(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    token: str,
    now: datetime,
    lease_secs: float,
    max_concurrent: int | None = None,
) -> Task | None:
    """Take a due queued task: running, one attempt used, lease ours. None when it is not ours.

    ``max_concurrent`` bounds the running sessions of the installation.
    """
    conditions = [
        _mine(installation, task_id),
        tasks.c.state == TaskState.QUEUED,
        tasks.c.cancel_requested_at.is_(None),
        tasks.c.attempts_used < tasks.c.max_attempts,
        or_(tasks.c.not_before.is_(None), tasks.c.not_before <= now),
    ]
    if max_concurrent is not None:
        _one_claim_at_a_time(installation, tx)
        other = tasks.alias("other")
        running = (
            select(func.count())
            .select_from(other)
            .where(
                other.c.installation_id == installation,
                other.c.state == TaskState.RUNNING,
                other.c.lane != Lane.CONTROL,
            )
            .scalar_subquery()
        )
        conditions.append(running < max_concurrent)
    row = tx.execute(
        update(tasks)
        .where(*conditions)
        .values(
            state=TaskState.RUNNING,
            attempts_used=tasks.c.attempts_used + 1,
            lease_token=token,
            lease_expires_at=now + timedelta(seconds=lease_secs),
            started_at=func.coalesce(tasks.c.started_at, now),
            not_before=None,
            waiting_for=None,
            updated_at=now,
        )
        .returning(*FIELDS)
    ).one_or_none()
    return from_row(row) if row is not None else None


def heartbeat(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    token: str,
    now: datetime,
    lease_secs: float,
) -> Pulse:
    """Prolong the lease. ``alive`` is False when another worker, or the reaper, took it."""
    row = tx.execute(
        update(tasks)
        .where(_held(installation, task_id, token))
        .values(lease_expires_at=now + timedelta(seconds=lease_secs))
        .returning(tasks.c.cancel_requested_at, tasks.c.cancel_reason)
    ).one_or_none()
    if row is None:
        return Pulse(alive=False)
    return Pulse(True, (row.cancel_reason or "cancelled") if row.cancel_requested_at else None)


def seize(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    lost_token: str,
    token: str,
    now: datetime,
    lease_secs: float,
) -> Task | None:
    """Take an expired lease over, to settle the task. None when its worker came back."""
    condition = and_(_held(installation, task_id, lost_token), tasks.c.lease_expires_at < now)
    values = {"lease_token": token, "lease_expires_at": now + timedelta(seconds=lease_secs)}
    return _change(tx, condition, values)


def amend(
    installation: InstallationId, tx: Tx, task_id: TaskId, token: str, now: datetime, **facts: Any
) -> Task | None:
    """Write facts learned while running (head, trust, default branch…). None: lease lost."""
    return _change(tx, _held(installation, task_id, token), facts | {"updated_at": now})


def requeue(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    token: str,
    now: datetime,
    not_before: datetime | None,
    detail: str | None,
    *,
    give_back_attempt: bool = False,
) -> Task | None:
    """Running -> queued, to run at ``not_before``. None when the lease is lost.

    ``give_back_attempt`` is for endings that are not the work's fault (drain, rate limit).
    """
    used = tasks.c.attempts_used - 1 if give_back_attempt else tasks.c.attempts_used
    values = {
        "state": TaskState.QUEUED,
        "not_before": not_before,
        "dispatched_at": None,
        "detail": detail,
        "attempts_used": used,
        "updated_at": now,
    }
    return _change(tx, _held(installation, task_id, token), values | _RELEASE)


def finish(
    installation: InstallationId, tx: Tx, task_id: TaskId, token: str, now: datetime, end: Ending
) -> Task | None:
    """Running -> terminal. None when the lease is lost."""
    if end.state not in TERMINAL_STATES:
        raise ValueError(f"{end.state} is not terminal")
    values = asdict(end) | {"finished_at": now, "updated_at": now, "expires_at": None}
    return _change(tx, _held(installation, task_id, token), values | _RELEASE)


def wait(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    token: str,
    now: datetime,
    waiting_for: str,
    expires_at: datetime,
    **facts: Any,
) -> Task | None:
    """Running -> waiting until a person answers, at the latest ``expires_at``. None: lease lost."""
    values = facts | {
        "state": TaskState.WAITING,
        "waiting_for": waiting_for,
        "expires_at": expires_at,
        "updated_at": now,
    }
    return _change(tx, _held(installation, task_id, token), values | _RELEASE)


def resume(
    installation: InstallationId, tx: Tx, task_id: TaskId, now: datetime, **facts: Any
) -> Task | None:
    """Waiting -> queued in the next round with a fresh budget. None when it does not wait."""
    values = facts | {
        "state": TaskState.QUEUED,
        "round": tasks.c.round + 1,
        "attempts_used": 0,
        "cancel_requested_at": None,
        "cancel_reason": None,
        "waiting_for": None,
        "expires_at": None,
        "dispatched_at": None,
        "not_before": None,
        "updated_at": now,
    }
    condition = and_(_mine(installation, task_id), tasks.c.state == TaskState.WAITING)
    return _change(tx, condition, values)


def revive_failed(
    installation: InstallationId, tx: Tx, task_id: TaskId, now: datetime
) -> Task | None:
    """Failed -> queued in the next round with a fresh budget (a redelivery of its delivery).

    None when it did not fail, or when a live task holds its semantic key by now.
    """
    values = {
        "state": TaskState.QUEUED,
        "round": tasks.c.round + 1,
        "attempts_used": 0,
        "cancel_requested_at": None,
        "cancel_reason": None,
        "outcome": None,
        "result_status": None,
        "detail": None,
        "finished_at": None,
        "dispatched_at": None,
        "not_before": None,
        "updated_at": now,
    }
    condition = and_(_mine(installation, task_id), tasks.c.state == TaskState.FAILED)
    try:
        with tx.begin_nested():
            return _change(tx, condition, values)
    except IntegrityError:
        return None


def request_cancel(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    now: datetime,
    reason: str,
    superseded_by: TaskId | None = None,
) -> Task | None:
    """Ask a running task to stop; its worker sees it at the next heartbeat. None if not running."""
    values: dict[str, Any] = {"cancel_requested_at": now, "cancel_reason": reason[:200]}
    if superseded_by is not None:
        values["superseded_by"] = superseded_by
    condition = and_(
        _mine(installation, task_id),
        tasks.c.state == TaskState.RUNNING,
        tasks.c.cancel_requested_at.is_(None),
    )
    return _change(tx, condition, values)


def settle_idle(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    now: datetime,
    end: Ending,
    superseded_by: TaskId | None = None,
) -> Task | None:
    """Queued or waiting -> terminal, without a lease (cancel, supersede, expire, exhausted)."""
    values = asdict(end) | {"finished_at": now, "updated_at": now, "expires_at": None}
    if superseded_by is not None:
        values["superseded_by"] = superseded_by
    condition = and_(
        _mine(installation, task_id), tasks.c.state.in_([TaskState.QUEUED, TaskState.WAITING])
    )
    return _change(tx, condition, values | _RELEASE)


def older_automatic_reviews(
    installation: InstallationId,
    tx: Tx,
    repo: RepoId,
    thread: int,
    familiar_id: str,
    before: datetime,
) -> list[Task]:
    """Live reviews nobody asked for, of an older head of this pull request."""
    rows = tx.execute(
        select(*FIELDS)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.thread == thread,
            tasks.c.familiar_id == familiar_id,
            tasks.c.lane == Lane.REVIEW,
            tasks.c.automatic.is_(True),
            tasks.c.source_at <= before,
            _LIVE,
        )
        .order_by(tasks.c.seq)
    )
    return [from_row(row) for row in rows]


def newest_head_at(
    installation: InstallationId, tx: Tx, repo: RepoId, thread: int
) -> datetime | None:
    """When the newest known head of a pull request was reported, by payload time."""
    value: datetime | None = tx.execute(
        select(tasks.c.source_at)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.thread == thread,
            tasks.c.lane == Lane.REVIEW,
            tasks.c.automatic.is_(True),
        )
        .order_by(tasks.c.source_at.desc())
        .limit(1)
    ).scalar_one_or_none()
    return value


def _one_claim_at_a_time(installation: InstallationId, tx: Tx) -> None:
    # SQLite's writers queue anyway; PostgreSQL's would each count before the others commit.
    if tx.dialect.name == "postgresql":
        key = _CLAIM_LOCK | (installation & 0xFFFF_FFFF_FFFF)
        tx.execute(select(func.pg_advisory_xact_lock(key)))


def _mine(installation: InstallationId, task_id: TaskId) -> ColumnElement[bool]:
    return and_(tasks.c.installation_id == installation, tasks.c.id == task_id)


def _held(installation: InstallationId, task_id: TaskId, token: str) -> ColumnElement[bool]:
    return and_(
        _mine(installation, task_id),
        tasks.c.state == TaskState.RUNNING,
        tasks.c.lease_token == token,
    )


def _change(tx: Tx, condition: ColumnElement[bool], values: dict[str, Any]) -> Task | None:
    row = tx.execute(
        update(tasks).where(condition).values(**values).returning(*FIELDS)
    ).one_or_none()
    return from_row(row) if row is not None else None


def _same_tenant(installation: InstallationId, other: InstallationId) -> None:
    if installation != other:
        raise ValueError("a task can't be written into another installation")
