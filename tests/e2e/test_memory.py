"""What a run says about memory, judged against what it was granted; the review stands either way.

The sandbox runtime reports memory honestly and as an attacker would.
"""

from __future__ import annotations

from typing import Any

import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store.tasks import Task
from coven.values import TaskState
from tests.e2e.kit import BAD_CODE, Product, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-memory"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "profile": '"contract-v2"'},
    "memory": {"enabled": "true", "self_hosted": "true"},
}
FAMILIARS = (
    DemoFamiliar("vera", "vera-familiar", "sandbox:contract-v2,memory-honest"),
    DemoFamiliar("mara", "mara-familiar", "sandbox:contract-v2,memory-malicious"),
)
TOKEN = "ghp_" + "a1B2" * 9


def reviewed(repo: Repo, pull: dict[str, Any], familiar: str, command: str = "review") -> Any:
    """Ask for a review and wait for its own Check Run."""
    head = pull["head"]["sha"]
    repo.say(pull["number"], f"@{familiar}-familiar {command}")
    name = f"{familiar.title()} / review"
    return until(
        f"the review of {familiar}",
        lambda: next(
            (
                run
                for run in repo.runs(head)
                if run["name"] == name and run["conclusion"] in ("success", "neutral")
            ),
            None,
        ),
        60,
    )


def task_of(product: Product, repo: Repo, familiar: str) -> Task:
    """The latest finished task of this familiar in this repository."""
    product.settle()
    with product.store.read() as tx:
        return next(
            task
            for task in list_tasks(tx, None, None, 100)
            if task.familiar_id == familiar
            and str(task.repo) == repo.name
            and task.state is TaskState.COMPLETED
        )


def memory_of(product: Product, repo: Repo, familiar: str) -> dict[str, Any]:
    result = task_of(product, repo, familiar).result or {}
    assert "memory_used" not in result
    memory: dict[str, Any] = result["memory"]
    return memory


def verdicts(memory: dict[str, Any], kind: str) -> list[str | None]:
    return [each["reason"] for each in memory["decisions"] if each["kind"] == kind]


def test_an_honest_report_within_the_grant_is_accepted_and_written_down(
    repo: Repo, product: Product
) -> None:
    key = f"repo/{repo.name}/conventions/names"
    pull = repo.pull({"things/pack.py": f"# {key}\n{BAD_CODE}"}, deliver=False)
    run = reviewed(repo, pull, "vera")
    assert run["annotations"]
    summary = run["output"]["summary"]
    # Nothing stands there in the book, so it is not cited as an entry.
    assert "| Memory read |" not in summary
    assert f"- `{key}` · **used**, not kept here" in summary
    assert "refused" not in summary

    memory = memory_of(product, repo, "vera")
    policy = memory["policy"]
    assert policy["enabled"] is True
    assert policy["trust_scope"] == "maintainer"
    assert policy["read_scopes"] == ["repo", "tenant_shared"]
    assert policy["write_scopes"] == ["repo"]
    assert policy["approval_required"] is True
    assert policy["retention"]["redact_secrets"] is True
    assert policy["repo_scope"]["repo_id"] == repo.state()["id"]
    assert policy["branch_scope"] == {"base_ref": "main", "head_ref": "changes", "same_repo": True}
    assert verdicts(memory, "read") == [None]
    (proposal,) = [each for each in memory["decisions"] if each["kind"] == "proposed"]
    assert proposal["accepted"] is True
    assert proposal["approval"] == "pending"
    assert proposal["target"] == f"repo/{repo.name}/conventions/review-{pull['number']}"
    assert verdicts(memory, "rejected") == ["pii"]
    assert memory["alarms"] == 0


def test_a_malicious_report_is_refused_and_the_review_still_published(
    repo: Repo, product: Product
) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE}, deliver=False)
    run = reviewed(repo, pull, "mara")
    assert run["annotations"]
    summary = run["output"]["summary"]
    assert "3 proposals refused" in summary
    assert "2 reads refused (2 `out_of_scope`)" in summary
    assert "Memory read" not in summary
    assert "somebody-else" not in summary

    memory = memory_of(product, repo, "mara")
    assert verdicts(memory, "read") == ["out_of_scope", "out_of_scope"]
    assert verdicts(memory, "proposed") == ["out_of_scope", "not_addressable", "secret"]
    assert memory["alarms"] == 2
    assert TOKEN not in str(memory)


@pytest.mark.parametrize("familiar", ["vera", "mara"])
def test_the_head_of_a_fork_teaches_nothing_whoever_asks(
    repo: Repo, product: Product, familiar: str
) -> None:
    outsider = f"ann-{repo.name.rsplit('-', 1)[1]}"
    repo.admin.create_user(outsider)
    pull = repo.pull(
        {"evil.py": BAD_CODE},
        author=outsider,
        fork=outsider,
        deliver=False,
    )
    run = reviewed(repo, pull, familiar, f"review {pull['head']['sha']}")
    assert run["annotations"]

    memory = memory_of(product, repo, familiar)
    assert memory["policy"]["trust_scope"] == "fork_pr"
    assert memory["policy"]["write_scopes"] == []
    assert memory["policy"]["branch_scope"]["same_repo"] is False
    assert memory["writer"] == "fork_pr"
    proposed = verdicts(memory, "proposed")
    assert proposed == (["out_of_scope"] * 3 if familiar == "mara" else [])
