"""What the publisher does to GitHub, surface by surface, over real ledgers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from coven.errors import (
    GitHubUnauthorised,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
    StoreUnavailable,
)
from coven.markers import find_marker, make_marker
from coven.store import surfaces
from coven.store.engine import Store
from coven.store.tables import surfaces as surface_table
from coven.values import SurfaceKind, SurfaceState
from tests.support.fake_github import FakeClient, FakeGitHub
from tests.support.publishing import BRANCH, INSTALLATION, KEY, THREAD, Bench, findings
from worker.publish import publisher

CHECK = SurfaceKind.CHECK_RUN
COMMENT = SurfaceKind.STATUS_COMMENT
REPLY = SurfaceKind.REPLY
PULL = SurfaceKind.PULL_REQUEST


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store)


class Once:
    """Raises ``error`` the first time that ``point`` is passed."""

    def __init__(self, point: str, error: BaseException) -> None:
        self.point, self.error, self.fired = point, error, False

    def __call__(self, point: str) -> None:
        if point == self.point and not self.fired:
            self.fired = True
            raise self.error


def only_run(github: FakeGitHub) -> dict[str, Any]:
    (run,) = github.check_runs.values()
    return run


# --- Check Run


def test_a_check_run_goes_from_queued_to_completed_in_one_object(store: Store) -> None:
    bench = Bench(store)
    bench.check()
    assert bench.publish() == 0
    assert only_run(bench.github)["status"] == "queued"
    bench.check(status="in_progress", title="Working", summary="Reading.")
    bench.publish()
    bench.check(
        status="completed", conclusion="success", title="Fine", summary="All well.", text="x"
    )
    assert bench.publish() == 0
    run = only_run(bench.github)
    assert (run["status"], run["conclusion"], run["output"]["title"]) == (
        "completed",
        "success",
        "Fine",
    )
    row = bench.row(CHECK)
    assert (row.state, row.object_id, row.tries) == (SurfaceState.PUBLISHED, run["id"], 0)
    assert row.published_hash == row.desired_hash
    assert bench.github.calls == {"create_check_run": 1, "update_check_run": 2}


@pytest.mark.parametrize("count", [0, 1, 50, 51, 143])
def test_every_annotation_is_posted_once_in_batches(bench: Bench, count: int) -> None:
    bench.check()
    bench.publish()
    bench.check(status="completed", conclusion="neutral", annotations=findings(count))
    bench.publish()
    run = only_run(bench.github)
    assert [a["title"] for a in run["annotations"]] == [f"Finding {n}" for n in range(count)]
    assert run["status"] == "completed"
    assert bench.github.calls["update_check_run"] == max(1, -(-count // 50))


def test_annotations_go_on_where_a_lost_answer_left_them(bench: Bench) -> None:
    bench.check(status="completed", conclusion="neutral", annotations=findings(120))
    bench.github.trouble = Once("update_check_run.after", GitHubUnavailable("cut off"))
    assert bench.publish() == 1
    assert only_run(bench.github)["status"] == "in_progress"
    bench.until_settled()
    run = only_run(bench.github)
    assert [a["title"] for a in run["annotations"]] == [f"Finding {n}" for n in range(120)]
    assert run["conclusion"] == "neutral"


def test_a_completed_run_is_never_reopened(bench: Bench) -> None:
    bench.check(status="completed", conclusion="success")
    bench.publish()
    bench.check(status="completed", conclusion="success", title="Reworded", annotations=findings(1))
    bench.publish()
    run = only_run(bench.github)
    assert (run["output"]["title"], run["conclusion"]) == ("Reworded", "success")


def test_one_annotation_that_github_refuses_does_not_keep_the_run_open(bench: Bench) -> None:
    bad = findings(1)[0].model_copy(update={"path": "/absolute.py"})
    bench.check(status="completed", conclusion="failure", annotations=(*findings(2), bad))
    assert bench.publish() == 0
    run = only_run(bench.github)
    assert (run["status"], run["conclusion"], run["annotations"]) == ("completed", "failure", [])
    assert "did not accept the annotations" in run["output"]["summary"]


def test_a_lost_create_is_found_again_by_its_external_id(bench: Bench) -> None:
    bench.check()
    bench.github.trouble = Once("create_check_run.after", GitHubUnavailable("502", status=502))
    assert bench.publish() == 1
    assert "502" in (bench.row(CHECK).error or "")
    bench.until_settled()
    assert len(bench.github.check_runs) == 1
    assert bench.row(CHECK).error is None


def test_a_finished_run_of_an_earlier_database_is_adopted(bench: Bench) -> None:
    content = bench.check(
        status="completed", conclusion="success", title="1 commit pushed", summary="Done."
    )
    old = FakeClient(bench.github).create_check_run(
        {
            "name": content.name,
            "head_sha": content.head_sha,
            "external_id": content.external_id,
            "status": "completed",
            "conclusion": "success",
        }
    )
    bench.until_settled()
    assert bench.row(CHECK).object_id == old.id
    assert len(bench.github.check_runs) == 1


def test_a_run_of_another_app_with_our_id_is_left_alone(bench: Bench) -> None:
    content = bench.check()
    client = FakeClient(bench.github)
    theirs = client.create_check_run(
        {
            "name": content.name,
            "head_sha": content.head_sha,
            "external_id": content.external_id,
            "output": {"title": "x", "summary": "y"},
        }
    )
    bench.github.check_runs[theirs.id]["app"] = {"id": 5}
    bench.github.trouble = Once("create_check_run.before", GitHubUnavailable("down"))
    bench.publish()
    bench.until_settled()
    assert bench.row(CHECK).object_id != theirs.id
    assert bench.github.check_runs[theirs.id]["output"]["title"] == "x"


# --- status comment


def test_a_status_comment_is_one_comment_edited_in_place(bench: Bench) -> None:
    for body in ("working", "still working", "done"):
        bench.comment(body)
        assert bench.publish() == 0
    (body,) = bench.github.bodies(THREAD)
    assert body.endswith("\ndone")
    marker = find_marker(body, KEY)
    assert marker is not None
    assert (marker.kind, marker.familiar_id, marker.n) == ("status_comment", "cody", THREAD)


def test_a_strangers_copy_of_our_marker_is_ignored(bench: Bench) -> None:
    marker = make_marker("status_comment", "cody", 7, THREAD, KEY)
    copy = bench.github.stranger_writes(THREAD, f"{marker}\nLooks like yours")
    bench.comment("ours")
    bench.publish()
    assert bench.row(COMMENT).object_id != copy
    assert bench.github.comments[copy][1].body.endswith("Looks like yours")


def test_our_comment_of_an_earlier_database_is_adopted(bench: Bench) -> None:
    marker = make_marker("status_comment", "cody", 7, THREAD, KEY)
    old = FakeClient(bench.github).create_comment(THREAD, f"{marker}\nold words")
    bench.comment("new words")
    bench.publish()
    assert bench.row(COMMENT).object_id == old.id
    assert bench.github.bodies(THREAD) == [f"{marker}\nnew words"]


def test_a_comment_that_a_person_deleted_is_written_once_more(bench: Bench) -> None:
    bench.comment("first")
    bench.publish()
    bench.github.deletes(bench.row(COMMENT).object_id or 0)
    bench.comment("second")
    assert bench.publish() == 0
    assert len(bench.github.bodies(THREAD)) == 1
    assert bench.github.calls["create_comment"] == 2


def test_a_deleted_thread_ends_in_a_visible_failure(bench: Bench) -> None:
    bench.github.closed_threads.add(THREAD)
    bench.comment("hello?")
    assert bench.publish() == 0
    row = bench.row(COMMENT)
    assert row.state is SurfaceState.FAILED
    assert "GitHubNotFound" in (row.error or "")
    bench.clock.advance(86_400)
    bench.publish()
    assert bench.github.calls["create_comment"] == 1


def test_a_body_beyond_the_limit_is_cut_with_its_marker(bench: Bench) -> None:
    bench.comment("word " * 20_000)
    assert bench.publish() == 0
    (body,) = bench.github.bodies(THREAD)
    assert 60_000 < len(body.encode()) <= 65_536
    assert "Cut here" in body
    assert find_marker(body, KEY) is not None


def test_a_secret_that_came_this_far_is_masked(bench: Bench) -> None:
    bench.github.secrets = ("ghs_liveTokenValue0123456789abcdefghij",)
    bench.comment("the token is ghs_liveTokenValue0123456789abcdefghij, oh no")
    bench.publish()
    assert "ghs_live" not in bench.github.bodies(THREAD)[0]


# --- replies


def test_replies_go_where_the_question_was(bench: Bench) -> None:
    asked = bench.github.writes_on_diff(THREAD, "@cody why?")
    bench.reply("on the thread", 500)
    bench.reply("on the diff", asked, "review_comment")
    bench.reply("to a review", 700, "review")
    assert bench.publish() == 0
    assert [body.split("\n")[1] for body in bench.github.bodies(THREAD)] == [
        "on the thread",
        "to a review",
    ]
    assert len(bench.github.review_comments) == 2


def test_a_reply_on_the_diff_falls_back_to_the_thread(bench: Bench) -> None:
    bench.reply("too late", 12345, "review_comment")
    assert bench.publish() == 0
    assert len(bench.github.bodies(THREAD)) == 1


@pytest.mark.parametrize("kind", ["issue_comment", "review_comment"])
def test_a_lost_reply_is_not_written_twice(bench: Bench, kind: str) -> None:
    asked = bench.github.writes_on_diff(THREAD, "@cody why?")
    lost = "create_comment" if kind == "issue_comment" else "reply_to_review_comment"
    bench.github.trouble = Once(f"{lost}.after", GitHubUnavailable("timed out"))
    bench.reply("because", asked, kind)
    bench.until_settled()
    ours = [*bench.github.comments.values(), *bench.github.review_comments.values()]
    assert sum(comment.author_id == 990 for _, comment in ours) == 1


# --- pull requests


def test_a_draft_is_opened_and_later_updated(bench: Bench) -> None:
    bench.pull()
    bench.publish()
    (pull,) = bench.github.pulls.values()
    assert (pull.draft, pull.title, pull.head_ref) == (True, "Mend it", BRANCH)
    bench.pull(title="Mend it better", body="More.")
    bench.publish()
    (pull,) = bench.github.pulls.values()
    assert pull.title == "Mend it better"
    assert pull.body.endswith("\nMore.")
    assert bench.row(PULL).object_id == pull.number


def test_without_drafts_an_open_one_says_so(bench: Bench) -> None:
    bench.github.drafts = False
    bench.pull()
    assert bench.publish() == 0
    (pull,) = bench.github.pulls.values()
    assert not pull.draft
    assert "does not offer draft pull requests" in pull.body


def test_no_commits_means_no_pull_request_and_a_reason(bench: Bench) -> None:
    bench.github.branches[BRANCH] = bench.github.branches["main"]
    bench.pull()
    assert bench.publish() == 0
    row = bench.row(PULL)
    assert row.state is SurfaceState.FAILED
    assert "no commit beyond main" in (row.error or "")
    assert not bench.github.pulls


def test_a_pull_request_that_exists_is_adopted(bench: Bench) -> None:
    bench.github.trouble = Once("create_pull.after", GitHubUnavailable("502"))
    bench.pull()
    bench.until_settled()
    assert len(bench.github.pulls) == 1
    assert bench.github.calls["create_pull"] == 1


def test_a_persons_pull_request_from_our_branch_keeps_its_words(bench: Bench) -> None:
    client = FakeClient(bench.github)
    theirs = client.pull_of(77, "My title", BRANCH, "main", "My words", author_id=5)
    bench.github.pulls[77] = theirs
    bench.pull()
    assert bench.publish() == 0
    assert bench.row(PULL).object_id == 77
    assert bench.github.pulls == {77: theirs}


# --- failures, pace and leases


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (GitHubUnavailable("503", status=503), SurfaceState.PENDING),
        (RateLimited("429", status=429, retry_after=90), SurfaceState.PENDING),
        (GitHubUnauthorised("401", status=401), SurfaceState.PENDING),
        (InstallationGone("not installed"), SurfaceState.FAILED),
    ],
)
def test_each_failure_ends_as_its_class_says(
    bench: Bench, error: Exception, state: SurfaceState
) -> None:
    bench.check()
    bench.github.trouble = Once("create_check_run.before", error)
    bench.publish()
    row = bench.row(CHECK)
    assert row.state is state
    assert type(error).__name__ in (row.error or "")


def test_a_missing_permission_is_final_until_something_new_is_desired(bench: Bench) -> None:
    bench.github.read_only = "Resource not accessible by integration"
    bench.check()
    bench.publish()
    assert bench.row(CHECK).state is SurfaceState.FAILED
    bench.clock.advance(86_400)
    bench.publish()
    assert bench.github.calls["create_check_run"] == 1
    bench.github.read_only = None
    bench.check(status="in_progress")
    assert bench.publish() == 0
    assert bench.row(CHECK).state is SurfaceState.PUBLISHED


def test_a_rate_limit_holds_the_whole_installation(store: Store) -> None:
    bench = Bench(store)
    bench.check()
    bench.comment("hello")
    bench.github.trouble = Once("create_check_run.before", RateLimited("403", retry_after=120))
    assert bench.publish() == 2
    assert sum(bench.github.calls.values()) == 1
    bench.clock.advance(60)
    bench.reply("later born")
    bench.publish()
    assert sum(bench.github.calls.values()) == 1
    bench.until_settled()
    assert {row.state for row in bench.rows()} == {SurfaceState.PUBLISHED}


def test_new_objects_keep_githubs_pace_and_edits_are_not_held_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "CREATIONS_PER_MINUTE", 5)
    bench.comment("first")
    bench.publish()
    for n in range(7):
        bench.reply(f"answer {n}", 10_000 + n)
    assert bench.publish() == 3
    assert bench.publish() == 3
    assert bench.github.calls["create_comment"] == 5
    bench.comment("second")
    assert bench.publish() == 3
    assert bench.github.calls["update_comment"] == 1
    bench.clock.advance(61)
    bench.until_settled()
    assert bench.github.calls["create_comment"] == 8


def test_credentials_that_stay_refused_are_given_up_in_the_end(bench: Bench) -> None:
    bench.check()

    def refuse(point: str) -> None:
        raise GitHubUnauthorised("401", status=401)

    bench.github.trouble = refuse
    started = bench.clock.now()
    bench.until_settled()
    row = bench.row(CHECK)
    assert row.state is SurfaceState.FAILED
    assert "given up after" in (row.error or "")
    assert timedelta(hours=1) < bench.clock.now() - started < timedelta(hours=8)


def test_content_that_changes_while_it_is_published_is_published_too(bench: Bench) -> None:
    bench.comment("first")

    def overtake(point: str) -> None:
        if point == "create_comment.after":
            bench.github.trouble = lambda point: None
            bench.comment("second")

    bench.github.trouble = overtake
    assert bench.publish() == 0
    assert [body.split("\n")[1] for body in bench.github.bodies(THREAD)] == ["second"]


def test_a_newer_task_overtakes_and_an_older_one_stays_silent(bench: Bench) -> None:
    newer = bench.add_task()
    bench.comment("of the newer task", newer)
    bench.comment("of the older task", bench.task)
    bench.publish()
    assert bench.github.bodies(THREAD) == []
    older, bench.task = bench.task, newer
    assert bench.publish() == 0
    assert bench.github.bodies(THREAD)[0].endswith("of the newer task")
    bench.task = older


def test_two_publishers_never_publish_one_surface_at_once(bench: Bench) -> None:
    bench.comment("hello")
    row = bench.row(COMMENT)
    seen: list[object] = []

    def second(point: str) -> None:
        if point == "list_comments.before":
            seen.append(bench.publish_row(row))

    bench.github.trouble = second
    bench.publish()
    assert seen == [None]
    assert bench.github.calls["create_comment"] == 1


def test_who_lost_the_lease_writes_nothing_back(bench: Bench) -> None:
    bench.comment("hello")

    def outlast(point: str) -> None:
        if point == "create_comment.after":
            bench.github.trouble = lambda point: None
            bench.clock.advance(3_600)
            assert bench.publish() == 0  # another worker, meanwhile

    bench.github.trouble = outlast
    bench.publish()
    assert len(bench.github.bodies(THREAD)) == 1
    row = bench.row(COMMENT)
    assert (row.state, row.error, row.lease_token) == (SurfaceState.PUBLISHED, None, None)


def test_a_long_publication_keeps_its_lease_by_renewing_it_before_each_call(bench: Bench) -> None:
    bench.check(status="completed", conclusion="neutral", annotations=findings(500))

    def slow(point: str) -> None:
        if point.endswith(".after"):
            bench.clock.advance(14)
            assert bench.publish() == 1  # another worker finds it taken

    bench.github.trouble = slow
    assert bench.publish() == 0
    assert len(only_run(bench.github)["annotations"]) == 500


def test_the_surface_of_a_dead_publisher_is_taken_up_within_a_minute(bench: Bench) -> None:
    bench.comment("hello")

    def die(point: str) -> None:
        if point == "create_comment.before":
            bench.github.trouble = lambda point: None
            raise KeyboardInterrupt

    bench.github.trouble = die
    with pytest.raises(KeyboardInterrupt):
        bench.publish()
    assert bench.publish() == 1
    bench.clock.advance(40)
    assert bench.publish() == 0
    assert len(bench.github.bodies(THREAD)) == 1


def test_content_that_cant_be_read_fails_with_its_reason(bench: Bench) -> None:
    bench.desire(CHECK, "task:x:1", {"name": "only"})
    assert bench.publish() == 0
    assert bench.row(CHECK).state is SurfaceState.FAILED


def test_content_that_cannot_be_read_is_given_up_with_that_reason(bench: Bench) -> None:
    bench.desire(SurfaceKind.REVIEW, "sha:x:cody", {})
    bench.desire(SurfaceKind.PULL_REQUEST, "branch:x", {})
    assert bench.publish() == 0
    assert "can't be read" in (bench.row(SurfaceKind.REVIEW).error or "")
    assert "can't be read" in (bench.row(SurfaceKind.PULL_REQUEST).error or "")


def test_an_unexpected_error_is_recorded_and_the_others_still_go_out(bench: Bench) -> None:
    bench.check()
    bench.comment("hello")
    bench.github.trouble = Once("create_check_run.before", RuntimeError("bug"))
    with pytest.raises(RuntimeError, match="bug"):
        bench.publish()
    assert "RuntimeError" in (bench.row(CHECK).error or "")
    assert bench.row(COMMENT).state is SurfaceState.PUBLISHED
    bench.until_settled()
    assert len(bench.github.check_runs) == 1


def test_a_store_that_is_away_is_the_callers_to_know(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.check()

    def away(*_: object) -> None:
        raise StoreUnavailable("store: gone")

    monkeypatch.setattr(surfaces, "published", away)
    with pytest.raises(StoreUnavailable):
        bench.publish()
    monkeypatch.undo()
    bench.until_settled()
    assert len(bench.github.check_runs) == 1


def test_a_task_that_nobody_knows_has_nothing_to_publish(bench: Bench) -> None:
    from worker.publish.publisher import publish_task

    assert publish_task(bench.services, "0" * 32) == 0  # type: ignore[arg-type]
    with bench.store.read() as tx:
        assert surfaces.of_task(INSTALLATION, tx, bench.task.id) == []


def test_the_status_comment_comes_last_and_links_what_is_known(bench: Bench) -> None:
    bench.comment("done")
    bench.check(status="completed", conclusion="success", title="Done", summary="x")
    bench.pull()
    assert bench.publish() == 0
    (body,) = bench.github.bodies(THREAD)
    assert "[Pull request](" in body
    assert "[Check Run](" in body
    assert bench.github.calls["create_comment"] == 1
    assert bench.github.calls["update_comment"] == 0


def test_a_pull_request_that_comes_later_is_linked_later(bench: Bench) -> None:
    bench.comment("done")
    bench.publish()
    bench.pull()
    assert bench.publish() == 0
    (body,) = bench.github.bodies(THREAD)
    assert "[Pull request](" in body


def test_a_pull_request_that_is_refused_fails_the_check_and_is_said_with_its_branch(
    bench: Bench,
) -> None:
    bench.check(status="completed", conclusion="success", title="1 commit pushed", summary="x")
    bench.comment("done")
    bench.publish()
    bench.github.branches["main"] = bench.github.branches[BRANCH]
    bench.pull()
    assert bench.publish() == 0
    (run,) = bench.github.check_runs.values()
    assert run["conclusion"] == "failure"
    assert BRANCH in run["output"]["summary"]
    (body,) = bench.github.bodies(THREAD)
    assert BRANCH in body
    assert body.endswith("[Check Run](<https://github.example/run>)")


def test_an_old_row_that_knows_of_nothing_sent_still_looks_first(bench: Bench) -> None:
    """As after a restore from a copy: the ledger never heard of what stands on GitHub."""
    bench.reply("an answer")
    bench.publish()
    with bench.store.write() as tx:
        tx.execute(
            update(surface_table).values(
                state="pending", published_hash=None, object_id=None, published_at=None, tries=0
            )
        )
    bench.clock.advance(3_600)
    bench.until_settled()
    assert len(bench.github.bodies(THREAD)) == 1
