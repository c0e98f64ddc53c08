"""What the API reads from the ledgers, as shapes. The dashboard asks the same functions.

A view is an installation (None: all, by the functions in :mod:`coven.store.sweeps`) and perhaps
some of its repositories. What is outside the view does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from coven.memory.book import Activity
from coven.settings.models import Settings
from coven.store import (
    api_audit,
    attempts,
    book,
    deliveries,
    listing,
    rollup,
    surfaces,
    sweeps,
    tasks,
    usage,
)
from coven.store.attempts import Attempt
from coven.store.deliveries import Delivery
from coven.store.engine import Tx
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.values import (
    DeliveryId,
    InstallationId,
    RepoName,
    ResultStatus,
    TaskId,
    TaskState,
    parse_delivery_id,
)
from webhooks.api import shapes

ROUTING_WINDOW = timedelta(days=1)
"""How far back the routing reasons are counted unless asked otherwise."""

USAGE_WINDOW = timedelta(days=31)


def tasks_page(
    view: InstallationId | None,
    tx: Tx,
    want: listing.TasksWanted,
    limit: int,
    before: int | None = None,
) -> list[Task]:
    """The newest tasks of a view."""
    if view is None:
        return sweeps.tasks_page(tx, want, limit, before)
    return listing.tasks_page(view, tx, want, limit, before)


def task(
    view: InstallationId | None, tx: Tx, task_id: str, repos: frozenset[RepoName] = frozenset()
) -> Task | None:
    """One task of a view."""
    known = TaskId(task_id)
    found = tasks.locate(tx, known) if view is None else tasks.get(view, tx, known)
    if found is None or not _within(repos, _name(found)):
        return None
    return found


def deliveries_page(
    view: InstallationId | None,
    tx: Tx,
    want: listing.DeliveriesWanted,
    limit: int,
    before: listing.DeliveryPlace | None = None,
) -> list[Delivery]:
    """The newest deliveries of a view."""
    if view is None:
        return sweeps.deliveries_page(tx, want, limit, before)
    return listing.deliveries_page(view, tx, want, limit, before)


def delivery(
    view: InstallationId | None,
    tx: Tx,
    delivery_id: str,
    repos: frozenset[RepoName] = frozenset(),
) -> Delivery | None:
    """One delivery of a view."""
    known = parse_delivery_id(delivery_id)
    if known is None:
        return None
    found = deliveries.find(tx, known) if view is None else listing.delivery(view, tx, known)
    if found is None or not _within(repos, found.repo_name):
        return None
    return found


def audit_page(
    view: InstallationId | None,
    tx: Tx,
    want: api_audit.Wanted,
    limit: int,
    before: int | None = None,
) -> list[api_audit.Entry]:
    """The newest rows of the audit of a view."""
    if view is None:
        return sweeps.audit_page(tx, want, limit, before)
    return api_audit.page(view, tx, want, limit, before)


def done(view: InstallationId | None, tx: Tx, want: rollup.DoneWanted) -> list[rollup.Done]:
    """What was done in a view, added up."""
    return sweeps.done(tx, want) if view is None else rollup.done(view, tx, want)


def usage_days(
    installation: InstallationId,
    tx: Tx,
    now: datetime,
    since: datetime | None,
    until: datetime | None,
) -> list[shapes.UsageDay]:
    """What counts against the limits, by UTC day; of a month unless asked otherwise."""
    first = since if since is not None else now - USAGE_WINDOW
    last = until.date().isoformat() if until is not None else None
    return [
        shapes.UsageDay(
            day=line.day,
            repo_id=line.repo_id,
            familiar_id=line.familiar_id,
            tasks=line.tasks,
            attempts=line.attempts,
            seconds=line.seconds,
        )
        for line in usage.lines(installation, tx, first.date().isoformat(), last)
    ]


def check_run_urls(tx: Tx, found: Iterable[Task]) -> dict[str, str]:
    """Where the Check Run of each task is, by task id."""
    by_owner: dict[InstallationId, list[TaskId]] = {}
    for each in found:
        by_owner.setdefault(each.installation_id, []).append(each.id)
    urls: dict[str, str] = {}
    for owner, ids in by_owner.items():
        urls |= listing.check_run_urls(owner, tx, ids)
    return urls


def task_items(settings: Settings, tx: Tx, found: Sequence[Task]) -> list[shapes.TaskItem]:
    """Tasks as lists show them."""
    urls = check_run_urls(tx, found)
    return [
        shapes.TaskItem.model_validate(_task(settings, each, urls.get(each.id))) for each in found
    ]


def task_story(settings: Settings, tx: Tx, found: Task) -> shapes.TaskAnswer:
    """All that the ledgers know of one task."""
    owner = found.installation_id
    shown = surfaces.of_task(owner, tx, found.id)
    checks = [s.object_url for s in shown if s.kind == "check_run" and s.object_url]
    came = listing.delivery(owner, tx, DeliveryId(found.delivery_id)) if found.delivery_id else None
    detail = shapes.TaskDetail.model_validate(
        _task(settings, found, checks[-1] if checks else None)
        | {
            "detail": found.detail,
            "trust": {
                "scope": found.trust_scope.value,
                "content_scope": found.content_trust.value,
                "evidence": found.trust_evidence,
            },
            "attempts_used": found.attempts_used,
            "max_attempts": found.max_attempts,
            "waiting_for": found.waiting_for,
            "not_before": found.not_before,
            "expires_at": found.expires_at,
            "cancel_requested_at": found.cancel_requested_at,
            "cancel_reason": found.cancel_reason,
            "parent_task_id": found.parent_task_id,
            "superseded_by": found.superseded_by,
        }
    )
    return shapes.TaskAnswer(
        task=detail,
        attempts=[_attempt(each) for each in attempts.of_task(owner, tx, found.id)],
        surfaces=[_surface(each) for each in shown],
        routing=delivery_item(came) if came is not None else None,
        memory=[activity_item(line.activity) for line in book.of_task(owner, tx, found.id)],
    )


def routing(
    settings: Settings,
    installation: InstallationId,
    tx: Tx,
    now: datetime,
    want: listing.DeliveriesWanted,
) -> shapes.RoutingItem:
    """How an installation is served, and what became of its deliveries lately."""
    block = settings.installation(installation)
    listed = block is not None
    open_to_all = not settings.installations
    triggers = (
        block.triggers.model_dump()
        if block is not None
        else dict.fromkeys(("assignment", "labels", "commands", "reviews"), open_to_all)
    )
    served = [
        familiar.id
        for familiar in settings.familiars
        if open_to_all
        or (block is not None and (not block.familiars or familiar.id in block.familiars))
    ]
    within = {repo.key for repo in want.within}
    overrides = {} if block is None else block.repos
    if want.since is None:
        want = listing.DeliveriesWanted(
            repo=want.repo, within=want.within, since=now - ROUTING_WINDOW, until=want.until
        )
    reasons = listing.routing_counts(installation, tx, want)
    return shapes.RoutingItem(
        installation_id=installation,
        account=block.account if block is not None else None,
        familiars=served,
        triggers=shapes.TriggersItem(**triggers),
        repos={
            name: shapes.RepoRoutingItem(
                enabled=override.enabled,
                familiars=list(override.familiars) if override.familiars is not None else None,
                assignment=override.assignment,
                labels=override.labels,
                commands=override.commands,
                reviews=override.reviews,
            )
            for name, override in overrides.items()
            if not within or name.casefold() in within
        },
        listed=listed,
        reasons=[
            shapes.RoutingReason(routing=r.routing, count=r.count, last_at=r.last_at)
            for r in reasons
        ],
    )


def delivery_item(found: Delivery) -> shapes.DeliveryItem:
    """A delivery as lists show it; its body stays inside."""
    return shapes.DeliveryItem(
        id=found.id,
        event=found.event,
        action=found.action,
        installation_id=found.installation_id,
        repo=found.repo_name,
        repo_id=found.repo_id,
        sender=found.sender_login,
        routing=found.routing,
        task_id=found.task_id,
        seen=found.seen,
        body_sha256=found.body_sha256,
        received_at=found.received_at,
        updated_at=found.updated_at,
    )


def activity_item(found: Activity) -> shapes.ActivityItem:
    """A line of what runs had to do with memory."""
    return shapes.ActivityItem(
        at=found.at,
        task_id=found.task_id,
        op=found.op,
        entry_id=found.entry_id,
        target=found.target,
        scope=found.scope,
        outcome=found.outcome,
    )


def audit_item(found: api_audit.Entry) -> shapes.AuditItem:
    """A row of the audit."""
    return shapes.AuditItem(
        id=found.id,
        at=found.at,
        installation_id=found.installation_id,
        caller=found.caller,
        action=found.action,
        target=found.target,
        result=found.result,
        rows=found.rows,
        times=found.times,
    )


def board_status(found: Task) -> str:
    """The column of a board that a task stands in."""
    if found.state in {TaskState.QUEUED, TaskState.RUNNING, TaskState.FAILED}:
        return found.state.value
    if found.state in {TaskState.SUPERSEDED, TaskState.CANCELLED}:
        return "superseded"
    wants_somebody = (
        found.state is TaskState.WAITING
        or found.result_status is ResultStatus.NEEDS_INPUT
        or found.pr_number is not None
    )
    return "review" if wants_somebody else "done"


def _name(found: Task) -> str:
    return f"{found.repo_owner}/{found.repo_name}"


def _within(repos: frozenset[RepoName], name: str | None) -> bool:
    return not repos or (name or "").casefold() in {repo.key for repo in repos}


def _task(settings: Settings, found: Task, check_run_url: str | None) -> dict[str, object]:
    familiar = settings.familiar(found.familiar_id)
    html = settings.github.html_base_url.rstrip("/")
    pull = f"{html}/{_name(found)}/pull/{found.pr_number}" if found.pr_number is not None else None
    return {
        "id": found.id,
        "installation_id": found.installation_id,
        "repo": _name(found),
        "repo_id": found.repo_id,
        "issue_number": found.thread,
        "issue_title": found.title,
        "is_pull": found.is_pull,
        "verb": found.verb,
        "lane": found.lane.value,
        "reason": found.reason,
        "automatic": found.automatic,
        "status": board_status(found),
        "state": found.state.value,
        "outcome": found.outcome,
        "summary": found.summary,
        "branch": found.branch,
        "pr_number": found.pr_number,
        "pr_url": pull,
        "check_run_url": check_run_url,
        "familiar_id": found.familiar_id,
        "familiar_name": familiar.display_name if familiar is not None else found.familiar_id,
        "session_id": found.id,
        "actor": found.actor_login,
        "head_sha": found.head_sha,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "started_at": found.started_at,
        "finished_at": found.finished_at,
    }


def _attempt(found: Attempt) -> shapes.AttemptItem:
    return shapes.AttemptItem(
        number=found.number,
        round=found.round,
        phase=found.phase,
        started_at=found.started_at,
        heartbeat_at=found.heartbeat_at,
        finished_at=found.finished_at,
        start_sha=found.start_sha,
        exit_code=found.exit_code,
        signal=found.signal,
        outcome=found.outcome,
        detail=found.detail,
        tolerated=found.tolerated or [],
    )


def _surface(found: Surface) -> shapes.SurfaceItem:
    return shapes.SurfaceItem(
        id=found.id,
        kind=found.kind.value,
        state=found.state.value,
        url=found.object_url,
        tries=found.tries,
        error=found.error,
        updated_at=found.updated_at,
        published_at=found.published_at,
    )
