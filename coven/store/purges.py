"""Purges: durable jobs that remove what is stored of a tenant, or of one of its repositories.

A request is a row in the transaction that learned of the removal, so it can't be lost. Each step
removes in batches and is noted when it is through; whoever comes next goes on from there.
Delivery ids and hashes stay: without them an old delivery could be played again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables import attempts, deliveries, surfaces, tasks
from coven.store.tables_tenancy import installation_repositories, installations, purges
from coven.values import TERMINAL_STATES, InstallationId, RepoId, TaskState

PENDING, DONE, WITHDRAWN = "pending", "done", "withdrawn"


@dataclass(frozen=True, slots=True)
class Purge:
    """A job. ``repo_id`` 0 means the whole tenant; ``steps``: rows removed, by finished step."""

    id: int
    installation_id: InstallationId
    repo_id: int
    reason: str
    state: str
    steps: dict[str, Any]
    tries: int
    next_at: datetime
    error: str | None
    requested_at: datetime
    finished_at: datetime | None


FIELDS = tuple(purges.c[name] for name in Purge.__dataclass_fields__)
_ALL = RepoId(0)
KEEP_ROWS = "keep_rows"
"""Noted in ``steps`` when only checkouts and mirrors go: the repository may come back."""


def request(
    installation: InstallationId,
    tx: Tx,
    reason: str,
    now: datetime,
    repo: RepoId = _ALL,
    *,
    whole: bool = True,
) -> None:
    """Want a purge. One that is pending already is enough, and becomes ``whole`` if this is."""
    steps = {} if whole else {KEEP_ROWS: True}
    values = {
        "installation_id": installation,
        "repo_id": repo,
        "reason": reason[:200],
        "state": PENDING,
        "steps": steps,
        "next_at": now,
        "requested_at": now,
    }
    try:
        with tx.begin_nested():
            tx.execute(insert(purges).values(**values))
    except IntegrityError:
        if whole:
            tx.execute(
                update(purges)
                .where(_pending(installation, repo))
                .values(steps={}, reason=reason[:200], next_at=now)
            )


def withdraw(installation: InstallationId, tx: Tx, repo: RepoId, now: datetime) -> None:
    """A repository is back: what has not been removed of it by now stays."""
    tx.execute(
        update(purges).where(_pending(installation, repo)).values(state=WITHDRAWN, finished_at=now)
    )


def of(installation: InstallationId, tx: Tx) -> list[Purge]:
    """All purges of a tenant, oldest first."""
    rows = tx.execute(
        select(*FIELDS).where(purges.c.installation_id == installation).order_by(purges.c.id)
    )
    return [Purge(**row._mapping) for row in rows]


def still_pending(installation: InstallationId, tx: Tx, purge_id: int) -> Purge | None:
    """The job, while it is to be done."""
    row = tx.execute(
        select(*FIELDS).where(
            purges.c.installation_id == installation,
            purges.c.id == purge_id,
            purges.c.state == PENDING,
        )
    ).one_or_none()
    return Purge(**row._mapping) if row is not None else None


def note(
    installation: InstallationId, tx: Tx, purge: Purge, step: str, removed: int
) -> Purge | None:
    """A step is through. None when the job was withdrawn meanwhile."""
    current = still_pending(installation, tx, purge.id)
    if current is None:
        return None
    tx.execute(
        update(purges)
        .where(purges.c.id == purge.id, purges.c.state == PENDING)
        .values(steps=current.steps | {step: removed})
    )
    return still_pending(installation, tx, purge.id)


def put_off(
    installation: InstallationId, tx: Tx, purge: Purge, until: datetime, error: str | None
) -> None:
    """Go on later; with ``error`` this counts as a failed try."""
    tries = purges.c.tries + (1 if error is not None else 0)
    tx.execute(
        update(purges)
        .where(
            purges.c.installation_id == installation,
            purges.c.id == purge.id,
            purges.c.state == PENDING,
        )
        .values(next_at=until, error=error[:500] if error else None, tries=tries)
    )


def finish(installation: InstallationId, tx: Tx, purge: Purge, now: datetime) -> bool:
    """Everything is removed. False when the job was withdrawn meanwhile."""
    changed = tx.execute(
        update(purges)
        .where(
            purges.c.installation_id == installation,
            purges.c.id == purge.id,
            purges.c.state == PENDING,
        )
        .values(state=DONE, finished_at=now, error=None)
    )
    return changed.rowcount == 1


def stop_sessions(
    installation: InstallationId, tx: Tx, repo: RepoId, reason: str, now: datetime
) -> int:
    """End what waits, and ask what runs to stop. Returns how many still run."""
    mine = _of_tenant(tasks, installation, repo)
    tx.execute(
        update(tasks)
        .where(mine, tasks.c.state.in_([TaskState.QUEUED, TaskState.WAITING]))
        .values(
            state=TaskState.CANCELLED,
            outcome="installation_gone",
            detail=f"cancelled: {reason}"[:500],
            finished_at=now,
            updated_at=now,
            expires_at=None,
        )
    )
    tx.execute(
        update(tasks)
        .where(mine, tasks.c.state == TaskState.RUNNING, tasks.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=now, cancel_reason=f"cancelled: {reason}"[:200])
    )
    running = select(func.count()).select_from(tasks).where(mine, tasks.c.state == "running")
    return int(tx.execute(running).scalar_one())


def drop_tasks(installation: InstallationId, tx: Tx, repo: RepoId, limit: int) -> int:
    """Remove finished tasks with their attempts. Returns how many went in this batch."""
    batch = (
        select(tasks.c.id)
        .where(_of_tenant(tasks, installation, repo), tasks.c.state.in_(TERMINAL_STATES))
        .limit(limit)
    )
    ids = list(tx.execute(batch).scalars())
    if ids:
        tx.execute(delete(attempts).where(attempts.c.task_id.in_(ids)))
        tx.execute(delete(tasks).where(tasks.c.id.in_(ids)))
    return len(ids)


def drop_surfaces(installation: InstallationId, tx: Tx, repo: RepoId, limit: int) -> int:
    """Remove what was to be shown. Returns how many rows went in this batch."""
    batch = select(surfaces.c.id).where(_of_tenant(surfaces, installation, repo)).limit(limit)
    return tx.execute(delete(surfaces).where(surfaces.c.id.in_(batch))).rowcount


def blank_deliveries(installation: InstallationId, tx: Tx, repo: RepoId, limit: int) -> int:
    """Forget what deliveries said and who sent them; id, hash and routing stay."""
    content = (deliveries.c.body, deliveries.c.repo_name, deliveries.c.sender_login)
    batch = (
        select(deliveries.c.id)
        .where(
            _of_tenant(deliveries, installation, repo),
            or_(*(column.is_not(None) for column in content)),
        )
        .limit(limit)
    )
    return tx.execute(
        update(deliveries)
        .where(deliveries.c.id.in_(batch))
        .values(body=None, repo_name=None, sender_login=None, sender_id=None)
    ).rowcount


def drop_labels(installation: InstallationId, tx: Tx) -> int:
    """Forget the names of the account and its repositories; the tombstone keeps the ids."""
    blanked = tx.execute(
        update(installations)
        .where(installations.c.id == installation, installations.c.account_login.is_not(None))
        .values(account_login=None)
    ).rowcount
    repos = installation_repositories
    return (
        blanked + tx.execute(delete(repos).where(repos.c.installation_id == installation)).rowcount
    )


def _of_tenant(table: Any, installation: InstallationId, repo: RepoId) -> Any:
    mine = table.c.installation_id == installation
    return mine & (table.c.repo_id == repo) if repo else mine


def _pending(installation: InstallationId, repo: RepoId) -> Any:
    return (
        (purges.c.installation_id == installation)
        & (purges.c.repo_id == repo)
        & (purges.c.state == PENDING)
    )
