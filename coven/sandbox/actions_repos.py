"""Admin actions on repositories, roles and branches."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from coven.sandbox import changes, events, render
from coven.sandbox.answers import ApiError
from coven.sandbox.hub import Hub
from coven.sandbox.outcome import Outcome
from coven.sandbox.state import JSON, PERMISSION_OF_ROLE, Repo, Role, User, now


def decoded(files: JSON) -> JSON:
    """Files of a request; ``{"base64": …}`` holds bytes."""
    shown: JSON = {}
    for path, content in files.items():
        if isinstance(content, dict) and "base64" in content:
            data = base64.b64decode(content["base64"])
            mode = content.get("mode", "100644")
            shown[path] = {"mode": mode, "content": data}
        else:
            shown[path] = content
    return shown


def _new(hub: Hub, owner: User, name: str, **fields: Any) -> Repo:
    try:
        hub.repo(f"{owner.login}/{name}")
    except ApiError:
        pass
    else:
        raise ValueError(f"{owner.login}/{name} exists already")
    repo = Repo(hub.state.new_id(), owner.id, name, **fields)
    hub.state.repos[repo.id] = repo
    hub.state.redirects.pop(f"{owner.login}/{name}".casefold(), None)
    return repo


def create_repository(
    hub: Hub,
    full_name: str,
    files: JSON | None = None,
    private: bool = False,
    default_branch: str = "main",
    owner_type: str = "User",
    protected: list[str] | None = None,
    drafts: bool = True,
    message: str = "Initial commit",
    empty: bool = False,
) -> Outcome:
    """A repository with one commit; the owner is made when it is new."""
    login, _, name = full_name.partition("/")
    if not name:
        raise ValueError("full_name must be owner/name")
    owner = hub.ensure_user(login, owner_type)
    repo = _new(
        hub,
        owner,
        name,
        private=private,
        default_branch=default_branch,
        drafts=drafts,
        protected=set(protected or ()),
    )
    git = hub.git(repo)
    git.init(default_branch, hub.hooks)
    if not empty:
        content = decoded({"README.md": f"# {name}\n"} if files is None else files)
        changes.push_files(hub, repo, default_branch, content, message, owner)
    payload = events.repository(hub, repo, "created", owner)
    return Outcome(render.full_repository(hub, repo), [("repository", payload)])


def fork_repository(hub: Hub, repo: str, owner: str, name: str | None = None) -> Any:
    """A fork in another account."""
    base, account = hub.repo(repo), hub.ensure_user(owner)
    fork = _new(
        hub,
        account,
        name or base.name,
        private=base.private,
        default_branch=base.default_branch,
        fork_of=base.id,
    )
    hub.git(fork).clone_from(hub.git(base), hub.hooks)
    return render.full_repository(hub, fork)


def set_role(hub: Hub, repo: str, login: str, role: str | None, base: str | None = None) -> JSON:
    """A collaborator's role; a custom one needs its ``base``; null removes them."""
    found, user = hub.repo(repo), hub.ensure_user(login)
    if role is None:
        found.roles.pop(user.id, None)
        return {}
    level = base or role
    if level not in PERMISSION_OF_ROLE:
        raise ValueError(f"a custom role needs base: one of {', '.join(PERMISSION_OF_ROLE)}")
    found.roles[user.id] = Role(role, level)
    return {}


def change_repository(
    hub: Hub,
    repo: str,
    name: str | None = None,
    owner: str | None = None,
    private: bool | None = None,
    archived: bool | None = None,
    default_branch: str | None = None,
    protected: list[str] | None = None,
    deleted: bool = False,
    sender: str | None = None,
) -> Outcome:
    """Rename, transfer, make private or public, archive, delete; one event for each."""
    found = hub.repo(repo)
    who = hub.user(sender) if sender else hub.owner(found)
    told: list[tuple[str, JSON]] = []

    def tell(action: str, changed: JSON | None = None) -> None:
        told.append(("repository", events.repository(hub, found, action, who, changed)))

    before = hub.full_name(found)
    if name is not None:
        old, found.name = found.name, name
        hub.state.redirects[before.casefold()] = found.id
        tell("renamed", {"repository": {"name": {"from": old}}})
    if owner is not None:
        old_owner = hub.owner(found)
        found.owner_id = hub.ensure_user(owner).id
        hub.state.redirects[before.casefold()] = found.id
        kind = "organization" if old_owner.type == "Organization" else "user"
        tell("transferred", {"owner": {"from": {kind: render.user(hub, old_owner)}}})
    if private is not None:
        found.private = private
        tell("privatized" if private else "publicized")
    if archived is not None:
        found.archived = archived
        tell("archived" if archived else "unarchived")
    if default_branch is not None:
        old, found.default_branch = found.default_branch, default_branch
        hub.git(found).run("symbolic-ref", "HEAD", f"refs/heads/{default_branch}")
        tell("edited", {"default_branch": {"from": old}})
    if protected is not None:
        found.protected = set(protected)
    if deleted:
        tell("deleted")
        found.deleted = True
        for thread in hub.state.threads.values():
            if thread.pull is not None and thread.pull.head_repo_id == found.id:
                thread.pull.head_repo_id = None
    found.updated_at = now()
    return Outcome({} if deleted else render.full_repository(hub, found), told)


