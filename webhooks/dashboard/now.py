"""What happens at this moment."""

from __future__ import annotations

from coven.store.engine import Tx
from webhooks.dashboard.asking import Ask, Page, Shown


def show(ask: Ask, tx: Tx) -> Shown:
    """Queues, sessions, workers and what holds them up."""
    return Shown("now.html", {"title": "Now", "section": ""})


PAGES = (Page(path="/", name="now", view=show),)
