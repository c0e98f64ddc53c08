"""Buttons on Check Runs, seen from GitHub only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.kit import BAD_CODE, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-buttons"), pytest.mark.timeout(240)]

KEYS = {"worker": {"retry_base_secs": "0.3", "lease_secs": "20"}}


def runs_named(repo: Repo, sha: str, name: str) -> list[Any]:
    return [run for run in repo.runs(sha) if run["name"] == name and run["status"] == "completed"]


def two_reviews(repo: Repo, sha: str) -> list[Any]:
    found: list[Any] = until(
        "a second review",
        lambda: runs if len(runs := runs_named(repo, sha, "Cody / review")) == 2 else None,
        60,
    )
    return sorted(found, key=lambda run: int(run["id"]))


def test_a_rerun_is_a_new_check_run_on_the_same_head_and_the_old_one_stays(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    head = pull["head"]["sha"]
    first = repo.completed(head)
    done = repo.admin.rerequest_check_run(first["id"], sender="mona", deliver=True)
    assert done.delivered.status_code == 202
    before, after = two_reviews(repo, head)
    assert before["id"] == first["id"]
    assert before["conclusion"] == first["conclusion"]
    assert before["external_id"] != after["external_id"]
    assert len(after["annotations"]) == len(before["annotations"])

    repo.admin.rerequest_check_suite(first["check_suite"]["id"], sender="mona", deliver=True)
    until("a third review", lambda: len(runs_named(repo, head, "Cody / review")) == 3, 60)


def test_a_stranger_clicks_in_vain(repo: Repo) -> None:
    stranger = f"eve-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    pull = repo.pull({"a.py": "x = 1\n"})
    run = repo.completed(pull["head"]["sha"])
    done = repo.admin.rerequest_check_run(run["id"], sender=stranger, deliver=True)
    assert "actor_lacks_write" in done.delivered.response
    assert len(repo.runs()) == 1


def test_go_deeper_reviews_the_same_head_again(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    head = pull["head"]["sha"]
    first = repo.completed(head)
    repo.admin.click(first["id"], "deepen", sender="mona", deliver=True)
    _, after = two_reviews(repo, head)
    assert after["conclusion"] == "success"
    repo.wait_comment(pull["number"], "**done**")


def test_fix_this_works_on_the_findings(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    head = pull["head"]["sha"]
    first = repo.completed(head)
    repo.admin.click(first["id"], "fix", sender="mona", deliver=True)
    done = until("the fix", lambda: (runs_named(repo, head, "Cody / fix") or [None])[0], 90)
    assert done["conclusion"] == "success"


def test_an_unknown_button_is_ignored_by_name(repo: Repo) -> None:
    pull = repo.pull({"a.py": "x = 1\n"})
    run = repo.completed(pull["head"]["sha"])
    done = repo.admin.click(run["id"], "explode", sender="mona", force=True, deliver=True)
    assert "unknown_action" in done.delivered.response


def test_a_rerun_on_a_forks_waiting_check_reviews_exactly_that_commit(repo: Repo) -> None:
    outsider = f"ann-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(outsider)
    pull = repo.pull({"evil.py": BAD_CODE}, author=outsider, fork=outsider)
    head = pull["head"]["sha"]
    waiting = repo.completed(head)
    assert waiting["conclusion"] == "action_required"
    repo.admin.rerequest_check_run(waiting["id"], sender="mona", deliver=True)
    until(
        "the review",
        lambda: [r for r in repo.runs(head) if r["conclusion"] == "success"],
        60,
    )
