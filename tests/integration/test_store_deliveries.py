"""Deliveries, attempts, beats and sweeps on both databases."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from coven.store import attempts, beats, deliveries, surfaces, sweeps, tasks
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store
from coven.store.tasks import Ending
from coven.values import DeliveryId, SurfaceKind, TaskId, TaskState, new_task_id
from tests.ledger import NOW, OTHER, TENANT, look, put, received, take

TOKEN = "t" * 32
HOUR = timedelta(hours=1)


# --- deliveries


def test_a_delivery_is_recorded_once_with_its_body(store: Store) -> None:
    first = received(body=b"\x00\xff" * 1000, action="opened", sender_login="ann", repo_id=7)
    with store.write() as tx:
        assert deliveries.record(tx, first)
        assert not deliveries.record(tx, replace(first, routing="task:x"))
    with store.read() as tx:
        found = deliveries.find(tx, first.id)
        assert deliveries.body_of(TENANT, tx, first.id) == first.body
        assert deliveries.body_of(OTHER, tx, first.id) is None
    assert found is not None
    assert (found.routing, found.seen, found.received_at) == ("ignored:event", 1, NOW)
    assert found.body_sha256 == hashlib.sha256(first.body).hexdigest()


def test_long_and_unstorable_texts_of_a_delivery_are_bounded(store: Store) -> None:
    long = received(
        event="e" * 500,
        action="\x00" * 500,
        repo_name="n" * 900,
        sender_login="\ud800" * 500,
        routing="rejected:" + "r" * 900,
    )
    with store.write() as tx:
        assert deliveries.record(tx, long)
    with store.read() as tx:
        found = deliveries.find(tx, long.id)
    assert found is not None
    assert (len(found.event), len(found.routing)) == (80, 200)
    assert found.sender_login == "\ufffd" * 120


def test_a_known_delivery_is_routed_again_by_one_of_those_who_try(store: Store) -> None:
    task_id = new_task_id()
    again = received(routing=f"task:{task_id}", task_id=task_id, received_at=NOW + HOUR)
    with store.write() as tx:
        deliveries.record(tx, received())
        assert not deliveries.reroute(tx, again, "rejected:other")
        assert deliveries.reroute(tx, again, "ignored:event")
        assert not deliveries.reroute(tx, again, "ignored:event")
    with store.read() as tx:
        found = deliveries.find(tx, again.id)
    assert found is not None
    assert (found.task_id, found.seen) == (task_id, 2)
    assert (found.received_at, found.updated_at) == (NOW, NOW + HOUR)


def test_duplicates_are_counted(store: Store) -> None:
    with store.write() as tx:
        deliveries.record(tx, received())
        deliveries.count_duplicate(tx, DeliveryId("d-1"), NOW + HOUR)
        deliveries.count_duplicate(tx, DeliveryId("unknown"), NOW)
        found = deliveries.find(tx, DeliveryId("d-1"))
    assert found is not None
    assert (found.seen, found.updated_at) == (2, NOW + HOUR)


def test_deliveries_without_an_installation_belong_to_nobody(store: Store) -> None:
    with store.write() as tx:
        deliveries.record(tx, received(installation_id=None))
        deliveries.record(tx, received(id=DeliveryId("d-2")))
        assert [d.id for d in deliveries.recent(TENANT, tx)] == ["d-2"]
        assert deliveries.recent(OTHER, tx) == []


# --- attempts


def test_attempts_are_numbered_over_rounds_and_closed_once(store: Store) -> None:
    task_id = put(store)
    for number, token in enumerate(["a" * 32, "b" * 32], start=1):
        claimed = take(store, task_id, token)
        assert claimed is not None
        with store.write() as tx:
            assert attempts.start(TENANT, tx, claimed, "w" * 500, NOW) == number
            attempts.progress(TENANT, tx, task_id, token, NOW + HOUR, phase="spawned", pid=9)
            end = AttemptEnd("infra", "d", 2, None, ["line 0"], {"checkout": 0.5}, "out\x00", "")
            attempts.finish(TENANT, tx, task_id, token, NOW + HOUR, end)
            attempts.finish(TENANT, tx, task_id, token, NOW, AttemptEnd("late"))
            attempts.progress(TENANT, tx, task_id, token, NOW, phase="late")
            tasks.requeue(TENANT, tx, task_id, token, NOW, None, None)
    with store.read() as tx:
        first, second = attempts.of_task(TENANT, tx, task_id)
        assert attempts.of_task(OTHER, tx, task_id) == []
    assert (first.number, second.number) == (1, 2)
    assert (first.outcome, first.phase, first.pid, first.exit_code) == ("infra", "spawned", 9, 2)
    assert (first.finished_at, first.stdout_tail) == (NOW + HOUR, "out\ufffd")
    assert (first.tolerated, first.timings) == (["line 0"], {"checkout": 0.5})
    assert len(first.worker) == 120


def test_a_lost_worker_can_not_touch_the_attempt_of_its_successor(store: Store) -> None:
    task_id = put(store)
    claimed = take(store, task_id, "n" * 32)
    assert claimed is not None
    with store.write() as tx:
        attempts.start(TENANT, tx, claimed, "w", NOW)
        attempts.progress(TENANT, tx, task_id, "o" * 32, NOW, phase="stolen")
        attempts.finish(TENANT, tx, task_id, "o" * 32, NOW, AttemptEnd("stolen"))
        (attempt,) = attempts.of_task(TENANT, tx, task_id)
    assert (attempt.phase, attempt.outcome) == ("claimed", None)


# --- beats


def test_a_job_has_one_runner_at_a_time(store: Store) -> None:
    with store.write() as tx:
        assert beats.take(tx, "reap", NOW, 30)
        assert not beats.take(tx, "reap", NOW + timedelta(seconds=29), 30)
        assert beats.take(tx, "other", NOW, 30)
        assert beats.take(tx, "reap", NOW + timedelta(seconds=30), 30)
        assert beats.last_runs(tx) == {"reap": NOW + timedelta(seconds=30), "other": NOW}


# --- sweeps


def ids(found: Any) -> list[TaskId]:
    return [task.id for task in found]


def test_due_tasks_are_the_ones_nobody_was_told_about_lately(store: Store) -> None:
    low = put(store)
    high = put(store, priority=5)
    put(store, not_before=NOW + HOUR)
    told = put(store)
    foreign = put(store, installation_id=OTHER)
    take(store, put(store))
    with store.write() as tx:
        sweeps.mark_dispatched(tx, [told], NOW - timedelta(seconds=59))
        sweeps.mark_dispatched(tx, [], NOW)
        minute = timedelta(seconds=60)
        assert ids(sweeps.due_tasks(tx, NOW, minute)) == [high, low, foreign]
        assert ids(sweeps.due_tasks(tx, NOW + timedelta(seconds=1), minute))[1:] == [
            low,
            told,
            foreign,
        ]
        assert ids(sweeps.due_tasks(tx, NOW, minute, limit=1)) == [high]


def test_expired_leases_overdue_waits_and_exhausted_tasks_are_found(store: Store) -> None:
    running, waiting, used_up, cancelled = (put(store, max_attempts=1) for _ in range(4))
    take(store, running, lease_secs=60)
    take(store, waiting)
    take(store, used_up)
    with store.write() as tx:
        tasks.wait(TENANT, tx, waiting, TOKEN, NOW, "answer", NOW + HOUR)
        tasks.requeue(TENANT, tx, used_up, TOKEN, NOW, None, None)
    take(store, cancelled)
    with store.write() as tx:
        tasks.request_cancel(TENANT, tx, cancelled, NOW, "x")
        tasks.requeue(TENANT, tx, cancelled, TOKEN, NOW, None, None, give_back_attempt=True)
    at_expiry = NOW + timedelta(seconds=60)
    with store.read() as tx:
        assert sweeps.expired_leases(tx, at_expiry) == []
        assert ids(sweeps.expired_leases(tx, at_expiry + timedelta(seconds=1))) == [running]
        assert sweeps.overdue_waiting(tx, NOW + HOUR) == []
        assert ids(sweeps.overdue_waiting(tx, NOW + HOUR * 2)) == [waiting]
        assert ids(sweeps.exhausted(tx)) == [used_up, cancelled]


def test_due_surfaces_are_found_over_all_tenants(store: Store) -> None:
    mine, foreign = look(store, put(store)), look(store, put(store, installation_id=OTHER))
    with store.write() as tx:
        surfaces.desire(TENANT, tx, mine, SurfaceKind.REPLY, "a", {}, NOW + HOUR)
        surfaces.desire(OTHER, tx, foreign, SurfaceKind.REPLY, "b", {}, NOW)
        assert [s.subject for s in sweeps.due_surfaces(tx, NOW)] == ["b"]
        assert [s.subject for s in sweeps.due_surfaces(tx, NOW + HOUR)] == ["b", "a"]


def test_bodies_and_output_are_forgotten_in_time_and_the_rest_stays(store: Store) -> None:
    task_id = put(store)
    claimed = take(store, task_id)
    assert claimed is not None
    with store.write() as tx:
        deliveries.record(tx, received())
        deliveries.record(tx, received(id=DeliveryId("d-2"), received_at=NOW + HOUR))
        attempts.start(TENANT, tx, claimed, "w", NOW)
        end = AttemptEnd("infra", stdout_tail="out", stderr_tail="err")
        attempts.finish(TENANT, tx, task_id, TOKEN, NOW, end)
        assert sweeps.drop_bodies(tx, NOW) == 0
        assert sweeps.drop_bodies(tx, NOW + HOUR) == 1
        assert sweeps.drop_bodies(tx, NOW + HOUR) == 0
        assert deliveries.body_of(TENANT, tx, DeliveryId("d-1")) is None
        assert deliveries.body_of(TENANT, tx, DeliveryId("d-2")) is not None
        assert deliveries.find(tx, DeliveryId("d-1")) is not None
        assert sweeps.drop_output(tx, NOW + HOUR) == 1
        (attempt,) = attempts.of_task(TENANT, tx, task_id)
        assert (attempt.stdout_tail, attempt.stderr_tail, attempt.outcome) == (None, None, "infra")
        assert sweeps.drop_settled(tx, NOW + HOUR) == 1
        assert deliveries.find(tx, DeliveryId("d-1")) is None


@pytest.mark.parametrize("call", [sweeps.expired_leases, sweeps.due_surfaces])
def test_naive_times_are_refused_in_questions_too(store: Store, call: Any) -> None:
    with pytest.raises(ValueError, match="naive"), store.read() as tx:
        call(tx, datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_finished_task_is_in_no_sweep(store: Store) -> None:
    task_id = put(store)
    take(store, task_id)
    with store.write() as tx:
        tasks.finish(TENANT, tx, task_id, TOKEN, NOW, Ending(TaskState.FAILED, "infra"))
        far = NOW + HOUR * 1000
        assert sweeps.due_tasks(tx, far, HOUR) == []
        assert sweeps.expired_leases(tx, far) == []
        assert sweeps.exhausted(tx) == []
