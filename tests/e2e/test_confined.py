"""The main path with sessions behind walls: what they do still arrives, and they see nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store import attempts
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-confined"), pytest.mark.timeout(180)]

BACKEND = "bubblewrap"
KEYS = {
    "worker": {"retry_base_secs": "0.3", "concurrency": "2"},
    "review": {"familiar": '"cody"', "pull_request": "true"},
}
FAMILIARS = (DemoFamiliar("peep", "peep-familiar", "sandbox:leak-env,leak-proc"),)


def test_a_review_behind_walls_is_shown(repo: Repo) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    run = repo.completed(pull["head"]["sha"])
    assert run["conclusion"] == "success"
    assert run["annotations"]


def test_a_fix_behind_walls_becomes_a_draft(repo: Repo) -> None:
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    until("the draft", lambda: next((p for p in repo.pulls() if p["draft"]), None), 60)
    repo.wait_comment(number, "**done**")


def test_a_session_sees_only_its_own_processes_and_none_of_our_secrets(
    repo: Repo, product: Product
) -> None:
    pull = repo.pull({"things/sums.py": "def double(x):\n    return x * 2\n"}, draft=True)
    repo.say(pull["number"], "@peep-familiar review")
    repo.wait_comment(pull["number"], "**done**")
    with product.store.read() as tx:
        (task,) = [t for t in list_tasks(tx, None, None, 50) if t.familiar_id == "peep"]
        (attempt,) = attempts.of_task(task.installation_id, tx, task.id)
    printed = attempt.stdout_tail or ""
    assert "== end of processes" in printed
    processes = {line.split()[1] for line in printed.splitlines() if line.startswith("== ")}
    # The walls' own first process, and the runtime.
    assert processes - {"end"} <= {"1", "2", "3"}
    key = Path(product.stack.sandbox.private_key_path).read_text()
    for secret in (
        product.stack.webhook_secret,
        key.splitlines()[1],
        product.stack.settings.database_url,
        str(product.stack.config_path),
        "redis",
        "COVEN_GITHUB",
        "COVEN_GIT_TOKEN",
        "ghs_",
        "PRIVATE KEY",
    ):
        assert secret not in printed
    # Nothing had to be masked either, but a variable whose name sounds like a password's.
    masked = [line for line in printed.splitlines() if "[redacted]" in line]
    assert all(line.startswith(("PWD=", "OLDPWD=")) for line in masked)
