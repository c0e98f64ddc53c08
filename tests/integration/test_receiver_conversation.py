"""Cancel, retry, deepen and plain replies: what the receiver makes of a conversation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from coven.github.models import Permission
from coven.store.engine import Store
from coven.store.tables import tasks as table
from coven.store.tasks import Task
from coven.values import Lane, SurfaceKind, TaskState, TrustScope
from tests.integration.receiver_kit import LISA, MONA, Bench, payload

STRANGER = {"login": "stranger", "id": 9, "type": "User"}
BOT = {"login": "other[bot]", "id": 78, "type": "Bot"}


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    made = Bench(sqlite_store)
    made.github.rights["stranger"] = Permission("read", "read", 9)
    return made


def said(
    body: str, id_: int, *, pull: bool = True, at: str | None = None, **changes: Any
) -> dict[str, Any]:
    name = "issue_comment.created.pull" if pull else "issue_comment.created.issue"
    event = payload(name, comment__body=body, comment__id=id_, **changes)
    if at is not None:
        event["comment"]["created_at"] = at
    return event


def ignored(answer: Any) -> str:
    assert answer.status_code == 202, answer.json
    return str(answer.json["ignored"])


def asking(bench: Bench, task: Task, question: str = "Zero or an error?") -> None:
    """The worker put the task to waiting for an answer."""
    later: datetime = bench.clock.now() + timedelta(hours=72)
    with bench.store.write() as tx:
        tx.execute(
            update(table)
            .where(table.c.id == task.id)
            .values(
                state="waiting",
                waiting_for="answer",
                summary=question,
                expires_at=later,
                attempts_used=1,
                lease_token=None,
            )
        )


def now_of(bench: Bench, task: Task) -> Task:
    return next(t for t in bench.tasks() if t.id == task.id)


def reactions(bench: Bench, task: Task) -> dict[str, str]:
    return {
        s.subject: s.desired["content"]
        for s in bench.surfaces(task)
        if s.kind is SurfaceKind.REACTION
    }


# --- acknowledgement ---------------------------------------------------------------------------


def test_a_command_is_acknowledged_by_a_reaction_on_its_comment(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    assert reactions(bench, task) == {"comment:1": "eyes"}


def test_a_command_that_is_not_confirmed_gets_no_reaction_yet(bench: Bench) -> None:
    bench.github.mode = "error"
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    assert bench.surfaces(task) == []


def test_a_command_in_a_review_body_has_nothing_to_react_to(bench: Bench) -> None:
    event = payload("pull_request_review.submitted", review__body="@familiar fix it")
    task = bench.task(bench.deliver("pull_request_review", event))
    assert reactions(bench, task) == {}


def test_a_deleted_command_ends_with_its_reaction(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    bench.deliver("issue_comment", said("@familiar fix it", 1) | {"action": "deleted"})
    assert now_of(bench, task).state is TaskState.CANCELLED
    assert reactions(bench, task) == {"comment:1": "confused"}


# --- cancel ------------------------------------------------------------------------------------


def test_cancel_is_a_control_task_of_people_with_write_access(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar cancel", 2, sender=MONA)))
    assert (task.lane, task.verb) == (Lane.CONTROL, "cancel")
    assert ("control", task.id) in bench.bell.rung
    refused = bench.deliver("issue_comment", said("@familiar cancel", 3, sender=STRANGER))
    assert ignored(refused) == "actor_lacks_write"


def test_a_wish_to_stop_is_not_dropped_for_an_answer(bench: Bench) -> None:
    event = said("@familiar status\n\n@familiar cancel", 2)
    bench.deliver("issue_comment", event, "d")
    assert [task.verb for task in bench.of_delivery("d")] == ["cancel"]


def test_a_command_that_arrives_after_a_later_cancel_is_cancelled(bench: Bench) -> None:
    stop = bench.task(
        bench.deliver("issue_comment", said("@familiar cancel", 2, at="2026-01-01T10:00:09Z"))
    )
    bench.finish(stop, "completed")
    late = said("@familiar fix it", 1, at="2026-01-01T10:00:05Z")
    assert ignored(bench.deliver("issue_comment", late)) == f"cancelled:{stop.id}"
    after = said("@familiar fix it", 3, at="2026-01-01T10:00:11Z")
    assert bench.task(bench.deliver("issue_comment", after)).state is TaskState.QUEUED


def test_work_asked_for_while_the_same_is_stopping_is_queued_behind_it(bench: Bench) -> None:
    first = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    bench.run(first)
    busy = said("@familiar fix it", 2)
    assert ignored(bench.deliver("issue_comment", busy)) == f"already_queued:{first.id}"
    with bench.store.write() as tx:
        tx.execute(
            update(table)
            .where(table.c.id == first.id)
            .values(cancel_requested_at=bench.clock.now(), cancel_reason="cancelled: x")
        )
    second = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 3)))
    assert second.semantic_key == f"{first.semantic_key}:{first.id[:8]}"


# --- retry and deepen --------------------------------------------------------------------------


def test_retry_repeats_the_last_ended_work_with_its_text(bench: Bench) -> None:
    first = bench.task(bench.deliver("issue_comment", said("@familiar fix the rounding", 1)))
    bench.finish(first, "failed")
    again = bench.task(bench.deliver("issue_comment", said("@familiar retry", 2)))
    assert (again.verb, again.lane, again.parent_task_id) == ("fix", Lane.FIX, first.id)
    assert again.payload["args"] == "the rounding"
    assert again.payload["comment_body"] == "@familiar fix the rounding"
    assert again.semantic_key == first.semantic_key
    assert again.comment_id == 2


def test_retry_with_words_adds_them(bench: Bench) -> None:
    first = bench.task(bench.deliver("issue_comment", said("@familiar fix the rounding", 1)))
    bench.finish(first, "cancelled")
    again = bench.task(bench.deliver("issue_comment", said("@familiar retry in cents", 2)))
    assert again.payload["args"] == "the rounding\n\nin cents"


def test_retry_keeps_what_a_review_was_bound_to(bench: Bench) -> None:
    sha = "1" * 40
    first = bench.task(bench.deliver("issue_comment", said(f"@familiar review {sha}", 1)))
    bench.finish(first, "failed")
    again = bench.task(bench.deliver("issue_comment", said("@familiar retry", 2)))
    assert (again.verb, again.payload["approved_sha"]) == ("review", sha)


def test_retry_without_anything_ended_is_explained(bench: Bench) -> None:
    answer = bench.deliver("issue_comment", said("@familiar retry", 2), "d")
    assert ignored(answer) == "nothing_to_retry"
    (task,) = bench.of_delivery("d")
    assert task.lane is Lane.CONTROL
    assert "nothing to do again" in task.payload["reply_body"]


def test_deepen_is_a_review_and_needs_a_pull_request(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar deepen", 1)))
    assert (task.lane, task.verb) == (Lane.REVIEW, "deepen")
    on_issue = bench.deliver("issue_comment", said("@familiar deepen", 2, pull=False))
    assert ignored(on_issue) == "not_a_pull_request"


# --- answers -----------------------------------------------------------------------------------


def test_a_plain_reply_of_a_permitted_person_resumes_the_waiting_task(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    answer = bench.deliver("issue_comment", said("An error, please.", 2, sender=LISA))
    assert answer.json == {"ok": True, "task": task.id}
    resumed = now_of(bench, task)
    assert (resumed.state, resumed.round, resumed.attempts_used) == (TaskState.QUEUED, 2, 0)
    assert resumed.expires_at is None
    assert resumed.payload["answers"] == [
        {
            "question": "Zero or an error?",
            "answer": "An error, please.",
            "by": "lisa",
            "comment_id": 2,
        }
    ]
    assert bench.bell.rung[-2:] == [("session", task.id), ("publish", task.id)]
    assert reactions(bench, task)["comment:2"] == "rocket"
    assert len(bench.tasks()) == 1


@pytest.mark.parametrize(
    ("sender", "reason"),
    [(STRANGER, "waiting_not_for_you"), (BOT, "sender_is_bot")],
)
def test_others_cannot_answer(bench: Bench, sender: Any, reason: str) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    assert ignored(bench.deliver("issue_comment", said("Zero!", 2, sender=sender))) == reason
    assert now_of(bench, task).state is TaskState.WAITING
    assert "comment:2" not in reactions(bench, task)


def test_our_own_words_are_no_answer(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    own = said("Zero or an error?", 2)
    own["comment"]["performed_via_github_app"] = {"id": 4242}
    assert ignored(bench.deliver("issue_comment", own)) == "own_comment"
    assert now_of(bench, task).state is TaskState.WAITING


def test_an_answer_that_could_not_be_confirmed_goes_to_the_worker_unseen(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    bench.clock.advance(120)  # what was known of the sender is forgotten
    bench.github.mode = "error"
    handed = bench.task(bench.deliver("issue_comment", said("An error.", 2)))
    assert (handed.lane, handed.verb, handed.parent_task_id) == (Lane.CONTROL, "answer", task.id)
    assert handed.trust_scope is TrustScope.EXTERNAL
    assert handed.payload == {"answer": "An error."}
    assert bench.surfaces(handed) == []
    assert now_of(bench, task).state is TaskState.WAITING


def test_the_same_command_with_words_is_an_answer_too(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    answer = bench.deliver("issue_comment", said("@familiar fix with an error", 2))
    assert answer.json["task"] == task.id
    assert now_of(bench, task).payload["answers"][0]["answer"] == "@familiar fix with an error"


@pytest.mark.parametrize("words", ["fix", "retry", "retry harder"])
def test_a_command_without_words_of_its_own_is_no_answer(bench: Bench, words: str) -> None:
    ended = bench.task(bench.deliver("issue_comment", said("@familiar fix the rounding", 1)))
    bench.finish(ended, "failed")
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 2)))
    asking(bench, task)
    answer = bench.deliver("issue_comment", said(f"@familiar {words}", 3))
    assert ignored(answer) == f"already_queued:{task.id}"
    assert now_of(bench, task).state is TaskState.WAITING


@pytest.mark.parametrize(
    "words", ["> Zero or an error?", "> one\n>\n> @familiar cancel\n", "<!-- Zero -->\n> x", "<!--"]
)
def test_a_quotation_alone_is_no_answer(bench: Bench, words: str) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    quoted = bench.deliver("issue_comment", said(words, 2, sender=MONA))
    assert ignored(quoted) in ("not_addressed", "no_command")
    assert now_of(bench, task).state is TaskState.WAITING
    own = bench.deliver("issue_comment", said(f"> Zero or an error?\n\nZero.\n{words}", 3))
    assert own.json["task"] == task.id


def test_an_answer_counts_once(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    asking(bench, task)
    event = said("An error.", 2)
    bench.deliver("issue_comment", event, "a")
    asking(bench, task, "Which error?")
    assert bench.deliver("issue_comment", event, "a").json["duplicate"] is True
    other_form = said("An error.", 2, comment__html_url="https://example.test/2")
    assert ignored(bench.deliver("issue_comment", other_form)) == "not_addressed"
    assert now_of(bench, task).state is TaskState.WAITING


def test_a_thread_that_waits_for_nothing_hears_no_answer(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    assert ignored(bench.deliver("issue_comment", said("Nice.", 2))) == "not_addressed"
    assert now_of(bench, task).payload.get("answers") is None


def test_only_the_last_answers_are_kept_and_each_is_bounded(bench: Bench) -> None:
    task = bench.task(bench.deliver("issue_comment", said("@familiar fix it", 1)))
    for number in range(7):
        asking(bench, task, f"Question {number}?")
        bench.deliver("issue_comment", said("x" * 30_000, 10 + number))
    answers = now_of(bench, task).payload["answers"]
    assert [entry["question"] for entry in answers] == [f"Question {n}?" for n in range(2, 7)]
    assert all(len(entry["answer"]) <= 16_384 for entry in answers)
