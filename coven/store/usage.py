"""The usage ledger: what each tenant has used. Rows are only ever added.

The database itself refuses to change or delete one (triggers of the migration), so neither
retention nor a purge nor a reinstallation gives back what was used. A row names no person and
holds no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select

from coven.store.engine import Tx
from coven.store.tables import attempts, tasks
from coven.store.tables_tenancy import usage
from coven.tenancy.policy import Used, month_start, today
from coven.values import InstallationId, Lane, RepoId, TaskId, TaskState

TASK, ATTEMPT = "task", "attempt"


@dataclass(frozen=True, slots=True)
class Line:
    """What was used on one UTC day, by one familiar in one repository."""

    day: str
    repo_id: RepoId
    familiar_id: str
    tasks: int
    attempts: int
    seconds: int


def task_begun(installation: InstallationId, tx: Tx, task_id: TaskId, now: datetime) -> bool:
    """Count a task when its first session begins. False when it is counted already."""
    if _known(tx, TASK, task_id, 0):
        return False
    return _append(installation, tx, task_id, TASK, 0, 1, now)


def attempt_ended(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    number: int,
    started_at: datetime,
    now: datetime,
) -> bool:
    """Count the seconds of an attempt, on the day on which it ended."""
    if _known(tx, ATTEMPT, task_id, number):
        return False
    seconds = max(round((now - started_at).total_seconds()), 0)
    return _append(installation, tx, task_id, ATTEMPT, number, seconds, now)


def used(installation: InstallationId, tx: Tx, now: datetime) -> Used:
    """What counts against the limits now: begun today, minutes this month, running sessions.

    Running sessions count with the time that they took so far.
    """
    begun = tx.execute(
        select(func.count())
        .select_from(usage)
        .where(
            usage.c.installation_id == installation,
            usage.c.kind == TASK,
            usage.c.day == today(now),
        )
    ).scalar_one()
    ended = tx.execute(
        select(func.coalesce(func.sum(usage.c.amount), 0)).where(
            usage.c.installation_id == installation,
            usage.c.kind == ATTEMPT,
            usage.c.day >= month_start(now),
        )
    ).scalar_one()
    open_since = list(
        tx.execute(
            select(attempts.c.started_at)
            .join(tasks, tasks.c.id == attempts.c.task_id)
            .where(
                tasks.c.installation_id == installation,
                tasks.c.state == TaskState.RUNNING,
                tasks.c.lane != Lane.CONTROL,
                attempts.c.finished_at.is_(None),
            )
        ).scalars()
    )
    running = sum(max((now - since).total_seconds(), 0.0) for since in open_since)
    return Used(len(open_since), int(begun), float(ended) + running)


def lines(
    installation: InstallationId, tx: Tx, since_day: str, until_day: str | None = None
) -> list[Line]:
    """Usage by day, repository and familiar, newest day first. Days are ``YYYY-MM-DD``."""
    group = (usage.c.day, usage.c.repo_id, usage.c.familiar_id)
    query = (
        select(*group, usage.c.kind, func.count().label("rows"), func.sum(usage.c.amount))
        .where(usage.c.installation_id == installation, usage.c.day >= since_day)
        .group_by(*group, usage.c.kind)
    )
    if until_day is not None:
        query = query.where(usage.c.day <= until_day)
    found: dict[tuple[str, int, str], dict[str, tuple[int, int]]] = {}
    for day, repo, familiar, kind, rows, amount in tx.execute(query):
        found.setdefault((day, repo, familiar), {})[kind] = (int(rows), int(amount))
    return [
        Line(
            day,
            RepoId(repo),
            familiar,
            kinds.get(TASK, (0, 0))[0],
            *kinds.get(ATTEMPT, (0, 0)),
        )
        for (day, repo, familiar), kinds in sorted(found.items(), reverse=True)
    ]


def _known(tx: Tx, kind: str, task_id: TaskId, number: int) -> bool:
    found = tx.execute(
        select(usage.c.id).where(
            usage.c.kind == kind, usage.c.task_id == task_id, usage.c.number == number
        )
    ).one_or_none()
    return found is not None


def _append(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    kind: str,
    number: int,
    amount: int,
    now: datetime,
) -> bool:
    task = tx.execute(
        select(tasks.c.repo_id, tasks.c.familiar_id, tasks.c.lane).where(
            tasks.c.installation_id == installation, tasks.c.id == task_id
        )
    ).one_or_none()
    if task is None or task.lane == Lane.CONTROL:
        return False
    tx.execute(
        insert(usage).values(
            installation_id=installation,
            kind=kind,
            day=today(now),
            amount=amount,
            repo_id=task.repo_id,
            familiar_id=task.familiar_id,
            task_id=task_id,
            number=number,
            at=now,
        )
    )
    return True
