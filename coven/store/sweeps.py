"""What is asked of all tenants at once: due work, expired leases, retention, counts, and the pages
that the holder of a service token sees.

These are the only store functions, with the entry look-ups by task or delivery id, that don't
take an installation; a test holds the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update

from coven.store import api_audit as audit_ledger
from coven.store import escalations as escalation_ledger
from coven.store import installations as installation_ledger
from coven.store import listing, rollup, turns
from coven.store import purges as purge_ledger
from coven.store import surfaces as surface_ledger
from coven.store import tasks as task_ledger
from coven.store.deliveries import Delivery
from coven.store.engine import Tx
from coven.store.escalations import Escalation
from coven.store.installations import Installation, KnownRepository
from coven.store.purges import Purge
from coven.store.surfaces import Surface
from coven.store.tables import attempts, deliveries, surfaces, tasks
from coven.store.tables_api import api_audit
from coven.store.tables_governance import escalations
from coven.store.tables_tenancy import (
    account_plans,
    installation_repositories,
    installations,
    purges,
)
from coven.store.tasks import Task
from coven.values import (
    TERMINAL_STATES,
    InstallationId,
    Lane,
    SurfaceState,
    TaskId,
    TaskState,
)

BATCH = 1_000
"""Rows that one transaction of retention removes."""


def due_tasks(tx: Tx, now: datetime, resend_after: timedelta, limit: int = 200) -> list[Task]:
    """Queued tasks whose time has come and whose last wake-up is old or never was."""
    rows = tx.execute(
        select(*task_ledger.FIELDS)
        .where(
            tasks.c.state == TaskState.QUEUED,
            or_(tasks.c.not_before.is_(None), tasks.c.not_before <= now),
            or_(tasks.c.dispatched_at.is_(None), tasks.c.dispatched_at <= now - resend_after),
        )
        .order_by(tasks.c.lane != Lane.CONTROL, tasks.c.priority.desc(), tasks.c.seq)
        .limit(limit)
    )
    return [task_ledger.from_row(row) for row in rows]


def tenants_waiting(tx: Tx) -> list[InstallationId]:
    """Installations with queued work."""
    return [InstallationId(tenant) for (tenant,) in tx.execute(turns.WAITING)]


def due_purges(tx: Tx, now: datetime, limit: int = 20) -> list[Purge]:
    """Purges whose time has come, oldest first."""
    rows = tx.execute(
        select(*purge_ledger.FIELDS)
        .where(purges.c.state == purge_ledger.PENDING, purges.c.next_at <= now)
        .order_by(purges.c.id)
        .limit(limit)
    )
    return [Purge(**row._mapping) for row in rows]


def recent_purges(tx: Tx, limit: int) -> list[Purge]:
    """The newest purges."""
    rows = tx.execute(select(*purge_ledger.FIELDS).order_by(purges.c.id.desc()).limit(limit))
    return [Purge(**row._mapping) for row in rows]


def gone_installations(tx: Tx, of: Sequence[int]) -> list[InstallationId]:
    """Which of these installations were removed."""
    rows = tx.execute(
        select(installations.c.id).where(
            installations.c.id.in_(of), installations.c.state == "deleted"
        )
    )
    return [InstallationId(tenant) for (tenant,) in rows]


def standing_installations(tx: Tx) -> list[Installation]:
    """Installations that are not known to be removed."""
    rows = tx.execute(
        select(*installation_ledger.FIELDS)
        .where(installations.c.state != "deleted")
        .order_by(installations.c.id)
    )
    return [installation_ledger.from_row(row) for row in rows]


def installations_to_list(tx: Tx, limit: int) -> list[InstallationId]:
    """Active installations whose repositories were not listed for the longest time."""
    rows = tx.execute(
        select(installations.c.id)
        .where(installations.c.state == installation_ledger.ACTIVE)
        .order_by(installations.c.listed_at.is_not(None), installations.c.listed_at)
        .limit(limit)
    )
    return [InstallationId(tenant) for (tenant,) in rows]


def repositories_to_sweep(tx: Tx, limit: int) -> list[KnownRepository]:
    """Present repositories of active installations, whose last sweep is the longest ago first."""
    mine = installation_repositories
    rows = tx.execute(
        select(*installation_ledger.REPO_FIELDS)
        .join(installations, installations.c.id == mine.c.installation_id)
        .where(
            installations.c.state == "active",
            mine.c.state == "present",
            mine.c.archived.is_not(True),
            mine.c.owner.is_not(None),
            mine.c.name.is_not(None),
        )
        .order_by(mine.c.swept_at.is_not(None), mine.c.swept_at, mine.c.repo_id)
        .limit(limit)
    )
    return [KnownRepository(**row._mapping) for row in rows]


def accounts_with_plans(tx: Tx, limit: int) -> list[int]:
    """Accounts whose plan was not compared with the Marketplace for the longest time."""
    rows = tx.execute(
        select(account_plans.c.account_id)
        .order_by(func.coalesce(account_plans.c.reconciled_at, account_plans.c.effective_at))
        .limit(limit)
    )
    return [int(account) for (account,) in rows]


def wakeups_underway(tx: Tx, since: datetime) -> int:
    """Queued session tasks that a wake-up was sent for since then."""
    count: int = tx.execute(
        select(func.count())
        .select_from(tasks)
        .where(
            tasks.c.state == TaskState.QUEUED,
            tasks.c.lane != Lane.CONTROL,
            tasks.c.dispatched_at > since,
        )
    ).scalar_one()
    return count


def mark_dispatched(tx: Tx, ids: Sequence[TaskId], now: datetime) -> None:
    """Remember that a wake-up was sent."""
    tx.execute(update(tasks).where(tasks.c.id.in_(ids)).values(dispatched_at=now))


def expired_leases(tx: Tx, now: datetime, limit: int = 200) -> list[Task]:
    """Running tasks whose worker has not been heard of."""
    rows = tx.execute(
        select(*task_ledger.FIELDS)
        .where(tasks.c.state == TaskState.RUNNING, tasks.c.lease_expires_at < now)
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [task_ledger.from_row(row) for row in rows]


def overdue_waiting(tx: Tx, now: datetime, limit: int = 200) -> list[Task]:
    """Waiting tasks whose ``expires_at`` has passed."""
    rows = tx.execute(
        select(*task_ledger.FIELDS)
        .where(tasks.c.state == TaskState.WAITING, tasks.c.expires_at < now)
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [task_ledger.from_row(row) for row in rows]


def exhausted(tx: Tx, limit: int = 200) -> list[Task]:
    """Queued tasks that may not be claimed again: no attempts left, or cancelled."""
    rows = tx.execute(
        select(*task_ledger.FIELDS)
        .where(
            tasks.c.state == TaskState.QUEUED,
            or_(
                tasks.c.attempts_used >= tasks.c.max_attempts,
                tasks.c.cancel_requested_at.is_not(None),
            ),
        )
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [task_ledger.from_row(row) for row in rows]


def due_surfaces(tx: Tx, now: datetime, limit: int = 200) -> list[Surface]:
    """Surfaces that differ from GitHub, whose time has come, and that nobody publishes."""
    rows = tx.execute(
        select(*surface_ledger.FIELDS)
        .where(surface_ledger.is_due(now))
        .order_by(surfaces.c.next_at)
        .limit(limit)
    )
    return [surface_ledger.from_row(row) for row in rows]


def drop_bodies(tx: Tx, before: datetime, limit: int = BATCH) -> int:
    """Forget raw bodies received before ``before``, ``limit`` at most; the hash stays."""
    batch = (
        select(deliveries.c.id)
        .where(deliveries.c.received_at < before, deliveries.c.body.is_not(None))
        .limit(limit)
    )
    drop = update(deliveries).where(deliveries.c.id.in_(batch)).values(body=None)
    return tx.execute(drop).rowcount


def drop_settled(tx: Tx, before: datetime, limit: int = BATCH) -> int:
    """Delete rows older than every redelivery window of GitHub, ``limit`` at most."""
    batch = select(deliveries.c.id).where(deliveries.c.received_at < before).limit(limit)
    return tx.execute(delete(deliveries).where(deliveries.c.id.in_(batch))).rowcount


def drop_output(tx: Tx, before: datetime, limit: int = BATCH) -> int:
    """Forget output tails of attempts that ended before ``before``, ``limit`` at most."""
    batch = (
        select(attempts.c.id)
        .where(attempts.c.finished_at < before, attempts.c.stdout_tail.is_not(None))
        .limit(limit)
    )
    drop = update(attempts).where(attempts.c.id.in_(batch))
    return tx.execute(drop.values(stdout_tail=None, stderr_tail=None)).rowcount


def drop_tasks(tx: Tx, before: datetime, limit: int = BATCH) -> int:
    """Delete tasks that ended before ``before``, with their attempts, ``limit`` at most.

    One whose surfaces are not published yet is work, however old it is.
    """
    pending = select(surfaces.c.id).where(
        surfaces.c.task_id == tasks.c.id, surfaces.c.state == SurfaceState.PENDING
    )
    batch = (
        select(tasks.c.id)
        .where(tasks.c.state.in_(TERMINAL_STATES), tasks.c.finished_at < before, ~pending.exists())
        .limit(limit)
    )
    ids = list(tx.execute(batch).scalars())
    if ids:
        tx.execute(delete(attempts).where(attempts.c.task_id.in_(ids)))
        tx.execute(delete(surfaces).where(surfaces.c.task_id.in_(ids)))
        tx.execute(delete(tasks).where(tasks.c.id.in_(ids)))
    return len(ids)


def leased(tx: Tx, now: datetime) -> set[TaskId]:
    """Tasks that some worker holds a living lease of."""
    rows = tx.execute(
        select(tasks.c.id).where(
            tasks.c.state == TaskState.RUNNING, tasks.c.lease_expires_at >= now
        )
    )
    return {TaskId(task_id) for (task_id,) in rows}


def tasks_page(
    tx: Tx, want: listing.TasksWanted, limit: int, before: int | None = None
) -> list[Task]:
    """:func:`coven.store.listing.tasks_page` of all installations."""
    found = tx.execute(listing.tasks_query(want, limit, before))
    return [task_ledger.from_row(row) for row in found]


def deliveries_page(
    tx: Tx,
    want: listing.DeliveriesWanted,
    limit: int,
    before: listing.DeliveryPlace | None = None,
) -> list[Delivery]:
    """:func:`coven.store.listing.deliveries_page` of all, those of no installation too."""
    found = tx.execute(listing.deliveries_query(want, limit, before))
    return [Delivery(**row._mapping) for row in found]


def audit_page(
    tx: Tx, want: audit_ledger.Wanted, limit: int, before: int | None = None
) -> list[audit_ledger.Entry]:
    """:func:`coven.store.api_audit.page` of all, refused strangers too."""
    found = tx.execute(audit_ledger.page_query(want, limit, before))
    return [audit_ledger.Entry(**row._mapping) for row in found]


def done(tx: Tx, want: rollup.DoneWanted) -> list[rollup.Done]:
    """:func:`coven.store.rollup.done` of all installations."""
    rows = tx.execute(rollup.done_query(want, tx.dialect.name))
    return [rollup.from_row(row) for row in rows]


def drop_api_audit(tx: Tx, before: datetime) -> int:
    """Delete what the API recorded before ``before``."""
    return tx.execute(delete(api_audit).where(api_audit.c.at < before)).rowcount


def waiting_for(tx: Tx, what: str, limit: int = 200) -> list[Task]:
    """Tasks that wait for this, oldest first."""
    rows = tx.execute(
        select(*task_ledger.FIELDS)
        .where(tasks.c.state == TaskState.WAITING, tasks.c.waiting_for == what)
        .order_by(tasks.c.seq)
        .limit(limit)
    )
    return [task_ledger.from_row(row) for row in rows]


def stale_escalations(tx: Tx, now: datetime, limit: int = 200) -> list[Escalation]:
    """Open escalations whose time is over, or whose task is."""
    live = select(tasks.c.id).where(
        tasks.c.id == escalations.c.task_id,
        tasks.c.state.in_([TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING]),
    )
    rows = tx.execute(
        select(*escalation_ledger.FIELDS)
        .where(
            escalations.c.status.in_(list(escalation_ledger.OPEN)),
            or_(escalations.c.expires_at <= now, ~live.exists()),
        )
        .limit(limit)
    )
    return [escalation_ledger.from_row(row) for row in rows]
