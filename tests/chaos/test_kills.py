"""Real processes killed at exact lines: nothing is lost and nothing is shown twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from coven.embedded import socket_path
from coven.governance.faults import ENV_DIR, ENV_PLAN
from coven.sandbox.stack import DemoFamiliar
from tests.e2e.kit import BAD_CODE, FIX_BODY, FIX_TITLE, Product, Repo, make_repo, running, until

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(240)]

KEYS = {
    "github": {"timeout_secs": "4"},
    "worker": {
        "lease_secs": "5",
        "heartbeat_secs": "1",
        "retry_base_secs": "0.2",
        "timeout_secs": "60",
        "max_retries": "3",
    },
    "review": {"familiar": '"slow"', "pull_request": "true"},
}
FAMILIARS = (DemoFamiliar("slow", "slow-familiar", "sandbox:slow,3"),)

WORKER_POINTS = (
    "task.claim.after",
    "task.amend.before",
    "task.amend.after",
    "brief.write.after",
    "task.finish.before",
    "task.finish.after",
    "workspace.remove.before",
)
PUBLISH_POINTS = (
    "publish.check_run.looked",
    "publish.check_run.acted",
    "publish.check_run.stored",
    "publish.status_comment.acted",
    "publish.status_comment.stored",
    "publish.pull_request.acted",
)


def chosen(points: tuple[str, ...], few: int) -> tuple[str, ...]:
    """All points with ``COVEN_CHAOS=all`` (``make chaos``), else an even choice of a few."""
    if os.environ.get("COVEN_CHAOS") == "all":
        return points
    return points[:: max(1, len(points) // few)][:few]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running(tmp_path_factory.mktemp("chaos"), KEYS, FAMILIARS) as product:
        yield product


def repository(product: Product) -> Repo:
    return make_repo(product, f"acme/kill-{time.monotonic_ns()}")


def restart(product: Product, role: str) -> None:
    """Bring a role back without any plan, when its process ended."""
    product.stack.kill(role, signal.SIGKILL)
    product.stack.spawn(role)


def fault_happened(folder: Path) -> bool:
    return any(folder.glob("fault-*"))


def play(repo: Repo) -> None:
    """One review and one fix, to the end."""
    pull = repo.pull({"things/pack.py": BAD_CODE})
    number = repo.issue(FIX_TITLE, FIX_BODY)
    repo.admin.label(repo.name, number, "cody:fix", sender="mona", deliver=True)
    repo.completed(pull["head"]["sha"], 120)
    until("the draft", lambda: [p for p in repo.pulls() if p["draft"]], 120)
    repo.product.settle(120)
    assert len(repo.runs(pull["head"]["sha"])) == 1
    assert len(repo.comments(pull["number"])) == 1
    assert len(repo.comments(number)) == 1
    assert len([p for p in repo.pulls() if p["draft"]]) == 1


@pytest.mark.parametrize("point", chosen(WORKER_POINTS, 3))
def test_a_session_worker_killed_at_a_line_is_replaced_without_a_trace(
    product: Product, point: str, tmp_path: Path
) -> None:
    product.stack.kill("worker", signal.SIGKILL)
    product.stack.spawn("worker", {ENV_PLAN: f"{point}=kill", ENV_DIR: str(tmp_path)})
    play(repository(product))
    assert fault_happened(tmp_path)
    restart(product, "worker")


@pytest.mark.parametrize("point", chosen(PUBLISH_POINTS, 3))
def test_a_publisher_killed_at_a_line_publishes_once(
    product: Product, point: str, tmp_path: Path
) -> None:
    product.stack.kill("control", signal.SIGKILL)
    product.stack.spawn("control", {ENV_PLAN: f"{point}=kill", ENV_DIR: str(tmp_path)})
    play(repository(product))
    assert fault_happened(tmp_path)
    restart(product, "control")


def test_a_worker_killed_in_the_middle_of_a_session_leaves_one_check_and_one_comment(
    product: Product,
) -> None:
    repo = repository(product)
    pull = repo.pull({"things/pack.py": BAD_CODE})
    root = product.stack.settings.workspace_root
    guest = until("the session", lambda: guests(root), 60)
    product.stack.kill("worker", signal.SIGKILL)
    until("the session's end", lambda: not any(psutil.pid_exists(pid) for pid in guest), 20)
    product.stack.spawn("worker")
    run = repo.completed(pull["head"]["sha"], 120)
    assert run["conclusion"] == "success"
    product.settle(120)
    assert len(repo.runs()) == 1
    assert len(repo.comments(pull["number"])) == 1


def guests(root: Path) -> list[int]:
    """Processes that work inside a workspace now."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(root) and process.status() != "zombie":
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def test_a_broker_flushed_while_work_is_queued_loses_nothing(product: Product) -> None:
    product.stack.kill("worker", signal.SIGKILL)
    repo = repository(product)
    pull = repo.pull({"things/pack.py": BAD_CODE})
    broker = socket_path(product.stack.settings.server.state_dir / "broker")
    with redis.Redis(unix_socket_path=str(broker)) as client:
        client.flushall()
    product.stack.spawn("worker")
    repo.completed(pull["head"]["sha"], 120)
    product.settle(120)


def test_a_broker_that_is_away_delays_but_loses_nothing(product: Product) -> None:
    assert product.stack.broker is not None
    product.stack.broker.stop()
    repo = repository(product)
    began = time.monotonic()
    pull = repo.pull({"things/pack.py": BAD_CODE})
    assert time.monotonic() - began < 5
    assert os.path.exists(product.stack.config_path)
    product.stack.broker.start()
    repo.completed(pull["head"]["sha"], 120)
    product.settle(120)


def test_a_worker_asked_to_stop_gives_its_work_back(product: Product) -> None:
    repo = repository(product)
    pull = repo.pull({"things/pack.py": BAD_CODE})
    root = product.stack.settings.workspace_root
    until("the session", lambda: guests(root), 60)
    product.stack.kill("worker", signal.SIGTERM)
    assert guests(root) == []
    product.stack.spawn("worker")
    repo.completed(pull["head"]["sha"], 120)
    product.settle(120)
