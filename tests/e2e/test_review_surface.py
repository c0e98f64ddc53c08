"""What a review shows when it is published as a pull request review that may ask for changes."""

from __future__ import annotations

from typing import Any

import pytest

from coven.sandbox.stack import DemoFamiliar
from tests.bench.api_calls import MOST_CALLS, counted
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-review-surface"), pytest.mark.timeout(240)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "20"},
    "review": {
        "familiar": '"cody"',
        "pull_request": "true",
        "publish": '"request_changes"',
    },
}
FAMILIARS = (DemoFamiliar("slow", "slow-familiar", "sandbox:slow,4"),)
FIXED = """import subprocess


def pack(name, seen=[]):
    subprocess.run(["gzip", name])
    return seen == None
"""
CLEAN = """import subprocess


def pack(name, seen=None):
    subprocess.run(["gzip", name])
    return seen is None
"""


def reviews(repo: Repo, number: int) -> list[dict[str, Any]]:
    return [each for each in repo.state()["reviews"] if each["number"] == number]


def remarks(repo: Repo, number: int) -> list[dict[str, Any]]:
    return [each for each in repo.state()["review_comments"] if each["number"] == number]


def reviewed(repo: Repo, sha: str) -> dict[str, Any]:
    run: dict[str, Any] = repo.completed(sha)
    repo.product.settle()
    return run


def push(repo: Repo, text: str) -> str:
    repo.admin.push(repo.name, "changes", {"things/pack.py": text}, author="mona", deliver=True)
    return str(repo.pulls()[0]["head"]["sha"])


def test_one_review_holds_every_finding_on_its_line(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    sha = pull["head"]["sha"]
    run = reviewed(repo, sha)
    (review,) = reviews(repo, pull["number"])
    assert (review["state"], review["commit_id"]) == ("CHANGES_REQUESTED", sha)
    assert {c["line"] for c in remarks(repo, pull["number"])} == {4, 5, 6}
    assert [a["identifier"] for a in run["actions"]] == ["fix", "deepen"]
    assert all(len(a["label"]) <= 20 for a in run["actions"])
    (comment,) = repo.comments(pull["number"])
    assert run["html_url"] in comment


def test_a_push_brings_only_what_is_new_and_a_clean_one_withdraws_the_request(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    number, first = pull["number"], pull["head"]["sha"]
    reviewed(repo, first)
    before = len(remarks(repo, number))

    second = push(repo, FIXED)
    run = reviewed(repo, second)
    assert len(remarks(repo, number)) == before
    assert "2 still open, 1 fixed" in run["output"]["summary"]
    (comment,) = repo.comments(number)
    assert f"Fixed since `{first[:12]}`" in comment
    assert "~~Command goes through a shell~~" in comment
    assert "open since" in comment
    assert [r["state"] for r in reviews(repo, number)] == ["DISMISSED"]

    third = push(repo, FIXED.replace("return", "eval(name)\n    return"))
    reviewed(repo, third)
    states = [r["state"] for r in reviews(repo, number)]
    assert states == ["DISMISSED", "CHANGES_REQUESTED"]
    assert len(remarks(repo, number)) == before + 1

    reviewed(repo, push(repo, CLEAN))
    assert [r["state"] for r in reviews(repo, number)] == ["DISMISSED", "DISMISSED"]
    (comment,) = repo.comments(number)
    assert "Earlier work here (3)" in comment
    assert "APPROVED" not in [r["state"] for r in reviews(repo, number)]


def test_a_review_again_of_the_same_commit_posts_nothing_twice(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    reviewed(repo, pull["head"]["sha"])
    before = remarks(repo, pull["number"])
    repo.say(pull["number"], "@cody-familiar review")
    until("the second run", lambda: len(repo.runs(pull["head"]["sha"])) == 2, 60)
    repo.product.settle()
    assert len(reviews(repo, pull["number"])) == 1
    assert remarks(repo, pull["number"]) == before


def test_a_strangers_copy_of_the_marker_is_left_alone(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    number = pull["number"]
    reviewed(repo, pull["head"]["sha"])
    stranger = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    body = next(
        c["body"] for c in repo.state()["comments"] if c["body"].startswith("<!-- coven-github")
    )
    repo.admin.comment(repo.name, number, f"{body}\nnothing to see", author=stranger)
    ours = next(c["id"] for c in repo.state()["comments"] if c["body"] == body)
    repo.admin.delete_comment(ours)
    reviewed(repo, push(repo, CLEAN))
    marked = [c for c in repo.state()["comments"] if c["body"].startswith("<!-- coven-github")]
    by = {c["user"]["login"]: c["body"] for c in marked}
    assert by[stranger].endswith("nothing to see")
    assert len(marked) == 2


def test_a_pull_request_that_cannot_be_opened_is_a_visible_failure(repo: Repo) -> None:
    refused = "Resource not accessible by integration"
    repo.admin.fault("POST", r".*/pulls$", "status", status=403, times=5, message=refused)
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    said = repo.wait_comment(number, "could not be opened")
    repo.admin.clear_faults()
    branch = next(name for name in repo.state()["branches"] if name.startswith("cody/fix-"))
    assert branch in said
    run = until(
        "the failed Check Run",
        lambda: next((r for r in repo.runs() if r["conclusion"] == "failure"), None),
        60,
    )
    assert branch in run["output"]["summary"]
    assert run["output"]["title"] == "Pull request not opened"
    assert repo.pulls() == []


def test_a_review_needs_few_calls(repo: Repo) -> None:
    first = repo.pull({"warm.py": "x = 1\n"}, branch="warm")
    reviewed(repo, first["head"]["sha"])
    repo.admin.clear_requests()
    pull = repo.pull({"a.py": "x = 1\n"})
    reviewed(repo, pull["head"]["sha"])
    counts = counted(repo.admin.request_counts())
    assert sum(counts.values()) <= MOST_CALLS, counts


def test_findings_about_a_head_that_moved_are_withheld_and_both_commits_named(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE}, draft=True)
    first = pull["head"]["sha"]
    repo.say(pull["number"], "@slow-familiar review")
    until(
        "the session",
        lambda: [r for r in repo.runs(first) if r["status"] == "in_progress"],
        60,
    )
    second = push(repo, CLEAN)
    run = repo.completed(first)
    assert run["conclusion"] == "neutral"
    assert run["annotations"] == []
    assert first in run["output"]["summary"]
    assert second in run["output"]["summary"]
    said = repo.wait_comment(pull["number"], "**superseded**")
    assert first in said
    assert second in said
    repo.product.settle()
    assert reviews(repo, pull["number"]) == []
