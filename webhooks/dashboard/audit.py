"""Audit: who read or changed what, over pages and the API, and who was refused."""

from __future__ import annotations

from coven.store.engine import Tx
from webhooks.api import handlers, inputs, shapes
from webhooks.dashboard.asking import Ask, Page, Shown


def show(ask: Ask, tx: Tx) -> Shown:
    """The record, newest first."""
    query = ask.read(inputs.AuditQuery)
    found = handlers.audit(ask.call(tx, query))
    assert isinstance(found.answer, shapes.AuditAnswer)
    return Shown(
        "audit.html",
        {
            "title": "Audit",
            "section": "audit",
            "events": found.answer.events,
            "query": query,
            "only_own": bool(ask.caller.repos),
            "cursor": ask.next_page(query, found),
        },
        rows=found.rows,
    )


PAGES = (Page(path="/audit", name="audit", view=show),)
