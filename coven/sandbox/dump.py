"""State as JSON for tests: what GitHub would show, and nothing that is secret."""

from __future__ import annotations

from typing import Any

from coven.sandbox import render, render_threads
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, CheckRun, Repo, stamp


def run_dump(hub: Hub, run: CheckRun) -> JSON:
    """A check run with what its endpoint does not show: annotations, actions, its history."""
    return {
        **render_threads.check_run(hub, run),
        "annotations": run.annotations,
        "actions": run.actions,
        "history": run.history,
    }


def repo_dump(hub: Hub, repo: Repo) -> JSON:
    """One repository with everything in it."""
    state = hub.state
    threads = sorted(hub.threads(repo), key=lambda t: t.number)
    return {
        "id": repo.id,
        "full_name": hub.full_name(repo),
        "private": repo.private,
        "archived": repo.archived,
        "default_branch": repo.default_branch,
        "fork_of": repo.fork_of,
        "protected": sorted(repo.protected),
        "roles": {state.users[u].login: role.name for u, role in repo.roles.items()},
        "branches": hub.git(repo).branches(),
        "issues": [render_threads.issue(hub, repo, t) for t in threads if t.pull is None],
        "pulls": [render_threads.pull_request(hub, repo, t) for t in threads if t.pull],
        "comments": [
            {**render_threads.comment(hub, c), "number": c.number, "edits": c.edits}
            for c in state.comments.values()
            if c.repo_id == repo.id
        ],
        "reviews": [
            {**render_threads.review(hub, r), "number": r.number}
            for r in state.reviews.values()
            if r.repo_id == repo.id
        ],
        "review_comments": [
            {**render_threads.review_comment(hub, c), "number": c.number}
            for c in state.review_comments.values()
            if c.repo_id == repo.id
        ],
        "check_runs": [run_dump(hub, r) for r in state.runs.values() if r.repo_id == repo.id],
    }


def dump_state(hub: Hub) -> Any:
    """All of it. Tokens appear by id, scope and state, never by value."""
    state = hub.state
    return {
        "base_url": hub.base_url,
        "app": render.app(hub, hub.app),
        "webhook_url": state.hook.url,
        "users": [render.user(hub, u) for u in state.users.values() if not u.deleted],
        "installations": [
            {**render.installation(hub, i), "deleted": i.deleted}
            for i in state.installations.values()
        ],
        "repositories": [repo_dump(hub, r) for r in state.repos.values() if not r.deleted],
        "tokens": [
            {
                "id": t.id,
                "installation_id": t.installation_id,
                "repository_ids": None if t.repo_ids is None else sorted(t.repo_ids),
                "permissions": t.permissions,
                "expires_at": stamp(t.expires_at),
                "revoked": t.revoked,
            }
            for t in state.tokens.values()
        ],
    }
