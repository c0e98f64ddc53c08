"""The next task by fair order: one claim decides about all tenants at once.

Choosing, counting and taking are one transaction under one lock, so limits hold however many
workers claim, and nobody is served out of turn. What it reads grows with the tenants that have
queued work, not with how much each of them has queued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from sqlalchemy import func, insert, or_, select, text, update

from coven.store import installations, plans, tasks, usage
from coven.store.engine import Tx
from coven.store.tables import tasks as task_table
from coven.store.tables_tenancy import turns
from coven.store.task_rows import Task
from coven.tenancy import fair
from coven.tenancy.fair import Head, Turn
from coven.tenancy.plans import Plan
from coven.tenancy.policy import Allowance, Over, full_repos, has_slot, over
from coven.values import InstallationId, Lane, TaskId, TaskState

Allow = Callable[[InstallationId, str | None, Plan | None], Allowance]
"""From an installation, the state of its row and its plan to what it may use."""

_LOCK = 0x636F76656E01
_CHUNK = 500

# A loose index scan: one look-up per tenant with queued work, however much it has queued.
WAITING = text(
    """
WITH RECURSIVE waiting(id) AS (
    SELECT min(installation_id) FROM tasks WHERE state = 'queued'
    UNION ALL
    SELECT (SELECT min(installation_id) FROM tasks
            WHERE state = 'queued' AND installation_id > waiting.id)
    FROM waiting WHERE waiting.id IS NOT NULL
)
SELECT id FROM waiting WHERE id IS NOT NULL
"""
)


def claim_next(tx: Tx, allow: Allow, token: str, now: datetime, lease_secs: float) -> Task | None:
    """Take the session task whose turn it is; None when nothing is due or allowed."""
    lock(tx)
    found = _next(tx, allow, now)
    if found is None:
        return None
    turn, head, start, weight = found
    tenant = InstallationId(turn.installation_id)
    task = tasks.claim(tenant, tx, TaskId(head.task_id), token, now, lease_secs)
    if task is None:
        return None
    usage.task_begun(tenant, tx, task.id, now)
    _served(tx, turn, start, fair.end_of(start, weight), now)
    return task


def lock(tx: Tx) -> None:
    """Let one transaction at a time choose or hold work. SQLite has one writer anyway."""
    if tx.dialect.name == "postgresql":
        tx.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def allowance_of(tx: Tx, tenant: InstallationId, allow: Allow) -> Allowance:
    """What a tenant may use, by what is known of it now."""
    known = installations.get(tenant, tx)
    plan = plans.of_installation(tenant, tx)
    return allow(tenant, known.state if known is not None else None, plan)


def reached(tx: Tx, tenant: InstallationId, allowed: Allowance, now: datetime) -> Over | None:
    """The limit that forbids a tenant to begin another session before its reset."""
    if allowed.max_tasks_per_day is None and allowed.max_minutes_per_month is None:
        return None  # nothing to count
    return over(allowed, usage.used(tenant, tx, now), now)


def _next(tx: Tx, allow: Allow, now: datetime) -> tuple[Turn, Head, int, int] | None:
    virtual_now = int(tx.execute(select(func.max(turns.c.started))).scalar_one() or 0)
    running = _running(tx)
    weights: dict[int, int] = {}

    def candidates() -> Iterator[tuple[Turn, Head, int]]:
        for turn in fair.in_order(_turns(tx), virtual_now):
            tenant = InstallationId(turn.installation_id)
            allowed = allowance_of(tx, tenant, allow)
            mine = running.get(turn.installation_id, {})
            if allowed.refusal is not None or not has_slot(allowed, sum(mine.values())):
                continue
            if reached(tx, tenant, allowed, now) is not None:
                continue
            head = fair.first_of(_heads(tx, tenant, full_repos(allowed, mine), now), now)
            if head is not None:
                weights[turn.installation_id] = allowed.weight
                yield turn, head, fair.start_of(turn, virtual_now)

    chosen = fair.first_tenant(candidates(), now)
    if chosen is None:
        return None
    return *chosen, weights[chosen[0].installation_id]


def _turns(tx: Tx) -> list[Turn]:
    ids = [int(tenant) for (tenant,) in tx.execute(WAITING)]
    known: dict[int, Turn] = {}
    for first in range(0, len(ids), _CHUNK):
        rows = tx.execute(
            select(turns.c.installation_id, turns.c.finished, turns.c.served_at).where(
                turns.c.installation_id.in_(ids[first : first + _CHUNK])
            )
        )
        known |= {row.installation_id: Turn(*row) for row in rows}
    return [known.get(tenant, Turn(tenant, None, None)) for tenant in ids]


def _running(tx: Tx) -> dict[int, dict[int, int]]:
    rows = tx.execute(
        select(task_table.c.installation_id, task_table.c.repo_id, func.count())
        .where(task_table.c.state == TaskState.RUNNING, task_table.c.lane != Lane.CONTROL)
        .group_by(task_table.c.installation_id, task_table.c.repo_id)
    )
    found: dict[int, dict[int, int]] = {}
    for tenant, repo, count in rows:
        found.setdefault(tenant, {})[repo] = int(count)
    return found


def _heads(tx: Tx, tenant: InstallationId, full: list[int], now: datetime) -> list[Head]:
    due = [
        task_table.c.state == TaskState.QUEUED,
        task_table.c.installation_id == tenant,
        task_table.c.lane != Lane.CONTROL,
        task_table.c.cancel_requested_at.is_(None),
        task_table.c.attempts_used < task_table.c.max_attempts,
        or_(task_table.c.not_before.is_(None), task_table.c.not_before <= now),
    ]
    if full:
        due.append(task_table.c.repo_id.not_in(full))
    fields = (
        task_table.c.id,
        task_table.c.priority,
        task_table.c.seq,
        task_table.c.created_at,
    )
    heads: list[Head] = []
    priorities = select(task_table.c.priority).where(*due).order_by(task_table.c.priority.desc())
    priority = tx.execute(priorities.limit(1)).scalar_one_or_none()
    while priority is not None:  # once per priority in use, each time by the index
        of_it = select(*fields).where(*due, task_table.c.priority == priority)
        heads.append(Head(*tx.execute(of_it.order_by(task_table.c.seq).limit(1)).one()))
        lower = priorities.where(task_table.c.priority < priority)
        priority = tx.execute(lower.limit(1)).scalar_one_or_none()
    return heads


def _served(tx: Tx, turn: Turn, start: int, end: int, now: datetime) -> None:
    values = {"started": start, "finished": end, "served_at": now}
    mine = turns.c.installation_id == turn.installation_id
    if tx.execute(update(turns).where(mine).values(**values)).rowcount == 0:
        tx.execute(insert(turns).values(installation_id=turn.installation_id, **values))
