"""Sweeps and reconciliation against a GitHub that answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coven.clock import SystemClock
from coven.services import Services
from coven.store import installations, plans, tasks
from coven.store.engine import Store
from coven.tenancy.facts import InstallationSeen
from coven.values import InstallationId, Lane
from tests.integration.sandbox_kit import REPO, World, world
from tests.integration.test_github_sandbox import github_of
from tests.integration.test_tenancy_ledgers import GitHubDouble, make
from worker.reconcile import reconcile
from worker.sweep_state import sweep_state

FAMILIAR = {
    "id": "cody",
    "display_name": "Cody",
    "bot_username": "cody[bot]",
    "trigger_labels": ["cody:fix"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


@pytest.fixture
def services(place: World, sqlite_store: Store, tmp_path: Path) -> Services:
    place.fill()
    config = {"familiars": [FAMILIAR], "billing": {"require_plan": True}}
    made = make(sqlite_store, GitHubDouble(), tmp_path, **config)
    earlier = datetime.now(UTC) - timedelta(hours=1)
    with sqlite_store.write() as tx:
        known = InstallationSeen(None, earlier, created=True)
        installations.learn(InstallationId(place.installation), tx, known, earlier)
    return replace(made, github=github_of(place, made.seam), clock=SystemClock())


def test_a_label_that_no_delivery_told_of_starts_work_of_whoever_set_it(
    place: World, services: Services
) -> None:
    tenant, admin = InstallationId(place.installation), place.admin
    old, fresh, plain = (admin.open_issue(REPO, f"Bug {n}", author="sam").number for n in range(3))
    for login, minutes_ago in (("rex", 50), ("mira", 30)):
        admin.label(REPO, old, "Cody:Fix", sender=login, minutes_ago=minutes_ago)
        admin.label(REPO, old, "other", sender="sam", minutes_ago=5)
        if login == "rex":
            admin.label(REPO, old, "Cody:Fix", sender="rex", remove=True, minutes_ago=40)
    admin.label(REPO, fresh, "cody:fix", sender="mira")  # its delivery may be under way
    reconcile(services)  # no event has told of the repository
    sweep_state(services)
    sweep_state(services)
    with services.store.read() as tx:
        (task,) = tasks.recent(tenant, tx)
    assert (task.thread, task.lane, task.actor_login) == (old, Lane.FIX, "mira")
    assert task.author_login == "sam"
    assert plain not in (old, fresh)
    assert place.admin.unexpected() == []


def test_plans_and_repositories_follow_github(place: World, services: Services) -> None:
    tenant, admin = InstallationId(place.installation), place.admin
    admin.create_repository("acme/more", owner_type="Organization")

    def hourly() -> tuple[str | None, str | None, list[str | None]]:
        reconcile(services)
        with services.store.read() as tx:
            plan = plans.of_installation(tenant, tx)
            repos = installations.repositories(tenant, tx)
        names = sorted(repo.name or "" for repo in repos if repo.state == "present")
        return plan and plan.plan_name, plan and plan.state, [*names]

    assert hourly() == (None, None, ["more", "shop"])
    admin.subscribe("acme", "Team", pending_plan="Starter", pending_at="2999-01-01T00:00:00Z")
    assert hourly()[:2] == ("Team", "active")
    with services.store.read() as tx:
        plan = plans.of_installation(tenant, tx)
    assert plan is not None
    assert (plan.pending or {})["plan_name"] == "Starter"
    admin.subscribe("acme", "Dedicated", on_free_trial=True)
    assert hourly()[:2] == ("Dedicated", "trial")
    admin.subscribe("acme", None)
    assert hourly()[:2] == ("Dedicated", "cancelled")
    admin.change_installation_repositories(tenant, remove=["acme/more"])
    listed, complete = services.github.installation_repositories(tenant, 20)
    assert ([repo.name for repo in listed], complete) == (["shop"], True)
    assert place.admin.unexpected() == []
