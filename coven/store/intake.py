"""What the receiver asks the ledgers before it writes a task: has this been seen in another form?

The delivery id catches a delivery that comes again; these catch the same event under another id,
a comment that was handled before, and a comment that was deleted before its delivery arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, or_, select, text

from coven.store.engine import Tx
from coven.store.tables import deliveries, tasks
from coven.store.task_rows import FIELDS, Task, from_row
from coven.values import (
    LIVE_STATES,
    DeliveryId,
    InstallationId,
    Lane,
    RepoId,
    TaskId,
    TaskState,
)

RESUME = "resume"
"""The verb that ends a pause."""


def lock_thread(installation: InstallationId, tx: Tx, repo: RepoId, thread: int) -> None:
    """Let only one transaction at a time decide about a thread, until it ends.

    SQLite has one writer anyway; PostgreSQL needs to be told.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended(:thread, 0))"),
            {"thread": f"{installation}/{repo}/{thread}"},
        )


def tasks_of_delivery(installation: InstallationId, tx: Tx, delivery: DeliveryId) -> list[Task]:
    """The tasks that one delivery led to, oldest first."""
    rows = tx.execute(
        select(*FIELDS)
        .where(tasks.c.installation_id == installation, tasks.c.delivery_id == delivery)
        .order_by(tasks.c.seq)
    )
    return [from_row(row) for row in rows]


def task_of_same_body(
    installation: InstallationId, tx: Tx, event: str, body_sha256: str, not_id: DeliveryId
) -> TaskId | None:
    """The task of another delivery with exactly this body: a second hook, or a replay."""
    found: str | None = tx.execute(
        select(deliveries.c.task_id)
        .where(
            deliveries.c.body_sha256 == body_sha256,
            deliveries.c.installation_id == installation,
            deliveries.c.event == event,
            deliveries.c.id != not_id,
            deliveries.c.task_id.is_not(None),
        )
        .limit(1)
    ).scalar_one_or_none()
    return TaskId(found) if found is not None else None


def tasks_of_comment(
    installation: InstallationId, tx: Tx, repo: RepoId, kind: str, comment_id: int
) -> list[Task]:
    """Every task, in any state, that one comment led to."""
    rows = tx.execute(
        select(*FIELDS).where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.comment_id == comment_id,
            tasks.c.comment_kind == kind,
        )
    )
    return [from_row(row) for row in rows]


def was_ignored(
    installation: InstallationId, tx: Tx, repo: RepoId, reason: str, since: datetime
) -> bool:
    """Whether a delivery of this repository was ignored for exactly this reason."""
    found = tx.execute(
        select(deliveries.c.id)
        .where(
            deliveries.c.installation_id == installation,
            deliveries.c.received_at >= since,
            deliveries.c.repo_id == repo,
            deliveries.c.routing == f"ignored:{reason}",
        )
        .limit(1)
    ).scalar_one_or_none()
    return found is not None


def asked_since(
    installation: InstallationId,
    tx: Tx,
    since: datetime,
    repo: RepoId | None = None,
    thread: int | None = None,
) -> int:
    """How many sessions people have asked for since then, on one thread or (None) anywhere."""
    condition = [
        tasks.c.installation_id == installation,
        tasks.c.automatic.is_(False),
        tasks.c.lane != Lane.CONTROL,
        tasks.c.created_at >= since,
    ]
    if thread is not None:
        condition += [tasks.c.repo_id == repo, tasks.c.thread == thread]
    count: int = tx.execute(select(func.count()).select_from(tasks).where(*condition)).scalar_one()
    return count


def tasks_of_head(
    installation: InstallationId,
    tx: Tx,
    repo: RepoId,
    head_sha: str,
    branch: str | None,
    limit: int = 20,
) -> list[Task]:
    """The newest session tasks whose Check Runs may sit on this commit, or whose branch it is."""
    place = tasks.c.head_sha == head_sha
    if branch is not None:
        place = or_(place, tasks.c.branch == branch)
    rows = tx.execute(
        select(*FIELDS)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.lane != Lane.CONTROL,
            place,
        )
        .order_by(tasks.c.seq.desc())
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def live_tasks(installation: InstallationId, tx: Tx, limit: int = 5_000) -> list[Task]:
    """Everything of this installation that runs or may still run."""
    rows = tx.execute(
        select(*FIELDS)
        .where(tasks.c.installation_id == installation, tasks.c.state.in_(LIVE_STATES))
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def live_on_branch(
    installation: InstallationId, tx: Tx, repo: RepoId, branch: str, limit: int = 200
) -> list[Task]:
    """Sessions that read from or push to this branch of this repository, and may still run."""
    rows = tx.execute(
        select(*FIELDS)
        .where(
            tasks.c.installation_id == installation,
            tasks.c.repo_id == repo,
            tasks.c.lane != Lane.CONTROL,
            tasks.c.state.in_(LIVE_STATES),
            or_(
                tasks.c.branch == branch,
                (tasks.c.head_ref == branch) & (tasks.c.head_repo_id == repo),
            ),
        )
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def marked_after(
    installation: InstallationId,
    tx: Tx,
    repo: RepoId,
    prefix: str,
    at: datetime,
    since: datetime,
) -> bool:
    """Whether a delivery was ignored with ``prefix`` and a moment (Unix seconds) after ``at``.

    Looked at are deliveries received since ``since``.
    """
    begins = f"ignored:{prefix}"
    found = tx.execute(
        select(deliveries.c.routing)
        .where(
            deliveries.c.installation_id == installation,
            deliveries.c.received_at >= since,
            deliveries.c.repo_id == repo,
            deliveries.c.routing.startswith(begins, autoescape=True),
        )
        .order_by(deliveries.c.received_at.desc())
        .limit(50)
    ).scalars()
    moments = (routing.removeprefix(begins) for routing in found)
    return any(moment.isdigit() and int(moment) > at.timestamp() for moment in moments)


def rights_changed_at(
    installation: InstallationId, tx: Tx, events: Sequence[str], since: datetime
) -> datetime | None:
    """When GitHub last told us that people's rights may have changed, after ``since``."""
    value: datetime | None = tx.execute(
        select(func.max(deliveries.c.received_at)).where(
            deliveries.c.installation_id == installation,
            deliveries.c.received_at >= since,
            deliveries.c.event.in_(events),
        )
    ).scalar_one_or_none()
    return value


def resumed_at(
    installation: InstallationId, tx: Tx, since: datetime, repo: RepoId | None, thread: int | None
) -> datetime | None:
    """When a maintainer last ended a pause, on one thread or (None) anywhere, after ``since``."""
    condition = [
        tasks.c.installation_id == installation,
        tasks.c.verb == RESUME,
        tasks.c.lane == Lane.CONTROL,
        tasks.c.state == TaskState.COMPLETED,
        tasks.c.created_at >= since,
    ]
    if thread is not None:
        condition += [tasks.c.repo_id == repo, tasks.c.thread == thread]
    value: datetime | None = tx.execute(
        select(func.max(tasks.c.created_at)).where(*condition)
    ).scalar_one_or_none()
    return value
