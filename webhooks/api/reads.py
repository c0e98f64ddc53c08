"""What the API reads from the ledgers, as shapes. The dashboard asks the same functions.

A view is an installation (None: all, by the functions in :mod:`coven.store.sweeps`) and perhaps
some of its repositories. What is outside the view does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from coven.settings.models import Settings, Triggers
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
from coven.store.deliveries import Delivery
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.values import (
    DeliveryId,
    InstallationId,
    RepoName,
    TaskId,
    parse_delivery_id,
)
from webhooks.api import items, shapes

_TASK_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)

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
    if not _TASK_ID.fullmatch(task_id):
        return None
    known = TaskId(task_id)
    found = tasks.locate(tx, known) if view is None else tasks.get(view, tx, known)
    if found is None or not _within(repos, items.name_of(found)):
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
        shapes.TaskItem.model_validate(items.task_facts(settings, each, urls.get(each.id)))
        for each in found
    ]


def task_story(settings: Settings, tx: Tx, found: Task) -> shapes.TaskAnswer:
    """All that the ledgers know of one task."""
    owner = found.installation_id
    shown = surfaces.of_task(owner, tx, found.id)
    checks = [s.object_url for s in shown if s.kind == "check_run" and s.object_url]
    came = listing.delivery(owner, tx, DeliveryId(found.delivery_id)) if found.delivery_id else None
    detail = shapes.TaskDetail.model_validate(
        items.task_facts(settings, found, checks[-1] if checks else None)
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
        attempts=[items.attempt_item(each) for each in attempts.of_task(owner, tx, found.id)],
        surfaces=[items.surface_item(each) for each in shown],
        routing=items.delivery_item(came) if came is not None else None,
        memory=[items.activity_item(line.activity) for line in book.of_task(owner, tx, found.id)],
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
    triggers = block.triggers.model_dump() if block is not None else Triggers().model_dump()
    served = [
        familiar.id
        for familiar in settings.familiars
        if block is None or not block.familiars or familiar.id in block.familiars
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


def _within(repos: frozenset[RepoName], name: str | None) -> bool:
    return not repos or (name or "").casefold() in {repo.key for repo in repos}
