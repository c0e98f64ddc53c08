"""What a marketplace purchase means: the plan of an account, and what it entitles to. Pure.

A cancelled plan is no entitlement. It never means "no limits", and neither does a trial that
ran out or a plan whose name is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from coven.tenancy.facts import PlanChanged, Purchase

ACTIVE, TRIAL, CANCELLED = "active", "trial", "cancelled"


@dataclass(frozen=True, slots=True)
class Plan:
    """The subscription of an account. ``effective_at``: payload time of what it rests on."""

    account_id: int
    state: str
    effective_at: datetime
    account_login: str | None = None
    account_type: str | None = None
    plan_id: int | None = None
    plan_name: str | None = None
    unit_count: int | None = None
    trial_ends_at: datetime | None = None
    next_billing_at: datetime | None = None
    pending: dict[str, Any] | None = None
    pending_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TierLimits:
    """What a tier allows; None: without a limit."""

    name: str
    max_concurrent: int | None
    max_tasks_per_day: int | None
    max_minutes_per_month: int | None
    weight: int


STARTER = TierLimits("starter", 1, 25, 600, 1)
TEAM = TierLimits("team", 4, 150, 6_000, 2)
DEDICATED = TierLimits("dedicated", None, None, None, 4)
_TIERS = (STARTER, TEAM, DEDICATED)


def tier_of(plan_name: str | None) -> TierLimits:
    """The tier by the first word of it in the plan's name; the smallest when there is none."""
    name = (plan_name or "").casefold()
    return next((tier for tier in _TIERS if tier.name in name), STARTER)


def entitled(plan: Plan | None, now: datetime) -> bool:
    """Whether the account may use the App on its plan."""
    if plan is None:
        return False
    current = settled(plan, now)
    if current.state == TRIAL:
        return current.trial_ends_at is None or now < current.trial_ends_at
    return current.state == ACTIVE


def settled(plan: Plan, now: datetime) -> Plan:
    """The plan as it stands ``now``: a pending change whose time has come has happened."""
    if plan.pending is None or plan.pending_at is None or now < plan.pending_at:
        return plan
    name = plan.pending.get("plan_name", plan.plan_name)
    return replace(
        plan,
        state=CANCELLED if plan.pending.get("cancelled") else plan.state,
        plan_id=plan.pending.get("plan_id", plan.plan_id),
        plan_name=name,
        unit_count=plan.pending.get("unit_count", plan.unit_count),
        effective_at=plan.pending_at,
        pending=None,
        pending_at=None,
    )


def applied(known: Plan | None, fact: PlanChanged, now: datetime) -> Plan | None:
    """The plan after a purchase event; None when the event changes nothing.

    Ordered by effective date: an event older than what is known is ignored, whenever it arrives.
    At the same instant a cancellation wins, since it can't have come first.
    """
    at = fact.at or now
    current = settled(known, now) if known is not None else None
    if fact.action in ("pending_change", "pending_change_cancelled"):
        return _pending(current, fact, at)
    if current is not None and _is_older(current, fact, at):
        return None
    state = CANCELLED
    if fact.action != "cancelled":
        state = TRIAL if fact.purchase.on_free_trial else ACTIVE
    return Plan(
        account_id=fact.account.id,
        account_login=fact.account.login or (current.account_login if current else None),
        account_type=fact.account.kind or (current.account_type if current else None),
        state=state,
        effective_at=at,
        **_bought(fact.purchase),
    )


def _is_older(current: Plan, fact: PlanChanged, at: datetime) -> bool:
    if at == current.effective_at:
        return current.state == CANCELLED and fact.action != "cancelled"
    return at < current.effective_at


def _pending(current: Plan | None, fact: PlanChanged, at: datetime) -> Plan | None:
    if current is None or current.state == CANCELLED or at < current.effective_at:
        return None
    if fact.action == "pending_change_cancelled":
        if current.pending is None:
            return None
        return replace(current, pending=None, pending_at=None)
    wanted = {
        "plan_id": fact.purchase.plan_id,
        "plan_name": fact.purchase.plan_name,
        "unit_count": fact.purchase.unit_count,
    }
    return replace(current, pending=wanted, pending_at=at)


def _bought(purchase: Purchase) -> dict[str, Any]:
    return {
        "plan_id": purchase.plan_id,
        "plan_name": purchase.plan_name,
        "unit_count": purchase.unit_count,
        "trial_ends_at": purchase.free_trial_ends_on,
        "next_billing_at": purchase.next_billing_date,
    }
