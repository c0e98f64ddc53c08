"""Work on issues, in both profiles of the runtime: from a label to a draft pull request."""

from __future__ import annotations

import pytest

from coven.sandbox.stack import DemoFamiliar
from tests.e2e.kit import FIX_BODY, FIX_TITLE, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-fix"), pytest.mark.timeout(180)]

KEYS = {"worker": {"retry_base_secs": "0.3"}}
FAMILIARS = (DemoFamiliar("pushy", "pushy-familiar", "sandbox:contract-v2"),)


def draft(repo: Repo) -> dict[str, object]:
    return until("the draft", lambda: next((p for p in repo.pulls() if p["draft"]), None), 60)


def test_a_label_makes_a_draft_pull_request(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    pull = draft(repo)
    assert pull["head"]["ref"].startswith(f"cody/fix-{number}-")
    assert pull["base"]["ref"] == "main"
    assert FIX_TITLE in pull["title"]
    assert f"Fixes #{number}" in pull["body"]
    fixed = repo.admin.read_file(repo.name, pull["head"]["ref"], "things/mean.py")
    scope: dict[str, object] = {}
    exec(fixed or "", scope)
    assert scope["mean"]([]) == 0
    assert scope["mean"]([1, 3]) == 2
    commits = repo.admin.commits(repo.name, pull["head"]["ref"])
    assert len(commits) == 2
    repo.wait_comment(number, "**done**")
    run = repo.completed(pull["head"]["sha"])
    assert run["name"] == "Cody / fix"
    assert run["conclusion"] == "success"


def test_a_label_set_twice_makes_one_pull_request(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    for _ in range(2):
        repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    draft(repo)
    repo.product.settle()
    assert len(repo.pulls()) == 1


def test_a_stranger_who_sets_the_label_starts_nothing(repo: Repo) -> None:
    stranger = f"sam-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(stranger)
    number = repo.issue(FIX_TITLE, FIX_BODY)
    done = repo.admin.label(repo.name, number, "cody:fix", sender=stranger, deliver=True)
    assert "actor_lacks_write" in done.delivered.response
    repo.product.settle()
    assert repo.pulls() == []
    assert repo.comments(number) == []


def test_an_assignment_of_the_bot_starts_the_work(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.assign(repo.name, number, "cody-familiar[bot]", sender="mona", deliver=True)
    assert draft(repo)["head"]["ref"].startswith("cody/fix-")


def test_a_fix_asked_for_on_a_pull_request_goes_against_its_branch(repo: Repo) -> None:
    pull = repo.pull(
        {"things/none.py": "def empty(x):\n    return x == None\n"}, branch="topic", draft=True
    )
    repo.say(pull["number"], "@cody-familiar fix the comparison with None in `things/none.py`")
    made = until(
        "the second pull request",
        lambda: next((p for p in repo.pulls() if p["number"] != pull["number"]), None),
        60,
    )
    assert made["base"]["ref"] == "topic"


def test_a_forks_pull_request_is_never_pushed_to(repo: Repo) -> None:
    outsider = f"kim-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(outsider)
    pull = repo.pull({"a.py": "x = 1\n"}, author=outsider, fork=outsider)
    repo.completed(pull["head"]["sha"])
    repo.say(pull["number"], "@cody-familiar fix everything")
    said = repo.wait_comment(pull["number"], "**declined**")
    assert "fork" in said
    write_tokens = [
        token
        for token in repo.admin.state()["tokens"]
        if token["permissions"].get("contents") == "write"
        and repo.state()["id"] in (token["repository_ids"] or [])
    ]
    assert write_tokens == []
