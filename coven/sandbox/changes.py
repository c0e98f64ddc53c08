"""What people and pushes change: threads, branches, pull requests. Used by REST, git and admin."""

from __future__ import annotations

import re
import time
from datetime import datetime
from functools import partial
from typing import Any

from coven.sandbox import events
from coven.sandbox.answers import ApiError, invalid, unprocessable
from coven.sandbox.gitrepo import GitFailed
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, CheckSuite, Label, Labelling, Pull, Repo, Thread, User, now

TITLE_LIMIT = 256
BRANCH = re.compile(
    r"^(?!-)(?!.*(?:\.\.|//|@\{|\\|[\x00-\x20~^:?*\[\x7f]))(?!.*\.lock$)(?!.*[/.]$)[^/].*$"
)


def open_thread(
    hub: Hub,
    repo: Repo,
    user_id: int,
    title: Any,
    body: str | None,
    *,
    app_id: int | None = None,
    pull: Pull | None = None,
) -> Thread:
    """A new issue; with ``pull`` a new pull request."""
    resource = "Issue" if pull is None else "PullRequest"
    if not isinstance(title, str) or not title.strip():
        raise invalid(resource, "title", "missing_field")
    if len(title) > TITLE_LIMIT:
        raise invalid(
            resource, "title", "custom", f"title is too long (maximum is {TITLE_LIMIT} characters)"
        )
    repo.last_number += 1
    thread = Thread(
        id=hub.state.new_id(),
        repo_id=repo.id,
        number=repo.last_number,
        user_id=user_id,
        title=title,
        body=body,
        app_id=app_id,
        pull=pull,
    )
    hub.state.threads[(repo.id, thread.number)] = thread
    return thread


def label_of(hub: Hub, repo: Repo, name: str) -> Label:
    """A label by name, made when it is new (as issue endpoints do)."""
    key = name.casefold()
    if key not in repo.labels:
        repo.labels[key] = Label(hub.state.new_id(), name)
    return repo.labels[key]


def relabel(
    hub: Hub,
    thread: Thread,
    keys: list[str],
    actor_id: int,
    *,
    app_id: int | None = None,
    at: datetime | None = None,
) -> list[str]:
    """Give a thread these labels and no others, and note who did; the keys that are new."""
    before = thread.labels
    thread.labels = list(dict.fromkeys(keys))
    added = [key for key in thread.labels if key not in before]
    gone = [key for key in before if key not in thread.labels]
    for event, changed in (("unlabeled", gone), ("labeled", added)):
        for key in changed:
            made = Labelling(
                hub.state.new_id(), thread.repo_id, thread.number, actor_id, event, key, app_id
            )
            made.created_at = at or made.created_at
            hub.state.labellings.append(made)
    return added


def find_head(hub: Hub, base: Repo, head: str) -> tuple[Repo, str]:
    """The repository and branch that ``branch`` or ``owner:branch`` names; 422 when unknown."""
    owner, colon, branch = head.rpartition(":")
    if not colon:
        return base, head
    for repo in hub.state.repos.values():
        if repo.deleted or hub.owner(repo).login.casefold() != owner.casefold():
            continue
        if repo.id == base.id or repo.fork_of == base.id:
            return repo, branch
    raise invalid("PullRequest", "head")


def open_pull(
    hub: Hub,
    base: Repo,
    head: str,
    base_ref: str,
    user_id: int,
    title: Any,
    body: str | None,
    *,
    draft: bool = False,
    app_id: int | None = None,
    maintainer_can_modify: bool = False,
) -> Thread:
    """A new pull request, under GitHub's conditions."""
    head_repo, branch = find_head(hub, base, head)
    base_git, head_git = hub.git(base), hub.git(head_repo)
    base_sha = base_git.branch(base_ref)
    if base_sha is None:
        raise invalid("PullRequest", "base")
    head_sha = head_git.branch(branch)
    if head_sha is None:
        raise invalid("PullRequest", "head")
    owner = hub.owner(head_repo).login
    for other in hub.threads(base):
        pull = other.pull
        if (
            pull is not None
            and other.state == "open"
            and (pull.head_repo_id, pull.head_ref, pull.base_ref)
            == (head_repo.id, branch, base_ref)
        ):
            text = f"A pull request already exists for {owner}:{branch}."
            raise _custom(text)
    if draft and not base.drafts:
        raise ApiError(422, "Draft pull requests are not supported in this repository.")
    keep = f"refs/pull/{base.last_number + 1}/head"
    if head_repo.id != base.id:
        base_git.fetch_from(head_git, head_sha, keep)
    start = base_git.merge_base(base_sha, head_sha)
    if start is None:
        base_git.delete_ref(keep)
        raise _custom(f"The {branch} branch has no history in common with {base_ref}")
    if start == head_sha:
        base_git.delete_ref(keep)
        raise _custom(f"No commits between {base_ref} and {branch}")
    pull = Pull(
        id=hub.state.new_id(),
        head_repo_id=head_repo.id,
        head_label_owner=owner,
        head_ref=branch,
        head_sha=head_sha,
        base_ref=base_ref,
        base_sha=base_sha,
        draft=draft,
        maintainer_can_modify=maintainer_can_modify,
    )
    thread = open_thread(hub, base, user_id, title, body, app_id=app_id, pull=pull)
    base_git.update_ref(f"refs/pull/{thread.number}/head", head_sha)
    return thread


