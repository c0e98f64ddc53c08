"""Issues, conversations, reactions, labels, assignees."""

from __future__ import annotations

from typing import Any

from coven.sandbox import changes, events, render, render_threads
from coven.sandbox.answers import Answer, ApiError, checked_body, invalid, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.state import Comment, Reaction, Repo, ReviewComment, Thread, now


def _changed(call: Call, thread: Thread, action: str, **more: Any) -> None:
    hub, repo, bot = call.hub, call.repo, call.hub.account(call.bot_id)
    name = "issues" if thread.pull is None else "pull_request"
    hub.announce(name, lambda: events.thread_event(hub, repo, thread, action, bot, **more)[1])


def list_issues(call: Call) -> Answer:
    """Issues and pull requests, as GitHub mixes them."""
    wanted = call.query.get("state", "open")
    names = [n.casefold() for n in call.query.get("labels", "").split(",") if n]
    found = [
        t
        for t in call.hub.threads(call.repo)
        if wanted in ("all", t.state) and all(n in t.labels for n in names)
    ]
    return call.page(found, lambda t: render_threads.issue(call.hub, call.repo, t))


def get_issue(call: Call) -> Answer:
    return Answer(render_threads.issue(call.hub, call.repo, call.thread("read")))


def create_issue(call: Call) -> Answer:
    body = checked_body(call.body.get("body"), "Issue", required=False) or None
    thread = changes.open_thread(
        call.hub, call.repo, call.bot_id, call.body.get("title"), body, app_id=call.app_id
    )
    _relabel(call, thread, _names(call, call.body.get("labels") or []))
    _changed(call, thread, "opened")
    return Answer(render_threads.issue(call.hub, call.repo, thread), 201)


def update_issue(call: Call) -> Answer:
    thread = call.thread("write")
    body = call.body
    action = "edited"
    if "title" in body:
        thread.title = call.text("title", "Issue") or thread.title
    if "body" in body:
        thread.body = checked_body(body["body"], "Issue", required=False) or None
    if "state" in body:
        if body["state"] not in ("open", "closed"):
            raise invalid("Issue", "state")
        if body["state"] != thread.state:
            if body["state"] == "closed":
                changes.close_thread(thread, call.bot_id, body.get("state_reason"))
                action = "closed"
            else:
                changes.reopen_thread(thread)
                action = "reopened"
    if "labels" in body:
        _relabel(call, thread, _names(call, body["labels"]))
    if "assignees" in body:
        thread.assignees = [call.hub.user(str(login)).id for login in body["assignees"] if login]
    thread.updated_at = now()
    _changed(call, thread, action)
    return Answer(render_threads.issue(call.hub, call.repo, thread))


# Comments


def list_comments(call: Call) -> Answer:
    """Oldest first."""
    thread = call.thread("read")
    key = (thread.repo_id, thread.number)
    found = [c for c in call.hub.state.comments.values() if (c.repo_id, c.number) == key]
    return call.page(found, lambda c: render_threads.comment(call.hub, c))


def list_repo_comments(call: Call) -> Answer:
    found = [c for c in call.hub.state.comments.values() if c.repo_id == call.repo.id]
    return call.page(found, lambda c: render_threads.comment(call.hub, c))


def create_comment(call: Call) -> Answer:
    thread = call.thread("write")
    if thread.locked:
        raise ApiError(403, "Unable to create comment because issue is locked.")
    comment = Comment(
        call.hub.state.new_id(),
        call.repo.id,
        thread.number,
        call.bot_id,
        checked_body(call.body.get("body"), "IssueComment"),
        call.app_id,
    )
    call.hub.state.comments[comment.id] = comment
    thread.updated_at = now()
    _comment_event(call, comment, "created")
    return Answer(
        render_threads.comment(call.hub, comment),
        201,
        {"Location": render_threads.comment(call.hub, comment)["url"]},
    )


def _comment_event(call: Call, comment: Comment, action: str, old: str | None = None) -> None:
    hub, bot = call.hub, call.hub.account(call.bot_id)
    hub.announce("issue_comment", lambda: events.issue_comment(hub, comment, action, bot, old))


