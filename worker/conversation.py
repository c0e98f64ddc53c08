"""What the control lane does on behalf of people: stop work, and hand an answer to waiting work."""

from __future__ import annotations

from coven import texts
from coven.answers import was_given, with_answer
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import intake, tasks
from coven.store.tasks import Ending, Task
from coven.texts import Voice
from coven.values import LIVE_STATES, Conclusion, Lane, TaskState
from coven.waiting import WAITING_FOR_ANSWER
from worker import settle, show

LOOKBACK = 100


def stop_requested(services: Services, command: Task, familiar: Familiar) -> list[Task]:
    """Stop the familiar's work on the thread that was wanted before this ``cancel``.

    Queued and waiting work ends at once; running work is asked to stop and ends within seconds.
    Returns what this command stopped, also when it was interrupted and runs again.
    """
    now = services.clock.now()
    tenant = command.installation_id
    who = command.actor_login or "somebody with write access"
    why = f"cancelled: {who} asked for it"
    again = f"Write `@{familiar.handle} retry` to do it again."
    idle = []
    with services.store.write("control.cancel") as tx:
        intake.lock_thread(tenant, tx, command.repo_id, command.thread)
        listed = tasks.on_thread(tenant, tx, command.repo_id, command.thread, LOOKBACK)
        for task in listed:
            if not wanted_before(task, command):
                continue
            # The link tells a repeated try of this command what it did already.
            if tasks.request_cancel(tenant, tx, task.id, now, why, command.id) is not None:
                continue
            ending = Ending(TaskState.CANCELLED, "stopped", detail=why)
            ended = settle.end_idle(
                services,
                tx,
                task,
                ending,
                state="cancelled",
                conclusion=Conclusion.CANCELLED,
                title="Cancelled",
                why=f"Stopped before it began or went on: {who} asked for it.",
                next_step=again,
                by=command.id,
            )
            if ended is not None:
                idle.append(task.id)
        listed = tasks.on_thread(tenant, tx, command.repo_id, command.thread, LOOKBACK)
    for task_id in idle:
        services.bell.publish(task_id)
    return [task for task in listed if task.superseded_by == command.id]


def wanted_before(task: Task, command: Task) -> bool:
    """Whether ``cancel`` means this task: live, of the same familiar, and asked for earlier."""
    if task.state not in LIVE_STATES or task.lane is Lane.CONTROL or task.id == command.id:
        return False
    if task.familiar_id != command.familiar_id or task.cancel_requested_at is not None:
        return False
    if task.source_at == command.source_at:
        # GitHub's clock has seconds only; what was written down first was wanted first.
        return task.seq < command.seq
    return task.source_at < command.source_at


def stopped_text(voice: Voice, stopped: list[Task]) -> str:
    """The reply to ``cancel``."""
    rows = [
        (f"{task.verb} ({task.reason})", "stopping" if task.finished_at is None else "stopped")
        for task in stopped
    ]
    return texts.reply_cancelled(voice, rows)


def hand_over(services: Services, answer: Task) -> bool:
    """Give a confirmed person's answer to the task that waits for it; False when none does."""
    now = services.clock.now()
    tenant = answer.installation_id
    text = answer.payload.get("answer")
    if answer.parent_task_id is None or not isinstance(text, str):
        return False
    with services.store.write("control.answer") as tx:
        waiting = tasks.get(tenant, tx, answer.parent_task_id)
        if waiting is None:
            return False
        if answer.comment_id is not None and was_given(waiting, answer.comment_id):
            return True
        if waiting.state is not TaskState.WAITING or waiting.waiting_for != WAITING_FOR_ANSWER:
            return False
        payload = with_answer(
            waiting, text, answer.actor_login, answer.comment_id, services.redactor.text
        )
        resumed = tasks.resume(tenant, tx, waiting.id, now, payload=payload)
        if resumed is None:
            return False
        familiar = show.familiar_of(services.settings, resumed)
        show.desire_all(tx, resumed, show.queued(services.settings, resumed, familiar), now)
    services.bell.session(resumed.id)
    services.bell.publish(resumed.id)
    return True
