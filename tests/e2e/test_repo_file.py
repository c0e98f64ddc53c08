"""``.github/coven.yml``, seen from GitHub only."""

from __future__ import annotations

import pytest

from tests.e2e.kit import BAD_CODE, Repo

pytestmark = [pytest.mark.xdist_group("e2e-review"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "20"},
}
OFF = "lanes:\n  reviews: false\n"
WRONG = "lanes:\n  revews: false\nenabled: yes\n"


def test_a_repository_switches_its_reviews_off_and_only_on_its_default_branch(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE, ".github/coven.yml": WRONG})
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "success"  # the change itself decides nothing
    assert "lanes.revews: is no known key" in run["output"]["summary"]
    own = [a for a in run["annotations"] if a["path"] == ".github/coven.yml"]
    assert (2, "lanes.revews: is no known key") in {(a["start_line"], a["message"]) for a in own}
    repo.admin.push(repo.name, "main", {".github/coven.yml": OFF}, author="mona")
    repo.admin.push(
        repo.name, "changes", {"things/pack.py": "x = 1\n"}, author="mona", deliver=True
    )
    head = repo.pulls()[0]["head"]["sha"]
    run = repo.completed(head)
    assert run["conclusion"] == "cancelled"
    assert "on the default branch switches this off" in run["output"]["summary"]
    repo.wait_comment(pull["number"], "**declined**")
    repo.say(pull["number"], "@cody review")  # that lane is on
    repo.wait_comment(pull["number"], "**done**")
    repo.product.settle()
