"""Clicks on our Check Runs: whose they are, what they start, and what they never vouch for."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from coven.github.models import Permission
from coven.store.engine import Store
from coven.store.tables import surfaces as surface_rows
from coven.store.tables import tasks as table
from coven.store.tasks import Task
from coven.values import Lane, SurfaceKind, SurfaceState, TaskState, TrustScope
from tests.integration.receiver_kit import HEAD, LISA, MONA, Bench, payload, settings

STRANGER = {"login": "stranger", "id": 9, "type": "User"}
BOT = {"login": "cody-familiar[bot]", "id": 77, "type": "Bot"}
FORK = {"id": 777, "name": "billing", "full_name": "stranger/billing", "fork": True}
FINDING = {
    "severity": "high",
    "file": "a.py",
    "line": 4,
    "title": "Shell injection",
    "body": "A value reaches the shell.",
    "recommendation": "Pass a list.",
}


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    made = Bench(sqlite_store)
    made.github.rights["stranger"] = Permission("read", "read", 9)
    return made


def reviewed(bench: Bench, state: str = "completed", **changes: Any) -> Task:
    """An automatic review that has ended with one finding."""
    opened = payload("pull_request.opened", **changes)
    task = bench.task(bench.deliver("pull_request", opened))
    bench.finish(task, state, result={"review": {"findings": [FINDING]}})
    return task


def clicked(
    task_id: str,
    action: str = "rerequested",
    *,
    sender: Any = MONA,
    app: int | None = 4242,
    head: str = HEAD,
    button: str | None = None,
) -> dict[str, Any]:
    frame = payload("pull_request.opened")
    body = {
        "action": action,
        "check_run": {
            "id": 5,
            "head_sha": head,
            "external_id": f"{task_id}:1",
            "app": {"id": app} if app else None,
            "pull_requests": [],
        },
        "repository": frame["repository"],
        "installation": frame["installation"],
        "sender": sender,
    }
    if button is not None:
        body["requested_action"] = {"identifier": button}
    return body


def suite(head: str = HEAD, app: int = 4242, branch: str | None = None) -> dict[str, Any]:
    body = clicked("x")
    del body["check_run"]
    body["check_suite"] = {"id": 6, "head_sha": head, "head_branch": branch, "app": {"id": app}}
    return body


def ignored(answer: Any) -> str:
    assert answer.status_code == 202, answer.json
    return str(answer.json["ignored"])


def test_a_rerun_is_a_new_task_of_the_clicker_on_the_same_head(bench: Bench) -> None:
    parent = reviewed(bench)
    again = bench.task(bench.deliver("check_run", clicked(parent.id)))
    assert again.id != parent.id
    assert again.parent_task_id == parent.id
    assert (again.lane, again.verb, again.automatic) == (Lane.REVIEW, "review", False)
    assert (again.actor_id, again.author_id) == (MONA["id"], LISA["id"])
    assert (again.head_sha, again.thread, again.is_pull) == (HEAD, 7, True)
    assert again.payload["approved_sha"] == HEAD
    assert again.reason == "check_run:rerun"
    (check,) = bench.surfaces(again)
    assert (check.kind, check.subject) == (SurfaceKind.CHECK_RUN, f"task:{again.id}:1")
    assert check.desired["head_sha"] == HEAD
    assert ("session", again.id) in bench.bell.rung


def test_a_second_click_on_work_under_way_starts_nothing(bench: Bench) -> None:
    parent = reviewed(bench)
    first = bench.task(bench.deliver("check_run", clicked(parent.id)))
    other = clicked(parent.id, sender=LISA)
    assert ignored(bench.deliver("check_run", other)) == f"already_queued:{first.id}"
    assert ignored(bench.deliver("check_run", clicked(first.id))) == f"already_queued:{first.id}"
    assert len(bench.tasks()) == 2


def test_an_equal_click_counts_again_after_a_minute_only(bench: Bench) -> None:
    parent = reviewed(bench)
    first = bench.task(bench.deliver("check_run", clicked(parent.id)))
    bench.finish(first, "completed")
    bench.clock.advance(30)
    assert ignored(bench.deliver("check_run", clicked(parent.id))) == f"same_event:{first.id}"
    bench.clock.advance(60)
    second = bench.task(bench.deliver("check_run", clicked(parent.id)))
    assert second.id not in (first.id, parent.id)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (clicked("f" * 32), "unknown_check"),
        (clicked("f" * 32, app=1), "not_our_check"),
        (clicked("f" * 32, sender=BOT), "sender_is_bot"),
        (clicked("f" * 32, sender=None), "no_sender"),
        (clicked("f" * 32, "requested_action", button="explode"), "unknown_action"),
        (clicked("f" * 32, "requested_action", button="fix"), "unknown_check"),
        (clicked("f" * 32, "completed"), "action_not_handled"),
    ],
)
def test_a_click_that_means_nothing_to_us_says_why(
    bench: Bench, body: dict[str, Any], reason: str
) -> None:
    assert ignored(bench.deliver("check_run", body)) == reason
    assert bench.tasks() == []


def test_a_button_without_its_identifier_is_refused_by_name(bench: Bench) -> None:
    answer = bench.deliver("check_run", clicked("f" * 32, "requested_action"))
    assert answer.status_code == 400
    assert answer.json["error"] == "missing_field:requested_action.identifier"


def test_a_click_needs_the_clickers_own_write_access(bench: Bench) -> None:
    parent = reviewed(bench)
    answer = bench.deliver("check_run", clicked(parent.id, sender=STRANGER))
    assert ignored(answer) == "actor_lacks_write"
    assert [task.id for task in bench.tasks()] == [parent.id]


def test_a_click_that_could_not_be_confirmed_waits_unseen_for_the_worker(bench: Bench) -> None:
    parent = reviewed(bench)
    bench.github.mode = "error"
    again = bench.task(bench.deliver("check_run", clicked(parent.id, sender=STRANGER)))
    assert again.trust_scope is TrustScope.EXTERNAL
    assert again.trust_evidence["source"] == "unavailable"
    assert bench.surfaces(again) == []


def test_a_maintainers_click_leaves_a_forks_content_what_it_is(bench: Bench) -> None:
    opened = payload("pull_request.opened", pull_request__user=STRANGER, sender=STRANGER)
    opened["pull_request"]["head"]["repo"] = FORK
    waiting = bench.task(bench.deliver("pull_request", opened))
    assert waiting.state is TaskState.WAITING
    again = bench.task(bench.deliver("check_run", clicked(waiting.id)))
    assert again.trust_scope is TrustScope.FORK_PR
    assert again.content_trust is TrustScope.FORK_PR
    assert again.payload["approved_sha"] == HEAD
    before = bench.tasks()[0]
    assert before.state is TaskState.SUPERSEDED


def test_an_outsiders_content_stays_external_after_a_click(bench: Bench) -> None:
    bench.configure(settings(review={"pull_request": True, "external": "on"}))
    parent = reviewed(bench, pull_request__user=STRANGER, sender=STRANGER)
    again = bench.task(bench.deliver("check_run", clicked(parent.id)))
    assert again.trust_scope is TrustScope.MAINTAINER
    assert again.content_trust is TrustScope.EXTERNAL


def test_fix_this_hands_the_findings_over(bench: Bench) -> None:
    parent = reviewed(bench)
    fix = bench.task(
        bench.deliver("check_run", clicked(parent.id, "requested_action", button="fix"))
    )
    assert (fix.lane, fix.verb, fix.parent_task_id) == (Lane.FIX, "fix", parent.id)
    told = fix.payload["comment_body"]
    assert "a.py:4" in told
    assert "Shell injection" in told
    assert "Pass a list." in told
    assert fix.payload["approved_sha"] == HEAD


def test_fix_this_without_findings_starts_nothing(bench: Bench) -> None:
    parent = reviewed(bench)
    bench.finish(parent, "completed", result={"review": {"findings": []}})
    answer = bench.deliver("check_run", clicked(parent.id, "requested_action", button="fix"))
    assert ignored(answer) == "nothing_to_fix"


def test_go_deeper_reviews_the_same_head_with_its_own_verb(bench: Bench) -> None:
    parent = reviewed(bench)
    body = clicked(parent.id, "requested_action", button="deepen")
    deeper = bench.task(bench.deliver("check_run", body))
    assert (deeper.lane, deeper.verb) == (Lane.REVIEW, "deepen")
    assert (deeper.head_sha, deeper.payload["approved_sha"]) == (HEAD, HEAD)
    (check,) = bench.surfaces(deeper)
    assert check.desired["name"] == "Cody / review"


def test_a_suite_runs_everything_of_ours_on_the_head_again(bench: Bench) -> None:
    first = reviewed(bench)
    bench.clock.advance(90)
    again = bench.task(bench.deliver("check_run", clicked(first.id)))
    bench.finish(again, "completed")
    bench.clock.advance(90)
    answer = bench.deliver("check_suite", suite(), "s")
    (rerun,) = bench.of_delivery("s")
    assert answer.json["task"] == rerun.id
    assert rerun.parent_task_id == again.id  # the newest of its kind
    assert rerun.reason == "check_suite:rerun"


@pytest.mark.parametrize(
    ("body", "reason"),
    [(suite("2" * 40), "unknown_check"), (suite(app=9), "not_our_check")],
)
def test_a_suite_that_is_not_ours_starts_nothing(
    bench: Bench, body: dict[str, Any], reason: str
) -> None:
    reviewed(bench)
    assert ignored(bench.deliver("check_suite", body)) == reason


def test_a_suite_on_our_own_branch_finds_the_work_that_pushed_it(bench: Bench) -> None:
    labelled = payload("issues.labeled")
    parent = bench.task(bench.deliver("issues", labelled))
    bench.finish(parent, "completed", branch="cody/fix-3-abc")
    bench.deliver("check_suite", suite("9" * 40, branch="cody/fix-3-abc"), "s")
    (rerun,) = bench.of_delivery("s")
    assert (rerun.verb, rerun.is_pull, rerun.parent_task_id) == ("fix", False, parent.id)


def test_a_check_of_another_tenant_is_unknown(bench: Bench) -> None:
    parent = reviewed(bench)
    body = clicked(parent.id)
    body["installation"] = {"id": 43}
    assert ignored(bench.deliver("check_run", body)) == "unknown_check"


def test_an_uninstalled_app_stops_everything_and_shows_nothing_more(bench: Bench) -> None:
    queued = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    before = [s.desired for s in bench.surfaces(queued)]
    issue = bench.task(bench.deliver("issues", payload("issues.labeled")))
    bench.run(issue)
    gone = {"action": "deleted", "installation": {"id": 42}, "sender": MONA}
    assert bench.deliver("installation", gone).json["learned"] == "installation_deleted"
    first, second = bench.tasks()
    assert (first.state, first.outcome) == (TaskState.CANCELLED, "installation_gone")
    assert second.state is TaskState.RUNNING
    assert second.cancel_reason == "cancelled: the App was uninstalled"
    assert [s.desired for s in bench.surfaces(queued)] == before


def test_a_suspended_app_stops_too_and_other_tenants_go_on(bench: Bench) -> None:
    kept = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    gone = {"action": "suspend", "installation": {"id": 43}, "sender": MONA}
    assert bench.deliver("installation", gone).json["learned"] == "installation_suspended"
    assert bench.tasks()[0].state is TaskState.QUEUED
    gone["installation"] = {"id": 42}
    bench.deliver("installation", gone)
    assert bench.tasks()[0].id == kept.id
    assert bench.tasks()[0].state is TaskState.CANCELLED


def test_a_suspended_app_that_is_back_shows_what_ended_meanwhile(bench: Bench) -> None:
    task = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    event = {"action": "suspend", "installation": {"id": 42}, "sender": MONA}
    bench.deliver("installation", event)
    (check,) = [s for s in bench.surfaces(task) if s.kind is SurfaceKind.CHECK_RUN]
    assert (check.state, check.desired["conclusion"]) == (SurfaceState.PENDING, "cancelled")
    with bench.store.write() as tx:
        tx.execute(
            update(surface_rows).values(
                state="failed", tries=3, error="InstallationGone: the installation is suspended"
            )
        )
    event |= {"action": "unsuspend", "installation": {"id": 43}}
    assert bench.deliver("installation", event).json["learned"] == "installation_unsuspended"
    assert {s.state for s in bench.surfaces(task)} == {SurfaceState.FAILED}
    bench.deliver("installation", event | {"installation": {"id": 42}})
    assert {(s.state, s.tries) for s in bench.surfaces(task)} == {(SurfaceState.PENDING, 0)}


@pytest.mark.parametrize("lane_on", [True, False])
def test_a_push_tells_a_commanded_review_and_does_not_drop_it(bench: Bench, lane_on: bool) -> None:
    parent = reviewed(bench)
    bench.clock.advance(1)
    asked = bench.task(bench.deliver("check_run", clicked(parent.id)))
    pushed = payload(
        "pull_request.opened",
        action="synchronize",
        pull_request__head__sha="3" * 40,
        pull_request__updated_at="2031-01-01T00:00:00Z",
    )
    if not lane_on:
        bench.configure(settings(review={"pull_request": False}))
    bench.deliver("pull_request", pushed)
    states = {task.id: task.state for task in bench.tasks()}
    assert states[asked.id] is TaskState.QUEUED
    told = [s for s in bench.surfaces(asked) if s.kind is SurfaceKind.STATUS_COMMENT]
    assert "333333333333" in told[0].desired["body"]
    assert HEAD[:12] in told[0].desired["body"]


def test_a_click_is_no_answer_to_a_question(bench: Bench) -> None:
    parent = reviewed(bench)
    body = clicked(parent.id, "requested_action", button="fix")
    fix = bench.task(bench.deliver("check_run", body))
    with bench.store.write() as tx:
        tx.execute(
            update(table)
            .where(table.c.id == fix.id)
            .values(state="waiting", waiting_for="answer", expires_at=bench.clock.now())
        )
    other = clicked(parent.id, "requested_action", button="fix", sender=LISA)
    assert ignored(bench.deliver("check_run", other)) == f"already_queued:{fix.id}"
    assert bench.tasks()[-1].state is TaskState.WAITING


def test_the_memory_button_is_written_down_for_the_worker(bench: Bench) -> None:
    task = reviewed(bench)
    body = clicked(task.id, "requested_action", button="mem_approve")
    asked = bench.task(bench.deliver("check_run", body))
    assert (asked.lane, asked.verb, asked.parent_task_id) == (Lane.CONTROL, "mem_approve", task.id)
    assert asked.payload == {"check_run": f"{task.id}:1"}
    assert asked.actor_login == MONA["login"]


def test_the_memory_button_is_not_for_strangers(bench: Bench) -> None:
    task = reviewed(bench)
    body = clicked(task.id, "requested_action", button="mem_approve", sender=STRANGER)
    assert ignored(bench.deliver("check_run", body)) == "actor_lacks_write"
