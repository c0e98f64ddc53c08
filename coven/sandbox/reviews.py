"""Reviews of pull requests and comments on lines of their diffs."""

from __future__ import annotations

from typing import Any

from coven.sandbox import anchors, events, render_threads
from coven.sandbox.answers import Answer, ApiError, checked_body, not_found, unprocessable
from coven.sandbox.call import Call, Route
from coven.sandbox.gitrepo import FileDiff
from coven.sandbox.state import JSON, Review, ReviewComment, Thread, now

STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


def _of(call: Call, thread: Thread) -> list[Review]:
    key = (thread.repo_id, thread.number)
    return [r for r in call.hub.state.reviews.values() if (r.repo_id, r.number) == key]


def _comments_of(call: Call, thread: Thread) -> list[ReviewComment]:
    """Visible comments: those of pending reviews are not."""
    key = (thread.repo_id, thread.number)
    pending = {r.id for r in _of(call, thread) if r.state == "PENDING"}
    return [
        c
        for c in call.hub.state.review_comments.values()
        if (c.repo_id, c.number) == key and c.review_id not in pending
    ]


def list_reviews(call: Call) -> Answer:
    return call.page(_of(call, call.pull()), lambda r: render_threads.review(call.hub, r))


def _review(call: Call) -> Review:
    found = call.hub.state.reviews.get(call.number("review_id"))
    thread = call.pull()
    if found is None or (found.repo_id, found.number) != (thread.repo_id, thread.number):
        raise not_found()
    return found


def get_review(call: Call) -> Answer:
    return Answer(render_threads.review(call.hub, _review(call)))


def anchor_comment(given: JSON, files: list[FileDiff]) -> tuple[str, str, dict[str, Any]]:
    """Path, diff hunk and place of a comment; 422 in GitHub's words when the diff lacks it."""
    path = given.get("path")
    file = next((f for f in files if f.filename == path), None)
    if file is None or not isinstance(path, str):
        raise unprocessable("Unprocessable Entity", "Path could not be resolved")
    if given.get("subject_type") == "file":
        return path, "", {"line": None, "subject_type": "file"}
    line, side = given.get("line"), given.get("side", "RIGHT")
    if "position" in given and line is None:
        raise unprocessable("Unprocessable Entity", "position is no longer supported here")
    if side not in ("LEFT", "RIGHT"):
        raise unprocessable("Unprocessable Entity", f"side {side!r} is not LEFT or RIGHT")
    patch = file.patch or ""
    end = anchors.find(patch, line, side) if isinstance(line, int) else None
    if end is None:
        raise unprocessable("Unprocessable Entity", "Line could not be resolved")
    place: dict[str, Any] = {"line": line, "side": side}
    start_line = given.get("start_line")
    if start_line is not None:
        start_side = str(given.get("start_side") or side)
        start = anchors.find(patch, start_line, start_side)
        if start is None:
            raise unprocessable("Unprocessable Entity", "Start line could not be resolved")
        if start.index >= end.index:
            raise unprocessable("Unprocessable Entity", "Start line must precede the end line.")
        if start.hunk != end.hunk:
            raise unprocessable(
                "Unprocessable Entity", "Start line must be part of the same hunk as the line."
            )
        place.update(start_line=start_line, start_side=start_side)
    return path, anchors.hunk_text(patch, end), place


def _pinned(call: Call, thread: Thread) -> tuple[str, list[FileDiff]]:
    """The commit that a review is about, and the files as they are there."""
    pull = thread.pull
    assert pull is not None
    sha = call.body.get("commit_id") or pull.head_sha
    git = call.hub.git(call.repo)
    if not isinstance(sha, str) or git.resolve(sha) != sha:
        raise unprocessable("Unprocessable Entity", "commit_id is not part of the pull request")
    if sha == pull.head_sha:
        return sha, render_threads.pull_files(call.hub, call.repo, thread)
    base = git.branch(pull.base_ref) or pull.base_sha
    start = git.merge_base(base, sha)
    if start is None or not git.is_ancestor(sha, pull.head_sha):
        raise unprocessable("Unprocessable Entity", "commit_id is not part of the pull request")
    return sha, git.diff(start, sha)


