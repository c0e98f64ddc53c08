"""Which installation, and which task, a page is about."""

from __future__ import annotations

from collections.abc import Mapping

from coven.store import sweeps
from coven.store.engine import Tx
from coven.store.tasks import Task
from webhooks.api import reads
from webhooks.api.auth import Caller
from webhooks.dashboard.asking import Ask, Shown, not_here


def choose(tx: Tx, section: str, title: str, counts: Mapping[int, int]) -> Shown:
    """For operators: the page belongs to one installation, so name it first."""
    return Shown(
        "choose.html",
        {
            "title": title,
            "section": section,
            "known": sweeps.standing_installations(tx),
            "counts": counts,
        },
    )


def task(ask: Ask, tx: Tx) -> tuple[Task, Caller]:
    """The task of the path, and the caller that sees it. Raises ``Problem``."""
    for caller in ask.access.callers:
        found = reads.task(caller.installation, tx, ask.path["task_id"], caller.repos)
        if found is not None:
            return found, caller
    raise not_here()
