"""How all ledgers stand at one moment, of all tenants together: small counts over indexes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import case, func, or_, select
from sqlalchemy.sql import Select

from coven import metrics_standing as names
from coven.metrics import Metric
from coven.store import beats
from coven.store.engine import Tx
from coven.store.escalations import OPEN
from coven.store.tables import surfaces, tasks
from coven.store.tables_governance import chain_head, escalations
from coven.store.tables_memory import memory_entries
from coven.store.tables_tenancy import installations, purges
from coven.values import LIVE_STATES, Lane, SurfaceKind, SurfaceState, TaskState

Sample = tuple[Metric, tuple[str, ...], float]


def read(tx: Tx, now: datetime) -> list[Sample]:
    """Every number of :data:`coven.metrics_standing.STANDING`, zeros of closed sets included."""
    return [
        *_tasks(tx, now),
        *_surfaces(tx, now),
        *_counts(tx),
        *((names.UPKEEP_AT, (job,), at.timestamp()) for job, at in beats.last_runs(tx).items()),
    ]


def _tasks(tx: Tx, now: datetime) -> Iterator[Sample]:
    c = tasks.c
    live = select(c.state, c.lane, func.count()).where(c.state.in_(LIVE_STATES))
    found = {
        (state, lane): count for state, lane, count in tx.execute(live.group_by(c.state, c.lane))
    }
    for state in LIVE_STATES:
        for lane in Lane:
            yield names.TASKS, (state, lane), float(found.get((state, lane), 0))
    # A queued row last changed when it was queued; its back-off may end later.
    could = case((c.not_before > c.updated_at, c.not_before), else_=c.updated_at)
    since = func.min(could, type_=c.updated_at.type)
    waiting = select(c.lane, since).where(
        c.state == TaskState.QUEUED, or_(c.not_before.is_(None), c.not_before <= now)
    )
    oldest = {row.lane: row[1] for row in tx.execute(waiting.group_by(c.lane))}
    for lane in Lane:
        yield names.DUE_AGE, (lane,), _age(oldest.get(lane), now)
    expired = select(func.count()).where(c.state == TaskState.RUNNING, c.lease_expires_at < now)
    yield names.LEASES_EXPIRED, (), _count(tx, expired)


def _surfaces(tx: Tx, now: datetime) -> Iterator[Sample]:
    c = surfaces.c
    since = func.min(func.coalesce(c.pending_since, c.updated_at), type_=c.updated_at.type)
    pending = select(c.kind, func.count(), since).where(c.state == SurfaceState.PENDING)
    found = {kind: (n, at) for kind, n, at in tx.execute(pending.group_by(c.kind))}
    given_up = select(c.kind, func.count()).where(c.state == SurfaceState.FAILED).group_by(c.kind)
    failed = {row.kind: row[1] for row in tx.execute(given_up)}
    for kind in SurfaceKind:
        count, oldest = found.get(kind, (0, None))
        yield names.SURFACES, (kind,), float(count)
        yield names.SURFACES_AGE, (kind,), _age(oldest, now)
        yield names.SURFACES_FAILED, (kind,), float(failed.get(kind, 0))


def _counts(tx: Tx) -> Iterator[Sample]:
    proposals = select(func.count()).where(memory_entries.c.state == "pending")
    yield names.MEMORY_PENDING, (), _count(tx, proposals)
    asked = select(func.count()).where(escalations.c.status.in_(list(OPEN)))
    yield names.ESCALATIONS, (), _count(tx, asked)
    length = select(func.coalesce(func.max(chain_head.c.sequence), 0))
    yield names.CHAIN, (), _count(tx, length)
    known = select(installations.c.state, func.count()).group_by(installations.c.state)
    for state, count in tx.execute(known):
        yield names.INSTALLATIONS, (state,), float(count)
    yield names.PURGES, (), _count(tx, select(func.count()).where(purges.c.state == "pending"))


def _count(tx: Tx, query: Select[int]) -> float:
    return float(tx.execute(query).scalar_one())


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since.astimezone(UTC)).total_seconds())
