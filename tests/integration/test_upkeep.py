"""What beat calls, on both databases: lost work comes back, forgotten wake-ups are sent again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from coven.bell import SilentBell
from coven.clock import ManualClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.queues import RUN_CONTROL, RUN_PUBLISH, RUN_SESSION
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar, Settings
from coven.store import attempts, surfaces, sweeps, tasks
from coven.store.engine import Store
from coven.store.surfaces import Surface
from coven.values import Conclusion, Lane, SurfaceKind, TaskId, TaskState
from tests.ledger import NOW, TENANT, look, put
from worker import show, upkeep
from worker.upkeep import Job

HEAD = "a" * 40


class LoudBell(SilentBell):
    """Tells somebody every time, until it is cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.works = True

    def session(self, task_id: TaskId) -> bool:
        super().session(task_id)
        return self.works

    def control(self, task_id: TaskId) -> bool:
        super().control(task_id)
        return self.works

    def publish(self, task_id: TaskId) -> bool:
        super().publish(task_id)
        return self.works


@pytest.fixture
def bell() -> LoudBell:
    return LoudBell()


@pytest.fixture
def services(store: Store, bell: LoudBell, tmp_path: Path) -> Services:
    familiar = Familiar(id="cody", display_name="Cody", bot_username="cody[bot]")
    settings = Settings.model_validate(
        {"server": {"state_dir": tmp_path}, "familiars": [familiar.model_dump()]}
    )
    return Services(
        settings=settings,
        store=store,
        github=cast(GitHub, None),  # upkeep never asks GitHub
        clock=ManualClock(NOW),
        seam=Seam(),
        bell=bell,
        redactor=Redactor(),
        secret_key=b"k" * 32,
    )


def later(services: Services, seconds: float) -> None:
    cast(ManualClock, services.clock).advance(seconds)


def running(services: Services, secs: float = 60, **changes: object) -> TaskId:
    """A task that a worker claimed and then fell silent."""
    task_id = put(services.store, head_sha=HEAD, head_repo_id=7, **changes)
    with services.store.write() as tx:
        task = tasks.claim(TENANT, tx, task_id, "t" * 32, services.clock.now(), secs)
        assert task is not None
        attempts.start(TENANT, tx, task, "host:1", services.clock.now())
    return task_id


def check_of(services: Services, task_id: TaskId) -> Surface | None:
    with services.store.read() as tx:
        shown = surfaces.of_task(TENANT, tx, task_id)
    return next((s for s in shown if s.kind is SurfaceKind.CHECK_RUN), None)


def test_a_due_task_is_told_of_once_and_again_when_nothing_happened(
    services: Services, bell: LoudBell
) -> None:
    task_id = put(services.store)
    upkeep.dispatch(services)
    upkeep.dispatch(services)
    assert bell.rung == [(RUN_SESSION, task_id)]
    later(services, 31)
    upkeep.dispatch(services)
    assert bell.rung == [(RUN_SESSION, task_id)] * 2


def test_control_work_goes_to_the_control_queue(services: Services, bell: LoudBell) -> None:
    task_id = put(services.store, lane=Lane.CONTROL, verb="status")
    upkeep.dispatch(services)
    assert bell.rung == [(RUN_CONTROL, task_id)]


def test_a_task_with_a_later_time_waits_for_it(services: Services, bell: LoudBell) -> None:
    put(services.store, not_before=NOW + timedelta(seconds=100))
    upkeep.dispatch(services)
    assert bell.rung == []
    later(services, 101)
    upkeep.dispatch(services)
    assert len(bell.rung) == 1


def test_what_could_not_be_told_is_told_at_the_next_tick(
    services: Services, bell: LoudBell
) -> None:
    put(services.store)
    bell.works = False
    upkeep.dispatch(services)
    bell.works = True
    upkeep.dispatch(services)
    assert len(bell.rung) == 2


def test_a_lost_task_is_queued_again_and_its_attempt_closed(services: Services) -> None:
    task_id = running(services)
    later(services, 61)
    upkeep.reap(services)
    task = look(services.store, task_id)
    assert task.state is TaskState.QUEUED
    assert task.lease_token is None
    assert task.not_before is not None
    with services.store.read() as tx:
        [attempt] = attempts.of_task(TENANT, tx, task_id)
    assert attempt.outcome == "lost"
    assert attempt.finished_at is not None


