"""Each limit and ordering rule of the ledgers, changed in turn: some case must notice.

The pure rules have their own list (``tests/tenancy_mutations.py``). Here a module of the store is
changed in this process, and one named case is played on SQLite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from coven.store.engine import Store
from coven.tenancy import facts
from coven.values import InstallationId
from tests.integration import test_tenancy_claims as claims
from tests.integration import test_tenancy_ledgers as ledgers

Check = Callable[[Store, Path], None]


def played(test: Callable[..., None], *values: object) -> Check:
    return lambda store, _: test(store, *values)


def with_services(test: Callable[..., None]) -> Check:
    def check(store: Store, folder: Path) -> None:
        test(ledgers.make(store, ledgers.GitHubDouble(), folder))

    return check


def with_folder(test: Callable[..., None]) -> Check:
    return lambda store, folder: test(store, folder)


def state_rules(store: Store, _: Path) -> None:
    for number, (told, wanted) in enumerate(ledgers.ORDERS.values(), 500):
        tenant = InstallationId(number)
        ledgers.learn(store, *told, tenant=tenant)
        assert ledgers.state(store, tenant) == wanted


def deleted_is_final(store: Store, _: Path) -> None:
    repo = facts.Repo(7, "octo/demo")
    ledgers.learn(store, facts.RepositoryDeleted(repo, ledgers.OCTO, ledgers.EARLY))
    back = facts.RepositoriesSelected((repo,), (), None, ledgers.OCTO, ledgers.LATE)
    ledgers.learn(store, back)
    with store.read() as tx:
        (known,) = ledgers.installations.repositories(ledgers.TENANT, tx)
    assert known.state == "deleted"


LIMITS_DAY = played(claims.test_limits_hold_under_eight_claimers, {"max_tasks_per_day": 5}, 1, 5)
LIMITS_SLOTS = played(claims.test_limits_hold_under_eight_claimers, {"max_concurrent": 2}, 1, 2)
LIMITS_REPO = played(
    claims.test_limits_hold_under_eight_claimers, {"max_concurrent_per_repo": 1}, 3, 3
)


def backlog(store: Store, _: Path) -> None:
    claims.fill(store, {1: 12})
    claims.order(store, 3)
    claims.fill(store, {2: 3})
    assert Counter(claims.order(store, 6)) == {1: 3, 2: 3}


def idle(store: Store, _: Path) -> None:
    claims.fill(store, {1: 1, 2: 12})
    claims.order(store, 8)
    claims.fill(store, {1: 6})
    assert Counter(claims.order(store, 5)) == {1: 3, 2: 2}


def weighed(store: Store, _: Path) -> None:
    claims.fill(store, {1: 6, 2: 6})
    config = claims.settings(installations=[{"id": 2, "limits": {"weight": 3}}])
    assert Counter(claims.order(store, 8, config)) == {1: 2, 2: 6}


def each_its_own(store: Store, _: Path) -> None:
    claims.fill(store, {1: 1, 2: 1})
    claims.order(store, 2)
    with store.read() as tx:
        assert claims.usage.used(InstallationId(1), tx, claims.NOW).tasks_today == 1


RESET = played(claims.test_the_day_and_the_month_reset)
ATTEMPTS = played(claims.test_a_second_attempt_is_no_second_task_but_its_time_counts)
NAMES = played(ledgers.test_an_older_name_never_overwrites_a_newer_one)
REPOS = played(ledgers.test_repositories_come_and_go_by_payload_time)
PLAN = played(ledgers.test_a_purchase_reaches_the_installation_through_its_account)
ONCE = with_folder(ledgers.test_work_over_a_limit_says_so_once_and_runs_after_the_reset)
RAISED = with_folder(ledgers.test_a_raised_limit_releases_what_waits)
PURGE = with_services(ledgers.test_a_purge_removes_everything_but_what_must_stay)
WAITS = with_services(ledgers.test_a_purge_waits_for_running_sessions_to_stop)
KEEPS = with_services(
    ledgers.test_a_removed_repository_loses_its_mirror_and_a_deleted_one_everything
)
KEPT = with_folder(ledgers.test_ended_tasks_go_after_their_days_unless_they_are_still_to_be_shown)


class Mutation(NamedTuple):
    rule: str
    module: str
    old: str
    new: str
    check: Check


MUTATIONS = (
    Mutation(
        "older states win",
        "installations",
        '_older("state_at", at)) & (',
        "installations.c.id > 0) & (",
        state_rules,
    ),
    Mutation(
        "a removed installation comes back",
        "installations",
        "(installations.c.state != DELETED)\n",
        "(installations.c.id > 0)\n",
        state_rules,
    ),
    Mutation(
        "older accounts win",
        "installations",
        '_older("account_at", at)',
        "installations.c.id > 0",
        NAMES,
    ),
    Mutation(
        "older names of repositories win",
        "installations",
        "or_(table.c.facts_at.is_(None), table.c.facts_at <= then)",
        "table.c.repo_id > 0",
        NAMES,
    ),
    Mutation(
        "a fact without a time wins",
        "installations",
        "_LONG_AGO = datetime(1970",
        "_LONG_AGO = datetime(2970",
        NAMES,
    ),
    Mutation(
        "older selections win",
        "installations",
        "order = or_(table.c.state_at.is_(None), table.c.state_at <= then)",
        "order = table.c.repo_id > 0",
        REPOS,
    ),
    Mutation(
        "a repository that is back is purged",
        "installations",
        "if changed and state == PRESENT:",
        "if False:",
        REPOS,
    ),
    Mutation(
        "a deleted repository comes back",
        "installations",
        "            *here,\n            table.c.state != DELETED,",
        "            *here,",
        deleted_is_final,
    ),
    Mutation(
        "a removal leaves no purge",
        "installations",
        "    purges.request(installation, tx, reason, now)\n",
        "",
        PURGE,
    ),
    Mutation(
        "purchases reach everybody",
        "plans",
        ".where(installations.c.id == installation)\n    ).one_or_none()",
        ".where(installations.c.id > 0)\n    ).first()",
        lambda store, _: another_has_no_plan(store),
    ),
    Mutation(
        "no turn is noted",
        "turns",
        "    _served(tx, turn, start, fair.end_of(start, weight), now)\n",
        "",
        backlog,
    ),
    Mutation(
        "virtual time stands still",
        "turns",
        'values = {"started": start,',
        'values = {"started": 0,',
        idle,
    ),
    Mutation(
        "tasks are not counted",
        "turns",
        "    usage.task_begun(tenant, tx, task.id, now)\n",
        "",
        LIMITS_DAY,
    ),
    Mutation(
        "limits are not looked at",
        "turns",
        "is not None:\n                continue\n            head",
        "is Ellipsis:\n                continue\n            head",
        LIMITS_DAY,
    ),
    Mutation(
        "refusals are not looked at",
        "turns",
        "if allowed.refusal is not None or not",
        "if not",
        played(claims.test_a_tenant_that_is_suspended_or_gone_or_without_a_plan_gets_no_turn),
    ),
    Mutation(
        "slots are not looked at",
        "turns",
        "or not has_slot(allowed, sum(mine.values()))",
        "",
        LIMITS_SLOTS,
    ),
    Mutation(
        "repositories are not looked at", "turns", "    if full:\n", "    if False:\n", LIMITS_REPO
    ),
    Mutation(
        "answers take turns",
        "turns",
        "        task_table.c.lane != Lane.CONTROL,\n        task_table.c.cancel",
        "        task_table.c.cancel",
        played(claims.test_answers_without_a_session_wait_for_no_turn_and_count_nowhere),
    ),
    Mutation(
        "weights are forgotten",
        "turns",
        "weights[turn.installation_id] = allowed.weight",
        "weights[turn.installation_id] = 1",
        weighed,
    ),
    Mutation(
        "tasks count twice",
        "usage",
        "    if _known(tx, TASK, task_id, 0):\n        return False\n",
        "",
        ATTEMPTS,
    ),
    Mutation(
        "yesterday counts today",
        "usage",
        "usage.c.day == today(now)",
        "usage.c.day <= today(now)",
        RESET,
    ),
    Mutation(
        "last month counts", "usage", "usage.c.day >= month_start(now)", "usage.c.day >= ''", RESET
    ),
    Mutation("running sessions are free", "usage", "float(ended) + running", "float(ended)", RESET),
    Mutation(
        "another tenant's tasks count",
        "usage",
        "            usage.c.installation_id == installation,\n            usage.c.kind == TASK,",
        "            usage.c.kind == TASK,",
        each_its_own,
    ),
    Mutation(
        "attempts cost nothing",
        "attempts",
        "    if closed is not None:\n",
        "    if False:\n",
        ATTEMPTS,
    ),
    Mutation(
        "held work is due at once",
        "holds",
        "values(not_before=until,",
        "values(not_before=None,",
        ONCE,
    ),
    Mutation(
        "released work waits on",
        "holds",
        "not_before=None, waiting_for=None, dispatched_at=None, updated_at=now",
        "updated_at=now",
        RAISED,
    ),
    Mutation(
        "a purge waits for nobody",
        "purges",
        "    return int(tx.execute(running).scalar_one())",
        "    return 0",
        WAITS,
    ),
    Mutation(
        "a purge takes the neighbour's rows",
        "purges",
        "    mine = table.c.installation_id == installation\n",
        "    mine = table.c.installation_id > 0\n",
        PURGE,
    ),
    Mutation(
        "a purge keeps who sent deliveries",
        "purges",
        ", sender_id=None",
        "",
        PURGE,
    ),
    Mutation(
        "a removed repository loses its tasks",
        "purges",
        "steps = {} if whole else {KEEP_ROWS: True}",
        "steps: dict[str, Any] = {}",
        KEEPS,
    ),
    Mutation(
        "unpublished work is forgotten",
        "sweeps",
        "tasks.c.finished_at < before, ~pending.exists()",
        "tasks.c.finished_at < before",
        KEPT,
    ),
)


def another_has_no_plan(store: Store) -> None:
    ledgers.learn(store, facts.InstallationSeen(ledgers.OCTO, ledgers.EARLY, created=True))
    other = facts.Account(8, "hub")
    seen = facts.InstallationSeen(other, ledgers.EARLY, created=True)
    ledgers.learn(store, seen, tenant=ledgers.OTHER)
    bought = facts.Purchase(3, "Team", 1, None, False, None, None)
    change = facts.PlanChanged("purchased", ledgers.OCTO, bought, None, ledgers.EARLY)
    with store.write() as tx:
        assert ledgers.plans.learn(tx, change, ledgers.NOW)
        assert ledgers.plans.of_installation(ledgers.TENANT, tx) is not None
        assert ledgers.plans.of_installation(ledgers.OTHER, tx) is None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_changed_rule_breaks_its_case(
    mutation: Mutation, sqlite_store: Store, tmp_path: Path
) -> None:
    with changed(mutation), pytest.raises(Exception):  # noqa: B017 - any failure is notice
        mutation.check(sqlite_store, tmp_path)


@pytest.mark.parametrize(
    "check", [state_rules, deleted_is_final, backlog, idle, weighed, each_its_own]
)
def test_unchanged_the_case_holds(check: Check, sqlite_store: Store, tmp_path: Path) -> None:
    check(sqlite_store, tmp_path)


@contextmanager
def changed(mutation: Mutation) -> Iterator[None]:
    """The module with one rule changed, in this process."""
    module = import_module(f"coven.store.{mutation.module}")
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert source.count(mutation.old) == 1, "must stand there once"
    kept = dict(vars(module))
    try:
        text = source.replace(mutation.old, mutation.new)
        exec(compile(text, module.__file__, "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(kept)
