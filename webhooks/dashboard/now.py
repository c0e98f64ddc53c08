"""What happens at this moment: queues, sessions, workers, and what holds work up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from coven.errors import CovenError
from coven.governance import admin
from coven.store import beats, dashboard, installations, intake, sweeps
from coven.store.engine import Tx
from webhooks.breaker import INSTALLATION_RUNS, WINDOW
from webhooks.dashboard.asking import Ask, Page, Shown

HEARD_WITHIN = timedelta(hours=24)
QUIET_SECS = 120
"""A session whose worker was not heard of for so long is marked."""


def show(ask: Ask, tx: Tx) -> Shown:
    """Queues, sessions, workers and what holds them up."""
    paused = ask.query.get("refresh") == "off"
    return Shown("now.html", {"title": "Now", "section": "", "paused": paused} | _facts(ask, tx))


def live(ask: Ask, tx: Tx) -> Shown:
    """The part that refreshes by itself."""
    return Shown("now_live.html", _facts(ask, tx))


def _facts(ask: Ask, tx: Tx) -> dict[str, Any]:
    view, within = ask.installation, ask.caller.repos
    lanes = dashboard.lanes(view, tx, ask.now, within)
    return {
        "lanes": lanes,
        "due": sum(lane.due for lane in lanes),
        "running": sum(lane.running for lane in lanes),
        "waiting": sum(lane.waiting for lane in lanes),
        "flights": dashboard.flights(view, tx, within),
        "quiet": QUIET_SECS,
        "workers": _workers(ask, tx),
        "publishing": dashboard.publishing(view, tx, ask.now, within),
        "marks": dashboard.waiting_marks(view, tx, within),
        "proposals": None if within else sum(dashboard.pending_memory(view, tx).values()),
        "jobs": sorted(beats.last_runs(tx).items()) if ask.access.is_operator else [],
        "breaker": _breaker(ask, tx),
        "stopped": _stopped(ask, tx),
        "governance": _governance(ask),
    }


def _workers(ask: Ask, tx: Tx) -> list[dashboard.Worker]:
    """Names of machines are for operators; they serve all tenants."""
    if not ask.access.is_operator:
        return []
    return dashboard.workers(ask.installation, tx, ask.now - HEARD_WITHIN)


def _breaker(ask: Ask, tx: Tx) -> tuple[int, int] | None:
    """Sessions that people asked for lately, and at how many everything pauses."""
    tenant = ask.installation
    if tenant is None:
        return None
    began = ask.now - WINDOW
    since = intake.resumed_at(tenant, tx, began, None, None) or began
    return intake.asked_since(tenant, tx, since), INSTALLATION_RUNS


def _stopped(ask: Ask, tx: Tx) -> list[installations.Installation]:
    """Installations that GitHub has suspended."""
    if ask.installation is not None:
        found = installations.get(ask.installation, tx)
        return [found] if found is not None and found.state != "active" else []
    return [each for each in sweeps.standing_installations(tx) if each.state != "active"]


def _governance(ask: Ask) -> dict[str, Any] | None:
    """Mode and state of the rules; None while they are off."""
    rules = ask.services.rules
    if rules is None:
        return None
    try:
        return admin.status(rules.engine)
    except CovenError as error:
        return {"ok": False, "problem": str(error), "mode": "unknown", "policy_epoch": 0}


PAGES = (
    Page(path="/", name="now", view=show),
    Page(path="/live", name="now_live", view=live, frequent=True),
)
