"""The one branch that a run may publish: imported or verified, and then vouched for by us."""

from __future__ import annotations

from dataclasses import dataclass

from coven.contract.result import Result
from coven.errors import ContractViolation
from coven.github.repo_client import RepoClient
from coven.github.roles import Role
from coven.services import Services
from coven.store.tasks import Task
from coven.values import Sha
from worker.session import Prepared
from worker.workspace.checkout import earlier_commits
from worker.workspace.errors import AccessRefused
from worker.workspace.push import Author, import_edits, refuse_pushed_to, verify_branch


@dataclass(frozen=True, slots=True)
class PublishedBranch:
    """A branch on GitHub that holds only this run's commits on top of the recorded start."""

    branch: str
    sha: Sha
    commits: int
    files: tuple[str, ...]
    base: str
    tolerated: tuple[str, ...] = ()


def publish_branch(
    services: Services, prepared: Prepared, client: RepoClient, result: Result
) -> PublishedBranch | None:
    """Bring the session's work onto its branch; None when it changed nothing.

    Raises ``WorkspaceError``, ``ContractViolation``, ``GitHubError``.
    """
    task = prepared.task
    base = task.head_ref if task.is_pull else task.default_branch
    if base is None:
        raise ContractViolation("the base of the pull request is not known")
    if prepared.profile.hosted_repair:
        return _import(services, prepared, result, base)
    if not result.commits:
        return None
    claimed = [commit.sha for commit in result.commits]
    protected = {name for name in (task.head_ref, task.base_ref, task.default_branch) if name}
    # Today's runtime names every commit of a pull request, not only its own.
    earlier = earlier_commits(prepared.workspaces, prepared.workspace)
    refuse_pushed_to(client, protected, claimed, earlier)
    if result.branch is None:
        raise ContractViolation(
            f"commits: {len(claimed)} are named without a branch that may be published",
            public=(
                "The familiar says that it made commits, but not on a branch that may be "
                "published, so nothing of it was used."
            ),
        )
    found = verify_branch(
        client,
        result.branch,
        prepared.workspace.start_sha,
        reserved=prepared.workspace.branch,
        familiar_id=task.familiar_id,
        default_branch=prepared.workspace.default_branch,
        protected=protected,
        known_before=prepared.branches_before,
        claimed=claimed,
        earlier=earlier,
    )
    refuse_pushed_to(client, protected, [*claimed, *found.commits], earlier)
    return PublishedBranch(
        found.branch,
        found.sha,
        len(found.commits),
        tuple(result.files_changed),
        base,
        found.tolerated,
    )


def _import(
    services: Services, prepared: Prepared, result: Result, base: str
) -> PublishedBranch | None:
    try:
        return _import_once(services, prepared, result, base)
    except AccessRefused:
        # A new token may take a moment to be known everywhere: once more with another one.
        return _import_once(services, prepared, result, base)


def _import_once(
    services: Services, prepared: Prepared, result: Result, base: str
) -> PublishedBranch | None:
    task = prepared.task
    # Minted only now: the edits are validated, and the push has the whole hour.
    token = services.github.own_token(task.installation_id, task.repo_id, Role.PUSH)
    app = services.github.app_info()
    login = app.bot_login
    host = "users.noreply.github.com"
    email = f"{app.bot_user_id}+{login}@{host}" if app.bot_user_id else f"{login}@{host}"
    try:
        pushed = import_edits(
            prepared.workspaces,
            prepared.workspace,
            _message(task, prepared.redactor.text(result.summary)),
            Author(prepared.familiar.display_name, email),
            token.value,
            services.clock.now(),
            # The branch may stand from an earlier attempt that died after its push.
            may_replace=task.attempts_used > 1 or task.round > 1,
        )
    finally:
        services.github.revoke(token)
    if pushed is None:
        return None
    return PublishedBranch(pushed.branch, pushed.sha, len(pushed.commits), pushed.files, base)


def _message(task: Task, summary: str) -> str:
    # The subject is ours: a model's text may hold words that close other issues.
    return f"{task.verb.capitalize()} #{task.thread}: {_plain(task.title)}\n\n{_plain(summary)}"


def _plain(text: str) -> str:
    return " ".join(text.replace("#", "").replace("@", "").split())[:200]