def _comment(call: Call, level: str) -> Comment:
    found = call.hub.state.comments.get(call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    call.require_thread(call.hub.thread(call.repo, found.number), level)
    return found


def get_comment(call: Call) -> Answer:
    return Answer(render_threads.comment(call.hub, _comment(call, "read")))


def update_comment(call: Call) -> Answer:
    """Apps may edit other people's comments on GitHub with write access; ours never should."""
    comment = _comment(call, "write")
    if comment.user_id != call.bot_id:
        raise ApiError(403, "Resource not accessible by integration")
    old = comment.body
    comment.body = checked_body(call.body.get("body"), "IssueComment")
    comment.updated_at = now()
    comment.edits += 1
    _comment_event(call, comment, "edited", old)
    return Answer(render_threads.comment(call.hub, comment))


def delete_comment(call: Call) -> Answer:
    comment = _comment(call, "write")
    _comment_event(call, comment, "deleted")
    del call.hub.state.comments[comment.id]
    return Answer(status=204)


# Reactions


def _react(call: Call, reactions: list[Reaction]) -> Answer:
    content = call.body.get("content")
    if content not in render.REACTIONS:
        raise invalid("Reaction", "content")
    for found in reactions:
        if (found.user_id, found.content) == (call.bot_id, content):
            return Answer(render.reaction(call.hub, found))
    made = Reaction(call.hub.state.new_id(), call.bot_id, str(content))
    reactions.append(made)
    return Answer(render.reaction(call.hub, made), 201)


def react_to_issue(call: Call) -> Answer:
    return _react(call, call.thread("write").reactions)


def list_issue_reactions(call: Call) -> Answer:
    found = call.thread("read").reactions
    return call.page(found, lambda r: render.reaction(call.hub, r))


def react_to_comment(call: Call) -> Answer:
    return _react(call, _comment(call, "write").reactions)


def list_comment_reactions(call: Call) -> Answer:
    found = _comment(call, "read").reactions
    return call.page(found, lambda r: render.reaction(call.hub, r))


def _review_comment(call: Call) -> ReviewComment:
    found = call.hub.state.review_comments.get(call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def react_to_review_comment(call: Call) -> Answer:
    return _react(call, _review_comment(call).reactions)


def list_review_comment_reactions(call: Call) -> Answer:
    found = _review_comment(call).reactions
    return call.page(found, lambda r: render.reaction(call.hub, r))


def _unreact(call: Call, reactions: list[Reaction]) -> Answer:
    wanted = call.number("reaction_id")
    found = next((r for r in reactions if r.id == wanted), None)
    if found is None or found.user_id != call.bot_id:
        raise not_found()
    reactions.remove(found)
    return Answer(status=204)


def remove_comment_reaction(call: Call) -> Answer:
    return _unreact(call, _comment(call, "write").reactions)


def remove_review_comment_reaction(call: Call) -> Answer:
    return _unreact(call, _review_comment(call).reactions)


# Labels and assignees


def _shown_labels(call: Call, repo: Repo, thread: Thread) -> Answer:
    found = [repo.labels[name] for name in thread.labels if name in repo.labels]
    return call.page(found, lambda x: render.label(call.hub, repo, x))


def _names(call: Call, given: Any) -> list[str]:
    if not isinstance(given, list):
        raise invalid("Label", "name")
    found = []
    for entry in given:
        name = entry.get("name") if isinstance(entry, dict) else entry
        if not isinstance(name, str) or not name.strip():
            raise invalid("Label", "name")
        changes.label_of(call.hub, call.repo, name)
        found.append(name.casefold())
    return found


def _relabel(call: Call, thread: Thread, names: list[str]) -> list[str]:
    return changes.relabel(call.hub, thread, names, call.bot_id, app_id=call.app_id)


def list_events(call: Call) -> Answer:
    """Who set which label, oldest first. Other kinds of events are not kept here."""
    thread = call.thread("read")
    key = (thread.repo_id, thread.number)
    found = [e for e in call.hub.state.labellings if (e.repo_id, e.number) == key]
    return call.page(found, lambda e: render_threads.labelling(call.hub, call.repo, e))


def list_repo_labels(call: Call) -> Answer:
    found = list(call.repo.labels.values())
    return call.page(found, lambda x: render.label(call.hub, call.repo, x))


def create_label(call: Call) -> Answer:
    name = call.text("name", "Label")
    assert name is not None
    if name.casefold() in call.repo.labels:
        raise invalid("Label", "name", "already_exists")
    made = changes.label_of(call.hub, call.repo, name)
    made.color = str(call.body.get("color") or made.color)
    made.description = call.body.get("description")
    return Answer(render.label(call.hub, call.repo, made), 201)


def list_labels(call: Call) -> Answer:
    return _shown_labels(call, call.repo, call.thread("read"))


def add_labels(call: Call) -> Answer:
    thread = call.thread("write")
    names = _names(call, call.body.get("labels"))
    for name in _relabel(call, thread, [*thread.labels, *names]):
        _changed(call, thread, "labeled", label=call.repo.labels[name])
    return _shown_labels(call, call.repo, thread)


def set_labels(call: Call) -> Answer:
    thread = call.thread("write")
    _relabel(call, thread, _names(call, call.body.get("labels")))
    return _shown_labels(call, call.repo, thread)


def remove_label(call: Call) -> Answer:
    thread = call.thread("write")
    key = call.args["name"].casefold()
    if key not in thread.labels:
        raise ApiError(404, "Label does not exist")
    _relabel(call, thread, [name for name in thread.labels if name != key])
    _changed(call, thread, "unlabeled", label=call.repo.labels[key])
    return _shown_labels(call, call.repo, thread)


def add_assignees(call: Call) -> Answer:
    """Up to ten; who cannot be assigned is left out silently."""
    thread = call.thread("write")
    for login in call.body.get("assignees") or ():
        try:
            user = call.hub.user(str(login))
        except ApiError:
            continue
        if user.id not in thread.assignees and len(thread.assignees) < 10:
            thread.assignees.append(user.id)
            _changed(call, thread, "assigned", assignee=user)
    return Answer(render_threads.issue(call.hub, call.repo, thread), 201)


def remove_assignees(call: Call) -> Answer:
    thread = call.thread("write")
    for login in call.body.get("assignees") or ():
        user = call.hub.user(str(login))
        if user.id in thread.assignees:
            thread.assignees.remove(user.id)
    return Answer(render_threads.issue(call.hub, call.repo, thread))


_R = "/repos/<owner>/<repo>"
_I = f"{_R}/issues"
_N = f"{_I}/<number>"
_C = f"{_I}/comments/<comment_id>"
_EITHER_READ = "issues=read;pull_requests=read"
_EITHER_WRITE = "issues=write;pull_requests=write"
ROUTES = (
    Route("GET", _I, list_issues, "issues=read"),
    Route("POST", _I, create_issue, "issues=write", creates=True),
    Route("GET", _N, get_issue, _EITHER_READ),
    Route("PATCH", _N, update_issue, _EITHER_WRITE),
    Route("GET", f"{_N}/comments", list_comments, _EITHER_READ),
    Route("POST", f"{_N}/comments", create_comment, _EITHER_WRITE, creates=True),
    Route("GET", f"{_I}/comments", list_repo_comments, _EITHER_READ),
    Route("GET", _C, get_comment, _EITHER_READ),
    Route("PATCH", _C, update_comment, _EITHER_WRITE),
    Route("DELETE", _C, delete_comment, _EITHER_WRITE),
    Route("GET", f"{_N}/reactions", list_issue_reactions, _EITHER_READ),
    Route("POST", f"{_N}/reactions", react_to_issue, _EITHER_WRITE, creates=True),
    Route("GET", f"{_C}/reactions", list_comment_reactions, _EITHER_READ),
    Route("POST", f"{_C}/reactions", react_to_comment, _EITHER_WRITE, creates=True),
    Route("DELETE", f"{_C}/reactions/<reaction_id>", remove_comment_reaction, _EITHER_WRITE),
    Route(
        "DELETE",
        f"{_R}/pulls/comments/<comment_id>/reactions/<reaction_id>",
        remove_review_comment_reaction,
        "pull_requests=write",
    ),
    Route(
        "GET",
        f"{_R}/pulls/comments/<comment_id>/reactions",
        list_review_comment_reactions,
        "pull_requests=read",
    ),
    Route(
        "POST",
        f"{_R}/pulls/comments/<comment_id>/reactions",
        react_to_review_comment,
        "pull_requests=write",
        creates=True,
    ),
    Route("GET", f"{_R}/labels", list_repo_labels, _EITHER_READ),
    Route("POST", f"{_R}/labels", create_label, _EITHER_WRITE),
    Route("GET", f"{_N}/labels", list_labels, _EITHER_READ),
    Route("GET", f"{_N}/events", list_events, _EITHER_READ),
    Route("POST", f"{_N}/labels", add_labels, _EITHER_WRITE),
    Route("PUT", f"{_N}/labels", set_labels, _EITHER_WRITE),
    Route("DELETE", f"{_N}/labels/<path:name>", remove_label, _EITHER_WRITE),
    Route("POST", f"{_N}/assignees", add_assignees, _EITHER_WRITE),
    Route("DELETE", f"{_N}/assignees", remove_assignees, _EITHER_WRITE),
)
