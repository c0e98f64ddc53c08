"""Ending live work in the receiver's transaction: superseded, cancelled, or without a tenant.

Idle tasks end at once, with what they show; running ones are asked to stop, and their worker
shows it.
"""

from __future__ import annotations

from datetime import datetime

from coven.settings.models import Settings
from coven.store import intake, surfaces, tasks
from coven.store.engine import Tx
from coven.store.tasks import Ending, NewTask, Task
from coven.surfacing import Surfacing
from coven.values import Lane, TaskId, TaskState
from coven.waiting import WAITING_FOR_APPROVAL
from webhooks import first_surface
from webhooks.intents import Back, BranchGone, Cancel, Effect, Gone, Moved, Of, ReposGone
from webhooks.settled import Settled

THREAD_LOOKBACK = 100


class Stops:
    """Stops what a delivery makes pointless."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def supersede_older(self, tx: Tx, new: NewTask, settled: Settled) -> None:
        """A newer head: older automatic reviews end, and what people asked for is told of it."""
        older = tasks.older_automatic_reviews(
            new.installation_id, tx, new.repo_id, new.thread, new.familiar_id, new.source_at
        )
        why = f"superseded: a newer version was pushed ({(new.head_sha or '')[:12]})"
        for task in older:
            self._stop(tx, task, TaskState.SUPERSEDED, why, new.created_at, settled, new.id)
        moved = Moved(
            new.installation_id, new.repo_id, new.thread, new.head_sha or "", new.source_at
        )
        self.tell(tx, moved, new.created_at, settled)

    def settle_waiting(self, tx: Tx, by: Task, settled: Settled) -> None:
        """A maintainer asked for an exact commit: what waited for that is answered."""
        listed = tasks.on_thread(by.installation_id, tx, by.repo_id, by.thread, THREAD_LOOKBACK)
        for task in listed:
            if (
                task.state is TaskState.WAITING
                and task.waiting_for == WAITING_FOR_APPROVAL
                and task.familiar_id == by.familiar_id
                and task.automatic
            ):
                why = "superseded: a maintainer asked for a review"
                self._stop(tx, task, TaskState.SUPERSEDED, why, by.created_at, settled, by.id)

    def apply(self, tx: Tx, effect: Effect, now: datetime, settled: Settled) -> None:
        """What an event changes besides work of its own."""
        match effect:
            case Cancel():
                self._cancel(tx, effect, now, settled)
            case Moved():
                self.tell(tx, effect, now, settled)
            case BranchGone():
                self._branch_gone(tx, effect, now, settled)
            case ReposGone():
                self._repos_gone(tx, effect, now, settled)
            case Gone():
                self.tenant_gone(tx, effect, now, settled)
            case Back():
                surfaces.try_again(effect.installation_id, tx, effect.error, now)

    def _cancel(self, tx: Tx, cancel: Cancel, now: datetime, settled: Settled) -> None:
        tenant, repo = cancel.installation_id, cancel.repo_id
        intake.lock_thread(tenant, tx, repo, cancel.thread)
        for task in tasks.on_thread(tenant, tx, repo, cancel.thread, THREAD_LOOKBACK):
            if task.finished_at is not None or not pointless(task, cancel):
                continue
            self._stop(
                tx, task, TaskState.CANCELLED, f"cancelled: {cancel.why}", now, settled, None
            )

    def _branch_gone(self, tx: Tx, gone: BranchGone, now: datetime, settled: Settled) -> None:
        why = f"cancelled: {gone.why}"
        for task in intake.live_on_branch(gone.installation_id, tx, gone.repo_id, gone.branch):
            self._stop(tx, task, TaskState.CANCELLED, why, now, settled, None)

    def _repos_gone(self, tx: Tx, gone: ReposGone, now: datetime, settled: Settled) -> None:
        why = f"cancelled: {gone.why}"
        for task in intake.live_tasks(gone.installation_id, tx):
            if task.repo_id in gone.repo_ids:
                self._stop(tx, task, TaskState.CANCELLED, why, now, settled, None)

    def tenant_gone(self, tx: Tx, gone: Gone, now: datetime, settled: Settled) -> None:
        """Nothing may be done for this installation any more.

        After a removal nothing is shown either; a suspended one sees the end once it is back.
        """
        why = f"cancelled: {gone.why}"
        for task in intake.live_tasks(gone.installation_id, tx):
            if not gone.for_good:
                self._stop(tx, task, TaskState.CANCELLED, why, now, settled, None)
                continue
            end = Ending(TaskState.CANCELLED, "installation_gone", detail=why)
            if tasks.settle_idle(gone.installation_id, tx, task.id, now, end) is None:
                tasks.request_cancel(gone.installation_id, tx, task.id, now, why)

    def tell(self, tx: Tx, moved: Moved, now: datetime, settled: Settled) -> None:
        """A review that somebody asked for goes on: its comment says which commit it is about."""
        tenant = moved.installation_id
        listed = tasks.on_thread(tenant, tx, moved.repo_id, moved.thread, THREAD_LOOKBACK)
        for task in listed:
            familiar = self._settings.familiar(task.familiar_id)
            if (
                familiar is None
                or task.lane is not Lane.REVIEW
                or task.automatic
                or task.state not in (TaskState.QUEUED, TaskState.RUNNING)
                or task.head_sha == moved.head_sha
                or (moved.at is not None and task.source_at > moved.at)
                or task.trust_evidence.get("source") == "unavailable"
            ):
                continue
            wanted = first_surface.head_moved(self._settings, task, familiar, moved.head_sha)
            self.desire(tx, task, wanted, now, settled)

    def _stop(
        self,
        tx: Tx,
        task: Task,
        state: TaskState,
        why: str,
        now: datetime,
        settled: Settled,
        by: TaskId | None,
    ) -> None:
        """Settle an idle task with what it shows, or ask a running one to stop."""
        tenant = task.installation_id
        end = Ending(state, state.value, detail=why)
        ended = tasks.settle_idle(tenant, tx, task.id, now, end, by)
        if ended is None:
            tasks.request_cancel(tenant, tx, task.id, now, why, by)
            return
        familiar = self._settings.familiar(task.familiar_id)
        if familiar is None:
            return
        sentence = f"{why.partition(': ')[2].capitalize()}."
        for shown in surfaces.of_task(tenant, tx, task.id):
            wanted = first_surface.closing(self._settings, ended, familiar, shown, sentence)
            if wanted is not None:
                self.desire(tx, ended, wanted, now, settled)

    def desire(
        self, tx: Tx, task: Task, wanted: Surfacing, now: datetime, settled: Settled
    ) -> None:
        """State one surface and wake its publisher."""
        content = wanted.content.model_dump(mode="json")
        tenant = task.installation_id
        surfaces.desire(tenant, tx, task, wanted.kind, wanted.subject, content, now)
        settled.publish(task.id)


def pointless(task: Task, cancel: Cancel) -> bool:
    """Whether an event that ended this work is about this live task. Pure."""
    if cancel.at is not None and task.source_at > cancel.at:
        return False
    match cancel.of:
        case Of.AUTOMATIC:
            return task.automatic and task.lane is Lane.REVIEW
        case Of.EVERYTHING:
            return task.lane is not Lane.CONTROL
        case Of.COMMENTS:
            return task.comment_id in cancel.comments
        case Of.TRIGGER:
            return task.reason == cancel.trigger and task.familiar_id == cancel.familiar_id
