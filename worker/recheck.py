"""The second look, when work is about to start: repository, rights, and head as they are now.

The receiver decided on what a delivery said and on one bounded look-up. Rights may be revoked and
heads may move while a task waits, so nothing that a session may do rests on the first look alone.
Only this look may raise a trust scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coven.errors import GitHubNotFound
from coven.github.models import Permission, PullRequest, Repository
from coven.github.repo_client import RepoClient
from coven.settings.models import Settings
from coven.store.tasks import Task
from coven.trust import bot_permission, lower, may_write, scope_of
from coven.values import Lane, Sha, TrustScope


@dataclass(frozen=True, slots=True)
class GoOn:
    """The work may start; ``facts`` go to the task row."""

    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AskFirst:
    """An outsider's automatic review waits for a maintainer; ``facts`` go to the task row."""

    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decline:
    """The work must not start. ``silent``: nothing is shown to a stranger."""

    outcome: str
    why: str
    next_step: str | None = None
    silent: bool = False
    superseded: bool = False


Look = GoOn | AskFirst | Decline


def look_again(client: RepoClient, settings: Settings, task: Task) -> Look:
    """Look at GitHub as it is now. Raises ``GitHubError`` when it can't be seen."""
    repository = client.repository()
    if repository.id != task.repo_id:
        return Decline(
            "repository_replaced",
            "Another repository has this name now, so the work was dropped.",
        )
    if repository.archived:
        return Decline(
            "archived", "The repository is archived, so it is read-only.", "Unarchive it."
        )
    facts: dict[str, Any] = {
        "default_branch": repository.default_branch,
        "repo_private": repository.private,
        "repo_visibility": repository.visibility,
        "account_id": repository.owner_id,
        "account_login": repository.owner_login,
        # Renamed or transferred while it waited: the API redirects, a git transport does not.
        "repo_owner": repository.owner,
        "repo_name": repository.name,
    }
    pull = client.pull(task.thread) if task.is_pull else None
    if pull is not None:
        gone = _pull_is_unfit(task, pull)
        if gone is not None:
            return gone
        facts |= _head_facts(pull)
    rights = _rights(client, settings, task, pull, repository)
    if isinstance(rights, Decline):
        return rights
    facts |= rights
    if task.automatic and task.lane is Lane.REVIEW:
        return _automatic(settings, task, facts)
    if pull is not None and task.lane is Lane.REVIEW:
        unbound = _approval_is_missing(client, settings, task, pull)
        if unbound is not None:
            return unbound
    if pull is not None and task.lane is Lane.FIX and _is_fork(task, pull):
        return Decline(
            "fork_head",
            "The head of this pull request is in a fork, where nothing may be pushed from here.",
            "Ask for a review instead, or push the branch to this repository.",
        )
    if pull is None and task.lane is Lane.FIX:
        facts["head_sha"] = str(client.branch_head(repository.default_branch))
        facts["base_sha"] = facts["head_sha"]
        facts["base_ref"] = repository.default_branch
    return GoOn(facts)


def _pull_is_unfit(task: Task, pull: PullRequest) -> Decline | None:
    if pull.state != "open":
        return Decline("closed", "The pull request is closed.", "Reopen it and ask again.")
    approved = task.payload.get("approved_sha")
    if approved and approved != pull.head_sha and task.reason.startswith("check_"):
        return Decline(
            "head_moved",
            f"This was asked for on the Check Run of {approved}, but the head is now "
            f"{pull.head_sha}.",
            "Use the buttons of the newer commit, or write a command.",
        )
    if approved and approved != pull.head_sha:
        return Decline(
            "head_moved",
            f"The commit {approved} was approved, but the head is now {pull.head_sha}.",
            f"Read the new version, then ask for review {pull.head_sha}",
        )
    if task.automatic and task.head_sha and task.head_sha != pull.head_sha:
        return Decline(
            "head_moved",
            f"The head moved from {task.head_sha} to {pull.head_sha} before the review began.",
            superseded=True,
        )
    return None


