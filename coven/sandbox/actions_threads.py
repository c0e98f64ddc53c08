"""Admin actions on issues, pull requests, comments, reviews and check runs: what people click."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from coven.sandbox import changes, checks, dump, events, render_threads
from coven.sandbox.actions_repos import decoded
from coven.sandbox.answers import ApiError
from coven.sandbox.hub import Hub
from coven.sandbox.outcome import Outcome
from coven.sandbox.reviews import STATES, anchor_comment
from coven.sandbox.state import (
    JSON,
    CheckRun,
    Comment,
    Repo,
    Review,
    ReviewComment,
    Thread,
    User,
    now,
)


def _who(hub: Hub, repo: Repo, login: str | None) -> User:
    return hub.ensure_user(login) if login else hub.owner(repo)


def _app_of(hub: Hub, user: User) -> int | None:
    return next((app.id for app in hub.state.apps.values() if app.bot_id == user.id), None)


def _shown(hub: Hub, repo: Repo, thread: Thread) -> JSON:
    if thread.pull is None:
        return render_threads.issue(hub, repo, thread)
    return render_threads.pull_request(hub, repo, thread)


def open_issue(
    hub: Hub,
    repo: str,
    title: str,
    body: str | None = None,
    author: str | None = None,
    labels: list[str] | None = None,
) -> Outcome:
    """An issue; labels it is opened with arrive as ``labeled`` events too, as from a template."""
    found = hub.repo(repo)
    who = _who(hub, found, author)
    thread = changes.open_thread(hub, found, who.id, title, body)
    told = []
    for name in labels or ():
        changes.label_of(hub, found, name)
    changes.relabel(hub, thread, [name.casefold() for name in labels or ()], who.id)
    told.append(("issues", events.issues(hub, found, thread, "opened", who)))
    for name in labels or ():
        label = found.labels[name.casefold()]
        told.append(("issues", events.issues(hub, found, thread, "labeled", who, label=label)))
    return Outcome(_shown(hub, found, thread), told)


def open_pull(
    hub: Hub,
    repo: str,
    title: str,
    files: JSON | None = None,
    branch: str = "changes",
    body: str | None = None,
    author: str | None = None,
    base: str | None = None,
    draft: bool = False,
    fork: str | None = None,
    message: str | None = None,
    labels: list[str] | None = None,
) -> Outcome:
    """A pull request from file changes on a new branch; ``fork`` names the owner of a fork.

    ``files`` null takes the branch as it stands.
    """
    target = hub.repo(repo)
    base_ref = base or target.default_branch
    who = _who(hub, target, author or fork)
    source = target
    if fork is not None:
        owner = hub.ensure_user(fork)
        source = next(
            (
                r
                for r in hub.state.repos.values()
                if r.fork_of == target.id and r.owner_id == owner.id and not r.deleted
            ),
            None,
        ) or _fork(hub, target, owner)
    if files is not None:
        before = hub.git(source).branches()
        start = hub.git(target).branch(base_ref) if fork is None else None
        if branch in before:
            start = None
        changes.push_files(hub, source, branch, decoded(files), message or title, who, start=start)
        changes.branches_moved(hub, source, before, who.id)
    head = branch if fork is None else f"{hub.owner(source).login}:{branch}"
    thread = changes.open_pull(
        hub, target, head, base_ref, who.id, title, body, draft=draft, app_id=_app_of(hub, who)
    )
    for name in labels or ():
        changes.label_of(hub, target, name)
    changes.relabel(hub, thread, [name.casefold() for name in labels or ()], who.id)
    payload = events.pull_request(hub, target, thread, "opened", who)
    return Outcome(_shown(hub, target, thread), [("pull_request", payload)])


def _fork(hub: Hub, target: Repo, owner: User) -> Repo:
    from coven.sandbox.actions_repos import fork_repository

    return hub.repo(int(fork_repository(hub, hub.full_name(target), owner.login)["id"]))


def change_thread(
    hub: Hub,
    repo: str,
    number: int,
    title: str | None = None,
    body: str | None = None,
    state: str | None = None,
    draft: bool | None = None,
    base: str | None = None,
    locked: bool | None = None,
    sender: str | None = None,
) -> Outcome:
    """Edit, close, reopen, mark ready or draft, retarget, lock."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, sender)
    told = []

    def tell(action: str, **more: Any) -> None:
        told.append(events.thread_event(hub, found, thread, action, who, **more))

    edited: JSON = {}
    if title is not None:
        edited["title"], thread.title = {"from": thread.title}, title
    if body is not None:
        edited["body"], thread.body = {"from": thread.body}, body
    if base is not None and thread.pull is not None:
        sha = hub.git(found).branch(base)
        if sha is None:
            raise ValueError(f"no branch {base}")
        edited["base"] = {
            "ref": {"from": thread.pull.base_ref},
            "sha": {"from": thread.pull.base_sha},
        }
        thread.pull.base_ref, thread.pull.base_sha = base, sha
    thread.updated_at = now()
    if edited:
        tell("edited", changes=edited)
    if locked is not None:
        thread.locked = locked
        tell("locked" if locked else "unlocked")
    if state == "closed":
        changes.close_thread(thread, who.id)
        tell("closed")
    elif state == "open":
        changes.reopen_thread(thread)
        tell("reopened")
    if draft is not None and thread.pull is not None:
        thread.pull.draft = draft
        tell("converted_to_draft" if draft else "ready_for_review")
    return Outcome(_shown(hub, found, thread), told)


