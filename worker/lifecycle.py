"""One attempt at a session task: claim, look again, check out, run, judge, show.

Every path ends in a state that a person can see: terminal, queued with a time, or waiting with an
expiry. What happens when this process dies at any line is the reaper's business
(:mod:`worker.upkeep`): the lease expires and the task runs again, or fails visibly.
"""

from __future__ import annotations

import time
from datetime import datetime

import structlog

from coven.errors import CovenError, InstallationGone, LeaseLost, Retry
from coven.github.repo_client import RepoClient
from coven.github.roles import Role
from coven.governance.context import acting
from coven.governance.refusal import ActionEscalated, ActionRefused
from coven.publication import check_run_subject
from coven.services import Services
from coven.store import surfaces, tasks
from coven.store.attempts import AttemptEnd
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.tracing import within
from coven.values import Conclusion, SurfaceKind, TaskId, TaskState
from worker import conclude, governance, reactions, settle, show
from worker.attempt import SESSION, Attempt, Stopped
from worker.claim import claim_next
from worker.heartbeat import Heartbeat
from worker.lease import DRAIN, LEASE_LOST, Draining, LeaseKeeper
from worker.recheck import AskFirst, Decline, look_again
from worker.repo_file import narrowed
from worker.session import prepare, run

_log = structlog.get_logger(__name__)

OPERATOR_STEP = "If it happens again, ask the operator of this App to look at the logs."


def run_task(services: Services, task_id: TaskId, draining: Draining, worker: str) -> bool:
    """Run the session task whose turn it is; ``task_id`` is the one that the message was for.

    False when nothing was due or allowed. Raises ``StoreUnavailable``.
    """
    claimed = claim_next(services, task_id, worker)
    if claimed is None:
        return False
    task, number = claimed
    familiar = services.settings.familiar(task.familiar_id)
    with (
        within(task.traceparent),
        structlog.contextvars.bound_contextvars(
            task=task.id,
            installation=task.installation_id,
            repository=str(task.repo),
            delivery=task.delivery_id,
            attempt=number,
        ),
    ):
        if familiar is None:
            _without_familiar(services, task)
            return True
        keeper = LeaseKeeper(services, task, draining)
        redactor = services.redactor.with_live(*services.github.live_secrets())
        attempt = Attempt(services, task, familiar, keeper, number, redactor, time.monotonic())
        _log.info("attempt_started", verb=task.verb, lane=task.lane)
        with keeper, acting(governance.acting_for(services.settings, task, may_wait=True)):
            _guarded(attempt)
    return True


def _guarded(attempt: Attempt) -> None:
    services = attempt.services
    try:
        _attempt(attempt)
    except Stopped as stopped:
        _stop(attempt, stopped.reason)
    except LeaseLost:
        _log.warning("lease_lost", phase=attempt.phase)
    except InstallationGone as gone:
        _fail(attempt, gone, TaskState.CANCELLED, Conclusion.CANCELLED)
    except ActionRefused as error:
        _ruled(attempt, error)
    except CovenError as error:
        _log.warning("attempt_failed", phase=attempt.phase, why=attempt.redactor.text(str(error)))
        if error.retry is Retry.BACKOFF:
            _again(attempt, error.public, str(error), error.retry_after)
        else:
            _fail(attempt, error, TaskState.FAILED, Conclusion.FAILURE)
    except Exception as error:  # noqa: BLE001
        # The last net: a fault of ours must not leave a task running for ever.
        _log.exception("attempt_crashed", phase=attempt.phase)
        _again(attempt, CovenError.public, f"{type(error).__name__} in {attempt.phase}", None)
    finally:
        if attempt.prepared is not None:
            attempt.prepared.clean_up()
        services.bell.publish(attempt.task.id)


def _attempt(attempt: Attempt) -> None:
    services = attempt.services
    with attempt.during("looking"):
        governance.look_ahead(services, attempt.task)
        client = services.github.for_repo(
            attempt.task.installation_id, attempt.task.repo_id, attempt.task.repo, Role.PUBLISH
        )
        look = look_again(client, services.settings, attempt.task)
        if not isinstance(look, Decline):
            look = narrowed(client, attempt.task, str(look.facts["default_branch"])) or look
    if isinstance(look, Decline):
        _decline(attempt, look)
        return
    task = _amend(attempt, look.facts, ask=isinstance(look, AskFirst))
    if isinstance(look, AskFirst):
        settle.wait_for_approval(services, task, attempt.familiar)
        return
    # An approval is for one commit, so from here on the pinned one is part of every question.
    with acting(governance.acting_for(services.settings, task, may_wait=True)):
        _work(attempt, client)


def _work(attempt: Attempt, client: RepoClient) -> None:
    services, task = attempt.services, attempt.task
    with attempt.during("checkout"):
        attempt.prepared = prepare(
            services, task, attempt.familiar, attempt.redactor, attempt.keeper.stop_reason
        )
        attempt.redactor = attempt.prepared.redactor
        attempt.keeper.note(start_sha=attempt.prepared.workspace.start_sha)
    with attempt.during(SESSION):
        pulse = Heartbeat(services, task, attempt.familiar, attempt.began)
        attempt.keeper.on_tick = pulse.tick
        pulse.enter("the session runs")
        attempt.end, attempt.reading, attempt.asked = run(
            services, attempt.prepared, attempt.keeper
        )
        pulse.leave()
    with attempt.during("judging"):
        conclude.conclude(attempt, client)


