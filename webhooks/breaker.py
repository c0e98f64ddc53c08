"""The circuit breaker: too many sessions that people asked for look like a loop, and pause.

Counted from the task ledger, so every process sees the same. A pause ends by itself, or when
somebody with write access says ``resume``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from coven import semantic_keys
from coven.store import intake, tasks
from coven.store.engine import Tx
from coven.values import Lane
from webhooks.intents import Intent
from webhooks.say import paused
from webhooks.trust import Admitted

WINDOW = timedelta(minutes=10)
THREAD_RUNS = 10
"""Sessions that people may ask for on one thread within the window; a loop would make more."""
INSTALLATION_RUNS = 100
"""The same in one installation."""
THREAD, INSTALLATION = "thread_paused", "installation_paused"


@dataclass(frozen=True, slots=True)
class Breaker:
    """``thread_runs`` and ``installation_runs``: sessions within the window."""

    thread_runs: int = THREAD_RUNS
    installation_runs: int = INSTALLATION_RUNS

    def paused(self, tx: Tx, intent: Intent, now: datetime) -> str | None:
        """Why nothing more starts here for now, or None."""
        tenant, repo, thread = intent.installation_id, intent.repo_id, intent.thread
        began = now - WINDOW
        since = intake.resumed_at(tenant, tx, began, repo, thread) or began
        if intake.asked_since(tenant, tx, since, repo, thread) >= self.thread_runs:
            return THREAD
        since = intake.resumed_at(tenant, tx, began, None, None) or began
        if intake.asked_since(tenant, tx, since) >= self.installation_runs:
            return INSTALLATION
        return None

    def notice(self, tx: Tx, item: Admitted, why: str, now: datetime) -> Intent | None:
        """The one answer of this pause on this thread; None when it was given, or can't be."""
        intent = item.intent
        tenant = intent.installation_id
        if intent.comment_id is None or not item.show:
            return None
        began = now - WINDOW
        began = intake.resumed_at(tenant, tx, began, intent.repo_id, intent.thread) or began
        for task in tasks.on_thread(tenant, tx, intent.repo_id, intent.thread, 100):
            if task.payload.get("paused") and task.created_at > began:
                return None
        what = "on this thread" if why == THREAD else "in all repositories of this installation"
        minutes = int(WINDOW.total_seconds() // 60)
        return replace(
            intent,
            lane=Lane.CONTROL,
            semantic_key=semantic_keys.control(intent.repo_id, intent.comment_id),
            priority=10,
            ignored_as=why,
            payload={
                "paused": True,
                "reply_body": paused(intent.familiar.handle, what, minutes),
            },
        )
