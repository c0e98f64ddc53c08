"""What is known of tenants, what is told about limits, what a purge leaves; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from coven.bell import SilentBell
from coven.clock import ManualClock
from coven.errors import GitHubNotFound, GitHubUnavailable, StoreUnavailable
from coven.github.factory import GitHub
from coven.github.models import InstallationInfo, PurchaseInfo, Repository
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.store import attempts, deliveries, installations, plans, purges, surfaces, tasks
from coven.store import usage as usage_ledger
from coven.store.engine import Store
from coven.store.tables import attempts as attempt_table
from coven.store.tables import surfaces as surface_table
from coven.store.tables import tasks as task_table
from coven.tenancy import plans as policy
from coven.tenancy.facts import (
    Account,
    AccountRenamed,
    AccountSeen,
    InstallationFact,
    InstallationRemoved,
    InstallationSeen,
    InstallationSuspended,
    PlanChanged,
    Purchase,
    Repo,
    RepositoriesSelected,
    RepositoryChanged,
    RepositoryDeleted,
)
from coven.values import DeliveryId, InstallationId, RepoId, SurfaceKind, TaskState, new_token
from tests.ledger import NOW, OTHER, REPO_ID, TENANT, look, new_task, put, received
from worker import limits, upkeep
from worker.claim import claim_next
from worker.purge import forget_gone, purge_due
from worker.reconcile import reconcile

OCTO = Account(7, "octo", "Organization")
HOUR = timedelta(hours=1)
HEAD = "a" * 40


@dataclass
class GitHubDouble:
    """Says what is installed and bought."""

    installed: dict[int, InstallationInfo] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    """Missing in the list, though they are there."""
    bought: dict[int, PurchaseInfo] = field(default_factory=dict)

    def list_installations(self) -> Iterator[InstallationInfo]:
        yield from (info for number, info in self.installed.items() if number not in self.hidden)

    def installation(self, number: int) -> InstallationInfo:
        if number not in self.installed:
            raise GitHubNotFound("gone", status=404)
        return self.installed[number]

    listed: dict[int, tuple[list[Repository], bool]] = field(default_factory=dict)

    def installation_repositories(self, number: int, most: int) -> tuple[list[Repository], bool]:
        if number not in self.listed:
            raise GitHubUnavailable("busy", status=502)
        return self.listed[number]

    def purchase(self, account: int) -> PurchaseInfo:
        if account not in self.bought:
            raise GitHubNotFound("no plan", status=404)
        return self.bought[account]


@pytest.fixture
def hub() -> GitHubDouble:
    return GitHubDouble()


@pytest.fixture
def services(store: Store, hub: GitHubDouble, tmp_path: Path) -> Services:
    return make(store, hub, tmp_path)


def make(store: Store, hub: GitHubDouble, folder: Path, **config: Any) -> Services:
    familiar = {"id": "cody", "display_name": "Cody", "bot_username": "cody[bot]"}
    values = {"server": {"state_dir": folder}, "familiars": [familiar]} | config
    return Services(
        settings=Settings.model_validate(values),
        store=store,
        github=cast(GitHub, hub),
        clock=ManualClock(NOW),
        seam=Seam(),
        bell=SilentBell(),
        redactor=Redactor(),
        secret_key=b"k" * 32,
    )


def later(services: Services, **span: float) -> datetime:
    cast(ManualClock, services.clock).advance(timedelta(**span).total_seconds())
    return services.clock.now()


def learn(store: Store, *facts: InstallationFact, tenant: InstallationId = TENANT) -> None:
    for fact in facts:
        with store.write() as tx:
            installations.learn(tenant, tx, fact, NOW)


def state(store: Store, tenant: InstallationId = TENANT) -> str | None:
    with store.read() as tx:
        known = installations.get(tenant, tx)
    return known.state if known is not None else None


def count(store: Store, table: Any, tenant: InstallationId = TENANT) -> int:
    with store.read() as tx:
        query = select(func.count()).select_from(table).where(table.c.installation_id == tenant)
        return int(tx.execute(query).scalar_one())


# --- what events tell

EARLY, LATE = NOW - HOUR, NOW
SUSPENDED = InstallationSuspended(True, OCTO, LATE)
RESUMED = InstallationSuspended(False, OCTO, EARLY)
ORDERS: dict[str, tuple[tuple[InstallationFact, ...], str]] = {
    "created": ((InstallationSeen(OCTO, EARLY, created=True),), "active"),
    "suspended": ((InstallationSeen(OCTO, EARLY, created=True), SUSPENDED), "suspended"),
    "an older resumption changes nothing": ((SUSPENDED, RESUMED), "suspended"),
    "removed": ((InstallationRemoved(OCTO, LATE),), "deleted"),
    "a creation that arrives after the removal": (
        (InstallationRemoved(OCTO, LATE), InstallationSeen(OCTO, EARLY, created=True)),
        "deleted",
    ),
    "nothing comes after a removal": (
        (InstallationRemoved(OCTO, EARLY), InstallationSeen(OCTO, LATE, created=True), SUSPENDED),
        "deleted",
    ),
    "seen in any event": ((AccountSeen(OCTO, Repo(7, "octo/demo"), LATE),), "active"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_state_follows_payload_time(store: Store, name: str) -> None:
    facts, wanted = ORDERS[name]
    learn(store, *facts)
    assert state(store) == wanted


def test_an_older_name_never_overwrites_a_newer_one(store: Store) -> None:
    learn(
        store,
        AccountRenamed(Account(7, "new"), "old", LATE),
        AccountSeen(Account(7, "old"), Repo(7, "old/demo"), EARLY),
        RepositoryChanged("renamed", Repo(7, "new/demo2", private=True), None, LATE),
        RepositoryChanged("edited", Repo(7, "new/demo", private=False), None, EARLY),
        AccountSeen(Account(7, "whoever"), Repo(7, "who/ever"), None),
    )
    with store.read() as tx:
        known = installations.get(TENANT, tx)
        repo = installations.repository(TENANT, tx, RepoId(7))
    assert known is not None
    assert known.account_login == "new"
    assert repo is not None
    assert (repo.owner, repo.name, repo.private) == ("new", "demo2", True)


def test_repositories_come_and_go_by_payload_time(store: Store) -> None:
    added = RepositoriesSelected((Repo(7, "octo/demo"),), (), "selected", OCTO, EARLY)
    removed = RepositoriesSelected((), (Repo(7, "octo/demo"),), "selected", OCTO, LATE)
    for order in ((added, removed), (removed, added)):
        learn(store, *order)
        with store.read() as tx:
            (repo,) = installations.repositories(TENANT, tx)
        assert repo.state == "removed"
    back = RepositoriesSelected((Repo(7, "octo/demo"),), (), None, OCTO, LATE + HOUR)
    learn(store, back)
    with store.read() as tx:
        (repo,) = installations.repositories(TENANT, tx)
        (purge,) = purges.of(TENANT, tx)
    assert (repo.state, purge.state) == ("present", "withdrawn")
    learn(store, removed)  # delivered once more, and late
    with store.read() as tx:
        (repo,) = installations.repositories(TENANT, tx)
    assert repo.state == "present"


def test_a_transfer_to_somebody_else_takes_the_repository_away(store: Store) -> None:
    learn(
        store,
        InstallationSeen(OCTO, EARLY, created=True, repos=(Repo(7, "octo/demo"),)),
        RepositoryChanged("transferred", Repo(7, "hub/demo"), Account(8, "hub"), LATE, None, OCTO),
    )
    with store.read() as tx:
        (repo,) = installations.repositories(TENANT, tx)
    assert (repo.state, repo.owner) == ("removed", "hub")


def test_a_purchase_reaches_the_installation_through_its_account(store: Store) -> None:
    learn(store, InstallationSeen(OCTO, EARLY, created=True))
    bought = Purchase(3, "Team", 1, "monthly", False, None, None)
    with store.write() as tx:
        assert plans.learn(tx, PlanChanged("purchased", OCTO, bought, None, EARLY), NOW)
        assert not plans.learn(tx, PlanChanged("changed", OCTO, bought, None, EARLY - HOUR), NOW)
        assert plans.learn(tx, PlanChanged("cancelled", OCTO, bought, None, LATE), NOW)
        assert not plans.learn(tx, PlanChanged("changed", OCTO, bought, None, EARLY), NOW)
        plan = plans.of_installation(TENANT, tx)
    assert plan is not None
    assert plan.state == "cancelled"


# --- what GitHub says when it is asked


def info(number: int, **changes: Any) -> InstallationInfo:
    values: dict[str, Any] = {
        "id": number,
        "account_id": 7,
        "account_login": "octo",
        "account_type": "Organization",
        "selection": "all",
        "permissions": {"metadata": "read"},
        "events": ("push",),
        "suspended": False,
        "updated_at": EARLY,
    }
    return InstallationInfo(**(values | changes))


def test_reconciliation_learns_what_no_event_told(services: Services, hub: GitHubDouble) -> None:
    learn(services.store, InstallationSeen(OCTO, EARLY, created=True), tenant=OTHER)
    learn(services.store, InstallationSeen(OCTO, EARLY, created=True), tenant=InstallationId(43))
    hub.installed = {41: info(41), 42: info(42, suspended=True), 43: info(43)}
    hub.hidden = {43}  # the list is not to be believed alone
    later(services, minutes=1)
    reconcile(services)
    found = [state(services.store, InstallationId(n)) for n in (41, 42, 43)]
    assert found == ["active", "suspended", "active"]
    del hub.installed[43]
    later(services, hours=1)
    reconcile(services)
    assert state(services.store, InstallationId(43)) == "deleted"
    with services.store.read() as tx:
        (purge,) = purges.of(InstallationId(43), tx)
    assert purge.state == "pending"


def listing(*ids: int) -> list[Repository]:
    return [
        Repository(RepoId(n), "octo", f"repo{n}", "main", False, "public", False, 7, "octo")
        for n in ids
    ]


def test_reconciliation_learns_repositories(services: Services, hub: GitHubDouble) -> None:
    learn(services.store, InstallationSeen(OCTO, EARLY, created=True, repos=(Repo(8), Repo(9))))
    hub.installed = {TENANT: info(TENANT)}

    def states() -> dict[int, str]:
        with services.store.read() as tx:
            return {r.repo_id: r.state for r in installations.repositories(TENANT, tx)}

    def hourly(*ids: int, complete: bool) -> dict[int, str]:
        hub.listed = {TENANT: (listing(*ids), complete)}
        later(services, hours=1)
        reconcile(services)
        return states()

    gone = {7: "present", 8: "removed", 9: "present"}
    assert hourly(7, 9, complete=False) == gone | {8: "present"}  # not all of them were read
    assert hourly(7, 9, complete=True) == gone
    with services.store.read() as tx:
        (purge,) = purges.of(TENANT, tx)
    assert purge.steps == {purges.KEEP_ROWS: True}  # it may come back, and does
    assert hourly(7, 8, 9, complete=True) == gone | {8: "present"}
    hub.listed = {}
    later(services, hours=1)
    reconcile(services)  # GitHub does not answer: nothing is gone for that
    assert states() == gone | {8: "present"}
    # Added while the list was made: the event knows better.
    asked = services.clock.now()
    with services.store.write() as tx:
        added = RepositoriesSelected((Repo(5, "octo/five"),), (), "selected", OCTO, asked)
        installations.learn(TENANT, tx, added, asked)
        installations.listed(TENANT, tx, [], True, asked - timedelta(minutes=1), asked)
    assert states()[5] == "present"


def test_a_clock_that_is_ahead_of_github_hides_no_event(
    services: Services, hub: GitHubDouble
) -> None:
    hub.installed = {TENANT: info(TENANT)}
    ahead = later(services, seconds=40)
    reconcile(services)
    learn(services.store, InstallationSuspended(True, OCTO, ahead - timedelta(seconds=30)))
    assert state(services.store) == "suspended"


def test_reconciliation_corrects_plans(services: Services, hub: GitHubDouble) -> None:
    bought = Purchase(3, "Team", 1, "monthly", False, None, None)
    with services.store.write() as tx:
        plans.learn(tx, PlanChanged("purchased", OCTO, bought, None, EARLY), NOW)
    hub.bought[7] = PurchaseInfo(
        7, "octo", "Organization", 4, "Dedicated", 1, True, NOW + HOUR, None, NOW
    )
    reconcile(services)
    with services.store.read() as tx:
        plan = plans.of_account(tx, 7)
    assert plan is not None
    assert (plan.state, plan.plan_name, plan.trial_ends_at) == ("trial", "Dedicated", NOW + HOUR)
    hub.bought.clear()
    later(services, hours=1)
    reconcile(services)
    with services.store.read() as tx:
        plan = plans.of_account(tx, 7)
    assert plan is not None
    assert plan.state == "cancelled"


def test_a_pending_change_whose_withdrawal_was_lost_does_not_happen(
    services: Services, hub: GitHubDouble
) -> None:
    team, starter = (
        Purchase(n, name, 1, "m", False, None, None) for n, name in ((3, "Team"), (4, "Starter"))
    )
    with services.store.write() as tx:
        plans.learn(tx, PlanChanged("purchased", OCTO, team, None, EARLY), NOW)
        assert plans.learn(tx, PlanChanged("pending_change", OCTO, starter, team, NOW + HOUR), NOW)
    hub.bought[7] = PurchaseInfo(7, "octo", "Organization", 3, "Team", 1, False, None, None, EARLY)
    later(services, hours=2)
    reconcile(services)
    with services.store.read() as tx:
        plan = plans.of_account(tx, 7)
    assert plan is not None
    assert policy.tier_of(policy.settled(plan, services.clock.now()).plan_name).name == "team"


def test_an_event_that_arrives_while_the_marketplace_answers_stands(services: Services) -> None:
    team = Purchase(3, "Team", 1, "m", False, None, None)
    asked_at = services.clock.now()
    then = later(services, seconds=1)
    with services.store.write() as tx:
        plans.learn(tx, PlanChanged("purchased", OCTO, team, None, asked_at), then)
        assert not plans.reconcile(tx, None, 7, asked_at, then)
        assert plans.reconcile(tx, None, 7, then, then)


# --- what is told about limits


def shown(services: Services, task_id: Any) -> dict[str, Any]:
    with services.store.read() as tx:
        return {s.kind.value: s.desired for s in surfaces.of_task(TENANT, tx, task_id)}


def limited(store: Store, folder: Path, **config: Any) -> Services:
    values = {"limits": {"max_tasks_per_day": 1}} | config
    return make(store, GitHubDouble(), folder, **values)


def test_work_over_a_limit_says_so_once_and_runs_after_the_reset(
    store: Store, tmp_path: Path
) -> None:
    services = limited(store, tmp_path)
    first, second = (put(store, head_sha=HEAD, thread=n) for n in (1, 2))
    assert claim_next(services, first, "w") is not None
    assert claim_next(services, second, "w") is None
    words = shown(services, second)
    assert words["check_run"]["title"] == "Over the limit until 2026-01-02 00:00 UTC"
    assert words["check_run"]["status"] == "queued"
    assert "all of its 1 session per day" in words["status_comment"]["body"]
    assert look(store, second).not_before == datetime(2026, 1, 2, tzinfo=NOW.tzinfo)
    rung = len(cast(SilentBell, services.bell).rung)
    limits.settle_all(services)
    upkeep.dispatch(services)
    assert len(cast(SilentBell, services.bell).rung) == rung  # nothing new to say or to wake
    later(services, hours=13)
    claimed = claim_next(services, second, "w")
    assert claimed is not None
    assert claimed[0].waiting_for is None


def test_work_over_a_limit_ends_where_the_operator_wants_that(store: Store, tmp_path: Path) -> None:
    services = limited(store, tmp_path, limits={"max_tasks_per_day": 1, "when_over": "end"})
    first, second = (put(store, head_sha=HEAD, thread=n) for n in (1, 2))
    assert claim_next(services, first, "w") is not None
    assert claim_next(services, second, "w") is None
    assert look(store, second).outcome == "over_limit"
    summary = shown(services, second)["check_run"]["summary"]
    assert "Write the command again after 2026-01-02 00:00 UTC" in summary


def test_a_raised_limit_releases_what_waits(store: Store, tmp_path: Path) -> None:
    services = limited(store, tmp_path)
    first, second = put(store, thread=1), put(store, thread=2)
    claim_next(services, first, "w")
    limits.settle_all(services)
    assert look(store, second).waiting_for == "limit:max_tasks_per_day"
    raised = limited(store, tmp_path, limits={"max_tasks_per_day": 2})
    limits.settle_all(raised)
    assert claim_next(raised, second, "w") is not None


def test_a_stranger_whose_work_is_over_a_limit_reads_nothing(store: Store, tmp_path: Path) -> None:
    services = limited(store, tmp_path)
    first = put(store, thread=1)
    unknown = put(store, thread=2, head_sha=HEAD, trust_evidence={"source": "unavailable"})
    claim_next(services, first, "w")
    limits.settle_all(services)
    assert look(store, unknown).waiting_for == "limit:max_tasks_per_day"
    assert shown(services, unknown) == {}


def test_without_a_plan_nothing_runs_and_it_is_said(store: Store, tmp_path: Path) -> None:
    services = make(store, GitHubDouble(), tmp_path, billing={"require_plan": True})
    task = put(store, head_sha=HEAD)
    assert claim_next(services, task, "w") is None
    assert look(store, task).outcome == "no_plan"
    assert "no active plan" in shown(services, task)["check_run"]["summary"]


# --- purges


def furnish(store: Store, tenant: InstallationId, running: bool = False) -> Any:
    """A tenant with something in every ledger; the id of its task."""
    new = new_task(installation_id=tenant, head_sha=HEAD)
    with store.write() as tx:
        assert tasks.insert_new(tenant, tx, new)
        task = tasks.claim(tenant, tx, new.id, "t" * 32, NOW, 600)
        assert task is not None
        attempts.start(tenant, tx, task, "w", NOW)
        surfaces.desire(
            tenant, tx, task, SurfaceKind.STATUS_COMMENT, f"thread:{tenant}:cody", {"a": 1}, NOW
        )
        if not running:
            ending = tasks.Ending(TaskState.COMPLETED, "succeeded")
            tasks.finish(tenant, tx, task.id, "t" * 32, NOW, ending)
            attempts.finish(tenant, tx, task.id, "t" * 32, NOW, attempts.AttemptEnd("ok"))
        deliveries.record(
            tx,
            received(
                id=DeliveryId(f"d-{tenant}"),
                installation_id=tenant,
                repo_id=7,
                repo_name="octo/demo",
                sender_login="mona",
                sender_id=2001,
            ),
        )
    return new.id


def mirror(services: Services, tenant: InstallationId) -> Path:
    folder: Path = services.settings.mirror_root / str(int(tenant)) / "7.git"
    folder.mkdir(parents=True)
    return folder


def test_a_purge_removes_everything_but_what_must_stay(services: Services) -> None:
    store = services.store
    for tenant in (TENANT, OTHER):
        furnish(store, tenant)
    mine, other = mirror(services, TENANT), mirror(services, OTHER)
    learn(store, InstallationRemoved(OCTO, NOW))
    purge_due(services)
    with store.read() as tx:
        (purge,) = purges.of(TENANT, tx)
        row = deliveries.find(tx, DeliveryId("d-41"))
        body = deliveries.body_of(TENANT, tx, DeliveryId("d-41"))
        used = usage_ledger.lines(TENANT, tx, "2026-01-01")
        known = installations.get(TENANT, tx)
    assert (purge.state, purge.steps["tasks"], purge.steps["surfaces"]) == ("done", 1, 1)
    for table in (task_table, attempt_table, surface_table):
        assert (count(store, table), count(store, table, OTHER)) == (0, 1)
    assert row is not None
    assert len(row.body_sha256) == 64
    assert (row.routing, row.sender_login, row.repo_name, body) == (
        "ignored:event",
        None,
        None,
        None,
    )
    assert row.sender_id is None
    assert [line.attempts for line in used] == [1]
    assert known is not None
    assert (known.state, known.account_login) == ("deleted", None)
    assert not mine.exists()
    assert other.exists()
    purge_due(services)  # nothing is left to do


def test_a_purge_waits_for_running_sessions_to_stop(services: Services) -> None:
    task = furnish(services.store, TENANT, running=True)
    learn(services.store, InstallationRemoved(OCTO, NOW))
    purge_due(services)
    running = look(services.store, task)
    assert running.state is TaskState.RUNNING
    assert running.cancel_requested_at is not None
    assert count(services.store, surface_table) == 1
    with services.store.write() as tx:
        ending = tasks.Ending(TaskState.CANCELLED, "stopped")
        assert tasks.finish(TENANT, tx, task, "t" * 32, NOW, ending)
    purge_due(services)  # not yet its time
    assert count(services.store, task_table) == 1
    later(services, seconds=5)
    purge_due(services)
    assert count(services.store, task_table) == 0


def test_a_purge_that_fails_is_tried_again_and_goes_on_where_it_was(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(services.store, TENANT)
    learn(services.store, InstallationRemoved(OCTO, NOW))
    real = purges.drop_tasks

    def broken(*_: Any) -> int:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(purges, "drop_tasks", broken)
    purge_due(services)
    with services.store.read() as tx:
        (purge,) = purges.of(TENANT, tx)
    assert (purge.state, purge.tries, purge.error) == ("pending", 1, "the disk is full")
    assert purge.steps["surfaces"] == 1
    assert purge.next_at == NOW + timedelta(seconds=30)
    monkeypatch.setattr(purges, "drop_tasks", real)
    later(services, seconds=30)
    purge_due(services)
    with services.store.read() as tx:
        (purge,) = purges.of(TENANT, tx)
    assert purge.state == "done"


def test_reinstalling_during_a_purge_touches_neither(services: Services) -> None:
    furnish(services.store, TENANT)
    learn(services.store, InstallationRemoved(OCTO, NOW))
    again = InstallationId(99)
    learn(services.store, InstallationSeen(OCTO, NOW, created=True), tenant=again)
    furnish(services.store, again)
    purge_due(services)
    assert count(services.store, task_table) == 0
    assert count(services.store, task_table, again) == 1
    assert state(services.store, again) == "active"


def test_what_comes_after_the_removal_is_purged_too(services: Services) -> None:
    learn(services.store, InstallationRemoved(OCTO, NOW))
    purge_due(services)
    late = put(services.store)
    assert claim_next(services, late, "w") is None
    assert look(services.store, late).state is TaskState.CANCELLED
    purge_due(services)
    assert count(services.store, task_table) == 0


def test_a_removed_repository_loses_its_mirror_and_a_deleted_one_everything(
    services: Services,
) -> None:
    furnish(services.store, TENANT)
    folder = mirror(services, TENANT)
    seen = InstallationSeen(OCTO, EARLY, created=True, repos=(Repo(REPO_ID, "octo/demo"),))
    removed = RepositoriesSelected((), (Repo(REPO_ID, "octo/demo"),), None, OCTO, NOW)
    learn(services.store, seen, removed)
    purge_due(services)
    assert not folder.exists()
    assert count(services.store, task_table) == 1
    learn(services.store, RepositoryDeleted(Repo(REPO_ID, "octo/demo"), OCTO, NOW))
    purge_due(services)
    assert count(services.store, task_table) == 0


def test_every_machine_forgets_its_own_mirrors(services: Services) -> None:
    mine, other = mirror(services, TENANT), mirror(services, OTHER)
    learn(services.store, InstallationRemoved(OCTO, NOW))
    assert forget_gone(services) == 1
    assert (mine.exists(), other.exists()) == (False, True)


# --- retention


def test_ended_tasks_go_after_their_days_unless_they_are_still_to_be_shown(
    store: Store, tmp_path: Path
) -> None:
    services = make(store, GitHubDouble(), tmp_path, storage={"task_retention_days": 5})
    unshown = furnish(store, TENANT)
    with store.write() as tx:
        for _ in range(3):
            new = new_task()
            tasks.insert_new(TENANT, tx, new)
            token = new_token()
            assert tasks.claim(TENANT, tx, new.id, token, NOW, 60)
            tasks.finish(TENANT, tx, new.id, token, NOW, tasks.Ending(TaskState.FAILED, "x"))
    live = put(store)
    later(services, days=4)
    upkeep.retain(services)
    assert count(store, task_table) == 5
    later(services, days=2)
    upkeep.retain(services)
    with store.read() as tx:
        assert {task.id for task in tasks.recent(TENANT, tx)} == {unshown, live}
