"""The running product under random troubles: GitHub fails, worker and publisher are killed.

Each seed plays a review, a push and a fix. ``COVEN_FAULT_RUNS`` says how many seeds (2 when absent;
``make chaos`` plays 12).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coven.governance.faults import ENV_DIR, ENV_PLAN
from coven.sandbox.stack import DemoFamiliar
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, make_repo, running, until

pytestmark = [pytest.mark.xdist_group("fault-runs"), pytest.mark.timeout(300)]

RUNS = int(os.environ.get("COVEN_FAULT_RUNS", "2"))
KEYS = {
    "worker": {
        "lease_secs": "5",
        "heartbeat_secs": "1",
        "retry_base_secs": "0.2",
        "timeout_secs": "60",
        "max_retries": "6",
    },
    "review": {
        "familiar": '"cody"',
        "pull_request": "true",
        "publish": '"request_changes"',
    },
}
FAMILIARS: tuple[DemoFamiliar, ...] = ()
WORKER_POINTS = (
    "task.claim.after",
    "task.amend.after",
    "brief.write.after",
    "task.finish.before",
    "task.finish.after",
    "workspace.remove.before",
)
CONTROL_POINTS = tuple(
    f"publish.{kind}.{when}"
    for kind in ("check_run", "status_comment", "review", "pull_request")
    for when in ("looked", "acted", "stored")
)
ROUTES = (
    ("POST", "check-runs"),
    ("PATCH", "check-runs"),
    ("POST", "issues/.*/comments"),
    ("PATCH", "issues/comments"),
    ("POST", "pulls/.*/reviews$"),
    ("POST", "pulls$"),
    ("GET", "collaborators"),
    ("GET", r"pulls/\d+$"),
)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running(tmp_path_factory.mktemp("faults"), KEYS, FAMILIARS) as product:
        yield product


def trouble(product: Product, dice: random.Random) -> None:
    for method, path in dice.sample(ROUTES, 5):
        kind = dice.choice(["drop", "status", "status", "delay"])
        status = dice.choice([500, 502, 503, 429])
        product.admin.fault(
            method,
            path,
            kind,
            nth=dice.randrange(1, 3),
            status=status,
            seconds=0.3,
            retry_after=1 if status == 429 else None,
            after=dice.random() < 0.5 and status != 429,
        )


@pytest.mark.parametrize("seed", range(RUNS))
def test_review_push_and_fix_end_with_one_object_each(
    product: Product, seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    for role, points in (("worker", WORKER_POINTS), ("control", CONTROL_POINTS)):
        plan = f"{dice.choice(points)}=kill@{dice.randrange(1, 3)}"
        product.stack.kill(role, signal.SIGKILL)
        product.stack.spawn(role, {ENV_PLAN: plan, ENV_DIR: str(tmp_path)})
    repo = make_repo(product, f"acme/faults-{time.monotonic_ns()}")
    trouble(product, dice)

    pull = repo.pull({"things/pack.py": BAD_CODE})
    first, number = pull["head"]["sha"], pull["number"]
    issue = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, issue, "cody:fix", sender="mona", deliver=True)
    if dice.random() < 0.5:
        repo.completed(first, 120)
    repo.admin.push(
        repo.name, "changes", {"things/b.py": "x = None\n"}, author="mona", deliver=True
    )
    second = str(repo.admin.pull(repo.name, number)["head"]["sha"])
    repo.completed(second, 150)
    until("the draft", lambda: [p for p in repo.pulls() if p["draft"]], 150)
    product.admin.clear_faults()
    product.settle(120)

    assert len(repo.runs(first)) == 1
    assert len(repo.runs(second)) == 1
    assert len(repo.comments(number)) == 1
    assert len(repo.comments(issue)) == 1
    assert len([p for p in repo.pulls() if p["draft"]]) == 1
    reviews = repo.state()["reviews"]
    assert len({r["commit_id"] for r in reviews}) == len(reviews)
    said = [(c["path"], c["body"]) for c in repo.state()["review_comments"]]
    assert len(said) == len(set(said)) == 3
