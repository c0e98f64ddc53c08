"""Rows for the ledgers, with defaults for all that a test does not care about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from coven.store import tasks
from coven.store.deliveries import Received
from coven.store.engine import Store
from coven.store.tasks import NewTask, Task
from coven.values import (
    DeliveryId,
    InstallationId,
    Lane,
    RepoId,
    TaskId,
    TrustScope,
    new_task_id,
    new_token,
)

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
TENANT = InstallationId(41)
OTHER = InstallationId(42)
REPO_ID = RepoId(7)


def new_task(**changes: Any) -> NewTask:
    """A commanded review of pull request 3, with a semantic key of its own."""
    values: dict[str, Any] = {
        "id": new_task_id(),
        "installation_id": TENANT,
        "repo_id": REPO_ID,
        "repo_owner": "octo",
        "repo_name": "demo",
        "thread": 3,
        "is_pull": True,
        "title": "A title",
        "lane": Lane.REVIEW,
        "verb": "review",
        "reason": "command",
        "automatic": False,
        "familiar_id": "cody",
        "trust_scope": TrustScope.MAINTAINER,
        "content_trust": TrustScope.MAINTAINER,
        "trust_evidence": {"source": "permission"},
        "source_at": NOW,
        "semantic_key": f"review:{new_token()}",
        "max_attempts": 3,
        "created_at": NOW,
    }
    return NewTask(**(values | changes))


def put(store: Store, **changes: Any) -> TaskId:
    """Write a task; its id."""
    new = new_task(**changes)
    with store.write() as tx:
        assert tasks.insert_new(new.installation_id, tx, new)
    return new.id


def take(
    store: Store,
    task_id: TaskId,
    token: str = "t" * 32,
    now: datetime = NOW,
    lease_secs: float = 60,
    max_concurrent: int | None = None,
) -> Task | None:
    """Claim a task."""
    with store.write() as tx:
        return tasks.claim(TENANT, tx, task_id, token, now, lease_secs, max_concurrent)


def look(store: Store, task_id: TaskId) -> Task:
    """A task that must be there."""
    with store.read() as tx:
        found = tasks.locate(tx, task_id)
    assert found is not None
    return found


def received(**changes: Any) -> Received:
    """A delivery that was ignored."""
    values: dict[str, Any] = {
        "id": DeliveryId("d-1"),
        "event": "push",
        "body": b'{"a": 1}',
        "routing": "ignored:event",
        "received_at": NOW,
        "installation_id": TENANT,
    }
    return Received(**(values | changes))
