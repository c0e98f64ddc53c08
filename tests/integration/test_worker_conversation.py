"""Cancel, answers, heartbeats and moved heads on the worker's side, over real ledgers."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import update

from coven.bell import SilentBell
from coven.clock import ManualClock
from coven.github.factory import GitHub
from coven.github.models import Permission, PullRequest
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.store import surfaces, tasks
from coven.store.engine import Store
from coven.store.surfaces import Surface
from coven.store.tables import tasks as table
from coven.store.tasks import Task
from coven.values import Lane, RepoId, Sha, SurfaceKind, TaskId, TaskState, TrustScope
from tests.ledger import NOW, REPO_ID, TENANT, look, put, take
from worker import show
from worker.control import run_control
from worker.conversation import wanted_before
from worker.heartbeat import Heartbeat
from worker.lifecycle import _amend
from worker.requeue_head import queue_new_head

OLD, NEW = "a" * 40, "b" * 40
MINUTE = timedelta(minutes=1)


class People:
    """GitHub as far as the control lane asks it."""

    def __init__(self) -> None:
        self.rights = {
            "mona": Permission("write", "write", 1),
            "eve": Permission("read", "read", 9),
        }

    def for_repo(self, *_: object, **__: object) -> People:
        return self

    def permission(self, login: str) -> Permission:
        return self.rights[login]

    def is_collaborator(self, login: str) -> bool:
        return False

    def repository(self) -> Any:
        return type("Repository", (), {"private": False})()


@pytest.fixture
def services(store: Store, tmp_path: Path) -> Services:
    cody = {"id": "cody", "display_name": "Cody", "bot_username": "cody[bot]"}
    nova = {"id": "nova", "display_name": "Nova", "bot_username": "nova[bot]"}
    settings = Settings.model_validate(
        {
            "server": {"state_dir": tmp_path},
            "familiars": [cody, nova],
            "review": {"pull_request": True},
            "worker": {"check_heartbeat_secs": 1},
        }
    )
    return Services(
        settings=settings,
        store=store,
        github=cast(GitHub, People()),
        clock=ManualClock(NOW),
        seam=Seam(),
        bell=SilentBell(),
        redactor=Redactor(),
        secret_key=b"k" * 32,
    )


def command(services: Services, verb: str, **changes: Any) -> TaskId:
    facts: dict[str, Any] = {
        "lane": Lane.CONTROL,
        "verb": verb,
        "comment_id": 900,
        "comment_kind": "issue_comment",
        "actor_id": 1,
        "actor_login": "mona",
        "trust_evidence": {"source": "permission_api"},
        "source_at": NOW + MINUTE,
    }
    return put(services.store, **facts | changes)


def shown(services: Services, task_id: TaskId, kind: SurfaceKind) -> Surface | None:
    with services.store.read() as tx:
        found = surfaces.of_task(TENANT, tx, task_id)
    return next((s for s in found if s.kind is kind), None)


def body_of(services: Services, task_id: TaskId) -> str:
    reply = shown(services, task_id, SurfaceKind.REPLY)
    assert reply is not None
    return str(reply.desired["body"])


def wait_for_answer(services: Services, task_id: TaskId) -> None:
    with services.store.write() as tx:
        tx.execute(
            update(table)
            .where(table.c.id == task_id)
            .values(
                state="waiting",
                waiting_for="answer",
                summary="Which?",
                expires_at=NOW + timedelta(hours=72),
            )
        )


# --- cancel ------------------------------------------------------------------------------------


def test_cancel_stops_what_was_wanted_before_it_in_every_state(services: Services) -> None:
    store = services.store
    running, queued, waiting = (put(store, verb="fix", lane=Lane.FIX) for _ in range(3))
    assert take(store, running) is not None
    wait_for_answer(services, waiting)
    later = put(store, source_at=NOW + 2 * MINUTE)
    others = put(store, familiar_id="nova")
    stop = command(services, "cancel")
    run_control(services, stop, "w")

    assert look(store, running).state is TaskState.RUNNING
    assert look(store, running).cancel_reason == "cancelled: mona asked for it"
    assert look(store, queued).state is TaskState.CANCELLED
    assert look(store, waiting).state is TaskState.CANCELLED
    assert look(store, later).state is TaskState.QUEUED
    assert look(store, others).state is TaskState.QUEUED
    assert look(store, stop).state is TaskState.COMPLETED
    said = body_of(services, stop)
    assert said.count("fix (command)") == 3
    assert "stopping" in said
    assert "`@cody retry`" in said
    reaction = shown(services, stop, SurfaceKind.REACTION)
    assert reaction is not None
    assert reaction.desired["content"] == "rocket"
    comment = shown(services, queued, SurfaceKind.STATUS_COMMENT)
    assert comment is None or comment.desired["state"] == "cancelled"


def test_cancel_that_is_interrupted_says_the_same_when_it_runs_again(services: Services) -> None:
    queued = put(services.store)
    stop = command(services, "cancel")
    run_control(services, stop, "w")
    with services.store.write() as tx:
        tx.execute(update(table).where(table.c.id == stop).values(state="queued", attempts_used=0))
    run_control(services, stop, "w")
    assert look(services.store, queued).superseded_by == stop
    assert "review (command)" in body_of(services, stop)


def test_cancel_with_nothing_to_stop_is_answered_by_a_reaction_only(services: Services) -> None:
    stop = command(services, "cancel")
    run_control(services, stop, "w")
    assert shown(services, stop, SurfaceKind.REPLY) is None
    reaction = shown(services, stop, SurfaceKind.REACTION)
    assert reaction is not None
    assert reaction.desired["content"] == "confused"


def test_cancel_of_somebody_without_write_access_stops_nothing(services: Services) -> None:
    queued = put(services.store)
    stop = command(
        services,
        "cancel",
        actor_id=9,
        actor_login="eve",
        trust_scope=TrustScope.EXTERNAL,
        trust_evidence={"source": "unavailable"},
    )
    run_control(services, stop, "w")
    assert look(services.store, queued).state is TaskState.QUEUED
    assert look(services.store, stop).outcome == "actor_lacks_write"
    assert shown(services, stop, SurfaceKind.REACTION) is None


def test_in_the_same_second_the_order_of_the_ledger_decides(services: Services) -> None:
    before = look(services.store, put(services.store))
    stop = look(services.store, put(services.store, lane=Lane.CONTROL, verb="cancel"))
    after = look(services.store, put(services.store))
    assert wanted_before(before, stop)
    assert not wanted_before(after, stop)
    assert not wanted_before(replace(before, lane=Lane.CONTROL), stop)
    assert not wanted_before(replace(before, state=TaskState.FAILED), stop)


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "user", "state"), [("mona", 1, TaskState.QUEUED), ("eve", 9, TaskState.WAITING)]
)
def test_an_unconfirmed_answer_is_handed_over_after_a_look(
    services: Services, login: str, user: int, state: TaskState
) -> None:
    waiting = put(services.store, lane=Lane.FIX, verb="fix", is_pull=False)
    wait_for_answer(services, waiting)
    answer = command(
        services,
        "answer",
        actor_id=user,
        actor_login=login,
        trust_scope=TrustScope.EXTERNAL,
        trust_evidence={"source": "unavailable"},
        payload={"answer": "Zero."},
        parent_task_id=waiting,
    )
    run_control(services, answer, "w")
    task = look(services.store, waiting)
    assert task.state is state
    handed = state is TaskState.QUEUED
    assert task.round == (2 if handed else 1)
    assert [entry["answer"] for entry in task.payload.get("answers", [])] == ["Zero."] * handed
    assert (shown(services, waiting, SurfaceKind.STATUS_COMMENT) is not None) is handed
    assert (shown(services, answer, SurfaceKind.REACTION) is not None) is handed


# --- heartbeat ---------------------------------------------------------------------------------


def beating(services: Services, **changes: Any) -> tuple[Task, Heartbeat]:
    task_id = put(services.store, head_sha=OLD, head_repo_id=REPO_ID, **changes)
    task = take(services.store, task_id)
    assert task is not None
    familiar = services.settings.familiars[0]
    return task, Heartbeat(services, task, familiar, time.monotonic() - 100)


def test_the_check_run_tells_phase_and_time_and_edits_are_coalesced(services: Services) -> None:
    task, pulse = beating(services)
    pulse.tick()
    assert shown(services, task.id, SurfaceKind.CHECK_RUN) is None
    pulse.enter("the session runs")
    check = shown(services, task.id, SurfaceKind.CHECK_RUN)
    assert check is not None
    assert check.desired["status"] == "in_progress"
    assert "the session runs (2 min)" in check.desired["summary"]
    digest = check.desired_hash
    pulse._began -= 600
    pulse.tick()
    check = shown(services, task.id, SurfaceKind.CHECK_RUN)
    assert check is not None
    assert check.desired_hash == digest  # not due yet
    pulse._shown_at -= 1
    pulse.tick()
    check = shown(services, task.id, SurfaceKind.CHECK_RUN)
    assert check is not None
    assert "12 min" in check.desired["summary"]
    pulse.leave()
    pulse._shown_at -= 10
    pulse._began -= 600
    pulse.tick()
    after = shown(services, task.id, SurfaceKind.CHECK_RUN)
    assert after is not None
    assert after.desired_hash == check.desired_hash


def test_a_lost_lease_or_a_wish_to_stop_silences_the_heartbeat(services: Services) -> None:
    task, pulse = beating(services)
    with services.store.write() as tx:
        tasks.request_cancel(TENANT, tx, task.id, NOW, "cancelled: x")
    pulse.enter("the session runs")
    other, late = beating(services)
    with services.store.write() as tx:
        tx.execute(update(table).where(table.c.id == other.id).values(lease_token="x" * 32))
    late.enter("the session runs")
    assert shown(services, task.id, SurfaceKind.CHECK_RUN) is None
    assert shown(services, other.id, SurfaceKind.CHECK_RUN) is None


def test_issue_work_has_no_heartbeat(services: Services) -> None:
    task, pulse = beating(services, is_pull=False)
    pulse.enter("the session runs")
    assert shown(services, task.id, SurfaceKind.CHECK_RUN) is None


# --- moved heads -------------------------------------------------------------------------------


def test_work_goes_on_in_the_next_round_when_its_head_moved(services: Services) -> None:
    task_id = put(services.store, head_sha=OLD, head_repo_id=REPO_ID)
    task = take(services.store, task_id)
    assert task is not None
    familiar = services.settings.familiars[0]
    with services.store.write() as tx:
        show.desire_all(tx, task, show.queued(services.settings, task, familiar), NOW)
    attempt = type(
        "Attempt",
        (),
        {"services": services, "task": task, "familiar": familiar, "began": time.monotonic()},
    )()
    after = _amend(attempt, {"head_sha": NEW}, ask=False)
    assert (after.round, after.head_sha) == (2, NEW)
    with services.store.read() as tx:
        checks = {
            s.subject: s.desired
            for s in surfaces.of_task(TENANT, tx, task_id)
            if s.kind is SurfaceKind.CHECK_RUN
        }
    old, new = checks[f"task:{task_id}:1"], checks[f"task:{task_id}:2"]
    assert (old["status"], old["conclusion"], old["head_sha"]) == ("completed", "neutral", OLD)
    assert NEW in old["summary"]
    assert (new["status"], new["head_sha"]) == ("in_progress", NEW)


def pull(**changes: Any) -> PullRequest:
    facts: dict[str, Any] = {
        "number": 3,
        "title": "A title",
        "body": "",
        "state": "open",
        "draft": False,
        "merged": False,
        "head_sha": Sha(NEW),
        "head_ref": "changes",
        "head_repo_id": REPO_ID,
        "head_repo_full_name": "octo/demo",
        "base_sha": Sha("c" * 40),
        "base_ref": "main",
        "author_id": 5,
        "author_login": "ann",
        "html_url": "https://github.example/octo/demo/pull/3",
        "updated_at": NOW + MINUTE,
    }
    return PullRequest(**facts | changes)


def test_a_head_that_nobody_reviews_yet_is_queued_once(services: Services) -> None:
    late = look(services.store, put(services.store, head_sha=OLD))
    queued = queue_new_head(services, late, pull())
    assert queued is not None
    task = look(services.store, queued)
    assert (task.automatic, task.head_sha, task.actor_id) == (True, NEW, 5)
    assert (task.parent_task_id, task.reason) == (late.id, "head_moved")
    # Nobody looked the author up, so nobody is trusted and nothing shown.
    assert task.trust_scope is TrustScope.EXTERNAL
    assert task.trust_evidence["source"] == "unavailable"
    assert shown(services, queued, SurfaceKind.CHECK_RUN) is None
    assert queue_new_head(services, late, pull()) is None


@pytest.mark.parametrize(
    "changes",
    [{"state": "closed"}, {"draft": True}],
)
def test_a_head_that_no_push_would_have_reviewed_is_not_queued(
    services: Services, changes: dict[str, Any]
) -> None:
    late = look(services.store, put(services.store, head_sha=OLD))
    assert queue_new_head(services, late, pull(**changes)) is None


def test_a_switched_off_lane_or_another_reviewer_queues_nothing(services: Services) -> None:
    late = look(services.store, put(services.store, head_sha=OLD))
    off = services.settings.model_copy(
        update={"review": services.settings.review.model_copy(update={"pull_request": False})}
    )
    assert queue_new_head(replace(services, settings=off), late, pull()) is None
    other = look(services.store, put(services.store, head_sha=OLD, familiar_id="nova"))
    assert queue_new_head(services, other, pull()) is None


def test_a_forks_new_head_is_queued_as_a_fork(services: Services) -> None:
    late = look(services.store, put(services.store, head_sha=OLD))
    queued = queue_new_head(services, late, pull(head_repo_id=RepoId(99)))
    assert queued is not None
    assert look(services.store, queued).trust_scope is TrustScope.FORK_PR


def test_a_review_that_somebody_asked_for_takes_the_new_head_itself(services: Services) -> None:
    late = look(services.store, put(services.store, head_sha=OLD))
    key = f"review:{REPO_ID}:3:cody:cmd"
    put(services.store, semantic_key=key)
    assert queue_new_head(services, late, pull()) is None
