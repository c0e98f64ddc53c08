"""A worker takes a task: the lease and the attempt's row, in one transaction."""

from __future__ import annotations

from datetime import datetime

from coven.metrics import QUEUE_WAIT
from coven.services import Services
from coven.store import attempts, tasks, turns
from coven.store.tasks import Task
from coven.values import TaskId, TaskState, new_token
from worker import limits


def claim(services: Services, task_id: TaskId, worker: str) -> tuple[Task, int] | None:
    """This task with our lease, and the number of its attempt; None when it is not for us.

    Not for us: unknown, not due, or in somebody else's hands. For answers without a session,
    which wait for nobody's turn and count against no limit. ``worker`` names this process in the
    ledger. Raises ``StoreUnavailable``.
    """
    with services.store.read() as tx:
        found = tasks.locate(tx, task_id)
    if found is None or found.state is not TaskState.QUEUED:
        return None
    now = services.clock.now()
    with services.store.write("task.claim") as tx:
        task = tasks.claim(
            found.installation_id,
            tx,
            task_id,
            new_token(),
            now,
            services.settings.worker.lease_secs,
        )
        if task is None:
            return None
        number = attempts.start(task.installation_id, tx, task, worker, now)
    _waited(services, task, number, now)
    return task, number


def claim_next(services: Services, woken: TaskId, worker: str) -> tuple[Task, int] | None:
    """The session task whose turn it is, as :func:`claim` returns it.

    A message says *look now* and names the task that it was sent for; which task runs is decided
    by fair order between all that are due. What ``woken`` may not begin because of a limit says
    so at once. Raises ``StoreUnavailable``.
    """
    now = services.clock.now()
    with services.store.write("task.claim") as tx:
        task = turns.claim_next(
            tx, limits.allow_from(services), new_token(), now, services.settings.worker.lease_secs
        )
        taken = None
        if task is not None:
            taken = task, attempts.start(task.installation_id, tx, task, worker, now)
    if taken is not None:
        _waited(services, *taken, now)
    if task is None or task.id != woken:
        _explain(services, woken)
    return taken


def _waited(services: Services, task: Task, number: int, now: datetime) -> None:
    # Later attempts and rounds waited for something else than a worker.
    if number == 1 and task.round == 1:
        services.meter.observe(QUEUE_WAIT, (now - task.created_at).total_seconds(), task.lane)


def _explain(services: Services, woken: TaskId) -> None:
    with services.store.read() as tx:
        left = tasks.locate(tx, woken)
    if left is not None and left.state is TaskState.QUEUED:
        limits.settle_over(services, left.installation_id)