def _event(call: Call, thread: Thread, event: Any, body: str) -> str:
    if event is None or event == "":
        return "PENDING"
    if event not in STATES:
        raise unprocessable("Unprocessable Entity", "Variable $event was provided invalid value")
    if event in ("REQUEST_CHANGES", "COMMENT") and not body.strip():
        raise unprocessable("Unprocessable Entity", "Body is required for this event")
    if event != "COMMENT" and thread.user_id == call.bot_id:
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable("Unprocessable Entity", f"Can not {verb} your own pull request")
    return STATES[event]


def create_review(call: Call) -> Answer:
    """All comments or none."""
    thread = call.pull()
    hub = call.hub
    body = checked_body(call.body.get("body"), "PullRequestReview", required=False)
    state = _event(call, thread, call.body.get("event"), body)
    if state == "PENDING" and any(
        r.state == "PENDING" and r.user_id == call.bot_id for r in _of(call, thread)
    ):
        raise unprocessable(
            "Unprocessable Entity", "User can only have one pending review per pull request"
        )
    sha, files = _pinned(call, thread)
    given = call.body.get("comments") or []
    if not isinstance(given, list):
        raise unprocessable("Invalid request.\n\ncomments is not a list.")
    placed = []
    for entry in given:
        text = checked_body(entry.get("body"), "PullRequestReviewComment")
        placed.append((text, anchor_comment(entry, files)))
    review = Review(
        hub.state.new_id(),
        call.repo.id,
        thread.number,
        call.bot_id,
        body,
        state,
        sha,
        call.app_id,
        None if state == "PENDING" else now(),
    )
    hub.state.reviews[review.id] = review
    for text, (path, hunk, place) in placed:
        _store(call, thread, sha, text, path, hunk, review_id=review.id, **place)
    thread.updated_at = now()
    bot = hub.account(call.bot_id)
    if state != "PENDING":
        hub.announce("pull_request_review", lambda: events.review(hub, review, "submitted", bot))
    return Answer(render_threads.review(hub, review))


def _store(
    call: Call, thread: Thread, sha: str, text: str, path: str, hunk: str, **place: Any
) -> ReviewComment:
    comment = ReviewComment(
        id=call.hub.state.new_id(),
        repo_id=call.repo.id,
        number=thread.number,
        user_id=call.bot_id,
        body=text,
        path=path,
        commit_id=sha,
        diff_hunk=hunk,
        app_id=call.app_id,
        **place,
    )
    call.hub.state.review_comments[comment.id] = comment
    return comment


def update_review(call: Call) -> Answer:
    review = _review(call)
    review.body = checked_body(call.body.get("body"), "PullRequestReview")
    return Answer(render_threads.review(call.hub, review))


def delete_pending_review(call: Call) -> Answer:
    review = _review(call)
    if review.state != "PENDING":
        raise unprocessable("Can not delete a non-pending pull request review")
    shown = render_threads.review(call.hub, review)
    comments = call.hub.state.review_comments
    for comment_id in [c.id for c in comments.values() if c.review_id == review.id]:
        del comments[comment_id]
    del call.hub.state.reviews[review.id]
    return Answer(shown)


def submit_review(call: Call) -> Answer:
    review = _review(call)
    if review.state != "PENDING":
        raise unprocessable("Can not submit a review that is not pending")
    body = checked_body(call.body.get("body"), "PullRequestReview", required=False)
    state = _event(call, call.pull(), call.body.get("event"), body or review.body)
    if state == "PENDING":
        raise unprocessable("Unprocessable Entity", "event is required")
    review.state, review.submitted_at = state, now()
    review.body = body or review.body
    return Answer(render_threads.review(call.hub, review))


def dismiss_review(call: Call) -> Answer:
    review = _review(call)
    message = call.body.get("message")
    if not isinstance(message, str) or not message.strip():
        raise unprocessable("Invalid request.\n\nmessage is required.")
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable(
            f"Can not dismiss a {review.state.lower().replace('_', ' ')} pull request review"
        )
    review.state, review.dismissed = "DISMISSED", message
    return Answer(render_threads.review(call.hub, review))


def list_review_comments_of_review(call: Call) -> Answer:
    review = _review(call)
    found = [c for c in call.hub.state.review_comments.values() if c.review_id == review.id]
    return call.page(found, lambda c: render_threads.review_comment(call.hub, c))


