# ruff: noqa: TID251 - the processes of a test are no effects of the product
"""Many writers at once, in threads and in processes, and writers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coven.store import attempts, beats, deliveries, surfaces, tasks
from coven.store.engine import Store, open_store
from coven.store.surfaces import content_hash
from coven.store.tasks import Ending
from coven.values import SurfaceKind, SurfaceState, TaskState, new_token
from tests.ledger import NOW, REPO_ID, TENANT, look, new_task, put, received

T = TypeVar("T")
KIND, SUBJECT = SurfaceKind.STATUS_COMMENT, "thread:3:cody"


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Run ``work`` in threads that start at the same moment."""
    start = threading.Barrier(count)

    def one(number: int) -> T:
        start.wait(10)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_of_many_claims_one_wins(store: Store) -> None:
    for _ in range(5):
        task_id = put(store)

        def claim(_: int, task_id: Any = task_id) -> bool:
            with store.write() as tx:
                return tasks.claim(TENANT, tx, task_id, new_token(), NOW, 60) is not None

        assert sum(together(6, claim)) == 1
        assert look(store, task_id).attempts_used == 1


def test_the_limit_of_an_installation_holds_when_many_claim_at_once(store: Store) -> None:
    ids = [put(store) for _ in range(6)]

    def claim(number: int) -> bool:
        with store.write() as tx:
            return tasks.claim(TENANT, tx, ids[number], new_token(), NOW, 60, 2) is not None

    assert sum(together(6, claim)) == 2


def test_of_many_equal_tasks_one_is_written(store: Store) -> None:
    def insert(_: int) -> bool:
        with store.write() as tx:
            return tasks.insert_new(TENANT, tx, new_task(semantic_key="same"))

    assert sum(together(6, insert)) == 1


def test_of_many_equal_deliveries_one_is_recorded_and_one_routes_it_again(store: Store) -> None:
    def record(_: int) -> bool:
        with store.write() as tx:
            return deliveries.record(tx, received())

    def reroute(number: int) -> bool:
        with store.write() as tx:
            again = received(routing=f"task:{number}")
            return deliveries.reroute(tx, again, "ignored:event")

    assert sum(together(6, record)) == 1
    assert sum(together(6, reroute)) == 1
    with store.read() as tx:
        found = deliveries.find(tx, received().id)
    assert found is not None
    assert found.seen == 2


def test_finish_and_requeue_and_seizure_have_one_winner(store: Store) -> None:
    for _ in range(4):
        task_id = put(store)
        with store.write() as tx:
            tasks.claim(TENANT, tx, task_id, "t" * 32, NOW, 0.000001)

        def end(number: int, task_id: Any = task_id) -> bool:
            token, late = "t" * 32, NOW.replace(hour=13)
            with store.write() as tx:
                if number % 3 == 0:
                    ending = Ending(TaskState.COMPLETED, "succeeded")
                    return tasks.finish(TENANT, tx, task_id, token, NOW, ending) is not None
                if number % 3 == 1:
                    return tasks.requeue(TENANT, tx, task_id, token, NOW, None, None) is not None
                return tasks.seize(TENANT, tx, task_id, token, "v" * 32, late, 60) is not None

        assert sum(together(6, end)) == 1


def test_a_failed_task_and_its_successor_never_both_live(store: Store) -> None:
    for number in range(4):
        key = f"k{number}"
        failed = put(store, semantic_key=key)
        with store.write() as tx:
            tasks.settle_idle(TENANT, tx, failed, NOW, Ending(TaskState.FAILED, "x"))

        def compete(which: int, key: str = key, failed: Any = failed) -> bool:
            with store.write() as tx:
                if which % 2:
                    return tasks.revive_failed(TENANT, tx, failed, NOW) is not None
                return tasks.insert_new(TENANT, tx, new_task(semantic_key=key))

        assert sum(together(4, compete)) == 1


def test_a_job_of_many_beats_has_one_runner(store: Store) -> None:
    def beat(_: int) -> bool:
        with store.write() as tx:
            return beats.take(tx, "reap", NOW, 30)

    assert sum(together(6, beat)) == 1
    assert sum(together(6, beat)) == 0


def test_a_first_surface_written_by_many_belongs_to_the_newest(store: Store) -> None:
    owners = [look(store, put(store)) for _ in range(6)]

    def desire(number: int) -> bool:
        with store.write() as tx:
            return surfaces.desire(TENANT, tx, owners[number], KIND, SUBJECT, {"n": number}, NOW)

    results = together(6, desire)
    assert results[5]
    with store.read() as tx:
        found = surfaces.find(TENANT, tx, REPO_ID, KIND, SUBJECT)
    assert found is not None
    assert (found.task_id, found.desired) == (owners[5].id, {"n": 5})


