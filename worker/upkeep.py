"""What beat calls: lost work comes back, forgotten wake-ups are sent again, old data goes.

Each job takes its beat row first, so two beats (or two replicas) run it once per tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from coven import memory_shown
from coven.errors import LeaseLost, StoreUnavailable
from coven.metrics import REAPED, UPKEEP
from coven.services import Services
from coven.store import beats, book_sweeps, chain, metric_counts, recoveries, rules, sweeps, tasks
from coven.store.attempts import AttemptEnd
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.values import Conclusion, Lane, TaskState, new_token
from worker import limits, settle, show
from worker.governance import settle_escalations
from worker.purge import purge_due
from worker.reconcile import reconcile, recover
from worker.settle import Stop
from worker.sweep_state import sweep_state
from worker.workspace.checkout import Workspaces
from worker.workspace.upkeep import all_mirrors, maintain

_log = structlog.get_logger(__name__)

RESEND_AFTER = timedelta(seconds=30)
"""A wake-up that had no effect for so long is sent again."""

MAX_WAKEUPS = 128
"""Wake-ups for sessions that are underway at most."""

DELIVERY_DAYS = 30
OUTPUT_DAYS = 7
NONCE_AGE = timedelta(minutes=15)
"""Older requests of operators are refused by their time alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """A periodic job: what to call, and every how many seconds."""

    name: str
    every_secs: float
    run: Callable[[Services], None]


def perform(services: Services, job: Job) -> None:
    """Run a job unless it ran in this tick already. A store that is away is for the next tick."""
    now = services.clock.now()
    try:
        with services.store.write("beat.take") as tx:
            # A little less than the period, so that a late tick never skips one.
            mine = beats.take(tx, job.name, now, job.every_secs * 0.8)
        if mine:
            job.run(services)
            services.meter.count(UPKEEP, job.name, "done")
    except StoreUnavailable as error:
        services.meter.count(UPKEEP, job.name, "put_off")
        _log.warning("job_put_off", job=job.name, why=str(error))


def dispatch(services: Services) -> None:
    """Send wake-ups for queued tasks that are due and that nobody was told of lately.

    Any session wake-up serves whoever's turn it is, so a few at a time are enough: a backlog must
    not fill the broker.
    """
    now = services.clock.now()
    with services.store.read() as tx:
        due = sweeps.due_tasks(tx, now, RESEND_AFTER)
        room = MAX_WAKEUPS - sweeps.wakeups_underway(tx, now - RESEND_AFTER)
    told = []
    for task in due:
        session = task.lane is not Lane.CONTROL
        if session and room <= 0:
            break
        ring = services.bell.session if session else services.bell.control
        if not ring(task.id):
            break  # The broker is away; the rows keep until the next tick.
        room -= session
        told.append(task.id)
    if told:
        with services.store.write("tasks.dispatched") as tx:
            sweeps.mark_dispatched(tx, told, now)


def wake_next(services: Services) -> None:
    """A session has ended, so its place is free: tell somebody when work is due."""
    try:
        with services.store.read() as tx:
            due = sweeps.due_tasks(tx, services.clock.now(), timedelta(0), limit=20)
    except StoreUnavailable as error:
        _log.warning("next_not_woken", why=str(error))  # the dispatcher will
        return
    waiting = next((task for task in due if task.lane is not Lane.CONTROL), None)
    if waiting is not None:
        services.bell.session(waiting.id)


def publish(services: Services) -> None:
    """Send wake-ups for surfaces that differ from GitHub."""
    with services.store.read() as tx:
        due = sweeps.due_surfaces(tx, services.clock.now())
    for task_id in dict.fromkeys(surface.task_id for surface in due):
        if not services.bell.publish(task_id):
            break


def reap(services: Services) -> None:
    """Return expired leases: the task runs again, or fails where people see it."""
    now = services.clock.now()
    with services.store.read() as tx:
        lost = sweeps.expired_leases(tx, now)
    for task in lost:
        if task.lease_token is None:
            continue
        with services.store.write("lease.seize") as tx:
            seized = tasks.seize(
                task.installation_id, tx, task.id, task.lease_token, new_token(), now, 60
            )
            if seized is not None:
                end = AttemptEnd("lost", "the worker was not heard of any more")
                settle.close(services, tx, task, now, end)
        if seized is not None:
            services.meter.count(REAPED)
            _log.warning("lease_reaped", task=task.id, installation=task.installation_id)
            _settle_lost(services, seized)


def _settle_lost(services: Services, task: Task) -> None:
    try:
        if task.cancel_requested_at is not None:
            _end_lost(services, task)
            return
        settle.retry_or_fail(
            services,
            task,
            show.familiar_of(services.settings, task),
            AttemptEnd("lost"),
            why="The worker that ran this stopped without a word.",
            next_step="Write the command again; if it happens again, ask the operator.",
        )
    except LeaseLost:
        _log.info("lease_taken_back", task=task.id)


def _end_lost(services: Services, task: Task) -> None:
    reason = task.cancel_reason or "cancelled"
    stop = settle.stop_for(reason)
    settle.finish(
        services,
        task,
        stop.ending,
        AttemptEnd("stopped", reason),
        show.ended(
            services.settings,
            task,
            show.familiar_of(services.settings, task),
            state=stop.state,
            conclusion=stop.conclusion,
            title=stop.title,
            why=f"Stopped: {reason}.",
        ),
    )