def list_review_comments(call: Call) -> Answer:
    found = _comments_of(call, call.pull())
    return call.page(found, lambda c: render_threads.review_comment(call.hub, c))


def create_review_comment(call: Call) -> Answer:
    thread = call.pull()
    text = checked_body(call.body.get("body"), "PullRequestReviewComment")
    if "in_reply_to" in call.body:
        return _reply(call, thread, call.body["in_reply_to"], text)
    if not call.body.get("commit_id"):
        raise unprocessable('Invalid request.\n\n"commit_id" wasn\'t supplied.')
    sha, files = _pinned(call, thread)
    path, hunk, place = anchor_comment(call.body, files)
    comment = _store(call, thread, sha, text, path, hunk, **place)
    return _created(call, comment)


def _created(call: Call, comment: ReviewComment) -> Answer:
    hub, bot = call.hub, call.hub.account(call.bot_id)
    hub.announce(
        "pull_request_review_comment", lambda: events.review_comment(hub, comment, "created", bot)
    )
    return Answer(render_threads.review_comment(hub, comment), 201)


def reply_to_review_comment(call: Call) -> Answer:
    text = checked_body(call.body.get("body"), "PullRequestReviewComment")
    return _reply(call, call.pull(), call.number("comment_id"), text)


def _reply(call: Call, thread: Thread, comment_id: Any, text: str) -> Answer:
    top = call.hub.state.review_comments.get(comment_id)
    if top is None or (top.repo_id, top.number) != (thread.repo_id, thread.number):
        raise not_found()
    if top.in_reply_to_id is not None:  # replies to replies land under the first comment
        top = call.hub.state.review_comments[top.in_reply_to_id]
    place = {"line": top.line, "side": top.side, "start_line": top.start_line}
    comment = _store(
        call,
        thread,
        top.commit_id,
        text,
        top.path,
        top.diff_hunk,
        in_reply_to_id=top.id,
        subject_type=top.subject_type,
        **place,
    )
    return _created(call, comment)


def _comment(call: Call) -> ReviewComment:
    found = call.hub.state.review_comments.get(call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def get_review_comment(call: Call) -> Answer:
    return Answer(render_threads.review_comment(call.hub, _comment(call)))


def update_review_comment(call: Call) -> Answer:
    comment = _comment(call)
    if comment.user_id != call.bot_id:
        raise ApiError(403, "Resource not accessible by integration")
    comment.body = checked_body(call.body.get("body"), "PullRequestReviewComment")
    comment.updated_at = now()
    return Answer(render_threads.review_comment(call.hub, comment))


def delete_review_comment(call: Call) -> Answer:
    del call.hub.state.review_comments[_comment(call).id]
    return Answer(status=204)


_R = "/repos/<owner>/<repo>/pulls"
_V = f"{_R}/<number>/reviews"
_READ, _WRITE = "pull_requests=read", "pull_requests=write"
ROUTES = (
    Route("GET", _V, list_reviews, _READ),
    Route("POST", _V, create_review, _WRITE, creates=True),
    Route("GET", f"{_V}/<review_id>", get_review, _READ),
    Route("PUT", f"{_V}/<review_id>", update_review, _WRITE),
    Route("DELETE", f"{_V}/<review_id>", delete_pending_review, _WRITE),
    Route("POST", f"{_V}/<review_id>/events", submit_review, _WRITE, creates=True),
    Route("PUT", f"{_V}/<review_id>/dismissals", dismiss_review, _WRITE),
    Route("GET", f"{_V}/<review_id>/comments", list_review_comments_of_review, _READ),
    Route("GET", f"{_R}/<number>/comments", list_review_comments, _READ),
    Route("POST", f"{_R}/<number>/comments", create_review_comment, _WRITE, creates=True),
    Route(
        "POST",
        f"{_R}/<number>/comments/<comment_id>/replies",
        reply_to_review_comment,
        _WRITE,
        creates=True,
    ),
    Route("GET", f"{_R}/comments/<comment_id>", get_review_comment, _READ),
    Route("PATCH", f"{_R}/comments/<comment_id>", update_review_comment, _WRITE),
    Route("DELETE", f"{_R}/comments/<comment_id>", delete_review_comment, _WRITE),
)
