"""The App is uninstalled while a session runs: it stops within seconds, and nothing is shown."""

from __future__ import annotations

import time

import psutil
import pytest
from sqlalchemy import func, select

from coven.cli.ledger import list_tasks
from coven.memory.book import NewEntry, Person, Source
from coven.memory.keys import MemoryKey
from coven.sandbox.stack import DemoFamiliar
from coven.store import book, purges, sweeps
from coven.store.tables import attempts, deliveries, surfaces, tasks
from coven.store.tables_memory import memory_entries
from coven.store.tables_tenancy import usage
from coven.values import TERMINAL_STATES, InstallationId, TaskState, TrustScope
from tests.e2e.kit import BAD_CODE, Product, Repo, make_repo, until
from tests.ledger import NOW

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


def counted(product: Product, installation: int) -> dict[str, int]:
    """Rows of the tenant."""
    tables = (tasks, attempts, surfaces, memory_entries, deliveries, usage)
    with product.store.read() as tx:
        owned = {t.name: t.c for t in tables if "installation_id" in t.c}
        return {
            name: int(
                tx.execute(
                    select(func.count()).where(columns.installation_id == installation)
                ).scalar_one()
            )
            for name, columns in owned.items()
        }


def test_everything_of_the_tenant_goes_and_a_new_installation_starts_clean(
    product: Product,
) -> None:
    repo: Repo = make_repo(product, "mover/things")
    installation = InstallationId(product.installation_of["mover"])
    done = repo.pull({"a.py": BAD_CODE}, draft=True, branch="first")
    repo.say(done["number"], "@slow-familiar status")
    repo.wait_comment(done["number"], "slow")
    pull = repo.pull({"b.py": BAD_CODE}, draft=True, branch="second")
    repo.say(pull["number"], "@slow-familiar review")
    until("a running session", lambda: guests(product), 60)
    with product.store.write() as tx:
        key = MemoryKey.parse(f"tenant/{installation}/notes/x")
        new = NewEntry(
            repo_id=None,
            repo=None,
            key=key,
            summary="Something",
            source=Source.API,
            trust=TrustScope.MAINTAINER,
        )
        assert book.remember(installation, tx, new, Person.operator("op"), NOW).done
    mirrors = product.stack.settings.server.state_dir / "mirrors"
    assert list(mirrors.rglob(str(installation)))
    before = counted(product, installation)
    assert min(before.values()) > 0
    product.admin.uninstall(installation, deliver=True)

    def finished() -> bool:
        with product.store.read() as tx:
            return any(purge.state == purges.DONE for purge in purges.of(installation, tx))

    until("the end of the purge", finished, 60)
    assert guests(product) == []
    assert list(mirrors.rglob(str(installation))) == []
    left = counted(product, installation)
    kept = {"deliveries", "usage"}
    assert {name: count for name, count in left.items() if count and name not in kept} == {}
    assert left["deliveries"] > before["deliveries"] - 1  # ids stay: none can be played again
    with product.store.read() as tx:
        bodies = select(deliveries.c.body, deliveries.c.sender_login).where(
            deliveries.c.installation_id == installation
        )
        assert all(row.body is None and row.sender_login is None for row in tx.execute(bodies))
        told = sweeps.recent_purges(tx, 5)
    assert told[0].installation_id == installation
    assert told[0].steps["memory"] >= 1
    # Installed again: another id, served at once, and nothing of before is there.
    again = product.admin.install("mover", deliver=True).id
    repo.say(done["number"], "@slow-familiar help")
    repo.wait_comment(done["number"], "review")
    assert again != installation
    assert counted(product, again)["memory_entries"] == 0
    assert counted(product, installation)["tasks"] == 0


def _left(product: Product) -> list[str]:
    root = product.stack.settings.workspace_root
    return [entry.name for entry in root.iterdir()] if root.is_dir() else []
