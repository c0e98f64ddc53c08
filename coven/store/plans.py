"""The plans of accounts: what :mod:`coven.tenancy.plans` decides, kept in order.

A purchase belongs to an account and names no installation, so what is learned goes by account.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables_tenancy import account_plans, installations
from coven.tenancy import plans
from coven.tenancy.facts import PlanChanged
from coven.tenancy.plans import Plan
from coven.values import InstallationId

_FIELDS = tuple(account_plans.c[name] for name in Plan.__dataclass_fields__)


def of_installation(installation: InstallationId, tx: Tx) -> Plan | None:
    """The plan of the account that has this installation."""
    row = tx.execute(
        select(*_FIELDS)
        .join(installations, installations.c.account_id == account_plans.c.account_id)
        .where(installations.c.id == installation)
    ).one_or_none()
    return _plan(row)


def of_account(tx: Tx, account_id: int) -> Plan | None:
    """The plan of an account."""
    row = tx.execute(select(*_FIELDS).where(account_plans.c.account_id == account_id)).one_or_none()
    return _plan(row)


def learn(tx: Tx, fact: PlanChanged, now: datetime) -> bool:
    """Take in a purchase event. False when it changes nothing: late, or about nothing known."""
    for _ in range(3):
        known = of_account(tx, fact.account.id)
        plan = plans.applied(known, fact, now)
        if plan is None:
            return False
        if _write(tx, known, plan, now):
            return True
    return False


def reconcile(
    tx: Tx, seen: Plan | None, account_id: int, asked_at: datetime, now: datetime
) -> bool:
    """What the Marketplace said at ``asked_at``: ``seen`` is None when the account has no plan.

    Newer than every event that had arrived by then. True when it corrects what was known.
    """
    known = of_account(tx, account_id)
    if known is not None and _learned_since(tx, account_id, asked_at):
        return False
    if seen is None:
        if known is None or known.state == plans.CANCELLED:
            return False
        cancelled = replace(
            known, state=plans.CANCELLED, effective_at=now, pending=None, pending_at=None
        )
        return _write(tx, known, cancelled, now, reconciled=True)
    if known is not None:
        if _same(known, seen):
            _note_reconciled(tx, account_id, now)
            return False
        seen = replace(seen, effective_at=max(seen.effective_at, known.effective_at))
    return _write(tx, known, seen, now, reconciled=True)


def _learned_since(tx: Tx, account_id: int, asked_at: datetime) -> bool:
    learned: datetime = tx.execute(
        select(account_plans.c.learned_at).where(account_plans.c.account_id == account_id)
    ).scalar_one()
    return learned > asked_at


def _note_reconciled(tx: Tx, account_id: int, now: datetime) -> None:
    tx.execute(
        update(account_plans)
        .where(account_plans.c.account_id == account_id)
        .values(reconciled_at=now)
    )


def _same(known: Plan, seen: Plan) -> bool:
    names = ("state", "plan_id", "plan_name", "unit_count", "trial_ends_at", "pending_at")
    return all(getattr(known, name) == getattr(seen, name) for name in names)


def _write(
    tx: Tx, known: Plan | None, plan: Plan, now: datetime, *, reconciled: bool = False
) -> bool:
    values: dict[str, Any] = asdict(plan) | {"learned_at": now}
    if reconciled:
        values["reconciled_at"] = now
    if known is None:
        try:
            with tx.begin_nested():
                tx.execute(insert(account_plans).values(**values))
        except IntegrityError:
            return False
        return True
    changed = tx.execute(
        update(account_plans)
        .where(
            account_plans.c.account_id == plan.account_id,
            account_plans.c.effective_at == known.effective_at,
            account_plans.c.state == known.state,
        )
        .values(**values)
    )
    return changed.rowcount == 1


def _plan(row: Row[Any] | None) -> Plan | None:
    return Plan(**row._mapping) if row is not None else None
