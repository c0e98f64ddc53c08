"""Deliveries: what GitHub told us, what was decided and why, and what was missed."""

from __future__ import annotations

from coven.api_tokens import TokenScope
from coven.store import deliveries as ledger
from coven.store import recoveries
from coven.store.deliveries import Delivery
from coven.store.engine import Tx
from webhooks.api import handlers, inputs, reads, shapes
from webhooks.api.problems import Problem
from webhooks.api.reads import ROUTING_WINDOW
from webhooks.dashboard.asking import Ask, Done, Page, Shown, not_here
from webhooks.dashboard.rendering import url
from webhooks.receiver import MARKETPLACE, Request
from webhooks.signature import sign

SEARCHES = 15


def show_list(ask: Ask, tx: Tx) -> Shown:
    """Deliveries, newest first, with why each one came to what it came to."""
    query = ask.read(inputs.DeliveriesQuery)
    found = handlers.list_deliveries(ask.call(tx, query))
    assert isinstance(found.answer, shapes.DeliveriesAnswer)
    routing = None
    if ask.installation is not None:
        asked = inputs.RoutingQuery(repo=query.repo, since=query.since, until=query.until)
        answer = handlers.routing(ask.call(tx, asked)).answer
        assert isinstance(answer, shapes.RoutingAnswer)
        routing = answer.routing
    return Shown(
        "deliveries.html",
        {
            "title": "Deliveries",
            "section": "deliveries",
            "deliveries": found.answer.deliveries,
            "query": query,
            "routing": routing,
            "window": ROUTING_WINDOW,
            "searches": recoveries.recent(tx, SEARCHES) if ask.access.is_operator else [],
            "cursor": ask.next_page(query, found),
        },
        rows=found.rows,
    )


def show(ask: Ask, tx: Tx) -> Shown:
    """One delivery."""
    found = _one(ask, tx)
    kept = ledger.body_of(found.installation_id, tx, found.id)
    return Shown(
        "delivery.html",
        {
            "title": "Delivery",
            "section": "deliveries",
            "delivery": found,
            "body_bytes": len(kept) if kept is not None else None,
            "again": _may_replay(found) and kept is not None,
        },
        rows=1,
        target=found.id,
        owner=found.installation_id,
    )


def replay(ask: Ask) -> Done:
    """Give an ignored delivery to the receiver again, as GitHub would."""
    services = ask.services
    with services.store.read() as tx:
        found = _one(ask, tx)
        body = ledger.body_of(found.installation_id, tx, found.id)
    if not _may_replay(found):
        raise Problem(409, "accepted", "It led to a task; look at that one instead.")
    if body is None:
        raise Problem(
            409,
            "body_gone",
            "Its body is not kept any more (storage.delivery_body_days). Have GitHub deliver it "
            "again from the App's page Advanced.",
        )
    github = services.settings.github
    own = github.marketplace_webhook_secret
    if found.event == MARKETPLACE and own is not None:
        secret = own.get_secret_value().encode()
    else:
        secret = github.active_webhook_secrets()[0]
    answer = ask.parts.receiver.receive(
        Request(body, sign(body, secret), found.event, found.id, "application/json")
    )
    if answer.status >= 400:
        raise Problem(409, "refused", f"The receiver refused it: {answer.body.get('error')}.")
    said = answer.body.get("task") or answer.body.get("ignored") or "the same as before"
    return Done(
        url("deliveries", found.id),
        f"Routed again; it came to: {said}.",
        found.id,
        owner=found.installation_id,
    )


def _one(ask: Ask, tx: Tx) -> Delivery:
    for caller in ask.access.callers:
        found = reads.delivery(caller.installation, tx, ask.path["delivery_id"], caller.repos)
        if found is not None:
            return found
    raise not_here()


def _may_replay(found: Delivery) -> bool:
    return found.routing.startswith(("ignored:", "rejected:"))


PAGES = (
    Page(path="/deliveries", name="deliveries", view=show_list),
    Page(path="/deliveries/<delivery_id>", name="delivery", view=show),
    Page(
        path="/deliveries/<delivery_id>/replay",
        name="delivery_replay",
        view=replay,
        method="POST",
        scope=TokenScope.ADMIN,
        alone=True,
    ),
)
