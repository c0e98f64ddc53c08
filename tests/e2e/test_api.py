"""The HTTP API of a running product, with a token from its command line."""
# ruff: noqa: TID251 - the test's own requests are no effects of the product

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from coven.store import sweeps
from coven.store.listing import TasksWanted
from tests.e2e.kit import Product, Repo

pytestmark = [pytest.mark.xdist_group("e2e-api"), pytest.mark.timeout(180)]


def token(product: Product, installation: int) -> str:
    """As an operator makes one."""
    command = [sys.executable, "-c", "from coven.cli.main import main; main()"]
    words = ["tokens", "create", "--name", "e2e", "--installation", str(installation)]
    done = subprocess.run(
        [*command, *words, "--scope", "admin", "--config", str(product.stack.config_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()[0]


def ask(product: Product, path: str, secret: str, method: str = "GET") -> tuple[int, Any]:
    base = product.stack.webhook_url.removesuffix("/webhook")
    request = urllib.request.Request(
        f"{base}/api/github{path}", method=method, headers={"Authorization": f"Bearer {secret}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_review_is_told_over_the_api_to_its_own_tenant_only(repo: Repo) -> None:
    pull = repo.pull({"things/sums.py": "def double(value):\n    return value * 2\n"})
    run = repo.completed(pull["head"]["sha"])
    repo.product.settle()
    product = repo.product
    with product.store.read() as tx:
        (known,) = sweeps.tasks_page(tx, TasksWanted(thread=pull["number"]), 5)
    mine, other = token(product, known.installation_id), token(product, 999_999)

    status, told = ask(product, f"/tasks?repo={repo.name}", mine)
    assert status == 200
    (task,) = told["tasks"]
    assert (task["status"], task["headSha"]) == ("done", pull["head"]["sha"])
    assert task["checkRunUrl"] == run["html_url"]
    status, story = ask(product, f"/tasks/{task['id']}", mine)
    assert [attempt["outcome"] for attempt in story["attempts"]] == ["succeeded"]
    assert {surface["state"] for surface in story["surfaces"]} == {"published"}
    assert story["routing"]["routing"] == f"task:{task['id']}"

    assert ask(product, "/tasks", other)[1]["tasks"] == []
    assert ask(product, f"/tasks/{task['id']}", other)[0] == 404
    assert ask(product, f"/tasks/{task['id']}/cancel", mine, "POST")[1]["error"] == "not_running"
    for role in ("web", "worker"):
        text = product.stack.log_path(role).read_text()
        assert mine not in text
        assert other not in text
