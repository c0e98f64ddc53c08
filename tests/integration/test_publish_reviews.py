"""Pull request reviews over HTTP: one per commit, all comments or the ones that GitHub takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coven.publication import ReviewComment, ReviewContent, review_subject
from coven.sandbox.process import SandboxHandle, start_sandbox
from coven.store.engine import Store
from coven.values import SurfaceKind, SurfaceState
from tests.integration.test_publish_sandbox import REPO, make_bench
from tests.support.publishing import Bench


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHandle]:
    with start_sandbox(tmp_path_factory.mktemp("sandbox"), in_process=True) as handle:
        yield handle


@pytest.fixture
def bench(sandbox: SandboxHandle, sqlite_store: Store) -> Iterator[Bench]:
    yield from make_bench(sandbox, sqlite_store, drafts=True)


def remark(line: int, path: str = "b.py", **changes: Any) -> ReviewComment:
    given = {"path": path, "line": line, "body": f"On {line}.", "spot": f"Spot {line}."}
    return ReviewComment.model_validate(given | changes)


def desire(bench: Bench, *comments: ReviewComment, sha: str | None = None, **changes: Any) -> None:
    commit = sha or bench.world.sha
    content = {
        "thread": bench.world.thread,
        "familiar_id": "cody",
        "sha": commit,
        "body": "**Cody** read it.",
        "comments": comments,
    }
    assert bench.desire(
        SurfaceKind.REVIEW,
        review_subject(commit, "cody"),
        ReviewContent.model_validate(content | changes),
    )


def remarks(sandbox: SandboxHandle) -> list[tuple[str, int]]:
    return [(c["path"], c["line"]) for c in sandbox.admin.review_comments(REPO)]


def test_one_review_pins_the_commit_and_holds_every_comment(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    desire(bench, remark(3), remark(5, start_line=4), remark(7, start_line=7))
    assert bench.publish() == 0
    (review,) = sandbox.admin.reviews(REPO)
    assert (review["state"], review["commit_id"]) == ("COMMENTED", bench.world.sha)
    assert remarks(sandbox) == [("b.py", 3), ("b.py", 5), ("b.py", 7)]
    assert bench.row(SurfaceKind.REVIEW).object_id == review["id"]


@pytest.mark.parametrize(
    ("bad", "inline"),
    [
        ((remark(900),), [("b.py", 3)]),
        ((remark(1, "gone.py"), remark(2, "a.py")), [("b.py", 3)]),
    ],
)
def test_what_githubs_diff_lacks_moves_into_the_body(
    bench: Bench, sandbox: SandboxHandle, bad: tuple[ReviewComment, ...], inline: list[Any]
) -> None:
    desire(bench, remark(3), *bad)
    assert bench.publish() == 0
    (review,) = sandbox.admin.reviews(REPO)
    assert remarks(sandbox) == inline
    assert all(comment.spot in review["body"] for comment in bad)
    assert "Spot 3." not in review["body"]


def test_when_github_takes_no_line_at_all_every_finding_stands_in_the_body(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    sandbox.admin.fault(
        "POST", "reviews$", "status", status=422, times=2, message="Line could not be resolved"
    )
    desire(bench, remark(3), remark(900))
    assert bench.publish() == 0
    (review,) = sandbox.admin.reviews(REPO)
    assert remarks(sandbox) == []
    assert "Spot 3." in review["body"]
    assert "Spot 900." in review["body"]


def test_a_lost_answer_does_not_bring_a_second_review(bench: Bench, sandbox: SandboxHandle) -> None:
    sandbox.admin.fault("POST", "reviews$", "drop", after=True)
    desire(bench, remark(3))
    bench.until_settled()
    assert len(sandbox.admin.reviews(REPO)) == 1
    assert len(remarks(sandbox)) == 1


def test_a_second_look_at_the_same_commit_adds_to_the_review(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    desire(bench, remark(3))
    bench.publish()
    desire(bench, remark(9), body="**Cody** looked again.")
    assert bench.publish() == 0
    (review,) = sandbox.admin.reviews(REPO)
    assert "Cody** read it." in review["body"]
    assert "Spot 9." in review["body"]
    assert remarks(sandbox) == [("b.py", 3)]


def test_our_request_for_changes_is_withdrawn_and_a_persons_is_not(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    admin = sandbox.admin
    admin.create_user("mona")
    admin.set_role(REPO, "mona", "write")
    admin.review(REPO, bench.world.thread, "No.", event="REQUEST_CHANGES", author="mona")
    desire(bench, remark(3), event="REQUEST_CHANGES")
    bench.publish()
    assert [r["state"] for r in admin.reviews(REPO)] == ["CHANGES_REQUESTED"] * 2
    head = admin.push(REPO, "changes", {"b.py": "y = 3\n"}).result
    assert head
    sha = admin.branches(REPO)["changes"]
    desire(bench, sha=sha, body="", withdraw="All is well now.")
    assert bench.publish() == 0
    states = {r["user"]["login"]: r["state"] for r in admin.reviews(REPO)}
    assert states == {"mona": "CHANGES_REQUESTED", sandbox.bot_login: "DISMISSED"}


def test_a_head_that_moved_after_the_judgement_gets_no_review(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    desire(bench, remark(3))
    bench.clock.advance(60)
    sandbox.admin.push(REPO, "changes", {"b.py": "y = 3\n"})
    bench.comment("done")
    assert bench.publish() == 0
    row = bench.row(SurfaceKind.REVIEW)
    assert row.state is SurfaceState.FAILED
    assert "head moved" in (row.error or "")
    assert sandbox.admin.reviews(REPO) == []


def test_a_pull_request_of_our_own_is_commented_not_refused(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    sandbox.admin.fault(
        "POST",
        "reviews$",
        "status",
        status=422,
        message="Can not request changes on your own pull request",
    )
    desire(bench, remark(3), event="REQUEST_CHANGES")
    assert bench.publish() == 0
    (review,) = sandbox.admin.reviews(REPO)
    assert review["state"] == "COMMENTED"
    assert remarks(sandbox) == [("b.py", 3)]