def _head_facts(pull: PullRequest) -> dict[str, Any]:
    return {
        "head_sha": str(Sha(pull.head_sha)),
        "head_ref": pull.head_ref,
        "head_repo_id": pull.head_repo_id,
        "base_sha": str(Sha(pull.base_sha)),
        "base_ref": pull.base_ref,
        "author_id": pull.author_id,
        "author_login": pull.author_login,
    }


def _rights(
    client: RepoClient,
    settings: Settings,
    task: Task,
    pull: PullRequest | None,
    repository: Repository,
) -> dict[str, Any] | Decline:
    permission, scope = _standing(client, settings, repository, task.actor_login, task.actor_id)
    if not task.automatic and scope is not TrustScope.MAINTAINER:
        unconfirmed = task.trust_evidence.get("source") == "unavailable"
        return Decline(
            "actor_lacks_write",
            "Work here is started by people with write access to the repository.",
            "Ask a maintainer to write the command.",
            silent=unconfirmed,
        )
    if pull is not None and _is_fork(task, pull):
        scope = TrustScope.FORK_PR
    evidence = {
        "source": "worker",
        "permission": permission.permission if permission else None,
        "role": permission.role_name if permission else None,
        "first": task.trust_evidence,
    }
    author_id = pull.author_id if pull is not None else task.author_id
    author_login = pull.author_login if pull is not None else task.author_login
    if author_id == task.actor_id:
        content = scope
    elif task.content_trust in (TrustScope.FORK_PR, TrustScope.EXTERNAL):
        content = task.content_trust
    else:
        # Rights that were taken away meanwhile count for what somebody wrote, too.
        _, theirs = _standing(client, settings, repository, author_login, author_id)
        content = lower(task.content_trust, theirs)
    return {
        "trust_scope": scope,
        "content_trust": TrustScope.FORK_PR if scope is TrustScope.FORK_PR else content,
        "trust_evidence": evidence,
    }


def _standing(
    client: RepoClient,
    settings: Settings,
    repository: Repository,
    login: str | None,
    user_id: int | None,
) -> tuple[Permission | None, TrustScope]:
    """What somebody may do here now, and how far that is trusted."""
    if user_id is not None and user_id in settings.commands.bots:
        permission: Permission | None = bot_permission(user_id)
    else:
        permission = permission_of(client, login, user_id)
    collaborator = False
    if permission is not None and not may_write(permission) and not repository.private:
        collaborator = client.is_collaborator(login or "")
    return permission, scope_of(permission, collaborator=collaborator, private=repository.private)


def _automatic(settings: Settings, task: Task, facts: dict[str, Any]) -> Look:
    policy = settings.review.for_repo(task.repo)
    inside = facts["trust_scope"] is TrustScope.MAINTAINER
    if inside or policy.external == "on":
        return GoOn(facts)
    if policy.external == "ask":
        return AskFirst(facts)
    return Decline(
        "external_review_off",
        "Pull requests from outside are not reviewed here.",
        silent=True,
    )


def _approval_is_missing(
    client: RepoClient, settings: Settings, task: Task, pull: PullRequest
) -> Decline | None:
    # A maintainer's request binds to what they saw. For an outsider's head, which may change under
    # them at any moment, they have to name the commit.
    if task.payload.get("approved_sha") or settings.review.for_repo(task.repo).external == "on":
        return None
    if not _is_fork(task, pull):
        if pull.author_id == task.actor_id:
            return None
        author = permission_of(client, pull.author_login, pull.author_id)
        if author is not None and may_write(author):
            return None
    return Decline(
        "approval_unbound",
        "This change comes from outside, so a review has to name the exact commit it is for.",
        f"Read the change, then ask for review {pull.head_sha}",
    )


def permission_of(client: RepoClient, login: str | None, user_id: int | None) -> Permission | None:
    """What GitHub says of this person now; None for nobody, bots, and reused logins."""
    if not login or user_id is None:
        return None
    try:
        permission = client.permission(login)
    except GitHubNotFound:
        # Bots and people who are gone: no rights, never a reason to allow.
        return None
    # A login can be freed and registered by somebody else; the numeric id can't.
    same = permission.user_id is not None and permission.user_id == user_id
    return permission if same else None


def _is_fork(task: Task, pull: PullRequest) -> bool:
    return pull.head_repo_id is None or pull.head_repo_id != task.repo_id