def push(
    hub: Hub,
    repo: str,
    branch: str,
    files: JSON,
    message: str = "Change files",
    author: str | None = None,
    start: str | None = None,
) -> Outcome:
    """A commit on a branch, with ``push`` and the ``synchronize`` of open pull requests."""
    found = hub.repo(repo)
    who = hub.ensure_user(author) if author else hub.owner(found)
    before = hub.git(found).branches()
    sha = changes.push_files(hub, found, branch, decoded(files), message, who, start=start)
    return Outcome({"sha": sha}, _moved(hub, found, before, who))


def _moved(hub: Hub, repo: Repo, before: dict[str, str], who: User) -> list[tuple[str, JSON]]:
    told: list[tuple[str, JSON]] = []
    heads = {(t.repo_id, t.number): t.pull.head_sha for t in hub.state.threads.values() if t.pull}
    open_before = {(t.repo_id, t.number) for t in hub.state.threads.values() if t.state == "open"}
    for branch, old, new in changes.branches_moved(hub, repo, before, who.id):
        told.append(("push", events.push(hub, repo, branch, old, new, who)))
    for thread in hub.state.threads.values():
        key = (thread.repo_id, thread.number)
        if thread.pull is None or key not in open_before:
            continue
        base = hub.state.repos[thread.repo_id]
        if thread.state == "closed":
            told.append(("pull_request", events.pull_request(hub, base, thread, "closed", who)))
        elif thread.pull.head_sha != heads[key]:
            payload = events.pull_request(
                hub,
                base,
                thread,
                "synchronize",
                who,
                before=heads[key],
                after=thread.pull.head_sha,
            )
            told.append(("pull_request", payload))
    return told


def set_branch(
    hub: Hub, repo: str, branch: str, sha: str | None, sender: str | None = None
) -> Outcome:
    """Force-push a branch to a commit (or ref), or delete it with null."""
    found = hub.repo(repo)
    git = hub.git(found)
    before = git.branches()
    if sha is None:
        git.delete_ref(f"refs/heads/{branch}")
    else:
        target = git.resolve(sha)
        if target is None:
            raise ValueError(f"no commit {sha}")
        git.update_ref(f"refs/heads/{branch}", target)
    who = hub.ensure_user(sender) if sender else hub.owner(found)
    return Outcome({}, _moved(hub, found, before, who))


def read_file(hub: Hub, repo: str, ref: str, path: str) -> JSON:
    """A file at a ref; ``content`` is null when it is not there."""
    git = hub.git(hub.repo(repo))
    sha = git.resolve(ref)
    found = git.read(sha, path) if sha else None
    return {"sha": sha, "content": None if found is None else found[1].decode(errors="replace")}


def list_commits(hub: Hub, repo: str, ref: str, limit: int = 100) -> Any:
    """Commits of a ref, newest first."""
    found = hub.repo(repo)
    git = hub.git(found)
    sha = git.resolve(ref)
    if sha is None:
        raise ValueError(f"no commit {ref}")
    return [render.commit(hub, found, info) for info in git.log("-n", str(int(limit)), sha)]


ACTIONS: dict[str, Callable[..., Any]] = {
    "create_repository": create_repository,
    "fork_repository": fork_repository,
    "set_role": set_role,
    "change_repository": change_repository,
    "push": push,
    "set_branch": set_branch,
    "read_file": read_file,
    "list_commits": list_commits,
}
