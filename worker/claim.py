"""A worker takes a task: the lease and the attempt's row, in one transaction."""

from __future__ import annotations

from coven.services import Services
from coven.store import attempts, tasks
from coven.store.tasks import Task
from coven.values import Lane, TaskId, TaskState, new_token


def claim(services: Services, task_id: TaskId, worker: str) -> tuple[Task, int] | None:
    """The task with our lease, and the number of its attempt; None when it is not for us.

    Not for us: unknown, not due, in somebody else's hands, or one session too many for its
    installation (``limits.max_concurrent``; short answers don't wait for that). ``worker`` names
    this process in the ledger. Raises ``StoreUnavailable``.
    """
    with services.store.read() as tx:
        found = tasks.locate(tx, task_id)
    if found is None or found.state is not TaskState.QUEUED:
        return None
    block = services.settings.installation(found.installation_id)
    limited = found.lane is not Lane.CONTROL
    now = services.clock.now()
    with services.store.write("task.claim") as tx:
        task = tasks.claim(
            found.installation_id,
            tx,
            task_id,
            new_token(),
            now,
            services.settings.worker.lease_secs,
            block.limits.max_concurrent if block and limited else None,
        )
        if task is None:
            return None
        return task, attempts.start(task.installation_id, tx, task, worker, now)
