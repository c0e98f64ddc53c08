"""Pages of the ledgers, newest first, for API, dashboard and command line.

A page continues after the last row that was seen, never by counting: rows that arrive meanwhile
move nothing, and a deep page costs what the first one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from coven.store import task_rows
from coven.store.deliveries import Delivery
from coven.store.engine import Tx
from coven.store.tables import deliveries, surfaces, tasks
from coven.store.task_rows import Task
from coven.values import DeliveryId, InstallationId, RepoName, SurfaceKind, TaskId, TaskState

Repos = frozenset[RepoName]
"""Only these repositories; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksWanted:
    """Which tasks; None: any. ``text`` is looked for in the title, or begins the id."""

    state: TaskState | None = None
    repo: RepoName | None = None
    thread: int | None = None
    familiar: str | None = None
    verb: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    within: Repos = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesWanted:
    """Which deliveries; None: any. ``routing`` is how theirs begins (``ignored:``)."""

    event: str | None = None
    repo: RepoName | None = None
    routing: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    within: Repos = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class RoutingCount:
    """How many deliveries were routed so, and when the last one was."""

    routing: str
    count: int
    last_at: datetime


DeliveryPlace = tuple[datetime, str]
"""Where a page of deliveries ended: time and id of the last one."""

_DELIVERY = tuple(deliveries.c[name] for name in Delivery.__dataclass_fields__)
_task_repo = func.lower(tasks.c.repo_owner + "/" + tasks.c.repo_name)


def tasks_page(
    installation: InstallationId, tx: Tx, want: TasksWanted, limit: int, before: int | None = None
) -> list[Task]:
    """The newest tasks of one installation; ``before`` is the ``seq`` where the last page ended."""
    found = tx.execute(
        tasks_query(want, limit, before).where(tasks.c.installation_id == installation)
    )
    return [task_rows.from_row(row) for row in found]


def tasks_query(want: TasksWanted, limit: int, before: int | None) -> Select[Any]:
    """The rows of a page, of no installation in particular."""
    c = tasks.c
    conditions: list[ColumnElement[bool]] = []
    for column, value in (
        (c.state, want.state),
        (c.thread, want.thread),
        (c.familiar_id, want.familiar),
        (c.verb, want.verb),
    ):
        if value is not None:
            conditions.append(column == value)
    if want.repo is not None:
        conditions.append(_task_repo == want.repo.key)
    if want.within:
        conditions.append(_task_repo.in_(sorted(repo.key for repo in want.within)))
    if want.since is not None:
        conditions.append(c.created_at >= want.since)
    if want.until is not None:
        conditions.append(c.created_at < want.until)
    if want.text is not None:
        conditions.append(
            or_(
                c.title.icontains(want.text, autoescape=True),
                c.id.startswith(want.text.lower(), autoescape=True),
            )
        )
    if before is not None:
        conditions.append(c.seq < before)
    return select(*task_rows.FIELDS).where(*conditions).order_by(c.seq.desc()).limit(limit)


def check_run_urls(installation: InstallationId, tx: Tx, ids: Sequence[TaskId]) -> dict[str, str]:
    """Where the Check Runs of these tasks are, by task id, as far as they are there."""
    c = surfaces.c
    rows = tx.execute(
        select(c.task_id, c.object_url)
        .where(
            c.installation_id == installation,
            c.task_id.in_(ids),
            c.kind == SurfaceKind.CHECK_RUN,
            c.object_url.is_not(None),
        )
        .order_by(c.id)
    )
    return {str(task_id): str(url) for task_id, url in rows}


def deliveries_page(
    installation: InstallationId,
    tx: Tx,
    want: DeliveriesWanted,
    limit: int,
    before: DeliveryPlace | None = None,
) -> list[Delivery]:
    """The newest deliveries of one installation."""
    found = tx.execute(
        deliveries_query(want, limit, before).where(deliveries.c.installation_id == installation)
    )
    return [Delivery(**row._mapping) for row in found]


def deliveries_query(
    want: DeliveriesWanted, limit: int, before: DeliveryPlace | None
) -> Select[Any]:
    """The rows of a page, of no installation in particular."""
    c = deliveries.c
    conditions = _of_deliveries(want)
    if before is not None:
        at, last = before
        # Said twice, so that the index on the time is entered at the right place.
        conditions.append(
            and_(c.received_at <= at, or_(c.received_at < at, c.id < last)),
        )
    return (
        select(*_DELIVERY)
        .where(*conditions)
        .order_by(c.received_at.desc(), c.id.desc())
        .limit(limit)
    )


def delivery(installation: InstallationId, tx: Tx, delivery_id: DeliveryId) -> Delivery | None:
    """One delivery, when it belongs to this installation."""
    row = tx.execute(
        select(*_DELIVERY).where(
            deliveries.c.id == delivery_id, deliveries.c.installation_id == installation
        )
    ).one_or_none()
    return Delivery(**row._mapping) if row is not None else None


def routing_counts(
    installation: InstallationId, tx: Tx, want: DeliveriesWanted, limit: int = 200
) -> list[RoutingCount]:
    """What deliveries of one installation came to, most frequent first; tasks count as one."""
    # Not by the whole routing: it names the task, and each task would be a word of its own.
    routing = case((deliveries.c.task_id.is_not(None), "task"), else_=deliveries.c.routing)
    count = func.count()
    rows = tx.execute(
        select(routing, count, func.max(deliveries.c.received_at))
        .where(deliveries.c.installation_id == installation, *_of_deliveries(want))
        .group_by(routing)
        .order_by(count.desc(), routing)
        .limit(limit)
    )
    return [RoutingCount(str(word), int(number), at) for word, number, at in rows]


def _of_deliveries(want: DeliveriesWanted) -> list[ColumnElement[bool]]:
    c = deliveries.c
    name = func.lower(c.repo_name)
    conditions: list[ColumnElement[bool]] = []
    if want.event is not None:
        conditions.append(c.event == want.event)
    if want.repo is not None:
        conditions.append(name == want.repo.key)
    if want.within:
        conditions.append(name.in_(sorted(repo.key for repo in want.within)))
    if want.routing is not None:
        conditions.append(c.routing.startswith(want.routing, autoescape=True))
    if want.since is not None:
        conditions.append(c.received_at >= want.since)
    if want.until is not None:
        conditions.append(c.received_at < want.until)
    return conditions
