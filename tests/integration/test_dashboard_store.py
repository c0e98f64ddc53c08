"""What only the dashboard asks of the ledgers, on both databases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from coven.store import dashboard
from coven.store.engine import Store
from coven.store.escalations import Status
from coven.store.pacing import HELD
from coven.store.tables import surfaces
from coven.values import Lane, RepoName
from tests.ledger import NOW, OTHER, TENANT, put
from tests.support.dashboard import REPOS, SECOND, Seeded, World


@pytest.fixture
def seeded(store: Store, tmp_path: Path) -> Seeded:
    return Seeded(World(store, tmp_path), work=6)


def test_the_ledgers_answer_for_one_for_all_and_for_some(seeded: Seeded) -> None:
    store = seeded.world.store
    put(store, not_before=NOW + timedelta(hours=1), repo_owner="octo", repo_name="tools")
    tools = frozenset({RepoName("OCTO", "Tools")})
    with store.read() as tx:
        one = {lane.lane: lane for lane in dashboard.lanes(TENANT, tx, NOW)}
        every = {lane.lane: lane for lane in dashboard.lanes(None, tx, NOW)}
        some = {lane.lane: lane for lane in dashboard.lanes(TENANT, tx, NOW, tools)}
        review = one[Lane.REVIEW]
        assert (review.due, review.later, review.running, review.waiting) == (1, 1, 1, 1)
        assert review.oldest_due == NOW - timedelta(minutes=6)
        assert (one[Lane.FIX].due, one[Lane.CONTROL].due) == (1, 0)
        assert (every[Lane.REVIEW].due, every[Lane.REVIEW].running) == (2, 2)
        assert (some[Lane.REVIEW].due, some[Lane.REVIEW].later, some[Lane.FIX].due) == (1, 1, 0)

        (flight,) = dashboard.flights(TENANT, tx)
        assert (flight.repo, flight.phase, flight.worker) == ("octo/demo", "session", "worker-1")
        assert len(dashboard.flights(None, tx)) == 2
        assert dashboard.flights(TENANT, tx, tools) == []

        found = dashboard.workers(None, tx, NOW - timedelta(hours=1))
        assert {(each.name, each.running) for each in found} == {("worker-1", 2), ("worker-2", 0)}
        assert dashboard.workers(None, tx, NOW + timedelta(hours=1))[0].running == 2

        assert dashboard.waiting_marks(TENANT, tx) == [("escalation", 1)]
        assert dashboard.waiting_marks(OTHER, tx) == []
        assert dashboard.pending_memory(None, tx) == {TENANT: 1, OTHER: 1}
        assert dashboard.pending_memory(OTHER, tx) == {OTHER: 1}

        both = [seeded.tasks[TENANT], seeded.tasks[OTHER]]
        assert set(dashboard.named(None, tx, both)) == set(both)
        assert set(dashboard.named(TENANT, tx, both)) == {seeded.tasks[TENANT]}

        mine = frozenset({REPOS[TENANT]})
        pending = [Status.PENDING]
        assert [e.id for e in dashboard.asked(None, tx, pending)] == [seeded.escalation]
        assert [e.id for e in dashboard.asked(TENANT, tx, pending, mine)] == [seeded.escalation]
        assert dashboard.asked(TENANT, tx, pending, frozenset({SECOND})) == []
        assert dashboard.asked(OTHER, tx, pending) == []
        assert dashboard.asked(TENANT, tx, [Status.DENIED]) == []


def test_what_is_not_on_github_yet_is_counted(seeded: Seeded) -> None:
    store, later = seeded.world.store, NOW + timedelta(minutes=5)
    with store.read() as tx:
        assert dashboard.publishing(TENANT, tx, NOW).pending == 0
    for n, (state, error, next_at) in enumerate(
        [("pending", None, NOW), ("pending", f"{HELD} wait", later), ("failed", "x", NOW)]
    ):
        with store.write() as tx:
            tx.execute(
                insert(surfaces).values(
                    installation_id=TENANT,
                    repo_id=7,
                    repo_owner="octo",
                    repo_name="demo",
                    kind="reply",
                    subject=f"comment:{n}",
                    task_id=seeded.tasks[TENANT],
                    generation=1,
                    desired={},
                    desired_hash="0" * 64,
                    state=state,
                    error=error,
                    next_at=next_at,
                    created_at=NOW,
                    updated_at=NOW - timedelta(minutes=n),
                )
            )
    with store.read() as tx:
        found = dashboard.publishing(TENANT, tx, NOW)
        assert (found.pending, found.failed, found.held) == (2, 1, 1)
        assert (found.oldest_pending, found.held_until) == (NOW - timedelta(minutes=1), later)
        assert dashboard.publishing(OTHER, tx, NOW).pending == 0
        assert dashboard.publishing(TENANT, tx, NOW, frozenset({SECOND})).pending == 0


def test_pages_are_shown_over_either_database(seeded: Seeded) -> None:
    browser = seeded.world.operator()
    for path in (
        *("/ops/?", "/ops/tasks?q=number&state=failed", "/ops/tasks.csv?", "/ops/deliveries?"),
        *("/ops/memory?q=wheels", "/ops/rules?", "/ops/usage?", "/ops/audit?", "/ops/settings?"),
        f"/ops/tasks/{seeded.tasks[TENANT]}?",
        f"/ops/tasks/{seeded.tasks[TENANT]}/memory?",
        f"/ops/memory/41/{seeded.entries[TENANT].id}?",
    ):
        for more in ("", "&installation_id=41"):
            found = browser.get(path + more)
            assert found.status_code == 200, found.text
