"""What each operation does, apart from memory: a few lines from a checked call to an outcome."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

from coven import __version__
from coven.api_tokens import TokenScope
from coven.settings.models import Settings
from coven.store import api_audit, ending, listing, rollup, tasks
from coven.store.ending import Cancel
from coven.store.tasks import Task
from coven.values import Lane, RepoName, TaskState
from webhooks.api import governance, inputs, items, reads, shapes
from webhooks.api.context import Call, Outcome
from webhooks.api.problems import Problem, not_found


def list_tasks(call: Call[inputs.TasksQuery, Any]) -> Outcome:
    """Tasks, newest first."""
    query = call.query
    want = listing.TasksWanted(
        state=query.state,
        repo=_repo(query.repo),
        thread=query.thread,
        familiar=query.familiar,
        verb=query.verb,
        since=query.since,
        until=query.until,
        text=query.q,
        within=call.caller.repos,
    )
    before = int(str(call.place[0])) if call.place else None
    found = reads.tasks_page(call.installation, call.tx, want, query.limit + 1, before)
    shown = found[: query.limit]
    items = reads.task_items(call.services.settings, call.tx, shown)
    return Outcome(
        shapes.TasksAnswer(tasks=items),
        rows=len(items),
        next=[shown[-1].seq] if len(found) > len(shown) else None,
    )


def show_task(call: Call[Any, Any]) -> Outcome:
    """One task with its attempts, what GitHub shows of it, and the delivery it came from."""
    found = _task(call)
    return Outcome(
        reads.task_story(call.services.settings, call.tx, found), rows=1, target=found.id
    )


def cancel_task(call: Call[Any, inputs.CancelBody]) -> Outcome:
    """Ask for the end of a task; its worker stops it within seconds."""
    found = _task(call)
    reason = f"cancelled over the API: {call.body.reason or call.caller.name}"
    now = call.services.clock.now()
    answer = ending.ask(found.installation_id, call.tx, found.id, now, reason)
    if answer is Cancel.OVER:
        raise Problem(409, "not_running", f"the task is {found.state}; there is nothing to cancel")
    said = shapes.CancelAnswer.model_validate({"task": found.id, "answer": answer.value})
    return Outcome(said, target=found.id)


def retry_task(call: Call[Any, inputs.NoBody]) -> Outcome:
    """Run a failed task again, with a fresh budget."""
    found = _task(call)
    if found.state is not TaskState.FAILED:
        raise Problem(
            409,
            "not_failed",
            f"the task is {found.state}; only failed ones are run again, "
            "for others write the command on the thread once more",
        )
    again = tasks.revive_failed(found.installation_id, call.tx, found.id, call.services.clock.now())
    if again is None:
        raise Problem(
            409, "replaced", "other work has taken the place of this task; look at the newest one"
        )
    bell = call.services.bell
    ring = bell.control if again.lane is Lane.CONTROL else bell.session
    return Outcome(
        shapes.RetryAnswer(task=again.id, round=again.round),
        target=again.id,
        after=(functools.partial(ring, again.id),),
    )


def usage(call: Call[inputs.UsageQuery, Any]) -> Outcome:
    """What was done, by repository and familiar."""
    want = rollup.DoneWanted(
        since=call.query.since, until=call.query.until, within=call.caller.repos
    )
    rows = [
        shapes.UsageItem(
            installation_id=each.installation_id,
            repo=each.repo,
            familiar_id=each.familiar_id,
            tasks=each.tasks,
            completed=each.completed,
            failed=each.failed,
            runtime_secs=each.runtime_secs,
        )
        for each in reads.done(call.installation, call.tx, want)
    ]
    days: list[shapes.UsageDay] = []
    if call.installation is not None and not call.caller.repos:
        now = call.services.clock.now()
        days = reads.usage_days(call.installation, call.tx, now, call.query.since, call.query.until)
    return Outcome(shapes.UsageAnswer(usage=rows, days=days), rows=len(rows) + len(days))


def list_deliveries(call: Call[inputs.DeliveriesQuery, Any]) -> Outcome:
    """What GitHub told us, and what was decided; newest first."""
    query = call.query
    want = listing.DeliveriesWanted(
        event=query.event,
        repo=_repo(query.repo),
        routing=query.routing,
        since=query.since,
        until=query.until,
        within=call.caller.repos,
    )
    before = None
    if call.place:
        before = (datetime.fromisoformat(str(call.place[0])), str(call.place[1]))
    found = reads.deliveries_page(call.installation, call.tx, want, query.limit + 1, before)
    shown = found[: query.limit]
    return Outcome(
        shapes.DeliveriesAnswer(deliveries=[items.delivery_item(each) for each in shown]),
        rows=len(shown),
        next=(
            [shown[-1].received_at.isoformat(), shown[-1].id] if len(found) > len(shown) else None
        ),
    )


def show_delivery(call: Call[Any, Any]) -> Outcome:
    """One delivery."""
    found = reads.delivery(call.installation, call.tx, call.path["delivery_id"], call.caller.repos)
    if found is None:
        raise not_found()
    return Outcome(
        shapes.DeliveryAnswer(delivery=items.delivery_item(found)), rows=1, target=found.id
    )


def routing(call: Call[inputs.RoutingQuery, Any]) -> Outcome:
    """How an installation is served, and what became of its deliveries: of one day by default."""
    query = call.query
    want = listing.DeliveriesWanted(
        repo=_repo(query.repo), since=query.since, until=query.until, within=call.caller.repos
    )
    services = call.services
    found = reads.routing(
        services.settings, call.one_installation(), call.tx, services.clock.now(), want
    )
    return Outcome(shapes.RoutingAnswer(routing=found), rows=len(found.reasons))


def audit(call: Call[inputs.AuditQuery, Any]) -> Outcome:
    """Who read or changed what over this API, and who was refused; newest first."""
    query = call.query
    # Rows name no repository, so a token of some repositories sees its own acts only.
    caller = call.caller.name if call.caller.repos else query.caller
    want = api_audit.Wanted(
        caller=caller, action=query.action, since=query.since, until=query.until
    )
    before = int(str(call.place[0])) if call.place else None
    found = reads.audit_page(call.installation, call.tx, want, query.limit + 1, before)
    shown = found[: query.limit]
    return Outcome(
        shapes.AuditAnswer(events=[items.audit_item(each) for each in shown]),
        rows=len(shown),
        next=[shown[-1].id] if len(found) > len(shown) else None,
    )


def whoami(call: Call[Any, Any]) -> Outcome:
    """What the token of this request may do and see."""
    caller = call.caller
    return Outcome(
        shapes.WhoamiAnswer(
            caller=caller.name,
            installation_id=caller.installation,
            scopes=[scope.value for scope in TokenScope if caller.may(scope)],
            repos=sorted(str(repo) for repo in caller.repos),
        )
    )


def capabilities(call: Call[Any, Any]) -> Outcome:
    """What this server enforces, and what is switched on."""
    return Outcome(
        shapes.CapabilitiesAnswer(
            version=__version__,
            capabilities=capabilities_of(call.services.settings)
            | {"governance": governance.claims(call.services)},
        )
    )


def capabilities_of(settings: Settings) -> dict[str, dict[str, bool | int | str | None]]:
    """By area: what is on. Read from the settings; pure."""
    memory = settings.memory
    hosted = settings.server.deployment == "hosted"
    return {
        "api": {"mode": settings.api.mode, "tenant_isolation": True, "audited": True},
        "memory": {
            "enabled": (hosted or memory.self_hosted)
            and (memory.enabled or any(each.enabled for each in memory.repos.values())),
            "approval_required": memory.approval_required,
            "retention_days": memory.retention_days,
        },
        "sessions": {
            "backend": settings.worker.backend,
            "profile": settings.worker.profile,
            "network": settings.worker.network,
            "isolated": settings.worker.backend != "host",
        },
        "billing": {"require_plan": settings.billing.require_plan},
    }


def _task(call: Call[Any, Any]) -> Task:
    found = reads.task(call.installation, call.tx, call.path["task_id"], call.caller.repos)
    if found is None:
        raise not_found()
    return found


def _repo(name: str | None) -> RepoName | None:
    return RepoName.parse(name) if name is not None else None
