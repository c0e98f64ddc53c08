"""The same work when the runtime keeps to the letter of the contract and pushes by itself."""

from __future__ import annotations

import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store import attempts
from coven.store.attempts import Attempt
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-fix"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "profile": '"contract-v2"'},
    "review": {"familiar": '"vera"', "pull_request": "true"},
}
FAMILIARS = (
    DemoFamiliar("vera", "vera-familiar", "sandbox:contract-v2"),
    DemoFamiliar("otto", "otto-familiar", "sandbox:contract-v2,other-branch"),
    DemoFamiliar("mara", "mara-familiar", "sandbox:contract-v2,other-branch,team/release"),
)


def attempt_of(product: Product, familiar: str) -> Attempt:
    """The only attempt of this familiar's only task."""
    with product.store.read() as tx:
        (task,) = [t for t in list_tasks(tx, None, None, 50) if t.familiar_id == familiar]
        (attempt,) = attempts.of_task(task.installation_id, tx, task.id)
    return attempt


def test_the_runtime_pushes_and_we_verify(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "vera:fix", sender="mona", deliver=True)
    pull = until("the draft", lambda: next(iter(repo.pulls()), None), 60)
    assert pull["draft"]
    assert pull["head"]["ref"].startswith(f"vera/fix-{number}-")
    repo.wait_comment(number, "**done**")
    repo.product.settle()
    writing = [
        token
        for token in repo.admin.state()["tokens"]
        if token["permissions"].get("contents") == "write"
        and token["repository_ids"] == [repo.state()["id"]]
    ]
    assert [token["revoked"] for token in writing] == [True]


def test_another_new_branch_of_the_familiar_is_taken_and_listed_as_tolerated(
    repo: Repo, product: Product
) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "otto:fix", sender="mona", deliver=True)
    pull = until("the draft", lambda: next(iter(repo.pulls()), None), 60)
    assert pull["head"]["ref"] == "otto/another-name"
    product.settle()
    tolerated = attempt_of(product, "otto").tolerated or []
    assert any("otto/another-name instead of the reserved otto/fix-" in each for each in tolerated)


def test_a_branch_outside_the_familiars_names_is_never_published(
    repo: Repo, product: Product
) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "mara:fix", sender="mona", deliver=True)
    repo.wait_comment(number, "**failed**")
    product.settle()
    assert repo.pulls() == []
    assert "team/release" in (attempt_of(product, "mara").detail or "")


def test_a_review_in_the_strict_dialect_is_shown(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "success"
    assert run["annotations"]


def test_review_sessions_never_get_a_token_that_writes_code(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    repo.completed(pull["head"]["sha"])
    mine = repo.state()["id"]
    tokens = [t for t in repo.admin.state()["tokens"] if mine in (t["repository_ids"] or [])]
    assert tokens
    assert all(token["permissions"].get("contents") in (None, "read") for token in tokens)
    assert all(token["repository_ids"] == [mine] for token in tokens)
