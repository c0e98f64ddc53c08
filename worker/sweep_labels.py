"""Open issues with a trigger label that should have a fix under way and have nothing.

Who set the label, and when, comes from GitHub's own record; that person's rights are looked at
again before anything is shown, as for every label. A thread that this familiar has worked on is
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from coven import tracing
from coven.github.models import LabelledIssue, Labelling
from coven.github.repo_client import RepoClient
from coven.semantic_keys import asked_work
from coven.services import Services
from coven.settings.models import Familiar, Settings
from coven.store import intake, tasks
from coven.store.installations import Installation, KnownRepository
from coven.store.tasks import NewTask
from coven.values import Lane, RepoName, TrustScope, new_task_id

MAX_ISSUES = 50
PRIORITY = 5
BODY_CHARS = 65_536
TITLE_CHARS = 500


def labels_of(settings: Settings, repo: KnownRepository) -> Iterator[tuple[Familiar, str]]:
    """The trigger labels of the familiars that serve a repository. Pure."""
    scope = settings.scope_for(
        repo.installation_id, RepoName(repo.owner or "", repo.name or ""), repo.repo_id
    )
    if scope.triggers.labels:
        for familiar in scope.familiars:
            for label in familiar.trigger_labels:
                yield familiar, label


def is_missed(
    set_by: Labelling | None,
    known_since: datetime,
    now: datetime,
    reach: timedelta,
    grace: timedelta,
) -> bool:
    """Whether work for this label ought to be there by now. Pure."""
    return (
        set_by is not None
        and set_by.actor_login is not None
        and max(known_since, now - reach) <= set_by.at <= now - grace
    )


def sweep_labels(
    services: Services,
    client: RepoClient,
    known: Installation,
    repo: KnownRepository,
    now: datetime,
    reach: timedelta,
    grace: timedelta,
) -> tuple[int, int]:
    """Queue what is missing in one repository; issues seen and queued.

    Raises ``GitHubError`` and ``StoreUnavailable``.
    """
    seen = queued = 0
    for familiar, label in labels_of(services.settings, repo):
        for issue in client.open_issues(label, now - reach):
            seen += 1
            if seen > MAX_ISSUES:
                return seen, queued
            if _has_work(services, repo, issue, familiar):
                continue
            set_by = client.labelled_by(issue.number, label)
            if set_by is not None and is_missed(set_by, known.first_at, now, reach, grace):
                new = _fix_of(services, known, repo, familiar, issue, set_by, label, now)
                queued += _insert(services, new)
    return seen, queued


def _has_work(
    services: Services, repo: KnownRepository, issue: LabelledIssue, familiar: Familiar
) -> bool:
    with services.store.read() as tx:
        listed = tasks.on_thread(repo.installation_id, tx, repo.repo_id, issue.number)
    return any(t.familiar_id == familiar.id and t.lane is not Lane.CONTROL for t in listed)


def _insert(services: Services, new: NewTask) -> int:
    tenant = new.installation_id
    with services.store.write("sweep.queue") as tx:
        intake.lock_thread(tenant, tx, new.repo_id, new.thread)
        listed = tasks.on_thread(tenant, tx, new.repo_id, new.thread)
        if any(t.familiar_id == new.familiar_id and t.lane is not Lane.CONTROL for t in listed):
            return 0
        if not tasks.insert_new(tenant, tx, new):
            return 0
    services.bell.session(new.id)
    return 1


def _fix_of(
    services: Services,
    known: Installation,
    repo: KnownRepository,
    familiar: Familiar,
    issue: LabelledIssue,
    set_by: Labelling,
    label: str,
    now: datetime,
) -> NewTask:
    redact = services.redactor.text
    return NewTask(
        id=new_task_id(),
        installation_id=repo.installation_id,
        account_id=known.account_id,
        account_login=known.account_login,
        repo_id=repo.repo_id,
        repo_owner=repo.owner or "",
        repo_name=repo.name or "",
        repo_private=repo.private,
        thread=issue.number,
        is_pull=False,
        title=" ".join(redact(issue.title).split())[:TITLE_CHARS],
        lane=Lane.FIX,
        verb="fix",
        reason="labeled",
        automatic=False,
        priority=PRIORITY,
        familiar_id=familiar.id,
        actor_id=set_by.actor_id,
        actor_login=set_by.actor_login,
        author_id=issue.author_id,
        author_login=issue.author_login,
        trust_scope=TrustScope.EXTERNAL,
        content_trust=TrustScope.EXTERNAL,
        trust_evidence={"source": "unavailable", "why": "found_open"},
        source_at=set_by.at,
        payload={"label": label[:100], "body": redact(issue.body)[:BODY_CHARS]},
        semantic_key=asked_work("fix", repo.repo_id, issue.number, familiar.id),
        max_attempts=1 + services.settings.worker.max_retries,
        created_at=now,
        traceparent=tracing.going_on(None).header,
    )
