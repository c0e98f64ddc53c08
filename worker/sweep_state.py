"""Open pull requests and labelled issues that should have work and have none.

Some events are never delivered, not even as a failure (throttled, larger than GitHub sends). So
the state itself is looked at, some repositories at a time. Whatever was decided about a head
before, by a task or by a Check Run of ours, stands.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from coven.errors import GitHubError, RateLimited
from coven.github.models import PullRequest
from coven.github.repo_client import RepoClient
from coven.github.roles import Role
from coven.publication import check_run_name
from coven.semantic_keys import automatic_review
from coven.services import Services
from coven.settings.models import Familiar, ReviewPolicy, Settings
from coven.store import installations, intake, recoveries, sweeps, tasks
from coven.store.installations import Installation, KnownRepository
from coven.values import Lane, RepoName, same_login
from worker.requeue_head import Place, review_of
from worker.sweep_labels import sweep_labels

REASON = "found_open"
REPOSITORIES = 20
"""Looked at in one round."""
GRACE = timedelta(minutes=15)
"""A delivery may come late; work that is younger is not missed yet."""
LOOK_BACK = timedelta(days=3)
"""What nobody touched for longer is not started out of the blue."""
MAX_PULLS = 100

_log = structlog.get_logger(__name__)


def sweep_state(services: Services) -> None:
    """Queue reviews that are missing. Raises ``StoreUnavailable``."""
    started = services.clock.now()
    with services.store.write("sweep.begin") as tx:
        listed = sweeps.repositories_to_sweep(tx, REPOSITORIES)
        search = recoveries.begin(tx, recoveries.STATE, started)
    seen, queued, error = 0, 0, None
    try:
        for repo in listed:
            looked, found = _sweep(services, repo, started)
            seen, queued = seen + looked, queued + found
    except RateLimited as limited:
        error = str(limited)
    with services.store.write("sweep.end") as tx:
        recoveries.finish(tx, search, services.clock.now(), seen=seen, asked=queued, error=error)
    if queued:
        _log.warning("missing_work_found", queued=queued, seen=seen)


def reviewer_of(settings: Settings, repo: KnownRepository) -> tuple[Familiar, ReviewPolicy] | None:
    """Who reviews this repository without being asked; None when nobody does. Pure."""
    name = RepoName(repo.owner or "", repo.name or "")
    policy = settings.review.for_repo(name)
    scope = settings.scope_for(repo.installation_id, name, repo.repo_id)
    if not policy.pull_request or not scope.triggers.reviews:
        return None
    wanted = policy.familiar or (scope.familiars[0].id if scope.familiars else None)
    chosen = next((familiar for familiar in scope.familiars if familiar.id == wanted), None)
    return (chosen, policy) if chosen is not None else None


def is_candidate(
    pull: PullRequest,
    familiars: tuple[Familiar, ...],
    policy: ReviewPolicy,
    known_since: datetime,
    now: datetime,
) -> bool:
    """Whether a review of this pull request ought to be there by now. Pure.

    ``known_since``: what happened before the installation was known is left alone.
    """
    author = pull.author_login or ""
    return (
        pull.state == "open"
        and (not pull.draft or policy.include_drafts)
        and max(known_since, now - LOOK_BACK) <= pull.updated_at <= now - GRACE
        and not any(same_login(author, familiar.bot_username) for familiar in familiars)
    )


def _sweep(services: Services, repo: KnownRepository, now: datetime) -> tuple[int, int]:
    tenant = repo.installation_id
    with services.store.write("sweep.repository") as tx:
        known = installations.get(tenant, tx)
        installations.swept(tenant, tx, repo.repo_id, now)
    try:
        name = RepoName(repo.owner or "", repo.name or "")
        serving = reviewer_of(services.settings, repo)
    except ValueError:
        return 0, 0  # a name that GitHub would not take
    if known is None:
        return 0, 0
    client = services.github.for_repo(tenant, repo.repo_id, name, Role.PUBLISH)
    reach = _reach(services.settings)
    seen = queued = 0
    try:
        if serving is not None:
            seen, queued = _pulls(services, client, known, repo, serving, now)
        looked, found = sweep_labels(services, client, known, repo, now, reach, GRACE)
        seen, queued = seen + looked, queued + found
    except RateLimited:
        raise
    except GitHubError as error:
        _log.info("repository_not_swept", repo=repo.repo_id, why=str(error))
    return seen, queued


def _reach(settings: Settings) -> timedelta:
    # What was done is known from its task, as long as that is kept.
    days = settings.storage.task_retention_days
    return LOOK_BACK if days is None else min(LOOK_BACK, timedelta(days=days))


def _pulls(
    services: Services,
    client: RepoClient,
    known: Installation,
    repo: KnownRepository,
    serving: tuple[Familiar, ReviewPolicy],
    now: datetime,
) -> tuple[int, int]:
    seen = queued = 0
    familiar, policy = serving
    for pull in client.open_pulls():
        seen += 1
        if pull.updated_at < now - LOOK_BACK or seen > MAX_PULLS:
            break
        if is_candidate(pull, services.settings.familiars, policy, known.first_at, now):
            queued += _queue(services, client, known, repo, familiar, pull)
    return seen, queued


def _queue(
    services: Services,
    client: RepoClient,
    known: Installation,
    repo: KnownRepository,
    familiar: Familiar,
    pull: PullRequest,
) -> int:
    tenant = repo.installation_id
    key = automatic_review(repo.repo_id, pull.number, familiar.id, pull.head_sha)
    with services.store.read() as tx:
        if tasks.automatic_review_of(tenant, tx, key, pull.head_sha) is not None:
            return 0
    if client.check_runs(pull.head_sha, check_run_name(familiar.display_name, Lane.REVIEW)):
        return 0  # its task has been forgotten by now
    place = Place(
        installation_id=tenant,
        account_id=known.account_id,
        account_login=known.account_login,
        repo_id=repo.repo_id,
        repo_owner=repo.owner or "",
        repo_name=repo.name or "",
        repo_private=repo.private,
        default_branch=None,
        familiar_id=familiar.id,
    )
    title = " ".join(services.redactor.text(pull.title).split())[:500]
    now = services.clock.now()
    new = review_of(services.settings, place, pull, key, now, REASON, title)
    with services.store.write("sweep.queue") as tx:
        intake.lock_thread(tenant, tx, repo.repo_id, pull.number)
        if tasks.automatic_review_of(tenant, tx, key, pull.head_sha) is not None:
            return 0
        if not tasks.insert_new(tenant, tx, new):
            return 0
    services.bell.session(new.id)
    return 1
