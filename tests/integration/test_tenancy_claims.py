"""Turns and limits, with many workers that claim at once, on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import DBAPIError

from coven.errors import StoreUnavailable
from coven.settings.models import Settings
from coven.store import attempts, installations, plans, tasks, turns, usage
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store
from coven.store.tables_tenancy import usage as usage_table
from coven.store.tasks import Ending, Task
from coven.tenancy.facts import (
    Account,
    InstallationRemoved,
    InstallationSeen,
    PlanChanged,
    Purchase,
)
from coven.tenancy.policy import allowance
from coven.values import InstallationId, Lane, RepoId, TaskState, new_token
from tests.ledger import NOW, new_task

CLAIMERS = 8


def fill(store: Store, counts: dict[int, int], **changes: Any) -> None:
    with store.write() as tx:
        for tenant, count in counts.items():
            for _ in range(count):
                new = new_task(installation_id=InstallationId(tenant), **changes)
                assert tasks.insert_new(new.installation_id, tx, new)


def settings(**config: Any) -> Settings:
    return Settings.model_validate(config)


def claim(store: Store, config: Settings | None = None, now: Any = NOW) -> Task | None:
    chosen = config or settings()
    with store.write() as tx:
        task = turns.claim_next(
            tx,
            lambda tenant, state, plan: allowance(chosen, tenant, state, plan, now),
            new_token(),
            now,
            60,
        )
        if task is not None:
            attempts.start(task.installation_id, tx, task, "w", now)
    return task


def end(store: Store, task: Task, now: Any = NOW) -> None:
    assert task.lease_token is not None
    with store.write() as tx:
        ending = Ending(TaskState.COMPLETED, "succeeded")
        assert tasks.finish(task.installation_id, tx, task.id, task.lease_token, now, ending)
        attempts.finish(task.installation_id, tx, task.id, task.lease_token, now, AttemptEnd("ok"))


def together(work: Callable[[int], Any], count: int = CLAIMERS) -> list[Any]:
    start = threading.Barrier(count)

    def one(number: int) -> Any:
        start.wait(20)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def order(store: Store, count: int, config: Settings | None = None) -> list[int]:
    """The tenants that are served by one worker after the other."""
    served = []
    for number in range(count):
        now = NOW + timedelta(seconds=number)
        task = claim(store, config, now)
        assert task is not None
        served.append(int(task.installation_id))
        end(store, task, now)
    return served


def test_a_tenant_with_500_tasks_delays_another_by_one_turn(store: Store) -> None:
    fill(store, {1: 500})
    assert order(store, 3) == [1, 1, 1]
    fill(store, {2: 3})
    served = order(store, 8)
    assert served[0] == 2 or served[:2] == [1, 2]
    assert Counter(served[:6]) == {1: 3, 2: 3}
    assert served[6:] == [1, 1]


def test_an_idle_tenant_has_saved_nothing_up(store: Store) -> None:
    fill(store, {1: 1, 2: 60})
    order(store, 40)
    fill(store, {1: 20})
    assert Counter(order(store, 11)) == {1: 6, 2: 5}  # the first turn is its own


def test_urgent_work_of_one_tenant_never_starves_another(store: Store) -> None:
    fill(store, {1: 30}, priority=10)
    fill(store, {2: 5}, priority=-10)
    assert Counter(order(store, 10)) == {1: 5, 2: 5}


def test_weights_share_the_workers(store: Store) -> None:
    fill(store, {1: 40, 2: 40})
    config = settings(installations=[{"id": 2, "limits": {"weight": 3}}])
    assert Counter(order(store, 20, config)) == {1: 5, 2: 15}


def test_within_a_tenant_the_priority_decides_and_rises_with_waiting(store: Store) -> None:
    early = NOW - timedelta(minutes=11)
    fill(store, {1: 1}, priority=0, created_at=early, verb="old")
    fill(store, {1: 1}, priority=10, verb="asked")
    fill(store, {1: 1}, priority=0, verb="new")
    served = []
    for _ in range(3):
        task = claim(store)
        assert task is not None
        served.append(task.verb)
    assert served == ["old", "asked", "new"]


def test_answers_without_a_session_wait_for_no_turn_and_count_nowhere(store: Store) -> None:
    fill(store, {1: 1}, lane=Lane.CONTROL)
    assert claim(store) is None
    with store.read() as tx:
        assert usage.used(InstallationId(1), tx, NOW).tasks_today == 0


@pytest.mark.parametrize(
    ("limits", "repos", "wanted"),
    [
        ({"max_concurrent": 2}, 1, 2),
        ({"max_concurrent_per_repo": 1}, 3, 3),
        ({"max_tasks_per_day": 5}, 1, 5),
        ({"max_concurrent": 3, "max_concurrent_per_repo": 2}, 2, 3),
    ],
)
def test_limits_hold_under_eight_claimers(
    store: Store, limits: dict[str, int], repos: int, wanted: int
) -> None:
    with store.write() as tx:
        for number in range(16):
            new = new_task(installation_id=InstallationId(1), repo_id=RepoId(7 + number % repos))
            assert tasks.insert_new(new.installation_id, tx, new)
    config = settings(limits=limits)
    taken = [task for _ in range(2) for task in together(lambda _: claim(store, config)) if task]
    assert len(taken) == wanted
    assert len({task.id for task in taken}) == wanted


def test_eight_claimers_serve_everybody_in_turn_and_nothing_twice(store: Store) -> None:
    fill(store, {1: 60, 2: 8, 3: 8, 4: 8})
    taken = []
    lock = threading.Lock()

    def work(_: int) -> None:
        for _ in range(4):
            task = claim(store)
            assert task is not None
            with lock:
                taken.append(task)
            end(store, task)

    together(work)
    assert len({task.id for task in taken}) == len(taken) == 32
    # The claims are one after the other; whoever noted its own late changes the order a little.
    for tenant in (2, 3, 4):
        assert sum(task.installation_id == tenant for task in taken) == 8
    with store.read() as tx:
        for tenant in (1, 2, 3, 4):
            assert usage.used(InstallationId(tenant), tx, NOW).tasks_today == 8


def test_the_day_and_the_month_reset(store: Store) -> None:
    fill(store, {1: 6})
    config = settings(limits={"max_tasks_per_day": 2, "max_minutes_per_month": 30})
    assert order(store, 2, config) == [1, 1]
    assert claim(store, config) is None
    tomorrow = NOW + timedelta(days=1)
    task = claim(store, config, tomorrow)
    assert task is not None
    # It runs: its minutes so far count already.
    assert claim(store, config, tomorrow + timedelta(minutes=31)) is None
    end(store, task, tomorrow + timedelta(minutes=31))
    assert claim(store, config, tomorrow + timedelta(days=1)) is None
    assert claim(store, config, NOW + timedelta(days=31)) is not None


def test_a_second_attempt_is_no_second_task_but_its_time_counts(store: Store) -> None:
    fill(store, {1: 1})
    for number in range(2):
        now = NOW + timedelta(minutes=10 * number)
        task = claim(store, None, now)
        assert task is not None
        assert task.lease_token is not None
        later = now + timedelta(minutes=5)
        with store.write() as tx:
            assert tasks.requeue(
                task.installation_id, tx, task.id, task.lease_token, later, None, "again"
            )
            attempts.finish(
                task.installation_id, tx, task.id, task.lease_token, later, AttemptEnd("lost")
            )
    with store.read() as tx:
        used = usage.used(InstallationId(1), tx, NOW)
        (line,) = usage.lines(InstallationId(1), tx, "2026-01-01")
    assert (used.tasks_today, used.seconds_this_month) == (1, 600)
    assert (line.tasks, line.attempts, line.seconds, line.familiar_id) == (1, 2, 600, "cody")


@pytest.mark.parametrize("how", ["update", "delete"])
def test_the_database_keeps_usage_append_only(store: Store, how: str) -> None:
    fill(store, {1: 1})
    assert claim(store) is not None
    change: Any = delete(usage_table) if how == "delete" else update(usage_table).values(amount=0)
    with pytest.raises((StoreUnavailable, DBAPIError), match="append-only"), store.write() as tx:
        tx.execute(change)
    with store.read() as tx:
        assert tx.execute(select(usage_table.c.amount)).scalar_one() == 1


def test_a_tenant_that_is_suspended_or_gone_or_without_a_plan_gets_no_turn(store: Store) -> None:
    fill(store, {1: 1, 2: 1, 3: 1, 4: 1})
    account = Account(7, "octo", "Organization")
    with store.write() as tx:
        installations.learn(InstallationId(1), tx, InstallationRemoved(account, NOW), NOW)
        installations.learn(InstallationId(3), tx, InstallationSeen(account, NOW, True), NOW)
        bought = Purchase(1, "Team", 1, None, False, None, None)
        plans.learn(tx, PlanChanged("purchased", account, bought, None, NOW), NOW)
    config = settings(billing={"require_plan": True}, installations=[{"id": 4}])
    served = [claim(store, config), claim(store, config), claim(store, config)]
    assert sorted(int(task.installation_id) for task in served if task) == [3, 4]


def test_a_claim_names_its_tenants_by_an_index(store: Store) -> None:
    fill(store, {1: 3, 2: 3})
    with store.read() as tx:
        if tx.dialect.name == "sqlite":
            rows = tx.execute(text(f"EXPLAIN QUERY PLAN {turns.WAITING.text}")).all()
            assert "ix_tasks_queue" in str(rows)
        assert [int(t) for (t,) in tx.execute(turns.WAITING)] == [1, 2]