def delete_issue(hub: Hub, repo: str, number: int, sender: str | None = None) -> Outcome:
    """Delete an issue with its comments; it answers 410 from now on."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, sender)
    if thread.pull is not None:
        raise ValueError("pull requests cannot be deleted")
    payload = events.issues(hub, found, thread, "deleted", who)
    key = (found.id, number)
    del hub.state.threads[key]
    hub.state.deleted_threads.add(key)
    for one in [c for c in hub.state.comments.values() if (c.repo_id, c.number) == key]:
        del hub.state.comments[one.id]
    return Outcome({}, [("issues", payload)])


def label(
    hub: Hub,
    repo: str,
    number: int,
    name: str,
    sender: str | None = None,
    remove: bool = False,
    minutes_ago: int = 0,
) -> Outcome:
    """Put a label on a thread, or take it off; ``minutes_ago`` is when GitHub says it was."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, sender)
    made, key = changes.label_of(hub, found, name), name.casefold()
    kept = [k for k in thread.labels if k != key] if remove else [*thread.labels, key]
    at = now() - timedelta(minutes=minutes_ago)
    changes.relabel(hub, thread, kept, who.id, at=at)
    thread.updated_at = now()
    action = "unlabeled" if remove else "labeled"
    event = events.thread_event(hub, found, thread, action, who, label=made)
    return Outcome(_shown(hub, found, thread), [event])


def assign(
    hub: Hub, repo: str, number: int, login: str, sender: str | None = None, remove: bool = False
) -> Outcome:
    """Assign somebody (the App's bot too), or unassign them."""
    found = hub.repo(repo)
    thread, who, user = hub.thread(found, number), _who(hub, found, sender), hub.user(login)
    thread.assignees = [u for u in thread.assignees if u != user.id]
    if not remove:
        thread.assignees.append(user.id)
    thread.updated_at = now()
    action = "unassigned" if remove else "assigned"
    event = events.thread_event(hub, found, thread, action, who, assignee=user)
    return Outcome(_shown(hub, found, thread), [event])


