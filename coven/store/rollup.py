"""What was done, added up by repository and familiar, from the ledgers of tasks and attempts.

For people and invoices' footnotes. What limits are counted by is the usage ledger, which no
retention shortens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, case, cast, extract, func, select

from coven.store.engine import Tx
from coven.store.listing import Repos
from coven.store.tables import attempts, tasks
from coven.values import InstallationId, Lane, TaskState

MOST = 1_000
"""How many rows there are at most, the busiest first."""


@dataclass(frozen=True, slots=True)
class Done:
    """One repository and familiar. ``runtime_secs``: of attempts that ended."""

    installation_id: InstallationId
    repo: str
    familiar_id: str
    tasks: int
    completed: int
    failed: int
    runtime_secs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneWanted:
    """Tasks created in this window; None: any."""

    since: datetime | None = None
    until: datetime | None = None
    within: Repos = field(default_factory=frozenset)


def done(installation: InstallationId, tx: Tx, want: DoneWanted) -> list[Done]:
    """The sums of one installation."""
    query = done_query(want, tx.dialect.name).where(tasks.c.installation_id == installation)
    return [from_row(row) for row in tx.execute(query)]


def done_query(want: DoneWanted, dialect: str) -> Select[Any]:
    """The sums, of no installation in particular. Answers to cheap commands don't count."""
    c = tasks.c
    spent = (
        select(func.coalesce(func.sum(_seconds(dialect)), 0))
        .where(attempts.c.task_id == c.id, attempts.c.finished_at.is_not(None))
        .correlate(tasks)
        .scalar_subquery()
    )
    conditions: list[ColumnElement[bool]] = [c.lane != Lane.CONTROL]
    if want.since is not None:
        conditions.append(c.created_at >= want.since)
    if want.until is not None:
        conditions.append(c.created_at < want.until)
    if want.within:
        name = func.lower(c.repo_owner + "/" + c.repo_name)
        conditions.append(name.in_(sorted(repo.key for repo in want.within)))
    count = func.count().label("tasks")
    return (
        select(
            c.installation_id,
            # Repositories are known by their number; a renamed one has two names here.
            func.max(c.repo_owner + "/" + c.repo_name).label("repo"),
            c.familiar_id,
            count,
            func.sum(case((c.state == TaskState.COMPLETED, 1), else_=0)).label("completed"),
            func.sum(case((c.state == TaskState.FAILED, 1), else_=0)).label("failed"),
            func.sum(spent).label("runtime_secs"),
        )
        .where(*conditions)
        .group_by(c.installation_id, c.repo_id, c.familiar_id)
        .order_by(count.desc(), c.installation_id, c.familiar_id)
        .limit(MOST)
    )


def _seconds(dialect: str) -> ColumnElement[Any]:
    start, end = attempts.c.started_at, attempts.c.finished_at
    if dialect == "sqlite":
        days = func.julianday(end) - func.julianday(start)
        return cast(func.round(days * 86_400), Integer)
    return cast(func.round(extract("epoch", end - start)), Integer)


def from_row(row: Any) -> Done:
    """A row of :func:`done_query` as a value."""
    return Done(
        InstallationId(row.installation_id),
        row.repo,
        row.familiar_id,
        int(row.tasks),
        int(row.completed),
        int(row.failed),
        int(row.runtime_secs),
    )