def settle_idle(services: Services) -> None:
    """End what nobody will run: waited too long, no attempts left, or asked to stop."""
    now = services.clock.now()
    with services.store.read() as tx:
        idle = [*sweeps.overdue_waiting(tx, now), *sweeps.exhausted(tx)]
    for task in idle:
        stop, why, next_step = _idle_end(task)
        with services.store.write("task.idle") as tx:
            ended = settle.end_idle(
                services,
                tx,
                task,
                stop.ending,
                state=stop.state,
                conclusion=stop.conclusion,
                title=stop.title,
                why=why,
                next_step=next_step,
            )
        if ended is not None:
            services.bell.publish(task.id)


def _idle_end(task: Task) -> tuple[Stop, str, str | None]:
    """How, why, and what to do next. Pure."""
    again = "Write the command again if it is still wanted."
    if task.cancel_requested_at is not None:
        reason = task.cancel_reason or "cancelled"
        stop = settle.stop_for(reason)
        replaced = stop.ending.state is TaskState.SUPERSEDED
        return stop, f"Stopped: {reason}.", None if replaced else again
    if task.state is TaskState.WAITING:
        detail = f"no {task.waiting_for} came in time"
        ending = Ending(TaskState.CANCELLED, "expired", detail=detail)
        why = f"Nobody answered in time, so waiting for {task.waiting_for} ended."
        return Stop(ending, "cancelled", Conclusion.CANCELLED, "Ended"), why, again
    ending = Ending(TaskState.FAILED, "exhausted", detail="no attempts left")
    why = f"All {task.max_attempts} attempts are used up."
    return Stop(ending, "failed", Conclusion.FAILURE, "Failed"), why, again


def maintain_mirrors(services: Services) -> None:
    """Tidy up the mirror caches of this machine: unused pins go, packs are joined."""
    workspaces = Workspaces(services.settings, services.seam, services.clock, services.redactor)
    for mirror in all_mirrors(workspaces.mirrors):
        maintain(workspaces.mirrors, mirror)


def retain(services: Services) -> None:
    """Forget bodies, output tails, ended tasks, settled deliveries and records after their time.

    In batches, each a transaction of its own: nothing else waits for long.
    """
    now, storage = services.clock.now(), services.settings.storage

    def ago(days: int) -> datetime:
        return now - timedelta(days=days)

    drops: dict[str, Callable[[Tx], int]] = {
        "bodies": lambda tx: sweeps.drop_bodies(tx, ago(storage.delivery_body_days)),
        "outputs": lambda tx: sweeps.drop_output(tx, ago(OUTPUT_DAYS)),
        "deliveries": lambda tx: sweeps.drop_settled(tx, ago(DELIVERY_DAYS)),
        "api_audit": lambda tx: sweeps.drop_api_audit(tx, ago(storage.api_audit_days)),
        "nonces": lambda tx: rules.forget_nonces(tx, now - NONCE_AGE),
        "recoveries": lambda tx: recoveries.forget(tx, ago(DELIVERY_DAYS)),
        "gauges": lambda tx: metric_counts.drop_levels(tx, ago(1)),
    }
    payload_days = services.settings.governance.payload_days
    if payload_days is not None:
        drops["payloads"] = lambda tx: chain.empty_payloads(
            tx, ago(payload_days), limit=chain.BATCH
        )
    if storage.task_retention_days is not None:
        kept = storage.task_retention_days
        drops["tasks"] = lambda tx: sweeps.drop_tasks(tx, ago(kept))
    dropped: Counter[str] = Counter()
    for name, drop in drops.items():
        more = True
        while more:
            with services.store.write("retention") as tx:
                removed = drop(tx)
            dropped[name] += removed
            more = removed > 0
    if dropped.total():
        _log.info("retention", **dropped)


def retain_memory(services: Services) -> None:
    """End and show what is too old; forget activity and ended texts after their time."""
    now, days = services.clock.now(), services.settings.memory.retention_days
    counts: Counter[str] = Counter()
    more = True
    while more:
        with services.store.write("retention.memory") as tx:
            ended = book_sweeps.expire(tx, now)
            memory_shown.refresh(services.settings, tx, ended, now)
            step = {"expired": len(ended)}
            if days is not None:
                step |= book_sweeps.drop(tx, now - timedelta(days=days))
        counts.update(step)
        more = any(step.values())
    if counts.total():
        _log.info("memory_retention", **counts)


JOBS: tuple[Job, ...] = (
    Job("dispatch", 3.0, dispatch),
    Job("publish", 3.0, publish),
    Job("reap", 5.0, reap),
    Job("limits", 5.0, limits.settle_all),
    Job("settle_idle", 30.0, settle_idle),
    Job("escalations", 5.0, settle_escalations),
    Job("purge", 15.0, purge_due),
    Job("recover", 300.0, recover),
    Job("reconcile", 3600.0, reconcile),
    Job("sweep_state", 600.0, sweep_state),
    Job("retain", 3600.0, retain),
    Job("retain_memory", 3600.0, retain_memory),
    Job("maintain_mirrors", 6 * 3600.0, maintain_mirrors),
)
