"""The transactions that end an attempt: task, attempt and surfaces change together, or not at all.

Used by the worker that holds the lease. A lost lease raises ``LeaseLost`` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from coven import governance_shown, memory_shown
from coven.errors import LeaseLost
from coven.metrics import ATTEMPTS
from coven.publication import CommentState
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import attempts, tasks
from coven.store.attempts import AttemptEnd
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.surfacing import Surfacing
from coven.values import Conclusion, Lane, TaskId, TaskState
from coven.waiting import APPROVAL_PATIENCE, WAITING_FOR_APPROVAL
from worker import reactions, show
from worker.memory import MemoryReport, keep_report, note_report
from worker.retry import jitter, next_attempt_at

_log = structlog.get_logger(__name__)


def finish(
    services: Services,
    task: Task,
    ending: Ending,
    attempt: AttemptEnd,
    wanted: Sequence[Surfacing],
    *,
    good: bool | None = None,
    memory: MemoryReport | None = None,
) -> Task:
    """Running -> terminal, with what people see. Raises ``LeaseLost``.

    ``good`` overrides what the state says about the reaction to the command. ``memory`` goes into
    the book in the same transaction.
    """
    with services.store.write("task.finish") as tx:
        ended = finish_in(services, tx, task, ending, attempt, wanted, good=good, memory=memory)
    _say("task_ended", ended, attempt.outcome)
    services.bell.publish(task.id)
    return ended


def finish_in(
    services: Services,
    tx: Tx,
    task: Task,
    ending: Ending,
    attempt: AttemptEnd,
    wanted: Sequence[Surfacing],
    *,
    good: bool | None = None,
    memory: MemoryReport | None = None,
) -> Task:
    """:func:`finish` in a transaction of the caller, who rings for the publisher afterwards."""
    now = services.clock.now()
    token = _token(task)
    if memory is not None:
        # First, so that the ending is stored with the final decisions; a lost lease undoes it.
        ending = keep_report(services, tx, task, memory, ending)
    ended = tasks.finish(task.installation_id, tx, task.id, token, now, ending)
    if ended is None:
        raise LeaseLost(f"task {task.id} is not ours any more")
    close(services, tx, task, now, attempt)
    if ended.lane is not Lane.CONTROL:
        wanted = memory_shown.completed(services.settings, tx, ended, wanted)
        wanted = governance_shown.completed(services.settings, tx, ended, wanted)
    show.desire_all(tx, ended, [*wanted, *reactions.final(tx, ended, good=good)], now)
    return ended


def close(services: Services, tx: Tx, task: Task, now: datetime, end: AttemptEnd) -> None:
    """Close the attempt that holds the task's lease, and count it."""
    if attempts.finish(task.installation_id, tx, task.id, _token(task), now, end):
        services.meter.count(ATTEMPTS, task.lane, end.outcome)


def end_idle(
    services: Services,
    tx: Tx,
    task: Task,
    ending: Ending,
    *,
    state: CommentState,
    conclusion: Conclusion,
    title: str,
    why: str,
    next_step: str | None = None,
    by: TaskId | None = None,
) -> Task | None:
    """Queued or waiting -> terminal, with what people see; None when it is neither.

    The caller rings for the publisher when its transaction is through.
    """
    now = services.clock.now()
    ended = tasks.settle_idle(task.installation_id, tx, task.id, now, ending, by)
    if ended is None or ended.lane is Lane.CONTROL:
        return ended
    wanted = show.ended(
        services.settings,
        ended,
        show.familiar_of(services.settings, ended),
        state=state,
        conclusion=conclusion,
        title=title,
        why=why,
        next_step=next_step,
    )
    wanted = governance_shown.completed(services.settings, tx, ended, wanted)
    show.desire_all(tx, ended, [*wanted, *reactions.final(tx, ended)], now)
    return ended


@dataclass(frozen=True, slots=True)
class Stop:
    """How work ends that was asked to stop, by the reason that was given."""

    ending: Ending
    state: CommentState
    conclusion: Conclusion
    title: str


def stop_for(reason: str) -> Stop:
    """Replaced by newer work, or cancelled. Pure.

    ``reason`` is the task's ``cancel_reason``: ``superseded: …`` or ``cancelled: …``.
    """
    if reason.startswith(TaskState.SUPERSEDED):
        ending = Ending(TaskState.SUPERSEDED, "stopped", detail=reason)
        return Stop(ending, "superseded", Conclusion.NEUTRAL, "Superseded")
    ending = Ending(TaskState.CANCELLED, "stopped", detail=reason)
    return Stop(ending, "cancelled", Conclusion.CANCELLED, "Cancelled")


