"""Rules in the life of a task: for whom it acts, and what becomes of it when a rule says no."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from coven import texts_governance as texts
from coven.governance import escalate
from coven.governance.actions import FilesystemWrite, NetworkRequest, Op, ProcessSpawn
from coven.governance.context import Acting
from coven.governance.refusal import ActionEscalated, ActionRefused
from coven.publication import APPROVE_BUTTON, DENY_BUTTON
from coven.services import Services
from coven.settings.models import Familiar, Settings
from coven.store import escalations, sweeps, tasks
from coven.store.attempts import AttemptEnd
from coven.store.escalations import Escalation, Status
from coven.store.tasks import Ending, Task
from coven.surfacing import Surfacing, check_run, status_comment, voice_of, work_of
from coven.values import Conclusion, TaskState
from coven.waiting import WAITING_FOR_ESCALATION
from worker import settle

OUTCOME = "governance_refused"


def acting_for(settings: Settings, task: Task, *, may_wait: bool = False) -> Acting:
    """Who acts while this task is worked on."""
    return Acting(
        installation=task.installation_id,
        repo_id=task.repo_id,
        repo=str(task.repo),
        familiar=task.familiar_id,
        task_id=task.id,
        head_sha=task.head_sha,
        attempts_root=settings.workspace_root / task.id,
        may_wait=may_wait,
    )


def look_ahead(services: Services, task: Task) -> None:
    """Ask before any token is minted: a refused task never holds one. Raises ``ActionRefused``."""
    if services.rules is None:
        return
    settings = services.settings
    clone = f"{settings.github.html_base_url}/{task.repo.owner}/{task.repo.name}.git"
    backend = settings.worker.backend
    program = settings.worker.coven_code_bin
    if backend == "container":
        program = settings.worker.container.docker_bin
    folder: Path = settings.workspace_root / task.id
    services.rules.preview(
        [
            FilesystemWrite.of(folder, Op.CREATE),
            ProcessSpawn.of(("git", "fetch", clone)),
            NetworkRequest.of("GIT", clone),
            ProcessSpawn.of((program,)),
        ],
        "task.ahead",
    )


def refused(
    services: Services, task: Task, familiar: Familiar, end: AttemptEnd, error: ActionRefused
) -> None:
    """Running -> failed, not tried again, with the rule on the Check Run. Raises ``LeaseLost``."""
    facts, voice = error.facts, voice_of(services.settings, familiar, task)
    check = check_run(
        task,
        familiar,
        voice,
        texts.check_refused(voice, facts),
        conclusion=Conclusion.FAILURE,
        head_sha=_commit(services, task),
    )
    comment = status_comment(
        task, familiar, "failed", texts.comment_refused(voice, work_of(task), facts)
    )
    ending = Ending(TaskState.FAILED, OUTCOME, detail=str(error)[:2_000])
    settle.finish(services, task, ending, end, _present(check, comment))


def escalated(
    services: Services, task: Task, familiar: Familiar, end: AttemptEnd, error: ActionEscalated
) -> None:
    """Running -> waiting until a person decides; queued at once when one has decided meanwhile.

    Raises ``LeaseLost``.
    """
    with services.store.read() as tx:
        found = escalations.get(task.installation_id, tx, error.escalation_id)
    if found is None or found.status is not Status.PENDING:
        settle.give_back(services, task, end, f"{error.escalation_id} was decided")
        return
    left = max(found.expires_at - services.clock.now(), timedelta(seconds=1))
    wanted = _shown(services, task, familiar, error, found)
    settle.wait(services, task, end, WAITING_FOR_ESCALATION, left, wanted)
    # A decision that came between the look above and this is found by the sweep, within seconds.


def settle_escalations(services: Services) -> None:
    """Upkeep: what was approved runs, what was denied ends, what is over is closed."""
    now = services.clock.now()
    with services.store.read() as tx:
        waiting = sweeps.waiting_for(tx, WAITING_FOR_ESCALATION)
        newest = {
            task.id: escalations.of_task(task.installation_id, tx, task.id, frozenset(Status))[:1]
            for task in waiting
        }
        stale = sweeps.stale_escalations(tx, now)
    for task in waiting:
        for found in newest[task.id]:
            _settle(services, task, found)
    if services.rules is None:
        return
    for found in stale:
        over = Status.EXPIRED if found.expires_at <= now else Status.CANCELLED
        escalate.end(services.rules.recorder, services.clock, found, over)


def _settle(services: Services, task: Task, found: Escalation) -> None:
    if found.status is Status.APPROVED:
        with services.store.write("task.resume") as tx:
            resumed = tasks.resume(task.installation_id, tx, task.id, services.clock.now())
        if resumed is not None:
            services.bell.session(task.id)
    elif found.status is Status.DENIED:
        why = texts.denied_why(found.id, found.rule_id, found.decided_by)
        with services.store.write("task.idle") as tx:
            settle.end_idle(
                services,
                tx,
                task,
                Ending(TaskState.FAILED, "governance_denied", detail=why),
                state="failed",
                conclusion=Conclusion.FAILURE,
                title=f"Denied: {found.rule_id}",
                why=why,
                next_step=texts.denied_next(),
            )
        services.bell.publish(task.id)


def _shown(
    services: Services, task: Task, familiar: Familiar, error: ActionEscalated, found: Escalation
) -> list[Surfacing]:
    voice = voice_of(services.settings, familiar, task)
    four_eyes = services.settings.governance.four_eyes
    check = check_run(
        task,
        familiar,
        voice,
        texts.check_escalated(voice, error.facts, found.id, found.expires_at, four_eyes=four_eyes),
        conclusion=Conclusion.ACTION_REQUIRED,
    )
    if check is not None:
        offered = {"actions": (APPROVE_BUTTON, DENY_BUTTON), "escalation": found.id}
        check = replace(check, content=check.content.model_copy(update=offered))
    comment = status_comment(
        task,
        familiar,
        "needs input",
        texts.comment_escalated(
            voice, work_of(task), error.facts, found.id, found.expires_at, four_eyes=four_eyes
        ),
    )
    return _present(check, comment)


def _commit(services: Services, task: Task) -> str | None:
    return task.head_sha if services.settings.checks.on_start_commit else None


def _present(*wanted: Surfacing | None) -> list[Surfacing]:
    return [surfacing for surfacing in wanted if surfacing is not None]
