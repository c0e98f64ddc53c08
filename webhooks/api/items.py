"""Rows of the ledgers in the shapes of answers. Pure."""

from __future__ import annotations

from coven.memory.book import Activity
from coven.settings.models import Settings
from coven.store import api_audit
from coven.store.attempts import Attempt
from coven.store.deliveries import Delivery
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.values import ResultStatus, TaskState
from webhooks.api import shapes


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


def name_of(found: Task) -> str:
    """``owner/name`` as last seen."""
    return f"{found.repo_owner}/{found.repo_name}"


def task_facts(settings: Settings, found: Task, check_run_url: str | None) -> dict[str, object]:
    """What lists and stories of a task have in common, by the names of the shapes."""
    familiar = settings.familiar(found.familiar_id)
    html = settings.github.html_base_url.rstrip("/")
    pull = (
        f"{html}/{name_of(found)}/pull/{found.pr_number}" if found.pr_number is not None else None
    )
    return {
        "id": found.id,
        "installation_id": found.installation_id,
        "repo": name_of(found),
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


def attempt_item(found: Attempt) -> shapes.AttemptItem:
    """An attempt; what its runtime printed stays inside."""
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


def surface_item(found: Surface) -> shapes.SurfaceItem:
    """What GitHub shows, or does not yet."""
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
