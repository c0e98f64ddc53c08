"""What events change besides work: ends, facts, rights, edits, pauses; and their order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update

from coven.memory.keys import MemoryKey
from coven.store import book, installations, plans
from coven.store.engine import Store
from coven.store.tables import tasks as task_rows
from coven.store.tasks import Task
from coven.values import Lane, RepoId, RepoName, TaskState
from coven.waiting import WAITING_FOR_ANSWER
from tests.integration.receiver_kit import INSTALLATION, LISA, MONA, Bench, payload, settings
from tests.memory_book import new_entry
from webhooks.breaker import Breaker
from webhooks.signature import sign

BOT = {"login": "renovate[bot]", "id": 77, "type": "Bot"}
EARLY, NOON, LATE = (f"2026-01-01T{hour}:00:00Z" for hour in ("11", "12", "13"))


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store)


def said(text: str, comment: int = 9002, **changes: Any) -> dict[str, Any]:
    name = changes.pop("fixture", "issue_comment.created.pull")
    return payload(name, comment__body=text, comment__id=comment, **changes)


def edit(before: str, after: str, **changes: Any) -> dict[str, Any]:
    return payload(
        "issue_comment.edited", comment__body=after, changes={"body": {"from": before}}, **changes
    )


def ignored(answer: Any) -> str:
    return str(answer.json["ignored"])


def state(bench: Bench, task: Task) -> TaskState:
    return next(t.state for t in bench.tasks() if t.id == task.id)


# --- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixture", "undoing", "asking", "what", "thread"),
    [
        ("pull_request.opened", "closed", "opened", "closed", 7),
        ("pull_request.opened", "converted_to_draft", "ready_for_review", "draft", 7),
        ("pull_request.labeled", "unlabeled", "labeled", "unlabeled:7:coven:review", 7),
        ("issues.labeled", "unlabeled", "labeled", "unlabeled:3:coven:fix", 3),
        ("issues.labeled", "closed", "labeled", "closed", 3),
        ("issues.assigned", "unassigned", "assigned", "unassigned:3:cody", 3),
    ],
)
def test_a_wish_that_was_taken_back_stays_so_whatever_arrives_late(
    bench: Bench, fixture: str, undoing: str, asking: str, what: str, thread: int
) -> None:
    event = fixture.split(".")[0]
    holder = "pull_request" if event == "pull_request" else "issue"

    def at(moment: str, action: str) -> dict[str, Any]:
        return payload(fixture, action=action, **{f"{holder}__updated_at": moment})

    bench.deliver(event, at(NOON, undoing))
    reason = what if ":" in what else f"{what}:{thread}"
    assert ignored(bench.deliver(event, at(EARLY, asking))) == f"undone:{reason}"
    assert bench.tasks() == []
    bench.task(bench.deliver(event, at(LATE, asking)))


def test_what_was_taken_back_in_another_thread_counts_only_there(bench: Bench) -> None:
    bench.deliver("issues", payload("issues.labeled", action="unlabeled", issue__updated_at=NOON))
    bench.task(bench.deliver("issues", payload("issues.labeled", issue__number=33)))


# --- ends -------------------------------------------------------------------------------------


def test_taking_a_label_back_ends_what_it_asked_for_and_nothing_else(bench: Bench) -> None:
    labelled = bench.task(bench.deliver("issues", payload("issues.labeled")))
    said_so = bench.task(bench.deliver("issue_comment", said("@familiar deepen", issue__number=3)))
    bench.deliver("issues", payload("issues.labeled", action="unlabeled", issue__updated_at=NOON))
    assert state(bench, labelled) is TaskState.CANCELLED
    assert state(bench, said_so) is TaskState.QUEUED


def test_a_closed_issue_stops_running_work_too(bench: Bench) -> None:
    task = bench.task(bench.deliver("issues", payload("issues.labeled")))
    bench.run(task)
    bench.deliver("issues", payload("issues.opened", action="closed", issue__updated_at=NOON))
    (running,) = bench.tasks()
    assert running.cancel_reason == "cancelled: the issue was closed"


def test_a_deleted_branch_ends_the_work_on_it_and_no_forks(bench: Bench) -> None:
    mine = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    fork = payload(
        "pull_request.opened", pull_request__number=8, pull_request__head__repo={"id": 777}
    )
    theirs = bench.task(bench.deliver("pull_request", fork))
    gone = payload("push", deleted=True)
    assert ignored(bench.deliver("push", gone)) == "branch_deleted"
    assert state(bench, mine) is TaskState.CANCELLED
    assert state(bench, theirs) is TaskState.WAITING


def test_a_resolved_thread_ends_what_its_comments_asked_for(bench: Bench) -> None:
    asked = payload(
        "pull_request_review_comment.created", comment__body="@familiar fix", comment__id=9003
    )
    task = bench.task(bench.deliver("pull_request_review_comment", asked))
    other = bench.task(bench.deliver("issue_comment", said("@familiar review", 9100)))
    bench.deliver("pull_request_review_thread", payload("pull_request_review_thread.resolved"))
    assert state(bench, task) is TaskState.CANCELLED
    assert state(bench, other) is TaskState.QUEUED


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("repository", payload("repository.edited", action="archived")),
        ("repository", payload("repository.transferred")),
        ("installation_repositories", payload("installation_repositories.removed")),
    ],
)
def test_work_ends_where_nothing_may_be_done_any_more(
    bench: Bench, event: str, body: dict[str, Any]
) -> None:
    here = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    other = payload("issues.labeled", repository__id=556)
    elsewhere = bench.task(bench.deliver("issues", other))
    assert "learned" in bench.deliver(event, body).json
    assert state(bench, here) is TaskState.CANCELLED
    assert state(bench, elsewhere) is TaskState.QUEUED


def test_another_base_is_another_review_of_the_same_head(bench: Bench) -> None:
    first = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    moved = payload(
        "pull_request.opened",
        action="edited",
        changes={"base": {"ref": {"from": "main"}}},
        pull_request__base__ref="next",
        pull_request__updated_at=NOON,
    )
    second = bench.task(bench.deliver("pull_request", moved))
    assert (second.base_ref, second.head_sha) == ("next", first.head_sha)
    assert state(bench, first) is TaskState.SUPERSEDED


# --- facts ------------------------------------------------------------------------------------


def test_every_event_tells_whose_repository_it_is(bench: Bench) -> None:
    bench.deliver("issues", payload("issues.labeled", label__name="bug"))
    with bench.store.read() as tx:
        known = installations.get(INSTALLATION, tx)
        repo = installations.repository(INSTALLATION, tx, RepoId(555))
    assert known is not None
    assert (known.account_id, known.account_login) == (1001, "acme-inc")
    assert repo is not None
    bench.clock.advance(60)
    bench.deliver("issues", payload("issues.labeled", label__name="other"))
    with bench.store.read() as tx:
        assert installations.repository(INSTALLATION, tx, RepoId(555)) == repo
    bench.deliver("issues", payload("issues.labeled", repository__full_name="acme-inc/bills"))
    with bench.store.read() as tx:
        renamed = installations.repository(INSTALLATION, tx, RepoId(555))
    assert renamed is not None
    assert renamed.name == "bills"


@pytest.mark.parametrize("event", ["repository.edited", "issues.labeled"])
def test_keys_of_memory_name_the_repository_as_it_is_called_now(bench: Bench, event: str) -> None:
    name = RepoName("acme-inc", "billing")
    new = new_entry(repo_id=RepoId(555), repo=name, key=MemoryKey.parse(f"repo/{name}/conv/x"))
    with bench.store.write() as tx:
        entry = book.propose(INSTALLATION, tx, new, bench.clock.now()).entry
    assert entry is not None
    told = payload(event, repository__full_name="acme-inc/bills", repository__name="bills")
    if event == "repository.edited":
        told["action"] = "renamed"
    bench.deliver(event.partition(".")[0], told)
    with bench.store.read() as tx:
        found = book.entry(INSTALLATION, tx, entry.id)
    assert found is not None
    assert found.key == "repo/acme-inc/bills/conv/x"
    assert found.text_hash == entry.text_hash


def test_a_renamed_account_is_learned_once_and_a_late_event_does_not_undo_it(bench: Bench) -> None:
    bench.deliver("installation_target", payload("installation_target.renamed"))
    late = payload("installation_target.renamed", account__login="acme-old")
    late["account"]["updated_at"] = "2025-01-01T00:00:00Z"
    bench.deliver("installation_target", late)
    with bench.store.read() as tx:
        known = installations.get(INSTALLATION, tx)
    assert known is not None
    assert known.account_login == "acme-group"


def test_a_purchase_is_verified_by_its_own_secret_which_opens_nothing_else(bench: Bench) -> None:
    secret = "the marketplace's own secret"
    bench.configure(settings(github={"marketplace_webhook_secret": secret}))
    raw = json.dumps(payload("marketplace_purchase.purchased")).encode()
    signed = {"X-Hub-Signature-256": sign(raw, secret.encode())}
    answer = bench.post(raw, "marketplace_purchase", **signed)
    assert answer.json == {"ok": True, "learned": "plan_purchased"}
    with bench.store.read() as tx:
        assert plans.of_account(tx, 1001) is not None
    other = json.dumps(payload("issues.labeled")).encode()
    forged = bench.post(other, "issues", **{"X-Hub-Signature-256": sign(other, secret.encode())})
    assert forged.status_code == 401


# --- rights and loops -------------------------------------------------------------------------


def test_rights_are_looked_up_again_after_an_event_that_tells_of_a_change(bench: Bench) -> None:
    bench.deliver("issue_comment", said("@familiar status", 1))
    bench.deliver("issue_comment", said("@familiar status", 2))
    assert bench.github.calls.count(("permission", "mona")) == 1
    bench.clock.advance(1)
    assert ignored(bench.deliver("member", payload("member.added"))) == "rights_may_have_changed"
    bench.clock.advance(1)
    bench.deliver("issue_comment", said("@familiar status", 3))
    assert bench.github.calls.count(("permission", "mona")) == 2


def test_a_listed_bot_starts_work_and_no_other_does(bench: Bench) -> None:
    assert (
        ignored(bench.deliver("issues", payload("issues.labeled", sender=BOT))) == "sender_is_bot"
    )
    bench.configure(settings(commands={"bots": [77]}))
    task = bench.task(bench.deliver("issues", payload("issues.labeled", sender=BOT)))
    assert task.trust_evidence["source"] == "listed_bot"
    assert ("permission", "renovate[bot]") not in bench.github.calls


# --- edits ------------------------------------------------------------------------------------


def test_an_edit_runs_the_command_that_had_not_been_understood_once(bench: Bench) -> None:
    slip = bench.task(bench.deliver("issue_comment", said("@familiar reveiw")))
    bench.finish(slip, "completed")
    better = edit("@familiar reveiw", "@familiar review")
    task = bench.task(bench.deliver("issue_comment", better))
    assert (task.verb, task.lane) == ("review", Lane.REVIEW)
    bench.finish(task, "completed")
    again = edit("@familiar review", "@familiar fix it", comment__updated_at=LATE)
    assert ignored(bench.deliver("issue_comment", again)) == f"already_handled:{task.id}"


def test_an_edit_by_somebody_else_runs_nothing(bench: Bench) -> None:
    foreign = edit("hello", "@familiar fix", sender=LISA)
    assert ignored(bench.deliver("issue_comment", foreign)) == "not_the_author"


def test_unknown_words_are_taken_by_the_task_that_waits_for_them(bench: Bench) -> None:
    task = bench.task(bench.deliver("issues", payload("issues.labeled")))
    with bench.store.write() as tx:
        tx.execute(
            update(task_rows)
            .where(task_rows.c.id == task.id)
            .values(state="waiting", waiting_for=WAITING_FOR_ANSWER)
        )
    words = said("@cody-familiar blue, please", fixture="issue_comment.created.issue")
    assert bench.task(bench.deliver("issue_comment", words)).id == task.id
    assert state(bench, task) is TaskState.QUEUED


# --- pauses -----------------------------------------------------------------------------------


def ask_often(bench: Bench, times: int, first: int = 100, thread: int = 7) -> None:
    for number in range(first, first + times):
        body = said("@familiar review", number, issue__number=thread)
        bench.finish(bench.task(bench.deliver("issue_comment", body)), "completed")


def test_a_pause_is_said_once_and_ended_by_a_maintainer(bench: Bench) -> None:
    ask_often(bench, 10)
    assert ignored(bench.deliver("issue_comment", said("@familiar review", 200))) == "thread_paused"
    notices = [task for task in bench.tasks() if task.payload.get("paused")]
    assert [notice.lane for notice in notices] == [Lane.CONTROL]
    assert "@cody-familiar resume" in notices[0].payload["reply_body"]
    assert bench.bell.rung[-1] == ("control", notices[0].id)
    assert ignored(bench.deliver("issue_comment", said("@familiar fix", 201))) == "thread_paused"
    assert len([task for task in bench.tasks() if task.payload.get("paused")]) == 1
    bench.clock.advance(1)
    resume = bench.task(bench.deliver("issue_comment", said("@familiar resume", 202)))
    # Its rights are looked at when it is carried out; until then nothing has changed.
    assert ignored(bench.deliver("issue_comment", said("@familiar review", 203))) == "thread_paused"
    bench.finish(resume, "completed")
    bench.clock.advance(1)
    bench.task(bench.deliver("issue_comment", said("@familiar review", 204)))


def test_strangers_end_no_pause_and_are_told_nothing(bench: Bench) -> None:
    stranger = {"login": "stranger", "id": 9, "type": "User"}
    ask_often(bench, 10)
    before = len(bench.tasks())
    for text in ("@familiar resume", "@familiar review"):
        bench.deliver("issue_comment", said(text, 300, sender=stranger))
    assert len(bench.tasks()) == before


def test_many_threads_pause_an_installation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = bench.app.extensions["coven_receiver"]
    monkeypatch.setattr(receiver._recorder, "_breaker", Breaker(installation_runs=3))
    for thread in (7, 8, 9):
        ask_often(bench, 1, first=400 + thread, thread=thread)
    paused = bench.deliver("issue_comment", said("@familiar review", 500, issue__number=10))
    assert ignored(paused) == "installation_paused"
    other = said("@familiar review", 501, installation={"id": 43}, sender=MONA)
    assert "task" in bench.deliver("issue_comment", other).json