def _ruled(attempt: Attempt, error: ActionRefused) -> None:
    """A rule said no, or wants a person to say yes. Nothing of this is tried again."""
    services, task, familiar = attempt.services, attempt.task, attempt.familiar
    try:
        if isinstance(error, ActionEscalated):
            end = attempt.closing("escalated", str(error))
            governance.escalated(services, task, familiar, end, error)
        else:
            end = attempt.closing(governance.OUTCOME, str(error))
            governance.refused(services, task, familiar, end, error)
    except LeaseLost:
        _log.warning("lease_lost", phase=attempt.phase)


def _amend(attempt: Attempt, facts: dict[str, object], *, ask: bool) -> Task:
    services, task = attempt.services, attempt.task
    now = services.clock.now()
    with services.store.write("task.amend") as tx:
        facts |= _leave_old_head(attempt, tx, facts.get("head_sha"), now)
        amended = tasks.amend(
            task.installation_id, tx, task.id, task.lease_token or "", now, **facts
        )
        if amended is None:
            raise LeaseLost(f"task {task.id} is not ours any more")
        if not ask:
            seconds = time.monotonic() - attempt.began
            wanted = show.working(
                services.settings,
                amended,
                attempt.familiar,
                "reading the code",
                seconds,
                amended.attempts_used,
            )
            show.desire_all(tx, amended, [*wanted, *reactions.heard(tx, amended)], now)
    attempt.task = amended
    if not ask:
        services.bell.publish(amended.id)
    return amended


def _leave_old_head(attempt: Attempt, tx: Tx, head: object, now: datetime) -> dict[str, object]:
    """A Check Run can't move: when the head did, the old one ends and the next round begins."""
    task = attempt.task
    subject = check_run_subject(task.id, task.round)
    shown = surfaces.find(task.installation_id, tx, task.repo_id, SurfaceKind.CHECK_RUN, subject)
    if not task.is_pull or shown is None or shown.desired.get("head_sha") == head:
        return {}
    wanted = show.moved_on(attempt.services.settings, task, attempt.familiar, shown, str(head))
    show.desire_all(tx, task, [wanted], now)
    return {"round": task.round + 1}


def _decline(attempt: Attempt, decline: Decline) -> None:
    state = TaskState.SUPERSEDED if decline.superseded else TaskState.CANCELLED
    wanted = (
        []
        if decline.silent
        else show.ended(
            attempt.services.settings,
            attempt.task,
            attempt.familiar,
            state="superseded" if decline.superseded else "declined",
            conclusion=Conclusion.NEUTRAL if decline.superseded else Conclusion.CANCELLED,
            title="Superseded" if decline.superseded else "Declined",
            why=decline.why,
            next_step=decline.next_step,
        )
    )
    settle.finish(
        attempt.services,
        attempt.task,
        Ending(state, decline.outcome, detail=decline.why),
        attempt.closing(decline.outcome, decline.why),
        wanted,
    )


def _stop(attempt: Attempt, reason: str) -> None:
    services, task = attempt.services, attempt.task
    if reason == LEASE_LOST:
        _log.warning("lease_lost", phase=attempt.phase)
        return
    try:
        if reason == DRAIN:
            settle.give_back(services, task, attempt.closing("stopped", reason), "worker drained")
            return
        stop = settle.stop_for(reason)
        settle.finish(
            services,
            task,
            stop.ending,
            attempt.closing("stopped", reason),
            show.ended(
                services.settings,
                task,
                attempt.familiar,
                state=stop.state,
                conclusion=stop.conclusion,
                title=stop.title,
                why=f"Stopped while {attempt.phase}: {reason}.",
                start_sha=attempt.start_sha,
            ),
        )
    except LeaseLost:
        _log.warning("lease_lost", phase=attempt.phase)


def _again(attempt: Attempt, public: str, detail: str, retry_after: float | None) -> None:
    try:
        settle.retry_or_fail(
            attempt.services,
            attempt.task,
            attempt.familiar,
            attempt.closing("infra", detail),
            why=public,
            next_step=OPERATOR_STEP,
            retry_after=retry_after,
            start_sha=attempt.start_sha,
        )
    except LeaseLost:
        _log.warning("lease_lost", phase=attempt.phase)


def _fail(attempt: Attempt, error: CovenError, state: TaskState, conclusion: Conclusion) -> None:
    outcome = type(error).__name__
    try:
        settle.finish(
            attempt.services,
            attempt.task,
            Ending(state, outcome, detail=attempt.redactor.text(str(error))[:2_000]),
            attempt.closing(outcome, str(error)),
            show.ended(
                attempt.services.settings,
                attempt.task,
                attempt.familiar,
                state="cancelled" if state is TaskState.CANCELLED else "failed",
                conclusion=conclusion,
                title="Failed" if state is TaskState.FAILED else "Cancelled",
                why=error.public,
                next_step=OPERATOR_STEP,
                start_sha=attempt.start_sha,
            ),
        )
    except LeaseLost:
        _log.warning("lease_lost", phase=attempt.phase)


def _without_familiar(services: Services, task: Task) -> None:
    why = f"The familiar {task.familiar_id} is not configured here any more."
    try:
        settle.finish(
            services,
            task,
            Ending(TaskState.FAILED, "misconfigured", detail=why),
            AttemptEnd("misconfigured", why),
            show.ended(
                services.settings,
                task,
                show.familiar_of(services.settings, task),
                state="failed",
                conclusion=Conclusion.FAILURE,
                title="Failed",
                why=why,
                next_step=OPERATOR_STEP,
            ),
        )
    except LeaseLost:
        _log.warning("lease_lost", phase="claimed")
