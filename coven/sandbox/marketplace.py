"""The Marketplace: plans of the listing, who has which, and the same for the stubbed listing."""

from __future__ import annotations

from typing import Any

from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, Subscription, stamp

PLANS = ("Starter", "Team", "Dedicated")
"""The listing; a plan's id is its place from 1."""


def plan(hub: Hub, name: str) -> JSON:
    """A plan of the listing."""
    number = PLANS.index(name) + 1
    url = f"{hub.base_url}/marketplace_listing/plans/{number}"
    return {
        "url": url,
        "accounts_url": f"{url}/accounts",
        "id": number,
        "number": number,
        "name": name,
        "description": f"The plan {name}",
        "monthly_price_in_cents": 9_900 * number,
        "yearly_price_in_cents": 99_000 * number,
        "price_model": "FLAT_RATE",
        "has_free_trial": True,
        "unit_name": None,
        "state": "published",
        "bullets": [],
    }


def purchase(hub: Hub, account_id: int, bought: Subscription) -> JSON:
    """What an account has bought."""
    account = hub.state.users[account_id]
    kind = "orgs" if account.type == "Organization" else "users"
    pending = None
    if bought.pending_plan is not None:
        pending = {
            "id": account.id,
            "effective_date": bought.pending_at,
            "unit_count": bought.unit_count,
            "plan": plan(hub, bought.pending_plan),
        }
    return {
        "url": f"{hub.base_url}/{kind}/{account.login}",
        "type": account.type,
        "id": account.id,
        "login": account.login,
        "email": None,
        "marketplace_pending_change": pending,
        "marketplace_purchase": {
            "billing_cycle": "monthly",
            "next_billing_date": bought.next_billing_date,
            "is_installed": True,
            "unit_count": bought.unit_count,
            "on_free_trial": bought.on_free_trial,
            "free_trial_ends_on": bought.free_trial_ends_on,
            "updated_at": stamp(bought.updated_at),
            "plan": plan(hub, bought.plan),
        },
    }


def subscribe(hub: Hub, account: str, plan: str | None = None, **fields: Any) -> JSON:
    """Give an account a plan; None takes it away. ``fields`` as in ``state.Subscription``."""
    owner = hub.user(account)
    if plan is None:
        hub.state.subscriptions.pop(owner.id, None)
        return {}
    for name in (plan, fields.get("pending_plan") or plan):
        if name not in PLANS:
            raise ValueError(f"plan must be one of {', '.join(PLANS)}")
    hub.state.subscriptions[owner.id] = Subscription(plan, **fields)
    return dict(purchase(hub, owner.id, hub.state.subscriptions[owner.id]))


def list_plans(call: Call) -> Answer:
    return call.page(list(PLANS), lambda name: plan(call.hub, name))


def list_accounts(call: Call) -> Answer:
    number = call.number("plan_id")
    if not 1 <= number <= len(PLANS):
        raise not_found()
    found = [
        (account, bought)
        for account, bought in sorted(call.hub.state.subscriptions.items())
        if bought.plan == PLANS[number - 1]
    ]
    return call.page(found, lambda pair: purchase(call.hub, *pair))


def get_account(call: Call) -> Answer:
    account = call.number("account_id")
    bought = call.hub.state.subscriptions.get(account)
    if bought is None:
        raise ApiError(404, "Not Found")
    return Answer(purchase(call.hub, account, bought))


ROUTES = tuple(
    Route("GET", f"/marketplace_listing{listing}{path}", view, caller="app")
    for listing in ("", "/stubbed")
    for path, view in (
        ("/plans", list_plans),
        ("/plans/<plan_id>/accounts", list_accounts),
        ("/accounts/<account_id>", get_account),
    )
)