def comment(hub: Hub, repo: str, number: int, body: str, author: str | None = None) -> Outcome:
    """A comment in the conversation."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, author)
    made = Comment(hub.state.new_id(), found.id, thread.number, who.id, body, _app_of(hub, who))
    hub.state.comments[made.id] = made
    thread.updated_at = now()
    payload = events.issue_comment(hub, made, "created", who)
    return Outcome(render_threads.comment(hub, made), [("issue_comment", payload)])


def change_comment(
    hub: Hub,
    comment_id: int,
    body: str | None = None,
    deleted: bool = False,
    sender: str | None = None,
) -> Outcome:
    """Edit or delete a comment (anybody's)."""
    found = hub.state.comments.get(comment_id)
    if found is None:
        raise ApiError(404, f"No comment {comment_id}.")
    repo = hub.state.repos[found.repo_id]
    who = hub.user(sender) if sender else hub.account(found.user_id)
    if deleted:
        payload = events.issue_comment(hub, found, "deleted", who)
        del hub.state.comments[comment_id]
        return Outcome({"repo": hub.full_name(repo)}, [("issue_comment", payload)])
    old, found.body = found.body, found.body if body is None else body
    found.updated_at = now()
    payload = events.issue_comment(hub, found, "edited", who, old)
    return Outcome(render_threads.comment(hub, found), [("issue_comment", payload)])


def review(
    hub: Hub,
    repo: str,
    number: int,
    body: str = "",
    event: str = "COMMENT",
    comments: list[JSON] | None = None,
    author: str | None = None,
) -> Outcome:
    """A review by a person, with the events for it and for each of its comments."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, author)
    if thread.pull is None:
        raise ValueError(f"#{number} is not a pull request")
    if event not in STATES:
        raise ValueError(f"event must be one of {', '.join(STATES)}")
    files = render_threads.pull_files(hub, found, thread)
    sha = thread.pull.head_sha
    made = Review(
        hub.state.new_id(), found.id, number, who.id, body, STATES[event], sha, None, now()
    )
    placed = [
        (str(entry.get("body", "")), anchor_comment(entry, files)) for entry in comments or ()
    ]
    hub.state.reviews[made.id] = made
    shown, told = [], [("pull_request_review", events.review(hub, made, "submitted", who))]
    for text, (path, hunk, place) in placed:
        one = ReviewComment(
            hub.state.new_id(), found.id, number, who.id, text, path, sha, hunk, **place
        )
        one.review_id = made.id
        hub.state.review_comments[one.id] = one
        shown.append(render_threads.review_comment(hub, one))
        payload = events.review_comment(hub, one, "created", who)
        told.append(("pull_request_review_comment", payload))
    return Outcome({**render_threads.review(hub, made), "comments": shown}, told)


def merge(hub: Hub, repo: str, number: int, sender: str | None = None) -> Outcome:
    """Merge a pull request."""
    found = hub.repo(repo)
    thread, who = hub.thread(found, number), _who(hub, found, sender)
    changes.merge_pull(hub, found, thread, who)
    payload = events.pull_request(hub, found, thread, "closed", who)
    return Outcome(_shown(hub, found, thread), [("pull_request", payload)])


def add_check_run(hub: Hub, repo: str, app_id: int | None = None, **fields: Any) -> JSON:
    """A check run as an App would make it; ``app_id`` of a foreign App makes it foreign."""
    found = hub.repo(repo)
    sha = hub.git(found).resolve(str(fields.pop("head_sha", "")))
    if sha is None:
        raise ValueError("head_sha names no commit")
    owner = hub.app.id if app_id is None else app_id
    if owner not in hub.state.apps:
        raise ValueError(f"no App {owner}: create_app first")
    run = CheckRun(hub.state.new_id(), found.id, 0, owner, "", sha)
    checks.apply(run, fields)
    run.suite_id = changes.suite_of(hub, found, sha, owner).id
    hub.state.runs[run.id] = run
    return dump.run_dump(hub, run)


def _clicker(hub: Hub, run: CheckRun, sender: str | None) -> tuple[Repo, User]:
    repo = hub.state.repos[run.repo_id]
    return repo, _who(hub, repo, sender)


def _run(hub: Hub, check_run_id: int) -> CheckRun:
    run = hub.state.runs.get(check_run_id)
    if run is None:
        raise ApiError(404, f"No check run {check_run_id}.")
    return run


def rerequest_check_run(hub: Hub, check_run_id: int, sender: str | None = None) -> Outcome:
    """*Re-run* on one check; the run itself stays as it is."""
    run = _run(hub, check_run_id)
    _, who = _clicker(hub, run, sender)
    return Outcome({}, [("check_run", events.check_run(hub, run, "rerequested", who))])


def rerequest_check_suite(hub: Hub, check_suite_id: int, sender: str | None = None) -> Outcome:
    """*Re-run all checks*."""
    suite = hub.state.suites.get(check_suite_id)
    if suite is None:
        raise ApiError(404, f"No check suite {check_suite_id}.")
    who = _who(hub, hub.state.repos[suite.repo_id], sender)
    return Outcome({}, [("check_suite", events.check_suite(hub, suite, "rerequested", who))])


def click(
    hub: Hub, check_run_id: int, identifier: str, sender: str | None = None, force: bool = False
) -> Outcome:
    """Press a button of a check run; ``force`` sends an identifier that is not shown there."""
    run = _run(hub, check_run_id)
    _, who = _clicker(hub, run, sender)
    if not force and identifier not in [a["identifier"] for a in run.actions]:
        raise ValueError(f"the check run has no button {identifier!r}")
    payload = events.check_run(hub, run, "requested_action", who, identifier)
    return Outcome({}, [("check_run", payload)])


ACTIONS: dict[str, Callable[..., Any]] = {
    "open_issue": open_issue,
    "open_pull": open_pull,
    "change_thread": change_thread,
    "delete_issue": delete_issue,
    "label": label,
    "assign": assign,
    "comment": comment,
    "change_comment": change_comment,
    "review": review,
    "merge": merge,
    "add_check_run": add_check_run,
    "rerequest_check_run": rerequest_check_run,
    "rerequest_check_suite": rerequest_check_suite,
    "click": click,
}
