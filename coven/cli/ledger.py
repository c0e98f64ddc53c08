"""The operator's view of the ledgers: over all installations, unlike everything else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, union

from coven.store import attempts as attempt_ledger
from coven.store import ending, listing, sweeps
from coven.store import escalations as escalation_ledger
from coven.store import surfaces as surface_ledger
from coven.store import tasks as task_ledger
from coven.store.attempts import Attempt
from coven.store.deliveries import Delivery
from coven.store.ending import Cancel
from coven.store.engine import Tx
from coven.store.escalations import Escalation, Status
from coven.store.surfaces import Surface
from coven.store.tables import tasks
from coven.store.tables_governance import escalations
from coven.store.tables_memory import memory_entries, memory_revocations
from coven.store.tasks import Task
from coven.values import InstallationId, TaskState

CANCEL_REASON = "cancelled by the operator"


@dataclass(frozen=True, slots=True)
class Story:
    """All that the ledgers know of one task."""

    task: Task
    attempts: list[Attempt]
    surfaces: list[Surface]


def list_tasks(tx: Tx, installation: int | None, state: TaskState | None, limit: int) -> list[Task]:
    """The newest tasks."""
    want = listing.TasksWanted(state=state)
    if installation is None:
        return sweeps.tasks_page(tx, want, limit)
    return listing.tasks_page(InstallationId(installation), tx, want, limit)


def find_tasks(tx: Tx, start: str, limit: int = 5) -> list[Task]:
    """Tasks whose id begins with ``start`` (hex digits only), newest first."""
    query = (
        select(tasks.c.installation_id, tasks.c.id)
        .where(tasks.c.id.startswith(start.lower(), autoescape=True))
        .order_by(tasks.c.seq.desc())
        .limit(limit)
    )
    found = [
        task_ledger.get(InstallationId(owner), tx, task_id) for owner, task_id in tx.execute(query)
    ]
    return [task for task in found if task is not None]


def tell(tx: Tx, task: Task) -> Story:
    """A task with its attempts and surfaces."""
    owner = task.installation_id
    return Story(
        task,
        attempt_ledger.of_task(owner, tx, task.id),
        surface_ledger.of_task(owner, tx, task.id),
    )


def cancel(tx: Tx, task: Task, now: datetime) -> Cancel:
    """Ask for the end of a task; the workers carry it out and show it on GitHub."""
    return ending.ask(task.installation_id, tx, task.id, now, CANCEL_REASON)


def list_deliveries(
    tx: Tx, installation: int | None, routing: str | None, limit: int
) -> list[Delivery]:
    """The newest deliveries; ``routing`` is the beginning of theirs (``rejected``, ``task:``)."""
    want = listing.DeliveriesWanted(routing=routing)
    if installation is None:
        return sweeps.deliveries_page(tx, want, limit)
    return listing.deliveries_page(InstallationId(installation), tx, want, limit)


def is_task_id_start(text: str) -> bool:
    """Whether ``text`` can begin a task id, and is long enough to mean one."""
    return 4 <= len(text) <= 32 and all(char in "0123456789abcdef" for char in text.lower())


def tenants(tx: Tx) -> list[InstallationId]:
    """Every installation that has shown us work or left something in memory, oldest first."""
    found = union(
        select(tasks.c.installation_id),
        select(memory_entries.c.installation_id),
        select(memory_revocations.c.installation_id),
    )
    return [InstallationId(each) for each in sorted(tx.execute(found).scalars())]


def tenant_of_memory(tx: Tx, entry_id: str) -> InstallationId | None:
    """Whose entry this is; None when there is none."""
    found = tx.execute(
        select(memory_entries.c.installation_id).where(memory_entries.c.id == entry_id)
    ).scalar_one_or_none()
    return InstallationId(found) if found is not None else None


def open_escalations(
    tx: Tx, installation: int | None, states: Collection[Status], limit: int
) -> list[Escalation]:
    """Escalations in these states, newest first."""
    query = select(*escalation_ledger.FIELDS).where(escalations.c.status.in_(list(states)))
    if installation is not None:
        query = query.where(escalations.c.installation_id == installation)
    newest = query.order_by(escalations.c.requested_at.desc(), escalations.c.id).limit(limit)
    return [escalation_ledger.from_row(row) for row in tx.execute(newest)]


def tenant_of_escalation(tx: Tx, escalation_id: str) -> InstallationId | None:
    """Whose escalation this is; None when there is none."""
    found = tx.execute(
        select(escalations.c.installation_id).where(escalations.c.id == escalation_id)
    ).scalar_one_or_none()
    return InstallationId(found) if found is not None else None
