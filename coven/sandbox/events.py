"""Webhook payloads in GitHub's shape. Pure: state in, JSON out."""

from __future__ import annotations

from typing import Any

from coven.sandbox import render, render_threads
from coven.sandbox.hub import Hub
from coven.sandbox.state import (
    JSON,
    CheckRun,
    CheckSuite,
    Comment,
    Installation,
    Label,
    Repo,
    Review,
    ReviewComment,
    Thread,
    User,
)


def envelope(hub: Hub, repo: Repo, sender: User | None, action: str | None, body: JSON) -> JSON:
    """Action first, then the event's own part, then repository, installation and sender."""
    payload: JSON = {} if action is None else {"action": action}
    payload.update(body)
    payload["repository"] = render.repository(hub, repo)
    owner = hub.owner(repo)
    if owner.type == "Organization":
        payload["organization"] = {
            "login": owner.login,
            "id": owner.id,
            "node_id": render.node_id("Organization", owner.id),
            "url": f"{hub.base_url}/orgs/{owner.login}",
            "description": None,
        }
    found = hub.installation_of(repo)
    if found is not None:
        payload["installation"] = {
            "id": found.id,
            "node_id": render.node_id("Installation", found.id),
        }
    payload["sender"] = render.user(hub, sender)
    return payload


def issues(
    hub: Hub,
    repo: Repo,
    thread: Thread,
    action: str,
    sender: User | None,
    *,
    label: Label | None = None,
    assignee: User | None = None,
    changes: JSON | None = None,
) -> JSON:
    """``issues``: opened, edited, labeled, unlabeled, assigned, unassigned, closed, reopened."""
    body: JSON = {"issue": render_threads.issue(hub, repo, thread)}
    if label is not None:
        body["label"] = render.label(hub, repo, label)
    if assignee is not None:
        body["assignee"] = render.user(hub, assignee)
    if changes is not None:
        body["changes"] = changes
    return envelope(hub, repo, sender, action, body)


def pull_request(
    hub: Hub,
    repo: Repo,
    thread: Thread,
    action: str,
    sender: User | None,
    *,
    label: Label | None = None,
    assignee: User | None = None,
    before: str | None = None,
    after: str | None = None,
    changes: JSON | None = None,
) -> JSON:
    """``pull_request`` with any of its actions."""
    body: JSON = {
        "number": thread.number,
        "pull_request": render_threads.pull_request(hub, repo, thread),
    }
    if label is not None:
        body["label"] = render.label(hub, repo, label)
    if assignee is not None:
        body["assignee"] = render.user(hub, assignee)
    if before is not None:
        body["before"], body["after"] = before, after
    if changes is not None:
        body["changes"] = changes
    return envelope(hub, repo, sender, action, body)


def thread_event(
    hub: Hub, repo: Repo, thread: Thread, action: str, sender: User | None, **more: Any
) -> tuple[str, JSON]:
    """``issues`` or ``pull_request``, whichever the thread is."""
    if thread.pull is None:
        return "issues", issues(hub, repo, thread, action, sender, **more)
    return "pull_request", pull_request(hub, repo, thread, action, sender, **more)


def issue_comment(
    hub: Hub, comment: Comment, action: str, sender: User | None, old: str | None = None
) -> JSON:
    """``issue_comment``: created, edited, deleted; also on pull requests."""
    repo = hub.state.repos[comment.repo_id]
    thread = hub.state.threads[(comment.repo_id, comment.number)]
    body: JSON = {
        "issue": render_threads.issue(hub, repo, thread),
        "comment": render_threads.comment(hub, comment),
    }
    if old is not None:
        body["changes"] = {"body": {"from": old}}
    return envelope(hub, repo, sender, action, body)


def review_comment(hub: Hub, comment: ReviewComment, action: str, sender: User | None) -> JSON:
    """``pull_request_review_comment``."""
    repo = hub.state.repos[comment.repo_id]
    thread = hub.state.threads[(comment.repo_id, comment.number)]
    body = {
        "comment": render_threads.review_comment(hub, comment),
        "pull_request": render_threads.pull_simple(hub, repo, thread),
    }
    return envelope(hub, repo, sender, action, body)


def review(hub: Hub, found: Review, action: str, sender: User | None) -> JSON:
    """``pull_request_review``; the state is in lower case here and the body may be null."""
    repo = hub.state.repos[found.repo_id]
    thread = hub.state.threads[(found.repo_id, found.number)]
    shown = render_threads.review(hub, found)
    body = {
        "review": {**shown, "state": found.state.lower(), "body": found.body or None},
        "pull_request": render_threads.pull_simple(hub, repo, thread),
    }
    return envelope(hub, repo, sender, action, body)


def check_run(
    hub: Hub, run: CheckRun, action: str, sender: User | None, identifier: str | None = None
) -> JSON:
    """``check_run``: created, completed, rerequested, requested_action."""
    repo = hub.state.repos[run.repo_id]
    shown = render_threads.check_run(hub, run)
    suite = hub.state.suites[run.suite_id]
    shown["check_suite"] = render_threads.check_suite(hub, suite, small=True)
    if action == "rerequested":
        shown["check_suite"].update(status="queued", conclusion=None)
    body: JSON = {"check_run": shown}
    if identifier is not None:
        body["requested_action"] = {"identifier": identifier}
    return envelope(hub, repo, sender, action, body)