def retry_or_fail(
    services: Services,
    task: Task,
    familiar: Familiar,
    attempt: AttemptEnd,
    *,
    why: str,
    next_step: str,
    conclusion: Conclusion = Conclusion.FAILURE,
    retry_after: float | None = None,
    start_sha: str | None = None,
) -> Task:
    """Running -> queued while the budget lasts, else failed. Raises ``LeaseLost``."""
    quiet = task.lane is Lane.CONTROL  # An answer never stands over a result.
    if task.attempts_used >= task.max_attempts:
        return finish(
            services,
            task,
            Ending(TaskState.FAILED, attempt.outcome, detail=why),
            attempt,
            []
            if quiet
            else show.ended(
                services.settings,
                task,
                familiar,
                state="failed",
                conclusion=conclusion,
                title=f"Failed after {task.attempts_used} of {task.max_attempts} attempts",
                why=why,
                next_step=next_step,
                start_sha=start_sha,
            ),
        )
    now = services.clock.now()
    not_before = next_attempt_at(
        services.settings.worker, now, task.attempts_used, retry_after, jitter()
    )
    wait = (not_before - now).total_seconds()
    wanted = (
        []
        if quiet
        else show.retrying(services.settings, task, familiar, why, wait, task.attempts_used)
    )
    return _requeue(services, task, attempt, wanted, now, not_before, why)


def give_back(services: Services, task: Task, attempt: AttemptEnd, why: str) -> Task:
    """Running -> queued without using up an attempt (a draining worker). Raises ``LeaseLost``."""
    now = services.clock.now()
    return _requeue(services, task, attempt, [], now, None, why, give_back_attempt=True)


def wait_for_approval(services: Services, task: Task, familiar: Familiar) -> Task:
    """Running -> waiting until a maintainer asks for the review. Raises ``LeaseLost``."""
    return wait(
        services,
        task,
        AttemptEnd("waiting", "a maintainer must ask for this review"),
        WAITING_FOR_APPROVAL,
        APPROVAL_PATIENCE,
        show.approval(services.settings, task, familiar),
    )


def wait(
    services: Services,
    task: Task,
    attempt: AttemptEnd,
    waiting_for: str,
    patience: timedelta,
    wanted: Sequence[Surfacing],
    *,
    memory: MemoryReport | None = None,
    **facts: object,
) -> Task:
    """Running -> waiting, at the longest for ``patience``. Raises ``LeaseLost``."""
    now = services.clock.now()
    token = _token(task)
    with services.store.write("task.wait") as tx:
        waiting = tasks.wait(
            task.installation_id, tx, task.id, token, now, waiting_for, now + patience, **facts
        )
        if waiting is None:
            raise LeaseLost(f"task {task.id} is not ours any more")
        close(services, tx, task, now, attempt)
        if memory is not None:
            note_report(services, tx, waiting, memory)
        wanted = governance_shown.completed(services.settings, tx, waiting, wanted)
        show.desire_all(tx, waiting, wanted, now)
    _say("task_waits", waiting, attempt.outcome, waiting_for=waiting_for)
    services.bell.publish(task.id)
    return waiting


def _requeue(
    services: Services,
    task: Task,
    attempt: AttemptEnd,
    wanted: Sequence[Surfacing],
    now: datetime,
    not_before: datetime | None,
    why: str,
    *,
    give_back_attempt: bool = False,
) -> Task:
    token = _token(task)
    with services.store.write("task.requeue") as tx:
        queued = tasks.requeue(
            task.installation_id,
            tx,
            task.id,
            token,
            now,
            not_before,
            why,
            give_back_attempt=give_back_attempt,
        )
        if queued is None:
            raise LeaseLost(f"task {task.id} is not ours any more")
        close(services, tx, task, now, attempt)
        show.desire_all(tx, queued, wanted, now)
    _say("task_queued_again", queued, attempt.outcome)
    if wanted:
        services.bell.publish(task.id)
    return queued


def _say(event: str, task: Task, outcome: str, **more: object) -> None:
    """The one line of a transition, after its commit."""
    _log.info(
        event,
        task=task.id,
        installation=task.installation_id,
        verb=task.verb,
        state=task.state,
        outcome=outcome,
        **more,
    )


def _token(task: Task) -> str:
    if task.lease_token is None:
        raise LeaseLost(f"task {task.id} has no lease")
    return task.lease_token