def _custom(message: str) -> ApiError:
    error = {"resource": "PullRequest", "code": "custom", "message": message}
    return ApiError(422, "Validation Failed", errors=[error])


def push_files(
    hub: Hub,
    repo: Repo,
    branch: str,
    files: JSON,
    message: str,
    author: User,
    *,
    start: str | None = None,
    address: tuple[str, str] | None = None,
) -> str:
    """A commit on a branch; a new branch starts at ``start`` (default: the default branch)."""
    if not BRANCH.match(branch):
        raise unprocessable(f"{branch!r} is not a branch name")
    git = hub.git(repo)
    parent = git.branch(branch)
    if start is not None:
        parent = git.resolve(start)
        if parent is None:
            raise unprocessable(f"No commit found for {start!r}")
    elif parent is None:
        parent = git.branch(repo.default_branch)
    who = address or (author.name or author.login, author.email)
    try:
        return git.commit_files(branch, files, message, who, int(time.time()), parent)
    except GitFailed as error:
        raise unprocessable(f"git refused the commit: {error}") from error


def branches_moved(
    hub: Hub, repo: Repo, before: dict[str, str], sender_id: int
) -> list[tuple[str, str, str]]:
    """Bring pull requests in line with the branches; announce pushes.

    Returns ``(branch, old, new)`` for each branch that moved; a missing side is forty zeros.
    """
    git = hub.git(repo)
    after = git.branches()
    zero = "0" * 40
    moved = [
        (name, before.get(name, zero), after.get(name, zero))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    if moved:
        repo.pushed_at = repo.updated_at = now()
    sender = hub.account(sender_id)
    no_extra: dict[str, Any] = {}
    for branch, old, new in moved:
        hub.announce("push", partial(events.push, hub, repo, branch, old, new, sender))
        for thread in list(hub.state.threads.values()):
            pull = thread.pull
            if pull is None or thread.state != "open":
                continue
            if (pull.head_repo_id, pull.head_ref) != (repo.id, branch):
                continue
            base = hub.state.repos[thread.repo_id]
            if new == zero:
                close_thread(thread, sender_id)
                action, extra = "closed", no_extra
            else:
                _move_head(hub, base, repo, thread, new)
                action = "synchronize"
                extra = {"before": old, "after": new}
            hub.announce(
                "pull_request",
                partial(events.pull_request, hub, base, thread, action, sender, **extra),
            )
    return moved


def _move_head(hub: Hub, base: Repo, head_repo: Repo, thread: Thread, sha: str) -> None:
    pull = thread.pull
    assert pull is not None
    ref = f"refs/pull/{thread.number}/head"
    if head_repo.id == base.id:
        hub.git(base).update_ref(ref, sha)
    else:
        hub.git(base).fetch_from(hub.git(head_repo), sha, ref)
    pull.head_sha = sha
    pull.base_sha = hub.git(base).branch(pull.base_ref) or pull.base_sha
    thread.updated_at = now()


def close_thread(thread: Thread, user_id: int | None, reason: str | None = None) -> None:
    """Close an issue or pull request."""
    thread.state, thread.closed_at, thread.closed_by = "closed", now(), user_id
    thread.state_reason = reason or ("completed" if thread.pull is None else None)
    thread.updated_at = now()


def reopen_thread(thread: Thread) -> None:
    """Open it again."""
    thread.state, thread.closed_at, thread.closed_by = "open", None, None
    thread.state_reason = "reopened" if thread.pull is None else None
    thread.updated_at = now()


def merge_pull(hub: Hub, repo: Repo, thread: Thread, user: User) -> str:
    """Merge with a merge commit; 405 on conflict."""
    pull = thread.pull
    if pull is None or thread.state != "open":
        raise ApiError(405, "Pull Request is not mergeable")
    git = hub.git(repo)
    base = git.branch(pull.base_ref)
    assert base is not None
    title = f"Merge pull request #{thread.number} from {pull.head_label_owner}/{pull.head_ref}"
    sha = git.merge(base, pull.head_sha, title, (user.login, user.email))
    if sha is None:
        raise ApiError(405, "Pull Request is not mergeable")
    before = git.branches()
    git.update_ref(f"refs/heads/{pull.base_ref}", sha)
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = now(), user.id, sha
    close_thread(thread, user.id)
    branches_moved(hub, repo, before, user.id)
    return sha


def suite_of(hub: Hub, repo: Repo, sha: str, app_id: int) -> CheckSuite:
    """The App's suite on a commit, made when it is the first run there."""
    for suite in hub.state.suites.values():
        if (suite.repo_id, suite.head_sha, suite.app_id) == (repo.id, sha, app_id):
            return suite
    heads = hub.git(repo).branches()
    branch = next((name for name, head in heads.items() if head == sha), None)
    suite = CheckSuite(hub.state.new_id(), repo.id, sha, app_id, branch)
    hub.state.suites[suite.id] = suite
    return suite
