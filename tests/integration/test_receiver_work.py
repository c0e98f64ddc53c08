"""What deliveries become: tasks with the right authority, and ignored ones with the true reason."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from coven.github.models import Permission
from coven.github.roles import Role
from coven.store.engine import Store
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.values import Lane, SurfaceKind, TaskState, TrustScope
from tests.integration.receiver_kit import HEAD, LISA, MONA, Bench, payload, settings

STRANGER = {"login": "stranger", "id": 9, "type": "User"}
FORK = {"id": 777, "name": "billing", "full_name": "stranger/billing", "fork": True}
NEXT = "3" * 40


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    made = Bench(sqlite_store)
    made.github.rights["stranger"] = Permission("read", "read", 9)
    return made


def pull_event(action: str = "opened", **changes: Any) -> dict[str, Any]:
    return payload("pull_request.opened", action=action, **changes)


def comment_event(body: str, *, pull: bool = True, id_: int = 9002, **changes: Any) -> Any:
    name = "issue_comment.created.pull" if pull else "issue_comment.created.issue"
    return payload(name, comment__body=body, comment__id=id_, **changes)


def first_surfaces(bench: Bench, task: Task) -> list[Surface]:
    """What is shown beside the reaction on the command itself."""
    return [s for s in bench.surfaces(task) if s.kind is not SurfaceKind.REACTION]


def ignored(answer: Any) -> str:
    assert answer.status_code == 202, answer.json
    return str(answer.json["ignored"])


# --- automatic review -------------------------------------------------------------------------


def test_opened_pull_request_becomes_a_review_with_a_queued_check(bench: Bench) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event(), "d"))
    assert (task.lane, task.verb, task.reason) == (Lane.REVIEW, "review", "opened")
    assert (task.automatic, task.state, task.head_sha) == (True, TaskState.QUEUED, HEAD)
    assert (task.trust_scope, task.content_trust) == (TrustScope.MAINTAINER,) * 2
    assert task.semantic_key == f"review:555:7:cody:{HEAD}"
    assert (task.actor_id, task.author_id, task.max_attempts) == (2002, 2002, 3)
    (check,) = bench.surfaces(task)
    assert (check.kind, check.subject) == (SurfaceKind.CHECK_RUN, f"task:{task.id}:1")
    assert check.desired["status"] == "queued"
    assert check.desired["name"] == "Cody / review"
    assert check.desired["external_id"] == f"{task.id}:1"
    assert bench.row("d").routing == f"task:{task.id}"
    assert bench.bell.rung == [("session", task.id), ("publish", task.id)]
    assert bench.github.roles == [Role.LOOKUP]


@pytest.mark.parametrize(
    ("changes", "config", "reason"),
    [
        ({"pull_request__draft": True}, {}, "draft"),
        ({"pull_request__state": "closed"}, {}, "closed"),
        ({"repository__archived": True}, {}, "repository_archived"),
        ({"pull_request__user__login": "Cody-Familiar[bot]"}, {}, "own_pull_request"),
        ({"installation": None}, {}, "no_installation"),
        ({"repository": None}, {}, "no_repository"),
        ({"action": "locked"}, {}, "action_not_handled"),
        ({"action": 1}, {}, "action_not_handled"),
        ({}, {"review": {"pull_request": False}}, "automatic_review_off"),
        ({}, {"review": {"familiar": "nova"}}, "no_familiar"),
        ({}, {"installations": [{"id": 42, "triggers": {"reviews": False}}]}, "lane_off:reviews"),
        ({}, {"installations": [{"id": 42, "familiars": ["nova"]}]}, "no_familiar"),
        (
            {},
            {"installations": [{"id": 42, "repos": {"ACME-Inc/Billing": {"enabled": False}}}]},
            "lane_off:reviews",
        ),
    ],
)
def test_pull_request_that_is_not_reviewed_says_why(
    bench: Bench, changes: dict[str, Any], config: dict[str, Any], reason: str
) -> None:
    bench.configure(settings(**config))
    assert ignored(bench.deliver("pull_request", pull_event(**changes), "d")) == reason
    assert bench.row("d").routing == f"ignored:{reason}"
    assert bench.tasks() == []
    assert bench.github.calls == []


def test_listed_installation_is_served_by_its_own_familiar(bench: Bench) -> None:
    nova = {"id": "nova", "display_name": "Nova", "bot_username": "nova[bot]"}
    cody = settings().familiars[0].model_dump()
    bench.configure(
        settings(familiars=[cody, nova], installations=[{"id": 42, "familiars": ["nova"]}])
    )
    assert bench.task(bench.deliver("pull_request", pull_event())).familiar_id == "nova"


def test_newer_head_supersedes_older_automatic_work_and_closes_its_check(bench: Bench) -> None:
    old = bench.task(bench.deliver("pull_request", pull_event()))
    new = bench.task(bench.deliver("pull_request", pushed(1)))
    before, after = bench.tasks()
    assert (before.state, before.superseded_by) == (TaskState.SUPERSEDED, new.id)
    assert after.state is TaskState.QUEUED
    (check,) = bench.surfaces(old)
    assert (check.desired["status"], check.desired["conclusion"]) == ("completed", "neutral")
    assert check.desired["head_sha"] == HEAD


def test_newer_head_asks_a_running_review_to_stop(bench: Bench) -> None:
    old = bench.task(bench.deliver("pull_request", pull_event()))
    bench.run(old)
    new = bench.task(bench.deliver("pull_request", pushed(1)))
    before = bench.tasks()[0]
    assert before.state is TaskState.RUNNING
    assert (before.cancel_reason or "").startswith("superseded: ")
    assert before.superseded_by == new.id


def test_older_head_that_arrives_late_is_stale(bench: Bench) -> None:
    kept = bench.task(bench.deliver("pull_request", pushed(5)))
    assert ignored(bench.deliver("pull_request", pull_event())) == "stale_head"
    assert [task.id for task in bench.tasks()] == [kept.id]


def test_same_head_is_not_reviewed_twice(bench: Bench) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event()))
    again = pull_event("reopened", pull_request__updated_at="2026-01-01T12:00:00Z")
    assert ignored(bench.deliver("pull_request", again)) == f"already_queued:{task.id}"
    bench.finish(task, "completed")
    assert ignored(bench.deliver("pull_request", again)) == f"already_reviewed:{task.id}"
    bench.finish(task, "failed")
    assert ignored(bench.deliver("pull_request", again)) == f"review_failed:{task.id}"


def test_review_that_was_cancelled_by_closing_comes_back_on_reopening(bench: Bench) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event()))
    closed = pull_event(
        "closed", pull_request__state="closed", pull_request__updated_at="2026-01-01T11:00:00Z"
    )
    assert ignored(bench.deliver("pull_request", closed)) == "closed:7:1767265200"
    (before,) = bench.tasks()
    assert (before.state, before.detail) == (
        TaskState.CANCELLED,
        "cancelled: pull request closed",
    )
    (check,) = bench.surfaces(task)
    assert check.desired["conclusion"] == "cancelled"
    again = pull_event("reopened", pull_request__updated_at="2026-01-01T12:00:00Z")
    assert bench.task(bench.deliver("pull_request", again)).state is TaskState.QUEUED


def test_closing_asks_a_running_review_to_stop_and_spares_commanded_ones(bench: Bench) -> None:
    auto = bench.task(bench.deliver("pull_request", pull_event()))
    bench.run(auto)
    asked = bench.task(bench.deliver("issue_comment", comment_event("@cody-familiar review")))
    bench.deliver("pull_request", pull_event("closed", pull_request__state="closed"))
    states = {task.id: task for task in bench.tasks()}
    assert states[auto.id].cancel_reason == "cancelled: pull request closed"
    assert states[asked.id].state is TaskState.QUEUED


def test_closing_that_is_delivered_late_spares_what_came_after(bench: Bench) -> None:
    again = pull_event("reopened", pull_request__updated_at="2026-01-01T12:00:00Z")
    bench.deliver("pull_request", again)
    closed = pull_event(
        "closed", pull_request__state="closed", pull_request__updated_at="2026-01-01T11:00:00Z"
    )
    assert ignored(bench.deliver("pull_request", closed)) == "closed:7:1767265200"
    assert bench.tasks()[0].state is TaskState.QUEUED


def test_conversion_to_draft_cancels_the_automatic_review(bench: Bench) -> None:
    bench.deliver("pull_request", pull_event())
    draft = pull_event("converted_to_draft", pull_request__draft=True)
    assert ignored(bench.deliver("pull_request", draft)).startswith("draft:7:")
    assert bench.tasks()[0].state is TaskState.CANCELLED


def pushed(minutes: int, sha: str = NEXT) -> dict[str, Any]:
    return pull_event(
        "synchronize",
        pull_request__head__sha=sha,
        pull_request__updated_at=f"2026-01-01T10:{minutes:02}:00Z",
    )


# --- outsiders --------------------------------------------------------------------------------


@pytest.mark.parametrize("head_repo", [FORK, None])
def test_fork_waits_for_a_maintainer_whoever_opened_it(bench: Bench, head_repo: Any) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event(pull_request__head__repo=head_repo)))
    assert (task.state, task.waiting_for) == (TaskState.WAITING, "approval")
    assert task.trust_scope is TrustScope.FORK_PR
    assert task.expires_at == bench.clock.now() + timedelta(days=14)
    (check,) = bench.surfaces(task)
    assert check.desired["status"] == "completed"
    assert check.desired["conclusion"] == "action_required"
    assert f"@cody-familiar review {HEAD}" in check.desired["summary"]
    assert bench.bell.rung == [("publish", task.id)]
    assert bench.github.calls == []


@pytest.mark.parametrize(
    ("external", "state"), [("off", None), ("ask", "waiting"), ("on", "queued")]
)
def test_outsiders_are_treated_as_the_policy_says(
    bench: Bench, external: str, state: str | None
) -> None:
    bench.configure(settings(review={"external": external}))
    answer = bench.deliver("pull_request", pull_event(pull_request__user=STRANGER))
    if state is None:
        assert ignored(answer) == "external_review_off"
        return
    task = bench.task(answer)
    assert (task.state, task.trust_scope) == (state, TrustScope.EXTERNAL)
    assert len(bench.surfaces(task)) == 1


def test_unknown_standing_of_an_author_shows_nothing(bench: Bench) -> None:
    bench.github.mode = "error"
    task = bench.task(bench.deliver("pull_request", pull_event()))
    assert (task.state, task.trust_scope) == (TaskState.QUEUED, TrustScope.EXTERNAL)
    assert task.trust_evidence["source"] == "unavailable"
    assert bench.surfaces(task) == []


def test_approved_commit_is_a_new_review_and_answers_what_waited(bench: Bench) -> None:
    waiting = bench.task(bench.deliver("pull_request", pull_event(pull_request__head__repo=FORK)))
    said = comment_event(f"@cody-familiar review `{HEAD.upper()}`")
    asked = bench.task(bench.deliver("issue_comment", said))
    assert asked.payload["approved_sha"] == HEAD
    assert (asked.automatic, asked.head_sha) == (False, None)
    before = bench.tasks()[0]
    assert (before.id, before.state) == (waiting.id, TaskState.SUPERSEDED)
    assert before.superseded_by == asked.id


def test_stranger_can_not_settle_what_waits(bench: Bench) -> None:
    bench.deliver("pull_request", pull_event(pull_request__head__repo=FORK))
    said = comment_event(f"@cody-familiar review {HEAD}", sender=STRANGER)
    assert ignored(bench.deliver("issue_comment", said)) == "actor_lacks_write"
    bench.github.mode = "error"
    late = comment_event(f"@cody-familiar review {HEAD}", id_=1, sender={**LISA, "id": 5})
    bench.deliver("issue_comment", late)
    assert bench.tasks()[0].state is TaskState.WAITING


@pytest.mark.parametrize("argument", ["1111111", "1" * 39, "1" * 63, "DEADBEEF"])
def test_short_commit_id_is_answered_and_starts_nothing(bench: Bench, argument: str) -> None:
    answer = bench.deliver("issue_comment", comment_event(f"@cody-familiar review {argument}"), "d")
    assert ignored(answer) == "commit_not_full"
    assert bench.row("d").routing == "ignored:commit_not_full"
    (task,) = bench.of_delivery("d")
    assert (task.lane, task.verb) == (Lane.CONTROL, "review")
    assert "full id" in task.payload["reply_body"]
    assert bench.bell.rung == [("control", task.id)]


# --- commands, labels, assignment -------------------------------------------------------------

TRIGGERS = [
    ("issues", payload("issues.labeled")),
    ("issues", payload("issues.assigned")),
    ("pull_request", payload("pull_request.labeled")),
    ("issue_comment", payload("issue_comment.created.issue")),
    ("issue_comment", payload("issue_comment.created.pull")),
    ("pull_request_review_comment", payload("pull_request_review_comment.created")),
    ("pull_request_review", payload("pull_request_review.submitted")),
]


@pytest.mark.parametrize(("event", "body"), TRIGGERS)
def test_session_triggers_need_the_senders_write_access(
    bench: Bench, event: str, body: dict[str, Any]
) -> None:
    refused = bench.deliver(event, body | {"sender": STRANGER})
    assert ignored(refused) == "actor_lacks_write"
    nobody = bench.deliver(event, body | {"sender": {**STRANGER, "login": "ghost", "id": 10}})
    assert ignored(nobody) == "actor_lacks_write"
    renamed = bench.deliver(event, body | {"sender": {**MONA, "id": 11}})
    assert ignored(renamed) == "actor_lacks_write"
    assert bench.tasks() == []
    task = bench.task(bench.deliver(event, body))
    assert (task.trust_scope, task.actor_id) == (TrustScope.MAINTAINER, 2001)
    assert task.trust_evidence["source"] == "permission_api"
    assert task.trust_evidence["role"] == "maintain"
    assert len(first_surfaces(bench, task)) == 1


@pytest.mark.parametrize(("event", "body"), TRIGGERS)
def test_unconfirmed_sender_is_queued_as_external_and_shows_nothing(
    bench: Bench, event: str, body: dict[str, Any]
) -> None:
    bench.github.mode = "error"
    task = bench.task(bench.deliver(event, body))
    assert (task.trust_scope, task.content_trust) == (TrustScope.EXTERNAL,) * 2
    assert task.trust_evidence["source"] == "unavailable"
    assert bench.surfaces(task) == []
    assert bench.bell.rung == [("session", task.id)]


@pytest.mark.parametrize(("event", "body"), TRIGGERS)
def test_bots_never_trigger(bench: Bench, event: str, body: dict[str, Any]) -> None:
    robot = {"login": "renovate[bot]", "id": 70, "type": "Bot"}
    assert ignored(bench.deliver(event, body | {"sender": robot})) == "sender_is_bot"
    assert ignored(bench.deliver(event, body | {"sender": None})) == "no_sender"
    assert bench.tasks() == []


def test_own_comments_are_never_commands(bench: Bench) -> None:
    ours = {"login": "Cody-Familiar[bot]", "id": 3001, "type": "Bot"}
    said = comment_event("@cody-familiar review", sender=ours)
    assert ignored(bench.deliver("issue_comment", said)) == "own_comment"
    through_us = comment_event(
        "@cody-familiar review", comment__performed_via_github_app={"id": 4242}
    )
    assert ignored(bench.deliver("issue_comment", through_us)) == "own_comment"


def test_association_is_no_evidence(bench: Bench) -> None:
    bench.github.rights["mona"] = Permission("read", "read", 2001)
    member = comment_event("@cody-familiar review", comment__author_association="MEMBER")
    assert ignored(bench.deliver("issue_comment", member)) == "actor_lacks_write"


def test_custom_role_with_write_may_start_work(bench: Bench) -> None:
    bench.github.rights["mona"] = Permission("write", "security-lead", 2001)
    task = bench.task(bench.deliver("issue_comment", comment_event("@cody-familiar review")))
    assert task.trust_evidence["role"] == "security-lead"


@pytest.mark.parametrize(
    ("event", "name", "lane", "verb", "reason", "kind"),
    [
        ("issues", "issues.labeled", "fix", "fix", "labeled", "status_comment"),
        ("issues", "issues.assigned", "fix", "fix", "assigned", "status_comment"),
        ("pull_request", "pull_request.labeled", "review", "review", "labeled", "check_run"),
        (
            "issue_comment",
            "issue_comment.created.issue",
            "fix",
            "fix",
            "command:fix",
            "status_comment",
        ),
        (
            "issue_comment",
            "issue_comment.created.pull",
            "review",
            "review",
            "command:review",
            "status_comment",
        ),
        (
            "pull_request_review_comment",
            "pull_request_review_comment.created",
            "fix",
            "fix",
            "command:fix",
            "check_run",
        ),
        (
            "pull_request_review",
            "pull_request_review.submitted",
            "review",
            "review",
            "command:review",
            "check_run",
        ),
    ],
)
def test_triggers_choose_lane_and_first_surface(
    bench: Bench, event: str, name: str, lane: str, verb: str, reason: str, kind: str
) -> None:
    task = bench.task(bench.deliver(event, payload(name)))
    assert (task.lane, task.verb, task.reason) == (lane, verb, reason)
    assert [surface.kind for surface in first_surfaces(bench, task)] == [kind]


def test_label_that_ends_in_fix_means_a_fix_on_pull_requests_too(bench: Bench) -> None:
    body = payload("pull_request.labeled", label__name="Coven:Fix")
    task = bench.task(bench.deliver("pull_request", body))
    assert (task.lane, task.payload["label"]) == (Lane.FIX, "Coven:Fix")


@pytest.mark.parametrize(
    ("event", "body", "reason"),
    [
        ("issues", payload("issues.labeled", label__name="bug"), "label_not_mapped"),
        ("issues", payload("issues.labeled", issue__state="closed"), "closed"),
        ("issues", payload("issues.assigned", assignee=MONA), "assignee_not_familiar"),
        ("issues", payload("issues.assigned", assignee=None), "assignee_not_familiar"),
        ("issues", payload("issues.assigned", action="typed"), "action_not_handled"),
        ("issue_comment", comment_event("nice work"), "not_addressed"),
        ("issue_comment", comment_event("thanks @cody-familiar, review is fine"), "no_command"),
        ("issue_comment", comment_event("> @cody-familiar review"), "no_command"),
        (
            "issue_comment",
            payload("issue_comment.created.pull", comment__body=None),
            "not_addressed",
        ),
        ("issue_comment", payload("issue_comment.created.pull", issue__state="closed"), "closed"),
        (
            "issue_comment",
            payload("issue_comment.created.pull", action="pinned"),
            "action_not_handled",
        ),
        ("star", {"action": "created"}, "event_not_handled"),
        ("foo_bar", {}, "event_not_handled"),
        ("installation", payload("installation.created", action="typed"), "action_not_handled"),
    ],
)
def test_ignored_deliveries_say_the_true_reason(
    bench: Bench, event: str, body: dict[str, Any], reason: str
) -> None:
    assert ignored(bench.deliver(event, body, "d")) == reason
    assert bench.row("d").routing == f"ignored:{reason}"


def test_title_is_never_read_for_commands(bench: Bench) -> None:
    said = comment_event(
        "hello", issue__title="@cody-familiar fix x", issue__body="@cody-familiar fix"
    )
    assert ignored(bench.deliver("issue_comment", said)) == "not_addressed"


@pytest.mark.parametrize(
    ("triggers", "event", "name", "reason"),
    [
        ("labels", "issues", "issues.labeled", "lane_off:labels"),
        ("assignment", "issues", "issues.assigned", "lane_off:assignment"),
        ("commands", "issue_comment", "issue_comment.created.pull", "lane_off:commands"),
    ],
)
def test_switched_off_lane_is_named(
    bench: Bench, triggers: str, event: str, name: str, reason: str
) -> None:
    bench.configure(settings(installations=[{"id": 42, "triggers": {triggers: False}}]))
    assert ignored(bench.deliver(event, payload(name))) == reason


def test_text_of_the_delivery_is_kept_for_the_worker(bench: Bench) -> None:
    task = bench.task(
        bench.deliver("pull_request_review_comment", payload("pull_request_review_comment.created"))
    )
    assert task.payload["args"] == "this line"
    assert task.payload["path"] == "src/tax.py"
    assert task.payload["line"] == 12
    assert "return round(x)" in task.payload["diff_hunk"]
    assert task.payload["body"] == "Rounds as the law says."
    assert (task.comment_id, task.comment_kind) == (9003, "review_comment")
    assert (task.head_sha, task.base_ref) == (HEAD, "main")


def test_secrets_that_people_paste_are_not_kept_in_rows(bench: Bench) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    said = comment_event(f"@cody-familiar fix use {token}", issue__title=f"leak {token}")
    task = bench.task(bench.deliver("issue_comment", said))
    assert token not in json.dumps(task.payload) + task.title


def test_unstorable_characters_are_replaced(store: Store) -> None:
    bench = Bench(store)
    raw = json.dumps(comment_event("@cody-familiar fix a\x00b", issue__title="x\x00"))
    raw = raw.replace("a\\u0000b", "a\\u0000b \\ud800")
    task = bench.task(bench.post(raw.encode(), "issue_comment"))
    assert task.payload["args"] == "a\ufffdb ?"
    assert task.title == "x\ufffd"


def test_fix_and_label_on_one_issue_are_one_piece_of_work(bench: Bench) -> None:
    task = bench.task(bench.deliver("issues", payload("issues.labeled")))
    again = bench.deliver("issues", payload("issues.assigned"))
    assert ignored(again) == f"already_queued:{task.id}"
    said = bench.deliver("issue_comment", comment_event("@familiar fix", pull=False))
    assert ignored(said) == f"already_queued:{task.id}"


def test_commanded_review_does_not_disturb_the_automatic_one(bench: Bench) -> None:
    auto = bench.task(bench.deliver("pull_request", pull_event()))
    asked = bench.task(bench.deliver("issue_comment", comment_event("@familiar review")))
    assert {task.id for task in bench.tasks() if task.state is TaskState.QUEUED} == {
        auto.id,
        asked.id,
    }


def test_all_decisions_of_a_comment_are_one_task_and_none_is_dropped(bench: Bench) -> None:
    said = "@familiar status\n@familiar approve M-1\n@familiar approve M-2\n@familiar deny M-3"
    bench.deliver("issue_comment", comment_event(said), "d")
    (task,) = bench.of_delivery("d")
    assert (task.verb, task.payload) == (
        "approve",
        {"args": "M-1", "verb_2": "approve", "args_2": "M-2", "verb_3": "deny", "args_3": "M-3"},
    )


def test_several_commands_run_once_each_in_their_order(bench: Bench) -> None:
    said = comment_event(
        "@cody-familiar review\r\n@cody-familiar\u00a0fix  the\tnames \r\n\r\n@familiar review\r\n"
    )
    answer = bench.deliver("issue_comment", said, "d")
    made = bench.of_delivery("d")
    assert [(task.verb, task.payload.get("args")) for task in made] == [
        ("review", None),
        ("fix", "the\tnames"),
    ]
    assert answer.json["task"] == made[0].id
    assert bench.deliver("issue_comment", said, "d").json == {"ok": True, "duplicate": True}


def test_content_is_trusted_as_far_as_its_author(bench: Bench) -> None:
    own = comment_event("@familiar review", issue__user=MONA)
    assert bench.task(bench.deliver("issue_comment", own)).content_trust is TrustScope.MAINTAINER
    theirs = comment_event("@familiar fix", id_=2, issue__user=STRANGER)
    assert bench.task(bench.deliver("issue_comment", theirs)).content_trust is TrustScope.EXTERNAL
    gone = comment_event("@familiar fix", pull=False, id_=3, issue__user=None)
    task = bench.task(bench.deliver("issue_comment", gone))
    assert (task.content_trust, task.author_id) == (TrustScope.EXTERNAL, None)


def test_fork_head_overrides_the_actors_standing(bench: Bench) -> None:
    body = payload("pull_request.labeled", pull_request__head__repo=None)
    task = bench.task(bench.deliver("pull_request", body))
    assert (task.trust_scope, task.content_trust) == (TrustScope.FORK_PR,) * 2
    assert task.trust_evidence["permission"] == "write"
    assert task.from_fork


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["status", "help", "Frobnicate please"])
def test_collaborators_get_answers_on_the_control_lane(bench: Bench, words: str) -> None:
    bench.github.collaborators.add("stranger")
    said = comment_event(f"@cody-familiar {words}", sender=STRANGER)
    task = bench.task(bench.deliver("issue_comment", said))
    assert (task.lane, task.verb) == (Lane.CONTROL, words.split()[0])
    assert task.trust_scope is TrustScope.COLLABORATOR
    assert task.semantic_key == "control:555:9002"
    assert bench.surfaces(task) == []
    assert bench.bell.rung == [("control", task.id)]


@pytest.mark.parametrize("words", ["status", "help", "frobnicate", "review abcdef1"])
def test_strangers_get_no_answer(bench: Bench, words: str) -> None:
    said = comment_event(f"@cody-familiar {words}", sender=STRANGER)
    assert ignored(bench.deliver("issue_comment", said)) == "actor_not_collaborator"
    assert bench.tasks() == []


def test_reading_is_everybodys_right_in_public_and_evidence_in_private(bench: Bench) -> None:
    said = comment_event("@familiar status", sender=STRANGER, repository__private=True)
    task = bench.task(bench.deliver("issue_comment", said))
    assert task.trust_scope is TrustScope.COLLABORATOR
    assert ("is_collaborator", "stranger") not in bench.github.calls


@pytest.mark.parametrize("verb", ["garden"])
def test_verb_of_a_later_release_is_ignored_by_name_and_answered(bench: Bench, verb: str) -> None:
    answer = bench.deliver("issue_comment", comment_event(f"@familiar {verb} x"), "d")
    assert ignored(answer) == f"verb_not_available:{verb}"
    (task,) = bench.of_delivery("d")
    assert (task.lane, task.verb) == (Lane.CONTROL, verb)


def test_answered_delivery_that_comes_again_is_a_duplicate(bench: Bench) -> None:
    said = comment_event("@familiar garden")
    bench.deliver("issue_comment", said, "d")
    assert bench.deliver("issue_comment", said, "d").json == {"ok": True, "duplicate": True}
    assert bench.row("d").routing == "ignored:verb_not_available:garden"
    assert len(bench.of_delivery("d")) == 1


def test_review_on_an_issue_is_explained(bench: Bench) -> None:
    answer = bench.deliver("issue_comment", comment_event("@familiar review", pull=False), "d")
    assert ignored(answer) == "not_a_pull_request"
    assert "nothing to review" in bench.of_delivery("d")[0].payload["reply_body"]


# --- the same thing again ---------------------------------------------------------------------


def test_failed_task_gets_a_fresh_budget_when_its_delivery_comes_again(bench: Bench) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event(), "d"))
    bench.run(task)
    bench.finish(task, "failed", lease_token=None)
    bench.bell.rung.clear()
    answer = bench.deliver("pull_request", pull_event(), "d")
    assert (answer.status_code, answer.json) == (202, {"ok": True, "task": task.id})
    (again,) = bench.tasks()
    assert (again.state, again.round, again.attempts_used) == (TaskState.QUEUED, 2, 0)
    assert [s.subject for s in bench.surfaces(again)] == [
        f"task:{task.id}:1",
        f"task:{task.id}:2",
    ]
    assert bench.bell.rung == [("session", task.id), ("publish", task.id)]
    assert bench.deliver("pull_request", pull_event(), "d").json == {"ok": True, "duplicate": True}


@pytest.mark.parametrize("state", ["completed", "cancelled", "superseded"])
def test_settled_task_is_a_duplicate(bench: Bench, state: str) -> None:
    task = bench.task(bench.deliver("pull_request", pull_event(), "d"))
    bench.finish(task, state)
    assert bench.deliver("pull_request", pull_event(), "d").json == {"ok": True, "duplicate": True}
    assert bench.tasks()[0].state == state


def test_ignored_delivery_is_routed_again_after_the_configuration_changed(bench: Bench) -> None:
    bench.configure(settings(review={"pull_request": False}))
    assert ignored(bench.deliver("pull_request", pull_event(), "d")) == "automatic_review_off"
    bench.configure(settings())
    task = bench.task(bench.deliver("pull_request", pull_event(), "d"))
    assert bench.row("d").routing == f"task:{task.id}"
    assert bench.row("d").task_id == task.id


@pytest.mark.parametrize("state", ["queued", "completed", "failed"])
def test_second_hook_with_its_own_id_makes_no_second_task(bench: Bench, state: str) -> None:
    task = bench.task(bench.deliver("issue_comment", comment_event("@familiar review"), "one"))
    bench.finish(task, state)
    other = bench.deliver("issue_comment", comment_event("@familiar review"), "two")
    assert ignored(other) == f"same_event:{task.id}"


def test_comment_is_handled_once_whatever_the_body_of_its_second_delivery(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", comment_event("@familiar review")))
    bench.finish(task, "completed")
    later = comment_event("@familiar review", comment__updated_at="2026-01-02T00:00:00Z")
    assert ignored(bench.deliver("issue_comment", later)) == f"already_handled:{task.id}"


def test_new_comment_asks_anew(bench: Bench) -> None:
    first = bench.task(bench.deliver("issue_comment", comment_event("@familiar review")))
    bench.finish(first, "completed")
    second = bench.deliver("issue_comment", comment_event("@familiar review", id_=9500))
    assert bench.task(second).id != first.id


def test_comment_deleted_before_it_arrived_starts_nothing(bench: Bench) -> None:
    gone = comment_event("@familiar review", action="deleted")
    assert ignored(bench.deliver("issue_comment", gone)) == "comment_deleted:issue_comment:9002"
    late = bench.deliver("issue_comment", comment_event("@familiar review"))
    assert ignored(late) == "comment_deleted"


def test_deleting_a_comment_cancels_its_work(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", comment_event("@familiar review")))
    bench.deliver("issue_comment", comment_event("@familiar review", action="deleted"))
    assert bench.tasks()[0].state is TaskState.CANCELLED
    (comment,) = first_surfaces(bench, task)
    assert comment.desired["state"] == "cancelled"


def test_thread_pauses_after_many_requests(bench: Bench) -> None:
    for number in range(10):
        said = comment_event("@familiar review", id_=100 + number)
        bench.finish(bench.task(bench.deliver("issue_comment", said)), "completed")
    paused = bench.deliver("issue_comment", comment_event("@familiar review", id_=200))
    assert ignored(paused) == "thread_paused"
    bench.clock.advance(601)
    bench.task(bench.deliver("issue_comment", comment_event("@familiar review", id_=201)))


def test_renamed_repository_keeps_its_identity(bench: Bench) -> None:
    bench.deliver("pull_request", pull_event())
    renamed = pushed(1) | {"repository": pull_event()["repository"] | {"full_name": "acme/b2"}}
    task = bench.task(bench.deliver("pull_request", renamed))
    assert (task.repo_id, str(task.repo)) == (555, "acme/b2")
    assert bench.tasks()[0].state is TaskState.SUPERSEDED


def test_parallel_events_of_one_thread_leave_one_live_review(store: Store) -> None:
    bench = Bench(store)
    bodies = [json.dumps(pushed(n, f"{n:040x}")).encode() for n in range(1, 9)]
    from tests.integration.receiver_kit import SECRET
    from webhooks.signature import sign

    def send(number: int) -> int:
        headers = {
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": f"p-{number}",
            "X-Hub-Signature-256": sign(bodies[number], SECRET),
        }
        client = bench.app.test_client()
        return client.post("/webhook", data=bodies[number], headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(8))) == {202}
    live = [task for task in bench.tasks() if task.state is TaskState.QUEUED]
    assert [task.head_sha for task in live] == [f"{8:040x}"]


# --- shapes that GitHub sends, and shapes it should not ---------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"pull_request__user": None},
        {"pull_request__body": None},
        {"pull_request__title": None},
        {"pull_request__draft": None},
        {"pull_request__updated_at": None},
        {"pull_request__updated_at": "yesterday"},
        {"pull_request__updated_at": 1_767_261_600},
        {"pull_request__base__repo": None},
        {"sender": None},
        {"repository__owner": None},
        {"repository__default_branch": None},
        {"enterprise": {"id": 1, "slug": "acme"}},
        {"installation": {"id": 42, "account": {"id": 5, "name": "acme", "slug": "acme"}}},
    ],
)
def test_incomplete_but_usable_payloads_become_tasks(bench: Bench, changes: dict[str, Any]) -> None:
    assert bench.task(bench.deliver("pull_request", pull_event(**changes))).thread == 7


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"installation": "x"}, "bad_field:installation"),
        ({"installation__id": "42"}, "bad_field:installation.id"),
        ({"installation__id": True}, "bad_field:installation.id"),
        ({"installation__id": 10**30}, "bad_field:installation.id"),
        ({"repository__full_name": "../x"}, "bad_field:repository.full_name"),
        ({"repository__id": -1}, "bad_field:repository.id"),
        ({"pull_request": None}, "missing_field:pull_request"),
        ({"pull_request__number": 2**40}, "bad_field:pull_request.number"),
        ({"pull_request__head": None}, "bad_field:pull_request.head"),
        ({"pull_request__head__sha": "1111111"}, "bad_field:pull_request.head.sha"),
        ({"pull_request__head__sha": 5}, "bad_field:pull_request.head.sha"),
        ({"pull_request__head__ref": "x" * 300}, "bad_field:pull_request.head.ref"),
        ({"pull_request__body": ["a"]}, "bad_field:pull_request.body"),
    ],
)
def test_unusable_field_is_rejected_by_name(
    bench: Bench, changes: dict[str, Any], error: str
) -> None:
    answer = bench.deliver("pull_request", pull_event(**changes), "d")
    assert (answer.status_code, answer.json) == (400, {"ok": False, "error": error})
    assert bench.row("d").routing == f"rejected:{error}"


def test_odd_fields_of_events_we_do_not_handle_do_no_harm(bench: Bench) -> None:
    odd = {"comment": "a string", "installation": [], "repository": 5, "sender": True, "action": {}}
    assert ignored(bench.deliver("deployment_review", odd, "d")) == "event_not_handled"
    assert bench.row("d").installation_id is None


def test_hanging_github_delays_the_answer_by_its_budget_only(sqlite_store: Store) -> None:
    import time

    bench = Bench(sqlite_store, settings(github={"lookup_budget_secs": 0.1}))
    bench.github.mode = "hang"
    began = time.monotonic()
    task = bench.task(bench.deliver("issue_comment", comment_event("@familiar review")))
    assert time.monotonic() - began < 1.0
    assert task.trust_evidence["source"] == "unavailable"
    bench.github.released.set()