def check_suite(hub: Hub, suite: CheckSuite, action: str, sender: User | None) -> JSON:
    """``check_suite``: requested, rerequested, completed."""
    repo = hub.state.repos[suite.repo_id]
    shown = render_threads.check_suite(hub, suite)
    shown.pop("repository")
    return envelope(hub, repo, sender, action, {"check_suite": shown})


def push(hub: Hub, repo: Repo, branch: str, old: str, new: str, sender: User | None) -> JSON:
    """``push`` of one branch; ``commits`` holds at most 2048, oldest first."""
    zero = "0" * 40
    git = hub.git(repo)
    html = render.html_url(hub, repo)
    commits: list[JSON] = []
    if new != zero:
        spec = [new] if old == zero else [f"{old}..{new}"]
        others = ["-n", "2048", *spec]
        for info in reversed(git.log(*others)):
            files = git.diff(info.parents[0], info.sha) if info.parents else []
            commits.append(
                {
                    "id": info.sha,
                    "tree_id": info.tree,
                    "distinct": True,
                    "message": info.message,
                    "timestamp": info.committer[2],
                    "url": f"{html}/commit/{info.sha}",
                    "author": _pushed_by(hub, info.author),
                    "committer": _pushed_by(hub, info.committer),
                    "added": [f.filename for f in files if f.status == "added"],
                    "removed": [f.filename for f in files if f.status == "removed"],
                    "modified": [f.filename for f in files if f.status == "modified"],
                }
            )
    forced = zero not in (old, new) and not git.is_ancestor(old, new)
    body: JSON = {
        "ref": f"refs/heads/{branch}",
        "before": old,
        "after": new,
        "created": old == zero,
        "deleted": new == zero,
        "forced": forced,
        "base_ref": None,
        "compare": f"{html}/compare/{old[:12]}...{new[:12]}",
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "pusher": {"name": sender.login, "email": sender.email} if sender else {"name": "none"},
    }
    payload = envelope(hub, repo, sender, None, body)
    shown = payload["repository"]
    # This event alone has the old shape: stamps as seconds, an owner with name and address.
    shown["created_at"] = int(repo.created_at.timestamp())
    shown["pushed_at"] = int(repo.pushed_at.timestamp())
    shown["master_branch"] = repo.default_branch
    owner = hub.owner(repo)
    shown["owner"] = {"name": owner.login, "email": owner.email, **shown["owner"]}
    return payload


def _pushed_by(hub: Hub, who: tuple[str, str, str]) -> JSON:
    shown: JSON = {"name": who[0], "email": who[1]}
    login = next((u.login for u in hub.state.users.values() if u.email == who[1]), None)
    return shown if login is None else {**shown, "username": login}


def repository(
    hub: Hub, repo: Repo, action: str, sender: User | None, changes: JSON | None = None
) -> JSON:
    """``repository``: created, renamed, transferred, deleted, archived, privatized, …"""
    body: JSON = {} if changes is None else {"changes": changes}
    return envelope(hub, repo, sender, action, body)


def _listed(hub: Hub, repo: Repo) -> JSON:
    return {
        "id": repo.id,
        "node_id": render.node_id("Repository", repo.id),
        "name": repo.name,
        "full_name": hub.full_name(repo),
        "private": repo.private,
    }


def installation(hub: Hub, found: Installation, action: str, sender: User | None) -> JSON:
    """``installation``: created, deleted, suspend, unsuspend, new_permissions_accepted."""
    payload: JSON = {"action": action, "installation": render.installation(hub, found)}
    if action in ("created", "deleted"):
        payload["repositories"] = [_listed(hub, repo) for repo in hub.covered(found)]
    payload["sender"] = render.user(hub, sender)
    return payload


def installation_repositories(
    hub: Hub, found: Installation, added: list[Repo], removed: list[Repo], sender: User | None
) -> JSON:
    """``installation_repositories``: added, removed."""
    return {
        "action": "added" if added else "removed",
        "installation": render.installation(hub, found),
        "repository_selection": "all" if found.repo_ids is None else "selected",
        "repositories_added": [_listed(hub, repo) for repo in added],
        "repositories_removed": [_listed(hub, repo) for repo in removed],
        "requester": None,
        "sender": render.user(hub, sender),
    }


def ping(hub: Hub) -> JSON:
    """``ping`` of an App's hook: no installation and no repository."""
    hook = hub.state.hook
    return {
        "zen": "Keep it logically awesome.",
        "hook_id": hook.id,
        "hook": {
            "type": "App",
            "id": hook.id,
            "name": "web",
            "active": True,
            "events": list(hub.app.events),
            "config": {"url": hook.url, "content_type": "json", "insecure_ssl": "0"},
            "app_id": hub.app.id,
        },
    }
