"""The task ledger on both databases: one owner at a time, and every change is compare-and-set."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from coven.store import tasks
from coven.store.engine import Store
from coven.store.tables import tasks as table
from coven.store.tasks import Ending, Pulse
from coven.values import (
    LIVE_STATES,
    TERMINAL_STATES,
    Lane,
    RepoId,
    ResultStatus,
    TaskId,
    TaskState,
    new_task_id,
)
from tests.ledger import NOW, OTHER, REPO_ID, TENANT, look, new_task, put, take

TOKEN = "t" * 32
DONE = Ending(TaskState.COMPLETED, "succeeded", summary="s", result_status=ResultStatus.SUCCESS)
LATER = NOW + timedelta(hours=1)


def force(store: Store, task_id: TaskId, **values: Any) -> None:
    with store.write() as tx:
        tx.execute(update(table).where(table.c.id == task_id).values(**values))


def test_a_task_comes_back_as_it_was_written(store: Store) -> None:
    new = new_task(
        payload={"body": "ünï\n", "line": 3},
        trust_evidence={"source": "permission", "role": None},
        actor_id=2**53,
        repo_private=True,
        not_before=LATER,
        title="x" * 5000,
    )
    with store.write() as tx:
        assert tasks.insert_new(TENANT, tx, new)
    found = look(store, new.id)
    for name in type(new).__dataclass_fields__:
        assert getattr(found, name) == getattr(new, name), name
    assert (found.round, found.attempts_used, found.lease_token) == (1, 0, None)
    assert found.updated_at == NOW
    assert found.generation == found.seq * 1000 + 1


def test_a_live_semantic_key_is_held_by_one_task(store: Store) -> None:
    put(store, semantic_key="k")
    with store.write() as tx:
        assert not tasks.insert_new(TENANT, tx, new_task(semantic_key="k"))
        # The refusal must not have broken the transaction that it happened in.
        assert tasks.insert_new(TENANT, tx, new_task(semantic_key="other"))
    with store.read() as tx:
        assert tasks.live_with_key(TENANT, tx, "k") is not None
        assert tasks.live_with_key(OTHER, tx, "k") is None


@pytest.mark.parametrize("state", LIVE_STATES)
def test_every_live_state_holds_its_key(store: Store, state: TaskState) -> None:
    force(store, put(store, semantic_key="k"), state=state)
    with store.write() as tx:
        assert not tasks.insert_new(TENANT, tx, new_task(semantic_key="k"))


@pytest.mark.parametrize("state", TERMINAL_STATES)
def test_a_terminal_task_gives_its_key_back(store: Store, state: TaskState) -> None:
    force(store, put(store, semantic_key="k"), state=state)
    with store.write() as tx:
        assert tasks.insert_new(TENANT, tx, new_task(semantic_key="k"))


def test_a_task_can_not_be_written_into_another_installation(store: Store) -> None:
    with store.write() as tx, pytest.raises(ValueError, match="another installation"):
        tasks.insert_new(OTHER, tx, new_task())


def test_a_claim_uses_one_attempt_and_starts_a_lease(store: Store) -> None:
    task_id = put(store, not_before=NOW)
    claimed = take(store, task_id)
    assert claimed is not None
    assert claimed == look(store, task_id)
    assert (claimed.state, claimed.attempts_used) == (TaskState.RUNNING, 1)
    assert claimed.lease_expires_at == NOW + timedelta(seconds=60)
    assert (claimed.started_at, claimed.not_before) == (NOW, None)


@pytest.mark.parametrize(
    "values",
    [
        {"state": TaskState.RUNNING},
        {"state": TaskState.WAITING},
        *({"state": state} for state in TERMINAL_STATES),
        {"cancel_requested_at": NOW},
        {"attempts_used": 3},
        {"not_before": NOW + timedelta(microseconds=1)},
        {"installation_id": OTHER},
    ],
)
def test_what_may_not_run_is_not_claimed(store: Store, values: dict[str, Any]) -> None:
    task_id = put(store)
    force(store, task_id, **values)
    before = look(store, task_id)
    assert take(store, task_id) is None
    assert look(store, task_id) == before


def test_the_first_start_is_remembered_over_attempts(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    with store.write() as tx:
        tasks.requeue(TENANT, tx, task_id, TOKEN, NOW, None, "again")
    again = take(store, task_id, "u" * 32, NOW + timedelta(minutes=5))
    assert again is not None
    assert (again.started_at, again.attempts_used) == (NOW, 2)


def test_a_limit_counts_the_running_tasks_of_the_installation_only(store: Store) -> None:
    first, second = put(store), put(store)
    foreign = put(store, installation_id=OTHER)
    with store.write() as tx:
        assert tasks.claim(OTHER, tx, foreign, TOKEN, NOW, 60, 1) is not None
    assert take(store, first, max_concurrent=1) is not None
    assert take(store, second, max_concurrent=1) is None
    assert take(store, second, max_concurrent=2) is not None


def test_an_answer_that_is_being_given_is_no_session(store: Store) -> None:
    answer, session = put(store, lane=Lane.CONTROL, verb="status"), put(store)
    assert take(store, answer) is not None
    assert take(store, session, max_concurrent=1) is not None


def test_a_heartbeat_prolongs_the_lease_and_brings_the_wish_to_stop(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    later = NOW + timedelta(seconds=30)
    with store.write() as tx:
        assert tasks.heartbeat(TENANT, tx, task_id, TOKEN, later, 60) == Pulse(True, None)
    assert look(store, task_id).lease_expires_at == later + timedelta(seconds=60)
    with store.write() as tx:
        assert tasks.request_cancel(TENANT, tx, task_id, later, "cancelled: by ann") is not None
        assert tasks.request_cancel(TENANT, tx, task_id, later, "superseded") is None
        beat = tasks.heartbeat(TENANT, tx, task_id, TOKEN, later, 60)
    assert beat == Pulse(True, "cancelled: by ann")


def test_a_worker_that_lost_its_lease_changes_nothing(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    with store.write() as tx:
        tasks.requeue(TENANT, tx, task_id, TOKEN, NOW, None, "reaped")
    take(store, task_id, "u" * 32)
    before = look(store, task_id)
    with store.write() as tx:
        assert not tasks.heartbeat(TENANT, tx, task_id, TOKEN, LATER, 60).alive
        assert tasks.amend(TENANT, tx, task_id, TOKEN, LATER, head_sha="f" * 40) is None
        assert tasks.requeue(TENANT, tx, task_id, TOKEN, LATER, None, None) is None
        assert tasks.finish(TENANT, tx, task_id, TOKEN, LATER, DONE) is None
        assert tasks.wait(TENANT, tx, task_id, TOKEN, LATER, "answer", LATER) is None
        assert tasks.seize(TENANT, tx, task_id, TOKEN, "v" * 32, LATER, 60) is None
    assert look(store, task_id) == before


def test_another_installation_changes_nothing_even_with_the_token(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    before = look(store, task_id)
    with store.write() as tx:
        assert tasks.get(OTHER, tx, task_id) is None
        assert not tasks.heartbeat(OTHER, tx, task_id, TOKEN, LATER, 60).alive
        assert tasks.finish(OTHER, tx, task_id, TOKEN, LATER, DONE) is None
        assert tasks.request_cancel(OTHER, tx, task_id, LATER, "x") is None
        assert tasks.settle_idle(OTHER, tx, task_id, LATER, DONE) is None
        assert tasks.recent(OTHER, tx) == []
        assert tasks.on_thread(OTHER, tx, REPO_ID, 3) == []
    assert look(store, task_id) == before


def test_finishing_releases_and_keeps_what_came_of_it(store: Store) -> None:
    task_id = put(store, expires_at=LATER)
    take(store, task_id)
    end = Ending(
        TaskState.COMPLETED,
        "succeeded",
        summary="fine",
        detail="d",
        result_status=ResultStatus.PARTIAL,
        branch="cody/fix-1",
        pr_number=9,
        result={"findings": [{"line": 1}]},
    )
    with store.write() as tx:
        ended = tasks.finish(TENANT, tx, task_id, TOKEN, LATER, end)
        assert tasks.finish(TENANT, tx, task_id, TOKEN, LATER, end) is None
    assert ended == look(store, task_id)
    assert ended is not None
    assert (ended.lease_token, ended.lease_expires_at, ended.expires_at) == (None, None, None)
    assert (ended.finished_at, ended.result_status) == (LATER, ResultStatus.PARTIAL)
    assert ended.result == {"findings": [{"line": 1}]}


@pytest.mark.parametrize("state", LIVE_STATES)
def test_a_running_task_only_finishes_in_a_terminal_state(store: Store, state: TaskState) -> None:
    with store.write() as tx, pytest.raises(ValueError, match="terminal"):
        tasks.finish(TENANT, tx, new_task_id(), TOKEN, NOW, Ending(state, "x"))


def test_an_attempt_that_was_not_the_works_fault_is_given_back(store: Store) -> None:
    task_id = put(store, max_attempts=1)
    take(store, task_id)
    with store.write() as tx:
        tasks.requeue(TENANT, tx, task_id, TOKEN, NOW, LATER, "rate limit", give_back_attempt=True)
    assert look(store, task_id).attempts_used == 0
    assert take(store, task_id) is None
    assert take(store, task_id, now=LATER) is not None


def test_waiting_ends_in_the_next_round_with_a_fresh_budget(store: Store) -> None:
    task_id = put(store, max_attempts=1)
    take(store, task_id)
    with store.write() as tx:
        tasks.request_cancel(TENANT, tx, task_id, NOW, "late wish")
        waiting = tasks.wait(TENANT, tx, task_id, TOKEN, NOW, "answer", LATER, summary="why?")
    assert waiting is not None
    assert (waiting.state, waiting.waiting_for, waiting.summary) == ("waiting", "answer", "why?")
    assert (waiting.lease_token, waiting.expires_at) == (None, LATER)
    with store.write() as tx:
        resumed = tasks.resume(TENANT, tx, task_id, NOW, reason="approved")
        assert tasks.resume(TENANT, tx, task_id, NOW) is None
    assert resumed is not None
    assert (resumed.round, resumed.attempts_used, resumed.reason) == (2, 0, "approved")
    assert (resumed.expires_at, resumed.waiting_for) == (None, None)
    assert resumed.generation > waiting.generation
    assert take(store, task_id) is not None


def test_a_failed_task_is_revived_once(store: Store) -> None:
    task_id = put(store, max_attempts=1)
    take(store, task_id)
    with store.write() as tx:
        tasks.finish(TENANT, tx, task_id, TOKEN, NOW, Ending(TaskState.FAILED, "infra"))
        revived = tasks.revive_failed(TENANT, tx, task_id, LATER)
        assert tasks.revive_failed(TENANT, tx, task_id, LATER) is None
    assert revived is not None
    assert (revived.state, revived.round, revived.outcome) == (TaskState.QUEUED, 2, None)
    assert take(store, task_id) is not None


@pytest.mark.parametrize("state", [s for s in TaskState if s is not TaskState.FAILED])
def test_only_failed_tasks_are_revived(store: Store, state: TaskState) -> None:
    task_id = put(store)
    force(store, task_id, state=state)
    with store.write() as tx:
        assert tasks.revive_failed(TENANT, tx, task_id, NOW) is None


def test_a_failed_task_is_not_revived_beside_its_successor(store: Store) -> None:
    failed = put(store, semantic_key="k")
    force(store, failed, state=TaskState.FAILED)
    put(store, semantic_key="k")
    with store.write() as tx:
        assert tasks.revive_failed(TENANT, tx, failed, NOW) is None
        assert tasks.get(TENANT, tx, failed) is not None  # the transaction still works


@pytest.mark.parametrize("state", list(TaskState))
def test_idle_tasks_are_settled_and_others_are_left_alone(store: Store, state: TaskState) -> None:
    task_id = put(store)
    force(store, task_id, state=state)
    by = new_task_id()
    with store.write() as tx:
        ended = tasks.settle_idle(
            TENANT, tx, task_id, NOW, Ending(TaskState.SUPERSEDED, "superseded"), by
        )
    assert (ended is not None) is (state in {TaskState.QUEUED, TaskState.WAITING})
    if ended is not None:
        assert (ended.superseded_by, ended.state) == (by, TaskState.SUPERSEDED)


@pytest.mark.parametrize("state", [s for s in TaskState if s is not TaskState.RUNNING])
def test_only_running_tasks_are_asked_to_stop(store: Store, state: TaskState) -> None:
    task_id = put(store)
    force(store, task_id, state=state)
    with store.write() as tx:
        assert tasks.request_cancel(TENANT, tx, task_id, NOW, "x") is None


def test_a_lease_is_seized_only_when_it_is_over(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    on_time = NOW + timedelta(seconds=60)
    with store.write() as tx:
        assert tasks.seize(TENANT, tx, task_id, TOKEN, "v" * 32, on_time, 60) is None
        late = on_time + timedelta(seconds=1)
        seized = tasks.seize(TENANT, tx, task_id, TOKEN, "v" * 32, late, 60)
        assert not tasks.heartbeat(TENANT, tx, task_id, TOKEN, late, 60).alive
    assert seized is not None
    assert seized.lease_token == "v" * 32


def test_older_automatic_reviews_of_the_same_pull_request_are_found(store: Store) -> None:
    def review(**changes: Any) -> TaskId:
        return put(
            store, **({"automatic": True, "source_at": NOW - timedelta(minutes=1)} | changes)
        )

    older = review()
    same_time = review(source_at=NOW)
    review(source_at=LATER)
    review(automatic=False)
    review(thread=4)
    review(familiar_id="nova")
    review(repo_id=RepoId(8))
    review(lane=Lane.FIX)
    review(installation_id=OTHER)
    force(store, review(), state=TaskState.COMPLETED)
    with store.read() as tx:
        found = tasks.older_automatic_reviews(TENANT, tx, REPO_ID, 3, "cody", NOW)
        newest = tasks.newest_head_at(TENANT, tx, REPO_ID, 3)
    assert [task.id for task in found] == [older, same_time]
    assert newest == LATER


def test_the_newest_automatic_review_of_a_head_is_found_in_any_state(store: Store) -> None:
    put(store, semantic_key="k", head_sha="a" * 40, state=TaskState.COMPLETED)
    second = put(store, semantic_key="k", head_sha="a" * 40, state=TaskState.FAILED)
    put(store, semantic_key="k", head_sha="b" * 40)
    with store.read() as tx:
        found = tasks.automatic_review_of(TENANT, tx, "k", "a" * 40)
        assert tasks.automatic_review_of(OTHER, tx, "k", "a" * 40) is None
    assert found is not None
    assert found.id == second


def test_lists_are_newest_first_and_bounded(store: Store) -> None:
    ids = [put(store, created_at=NOW + timedelta(seconds=n)) for n in range(5)]
    with store.read() as tx:
        assert [t.id for t in tasks.recent(TENANT, tx, 3)] == ids[:1:-1]
        assert [t.id for t in tasks.on_thread(TENANT, tx, REPO_ID, 3, 2)] == ids[:2:-1]


@pytest.mark.parametrize("field", ["source_at", "created_at", "not_before"])
def test_naive_times_are_refused_as_a_bad_value_not_an_outage(store: Store, field: str) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="naive"), store.write() as tx:
        tasks.insert_new(TENANT, tx, new_task(**{field: naive}))
    with store.read() as tx:
        assert tasks.recent(TENANT, tx) == []


def test_texts_no_database_can_hold_do_not_lose_the_row(store: Store) -> None:
    bad = "a\x00b\ud800c"
    task_id = put(store, title=bad, payload={"body": bad, "n": float("nan")}, head_ref=bad)
    take(store, task_id)
    with store.write() as tx:
        end = Ending(TaskState.FAILED, "infra", summary=bad, detail=bad, result={bad: [bad]})
        tasks.finish(TENANT, tx, task_id, TOKEN, NOW, end)
    ended = look(store, task_id)
    clean = "a\ufffdb\ufffdc"
    assert (ended.title, ended.summary, ended.head_ref) == (clean, clean, clean)
    assert ended.payload == {"body": clean, "n": None}
    assert ended.result == {clean: [clean]}


def test_a_fork_is_a_head_elsewhere_or_nowhere(store: Store) -> None:
    def of(**changes: Any) -> bool:
        return look(store, put(store, head_sha="a" * 40, **changes)).from_fork

    assert of(head_repo_id=8)
    assert of(head_repo_id=None)
    assert not of(head_repo_id=REPO_ID)
    assert not of(head_repo_id=None, is_pull=False)
