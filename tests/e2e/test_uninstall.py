"""The App is uninstalled while a session runs: it stops within seconds, and nothing is shown."""

from __future__ import annotations

import time

import psutil
import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.values import TERMINAL_STATES, TaskState
from tests.e2e.kit import BAD_CODE, Product, Repo, make_repo, until

pytestmark = [pytest.mark.xdist_group("e2e-uninstall"), pytest.mark.timeout(180)]

KEYS = {"worker": {"retry_base_secs": "0.3", "lease_secs": "20"}}
FAMILIARS = (DemoFamiliar("slow", "slow-familiar", "sandbox:slow,60"),)
STOPPED_WITHIN_SECS = 5.0


def guests(product: Product) -> list[int]:
    """Processes that work in a checkout."""
    root = str(product.stack.settings.workspace_root)
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(root) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.parametrize("how", ["deleted", "suspended"])
def test_a_running_session_ends_with_its_installation(product: Product, how: str) -> None:
    # No rest afterwards to look at: nobody may close the Check Run of a tenant that is gone.
    repo: Repo = make_repo(product, f"leaver-{how}/things")
    pull = repo.pull({"a.py": BAD_CODE}, draft=True)
    repo.say(pull["number"], "@slow-familiar review")
    until("a running session", lambda: guests(product), 60)
    installation = product.installation_of[f"leaver-{how}"]
    admin = product.admin
    began = time.monotonic()
    leave = admin.uninstall if how == "deleted" else admin.suspend
    done = leave(installation, deliver=True)
    assert f"installation_{how}" in done.delivered.response
    until("the end of the session", lambda: not guests(product), STOPPED_WITHIN_SECS + 2)
    assert time.monotonic() - began < STOPPED_WITHIN_SECS

    def task_ended() -> bool:
        with product.store.read() as tx:
            task = list_tasks(tx, None, None, 1)[0]
        assert task.installation_id == installation
        return task.state in TERMINAL_STATES

    until("the end of the task", task_ended, 20)
    with product.store.read() as tx:
        (task,) = list_tasks(tx, None, None, 1)
    assert task.state is TaskState.CANCELLED
    until("a workspace that is gone", lambda: not _left(product), 20)


def _left(product: Product) -> list[str]:
    root = product.stack.settings.workspace_root
    return [entry.name for entry in root.iterdir()] if root.is_dir() else []
