"""Stopping a session that runs: within seconds, and said where people look."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from sqlalchemy import update

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store import attempts, tasks
from coven.store.attempts import Attempt, AttemptEnd
from coven.store.tables import tasks as task_rows
from coven.store.tasks import Task
from coven.values import TaskState
from tests.e2e.kit import BAD_CODE, Product, Repo, until

pytestmark = [pytest.mark.xdist_group("e2e-cancel"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"retry_base_secs": "0.3", "lease_secs": "5", "heartbeat_secs": "1"},
    "review": {"familiar": '"slow"', "pull_request": "true"},
}
FAMILIARS = (
    DemoFamiliar("slow", "slow-familiar", "sandbox:slow,25"),
    DemoFamiliar("deaf", "deaf-familiar", "sandbox:ignore-sigterm"),
)
STOPPED_WITHIN_SECS = 5.0


def newest(product: Product) -> tuple[Task, list[Attempt]]:
    with product.store.read() as tx:
        task = list_tasks(tx, None, None, 1)[0]
        return task, attempts.of_task(task.installation_id, tx, task.id)


def running(product: Product) -> tuple[Task, list[int]]:
    """The newest task once its session runs, with the processes of the session."""

    def probe() -> tuple[Task, list[int]] | None:
        task, tries = newest(product)
        guests = session_processes(product, task)
        return (task, guests) if tries and tries[-1].phase == "session" and guests else None

    found: tuple[Task, list[int]] = until("a running session", probe, 60)
    return found


def session_processes(product: Product, task: Task) -> list[int]:
    folder = str(product.stack.settings.workspace_root / task.id)
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def wait_gone(product: Product, task: Task, since: float) -> None:
    until("the end of the session", lambda: not session_processes(product, task), 20)
    assert time.monotonic() - since <= STOPPED_WITHIN_SECS


def lease_runs_out(product: Product, task: Task) -> None:
    """What the reaper does when it finds the lease expired, as after a long pause of the worker."""
    assert task.lease_token is not None
    now = datetime.now(UTC)
    who = task.installation_id
    with product.store.write() as tx:
        expired = {"lease_expires_at": now - timedelta(seconds=1)}
        tx.execute(update(task_rows).where(task_rows.c.id == task.id).values(expired))
        assert tasks.seize(who, tx, task.id, task.lease_token, "s" * 32, now, 1) is not None
        attempts.finish(who, tx, task.id, task.lease_token, now, AttemptEnd("lost"))


def cancel(product: Product, task: Task) -> None:
    done = subprocess.run(  # noqa: TID251 - what an operator types
        [
            *(sys.executable, "-c", "from coven.cli.main import main; main()"),
            *("tasks", "cancel", task.id, "--config", str(product.stack.config_path)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("familiar", ["slow", "deaf"])
def test_the_operators_cancel_ends_a_running_session(
    repo: Repo, product: Product, familiar: str
) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE}, draft=True)
    repo.say(pull["number"], f"@{familiar}-familiar review")
    task, _ = running(product)
    cancel(product, task)
    wait_gone(product, task, time.monotonic())
    run = repo.completed(pull["head"]["sha"], 20)
    assert run["conclusion"] == "cancelled"
    assert "cancelled by the operator" in run["output"]["summary"]
    repo.wait_comment(pull["number"], "**cancelled**", 20)
    task, tries = newest(product)
    assert (task.state, task.outcome, len(tries)) == (TaskState.CANCELLED, "stopped", 1)
    assert tries[0].outcome == "stopped"


def test_a_push_ends_the_running_review_of_the_old_head(repo: Repo, product: Product) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE})
    old = pull["head"]["sha"]
    task, _ = running(product)
    since = time.monotonic()
    repo.admin.push(repo.name, "changes", {"things/x.py": "x = 1\n"}, author="mona", deliver=True)
    wait_gone(product, task, since)
    run = repo.completed(old, 20)
    assert run["conclusion"] == "neutral"
    assert run["output"]["title"].startswith("Superseded")
    with product.store.read() as tx:
        (ended,) = [t for t in list_tasks(tx, None, None, 50) if t.id == task.id]
    assert ended.state is TaskState.SUPERSEDED
    # The review of the new head is stopped too, so that the next test does not wait for it.
    following, _ = running(product)
    assert following.id != task.id
    cancel(product, following)


def test_a_worker_that_lost_its_lease_ends_its_session_and_says_nothing(
    repo: Repo, product: Product
) -> None:
    pull = repo.pull({"things/pack.py": BAD_CODE}, draft=True)
    repo.say(pull["number"], "@slow-familiar review")
    task, guests = running(product)
    since = time.monotonic()
    lease_runs_out(product, task)
    until("the end of the processes", lambda: not any(map(psutil.pid_exists, guests)), 20)
    assert time.monotonic() - since <= STOPPED_WITHIN_SECS
    # The reaper brings the work back; there we end it.
    again, _ = running(product)
    assert again.attempts_used == 2
    cancel(product, again)
    run = repo.completed(pull["head"]["sha"], 20)
    assert run["conclusion"] == "cancelled"
    assert len(repo.runs()) == 1
