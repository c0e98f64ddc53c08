"""A runtime that holds a push token and uses it on other branches: said loudly, never a success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.kit import Repo

pytestmark = [pytest.mark.xdist_group("e2e-fix"), pytest.mark.timeout(180)]

RUNTIME = Path(__file__).with_name("push_elsewhere.py")
KEYS = {
    "worker": {
        "profile": '"contract-v2"',
        "coven_code_bin": json.dumps(str(RUNTIME)),
        "max_retries": "0",
    }
}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("main", "pushed to the branch"),
        ("both", "pushed to the branch"),
        ("orphan", "not on top of the recorded start"),
    ],
)
def test_work_on_a_branch_that_is_not_the_runs_own_fails(repo: Repo, how: str, said: str) -> None:
    number = repo.issue(f"{how} is where it goes", "x")
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    body = repo.wait_comment(number, "**failed**")
    assert said in body
    repo.product.settle()
    assert repo.pulls() == []
    assert [run["conclusion"] for run in repo.runs()] == ["failure"]