def test_a_lease_that_lives_is_left_alone(services: Services) -> None:
    task_id = running(services)
    later(services, 59)
    upkeep.reap(services)
    assert look(services.store, task_id).state is TaskState.RUNNING


def test_a_lost_task_without_attempts_left_fails_where_people_see_it(services: Services) -> None:
    task_id = running(services, max_attempts=1)
    later(services, 61)
    upkeep.reap(services)
    task = look(services.store, task_id)
    assert task.state is TaskState.FAILED
    check = check_of(services, task_id)
    assert check is not None
    assert check.desired["status"] == "completed"
    assert check.desired["conclusion"] == Conclusion.FAILURE


def test_a_lost_task_that_was_cancelled_ends_cancelled(services: Services) -> None:
    task_id = running(services)
    with services.store.write() as tx:
        tasks.request_cancel(TENANT, tx, task_id, services.clock.now(), "cancelled: by mona")
    later(services, 61)
    upkeep.reap(services)
    task = look(services.store, task_id)
    assert task.state is TaskState.CANCELLED
    check = check_of(services, task_id)
    assert check is not None
    assert check.desired["conclusion"] == Conclusion.CANCELLED


def test_waiting_that_nobody_answers_ends_with_words(services: Services) -> None:
    task_id = put(
        services.store,
        state=TaskState.WAITING,
        waiting_for="answer",
        expires_at=NOW + timedelta(hours=72),
        head_sha=HEAD,
        head_repo_id=7,
    )
    upkeep.settle_idle(services)
    assert look(services.store, task_id).state is TaskState.WAITING
    later(services, 72 * 3600 + 1)
    upkeep.settle_idle(services)
    task = look(services.store, task_id)
    assert (task.state, task.outcome) == (TaskState.CANCELLED, "expired")
    check = check_of(services, task_id)
    assert check is not None
    assert "answer" in check.desired["summary"]


def test_a_queued_task_that_was_cancelled_ends_at_once(services: Services) -> None:
    task_id = running(services)
    with services.store.write() as tx:
        tasks.request_cancel(TENANT, tx, task_id, services.clock.now(), "cancelled: by mona")
        tasks.requeue(TENANT, tx, task_id, "t" * 32, services.clock.now(), None, "drained")
    upkeep.settle_idle(services)
    assert look(services.store, task_id).state is TaskState.CANCELLED


def test_a_queued_task_that_was_superseded_ends_superseded(services: Services) -> None:
    task_id = running(services)
    reason = "superseded: a newer version was pushed"
    with services.store.write() as tx:
        tasks.request_cancel(TENANT, tx, task_id, services.clock.now(), reason)
        tasks.requeue(TENANT, tx, task_id, "t" * 32, services.clock.now(), None, "drained")
    upkeep.settle_idle(services)
    task = look(services.store, task_id)
    assert (task.state, task.detail) == (TaskState.SUPERSEDED, reason)
    check = check_of(services, task_id)
    assert check is not None
    assert check.desired["conclusion"] == Conclusion.NEUTRAL


def test_surfaces_that_differ_are_told_of_once_per_task(services: Services, bell: LoudBell) -> None:
    task = look(services.store, put(services.store, head_sha=HEAD, head_repo_id=7))
    familiar = services.settings.familiars[0]
    with services.store.write() as tx:
        wanted = show.working(services.settings, task, familiar, "reading", 1.0, 1)
        show.desire_all(tx, task, wanted, services.clock.now())
    assert len(wanted) >= 2
    upkeep.publish(services)
    assert bell.rung == [(RUN_PUBLISH, task.id)]


def test_a_job_runs_once_per_tick_however_many_beats_there_are(services: Services) -> None:
    ran: list[int] = []
    job = Job("count", 10.0, lambda _: ran.append(1))
    for _ in range(3):
        upkeep.perform(services, job)
    assert len(ran) == 1
    later(services, 10)
    upkeep.perform(services, job)
    assert len(ran) == 2


def test_every_job_has_its_own_name_and_a_sane_period() -> None:
    names = [job.name for job in upkeep.JOBS]
    assert len(names) == len(set(names))
    assert all(1 <= job.every_secs <= 86_400 for job in upkeep.JOBS)


def test_retention_forgets_nothing_young(services: Services) -> None:
    task_id = running(services)
    upkeep.retain(services)
    with services.store.read() as tx:
        assert sweeps.leased(tx, services.clock.now()) == {task_id}