def test_publishers_and_writers_of_one_surface_end_in_agreement(store: Store) -> None:
    owner = look(store, put(store))
    shown: list[dict[str, Any]] = []

    def desire(number: int) -> None:
        with store.write() as tx:
            surfaces.desire(TENANT, tx, owner, KIND, SUBJECT, {"n": number % 3}, NOW)

    def publish() -> bool:
        with store.read() as tx:
            due = surfaces.next_due_of_task(tx, owner.id, NOW)
        if due is None:
            return False
        token = new_token()
        with store.write() as tx:
            leased = surfaces.lease(TENANT, tx, due.id, token, NOW, 60)
        if leased is None:
            return False
        shown.append(leased.desired)
        digest = content_hash(leased.desired)
        with store.write() as tx:
            assert surfaces.published(TENANT, tx, due.id, token, NOW, digest, 1, None)
        return True

    desire(0)
    together(6, lambda number: desire(number) if number % 2 else publish())
    while publish():
        pass
    with store.read() as tx:
        found = surfaces.find(TENANT, tx, REPO_ID, KIND, SUBJECT)
    assert found is not None
    assert found.state is SurfaceState.PUBLISHED
    assert found.desired == shown[-1]


# --- processes

WORKER = textwrap.dedent(
    """
    import sys
    from coven.store import attempts, sweeps, tasks
    from coven.store.engine import open_store
    from coven.values import InstallationId, new_token
    from datetime import datetime, timedelta, UTC

    url = sys.stdin.readline().strip()
    store = open_store(url)
    print("ready", flush=True)
    sys.stdin.readline()
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    while True:
        with store.read() as tx:
            due = sweeps.due_tasks(tx, now, timedelta(seconds=60), limit=5)
        if not due:
            break
        for task in due:
            token = new_token()
            with store.write() as tx:
                mine = tasks.claim(task.installation_id, tx, task.id, token, now, 60)
                if mine is not None:
                    attempts.start(task.installation_id, tx, mine, sys.argv[1], now)
            if mine is not None:
                print(task.id, flush=True)
    """
)

HOLDER = textwrap.dedent(
    """
    import sys, time
    from coven.store import attempts, tasks
    from coven.store.engine import open_store
    from coven.values import InstallationId, TaskId
    from datetime import datetime, UTC

    url, task_id = sys.stdin.readline().split()
    store = open_store(url)
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with store.write() as tx:
        mine = tasks.claim(InstallationId(41), tx, TaskId(task_id), "h" * 32, now, 60)
        attempts.start(InstallationId(41), tx, mine, "holder", now)
        print("holding", flush=True)
        time.sleep(60)
    """
)


@contextmanager
def python(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_worker_processes_share_the_work_without_overlap(store: Store, store_url: str) -> None:
    ids = {put(store) for _ in range(30)}
    with python(WORKER, "one") as first, python(WORKER, "two") as second:
        for process in (first, second):
            say(process, store_url)
        assert [heard(first), heard(second)] == ["ready", "ready"]
        for process in (first, second):
            say(process, "go")
        taken: list[str] = []
        for process in (first, second):
            assert process.stdout is not None
            taken += process.stdout.read().split()
            assert process.wait(20) == 0
    assert Counter(taken) == Counter(ids)
    with store.read() as tx:
        for task_id in ids:
            task = tasks.get(TENANT, tx, task_id)
            assert task is not None
            assert task.state == "running"
            assert len(attempts.of_task(TENANT, tx, task_id)) == 1


def test_a_writer_killed_before_its_commit_leaves_the_ledger_as_it_was(
    store: Store, store_url: str
) -> None:
    task_id = put(store)
    before = look(store, task_id)
    with python(HOLDER) as holder:
        say(holder, f"{store_url} {task_id}")
        assert heard(holder) == "holding"
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(10) == -signal.SIGKILL
    assert look(store, task_id) == before
    with store.write() as tx:
        assert attempts.of_task(TENANT, tx, task_id) == []
        assert tasks.claim(TENANT, tx, task_id, "t" * 32, NOW, 60) is not None


KILLED_IN_COMMIT = textwrap.dedent(
    """
    import sys
    from coven.governance.faults import ScriptedFaults
    from coven.store import tasks
    from coven.store.engine import open_store
    from coven.values import InstallationId, TaskId
    from datetime import datetime, UTC

    url, task_id = sys.stdin.readline().split()
    store = open_store(url, ScriptedFaults(sys.argv[1]))
    with store.write("claim") as tx:
        now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        tasks.claim(InstallationId(41), tx, TaskId(task_id), "h" * 32, now, 60)
    """
)


@pytest.mark.parametrize(
    ("plan", "state"), [("claim.before=kill", "queued"), ("claim.after=kill", "running")]
)
def test_a_kill_at_the_commit_is_before_it_or_after_it_never_between(
    store: Store, store_url: str, plan: str, state: str
) -> None:
    task_id = put(store)
    with python(KILLED_IN_COMMIT, plan) as process:
        say(process, f"{store_url} {task_id}")
        assert process.wait(20) == -signal.SIGKILL
    found = look(store, task_id)
    assert found.state == state
    assert found.attempts_used == (1 if state == "running" else 0)


def test_a_store_opened_twice_sees_one_truth(store: Store, store_url: str) -> None:
    second = open_store(store_url)
    try:
        task_id = put(store)
        with second.write() as tx:
            assert tasks.claim(TENANT, tx, task_id, "t" * 32, NOW, 60) is not None
        assert look(store, task_id).state is TaskState.RUNNING
    finally:
        second.close()
