"""The head moved before a review could be shown: the new head gets its own review.

Called by whoever withholds findings about a head that was replaced, after (or before) the old task
is settled; it is a transaction of its own, and running it twice queues one task. The delivery of
the push has normally queued the new head already, so most calls find that and do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from coven import tracing
from coven.github.models import PullRequest
from coven.semantic_keys import asked_work, automatic_review
from coven.services import Services
from coven.settings.models import Settings
from coven.store import intake, tasks
from coven.store.tasks import NewTask, Task
from coven.values import (
    InstallationId,
    Lane,
    RepoId,
    TaskId,
    TaskState,
    TrustScope,
    new_task_id,
)

REASON = "head_moved"
_KNOWN = (TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING, TaskState.COMPLETED)


def queue_new_head(services: Services, task: Task, pull: PullRequest) -> TaskId | None:
    """Queue an automatic review of ``pull``'s head, when its lane is on and nobody has it.

    ``task`` is the review that came too late. Returns the new task's id, or None when nothing was
    queued. The author's rights are not known here, so nothing is shown until the worker has
    looked, and a stranger's head still waits for a maintainer. Raises ``StoreUnavailable``.
    """
    familiar = task.familiar_id
    if not wanted(services.settings, task, pull):
        return None
    now = services.clock.now()
    key = automatic_review(task.repo_id, task.thread, familiar, pull.head_sha)
    by_command = asked_work("review", task.repo_id, task.thread, familiar)
    tenant = task.installation_id
    with services.store.write("task.requeue_head") as tx:
        intake.lock_thread(tenant, tx, task.repo_id, task.thread)
        known = tasks.automatic_review_of(tenant, tx, key, pull.head_sha)
        if known is not None and known.state in _KNOWN:
            return None
        asked = tasks.live_with_key(tenant, tx, by_command)
        if asked is not None and asked.id != task.id and asked.state is TaskState.QUEUED:
            return None  # it reads the head when it starts
        new = _new(services.settings, task, pull, key, now)
        if not tasks.insert_new(tenant, tx, new):
            return None
    services.bell.session(new.id)
    return new.id


def wanted(settings: Settings, task: Task, pull: PullRequest) -> bool:
    """Whether a push of this head would be reviewed without being asked. Pure."""
    policy = settings.review.for_repo(task.repo)
    scope = settings.scope_for(task.installation_id, task.repo, task.repo_id)
    reviewer = policy.familiar or (scope.familiars[0].id if scope.familiars else None)
    return (
        task.is_pull
        and scope.triggers.reviews
        and policy.pull_request
        and reviewer == task.familiar_id
        and any(familiar.id == reviewer for familiar in scope.familiars)
        and pull.state == "open"
        and (not pull.draft or policy.include_drafts)
    )


def _new(settings: Settings, task: Task, pull: PullRequest, key: str, now: datetime) -> NewTask:
    body = task.payload.get("body")
    place = Place(
        installation_id=task.installation_id,
        account_id=task.account_id,
        account_login=task.account_login,
        repo_id=task.repo_id,
        repo_owner=task.repo_owner,
        repo_name=task.repo_name,
        repo_private=task.repo_private,
        default_branch=task.default_branch,
        familiar_id=task.familiar_id,
    )
    return replace(
        review_of(settings, place, pull, key, now, REASON, task.title),
        source_at=max(task.source_at, pull.updated_at),
        payload={"body": body} if isinstance(body, str) else {},
        parent_task_id=task.id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose repository it is, and who serves it."""

    installation_id: InstallationId
    account_id: int | None
    account_login: str | None
    repo_id: RepoId
    repo_owner: str
    repo_name: str
    repo_private: bool | None
    default_branch: str | None
    familiar_id: str


def review_of(
    settings: Settings,
    place: Place,
    pull: PullRequest,
    key: str,
    now: datetime,
    reason: str,
    title: str,
) -> NewTask:
    """An automatic review of ``pull``'s head, of whose author nothing is known yet. Pure.

    ``title`` is redacted and bounded.
    """
    from_fork = pull.head_repo_id != place.repo_id
    scope = TrustScope.FORK_PR if from_fork else TrustScope.EXTERNAL
    return NewTask(
        id=new_task_id(),
        installation_id=place.installation_id,
        account_id=place.account_id,
        account_login=place.account_login,
        repo_id=place.repo_id,
        repo_owner=place.repo_owner,
        repo_name=place.repo_name,
        repo_private=place.repo_private,
        default_branch=place.default_branch,
        thread=pull.number,
        is_pull=True,
        title=title,
        lane=Lane.REVIEW,
        verb="review",
        reason=reason,
        automatic=True,
        familiar_id=place.familiar_id,
        # An automatic review is its author's, as with every push.
        actor_id=pull.author_id,
        actor_login=pull.author_login,
        author_id=pull.author_id,
        author_login=pull.author_login,
        trust_scope=scope,
        content_trust=scope,
        trust_evidence={"source": "unavailable", "why": reason},
        head_sha=pull.head_sha,
        head_ref=pull.head_ref,
        head_repo_id=pull.head_repo_id,
        base_sha=pull.base_sha,
        base_ref=pull.base_ref,
        source_at=pull.updated_at,
        semantic_key=key,
        max_attempts=1 + settings.worker.max_retries,
        created_at=now,
        traceparent=tracing.going_on(None).header,
    )
