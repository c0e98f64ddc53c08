"""Work that its installation may not begin: it waits and says so once, or it ends and says so."""

from __future__ import annotations

from coven import texts_tenancy
from coven.services import Services
from coven.store import holds, installations, purges, sweeps, turns
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.store.turns import Allow
from coven.surfacing import Surfacing, check_run, status_comment, voice_of, work_of
from coven.tenancy.plans import Plan
from coven.tenancy.policy import Allowance, Over, allowance
from coven.values import Conclusion, InstallationId, TaskId, TaskState
from worker import settle, show

BATCH = 50
"""Tasks that one transaction holds or ends."""


def allow_from(services: Services) -> Allow:
    """What the claiming transaction asks about each installation."""
    settings, now = services.settings, services.clock.now()

    def allow(tenant: InstallationId, state: str | None, plan: Plan | None) -> Allowance:
        return allowance(settings, tenant, state, plan, now)

    return allow


def settle_over(services: Services, tenant: InstallationId) -> list[TaskId]:
    """Hold or end what this installation may not begin now; the tasks that have news.

    Looked at and written in one transaction, in line with the claims. Raises
    ``StoreUnavailable``.
    """
    now = services.clock.now()
    with services.store.write("limits.hold") as tx:
        turns.lock(tx)
        allowed = turns.allowance_of(tx, tenant, allow_from(services))
        if allowed.refusal is not None:
            touched = _refuse(services, tx, tenant, allowed.refusal)
        else:
            reached = turns.reached(tx, tenant, allowed, now)
            if reached is None:
                holds.release(tenant, tx, now)
                return []
            touched = _stop(services, tx, tenant, allowed, reached)
    for task_id in touched:
        services.bell.publish(task_id)
    return touched


def settle_all(services: Services) -> None:
    """:func:`settle_over` where it has something to do. Raises ``StoreUnavailable``."""
    with services.store.read() as tx:
        # Only looked at here; what is found is looked at again before it is written.
        tenants = [t for t in sweeps.tenants_waiting(tx) if _has_news(services, tx, t)]
    for tenant in tenants:
        settle_over(services, tenant)


def _has_news(services: Services, tx: Tx, tenant: InstallationId) -> bool:
    now = services.clock.now()
    allowed = turns.allowance_of(tx, tenant, allow_from(services))
    stopped = allowed.refusal is not None or turns.reached(tx, tenant, allowed, now) is not None
    if stopped:
        return bool(holds.due(tenant, tx, now, 1))
    return holds.any_held(tenant, tx, now)


def _refuse(services: Services, tx: Tx, tenant: InstallationId, refusal: str) -> list[TaskId]:
    touched, now = [], services.clock.now()
    for task in holds.due(tenant, tx, now, BATCH):
        ending = Ending(TaskState.CANCELLED, refusal, detail=refusal)
        if refusal in (installations.SUSPENDED, installations.DELETED):
            # Nothing may be shown there any more. What came late is to be purged like the rest.
            if refusal == installations.DELETED:
                purges.request(tenant, tx, "work came after the App was uninstalled", now)
            holds.end_silently(tenant, tx, task, ending, now)
            continue
        _end(
            services, tx, task, ending, "No plan", texts_tenancy.NO_PLAN, texts_tenancy.NO_PLAN_STEP
        )
        touched.append(task.id)
    return touched


def _stop(
    services: Services, tx: Tx, tenant: InstallationId, allowed: Allowance, reached: Over
) -> list[TaskId]:
    now = services.clock.now()
    if allowed.when_over == "end":
        touched = []
        for task in holds.due(tenant, tx, now, BATCH):
            _end(
                services,
                tx,
                task,
                Ending(TaskState.CANCELLED, "over_limit", detail=reached.limit),
                "Over the limit",
                texts_tenancy.why_over(reached.limit, reached.allowed),
                texts_tenancy.next_after_reset(reached.resets_at),
            )
            touched.append(task.id)
        return touched
    held = holds.begin(tenant, tx, reached.limit, reached.resets_at, now, BATCH)
    for task in held:
        if not _is_unknown(task):
            show.desire_all(tx, task, _waiting(services, task, reached), now)
    return [task.id for task in held]


def _end(
    services: Services, tx: Tx, task: Task, ending: Ending, title: str, why: str, step: str
) -> None:
    if _is_unknown(task):
        holds.end_silently(task.installation_id, tx, task, ending, services.clock.now())
        return
    settle.end_idle(
        services,
        tx,
        task,
        ending,
        state="declined",
        conclusion=Conclusion.NEUTRAL,
        title=title,
        why=why,
        next_step=step,
    )


def _waiting(services: Services, task: Task, reached: Over) -> list[Surfacing]:
    familiar = show.familiar_of(services.settings, task)
    voice, work = voice_of(services.settings, familiar, task), work_of(task)
    facts = (reached.limit, reached.allowed, reached.resets_at)
    check = check_run(
        task, familiar, voice, texts_tenancy.check_over(voice, work, *facts), status="queued"
    )
    comment = status_comment(
        task, familiar, "queued", texts_tenancy.comment_over(voice, work, *facts)
    )
    return [surfacing for surfacing in (check, comment) if surfacing is not None]


def _is_unknown(task: Task) -> bool:
    """Nobody has looked at the actor's rights yet: a stranger gets no comment."""
    return task.trust_evidence.get("source") == "unavailable"
