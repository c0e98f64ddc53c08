"""At most one pull request review per commit and familiar, with its comments on exact lines.

GitHub takes all comments of a review or none, and does not say which one it refused. So what its
own diff does not show moves into the body and the review is sent again; when that is refused too,
every finding stands in the body. Never an approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from coven import github_limits as limits
from coven import texts_review as texts
from coven.errors import GitHubNotFound, GitHubRejected
from coven.github.models import PullReview
from coven.markdown import cut_bytes
from coven.markers import Marker, find_marker, make_marker
from coven.publication import ReviewComment, ReviewContent
from worker.publish import comments
from worker.publish.hold import Hold, Published
from worker.review.anchors import FileLines, read_diff

NOTHING_POSTED = 0
"""Object id of a surface that only withdraws."""
FRESH_SECS = 10.0
"""So long the worker's own look at the head counts as one right before publishing."""
_ASKED = "CHANGES_REQUESTED"


def publish(hold: Hold) -> Published:
    """Make the review of a commit equal to its content. Raises ``GitHubError``."""
    content = ReviewContent.model_validate(hold.surface.desired)
    marker = comments.marker_of(hold, content.familiar_id, commit_number(content.sha))
    found = None
    if not hold.first_ever:
        found = next((each for each in _ours(hold, content) if _is(hold, each, marker)), None)
        if found is not None:
            hold.remember(found.id, found.url)
    hold.point("looked")
    done = Published(NOTHING_POSTED, None)
    if content.body:
        review = _extend(hold, content, found) if found else _post(hold, content, marker)
        hold.remember(review.id, review.url)
        done = Published(review.id, review.url)
    if content.withdraw is not None:
        _withdraw(hold, content, content.withdraw, keep=done.object_id)
    return done


def commit_number(sha: str) -> int:
    """A commit in the number of a marker: GitHub's own ``commit_id`` moves on a force push."""
    return int(sha[:14], 16)


def _post(hold: Hold, content: ReviewContent, marker: Marker) -> PullReview:
    if not _just_looked(hold):
        _same_head(hold, content)
    refused: GitHubRejected | None = None
    for kept in _tries(hold, content):
        hold.ready()
        try:
            return hold.client.create_review(content.thread, _body(hold, content, marker, kept))
        except GitHubRejected as error:
            refused = error
            if content.event != "COMMENT" and "own pull request" in str(error).casefold():
                # GitHub lets nobody request changes on a pull request of their own.
                own = content.model_copy(update={"event": "COMMENT"})
                return _post(hold, own, marker)
    assert refused is not None
    raise refused


def _just_looked(hold: Hold) -> bool:
    """The worker saw the head when it stated this, a moment ago."""
    age = hold.services.clock.now() - hold.surface.updated_at
    return hold.first_ever and age.total_seconds() < FRESH_SECS


def _same_head(hold: Hold, content: ReviewContent) -> None:
    hold.ready()
    pull = hold.client.pull(content.thread)
    if pull.head_sha != content.sha:
        raise GitHubRejected(
            f"the head is {pull.head_sha} now",
            status=422,
            public=f"The head moved from {content.sha[:12]} to {pull.head_sha[:12]} before the "
            "review was posted, so it is not shown.",
        )


def _tries(hold: Hold, content: ReviewContent) -> Iterator[Sequence[ReviewComment]]:
    """All comments; then those that GitHub's own diff shows; then none."""
    yield content.comments
    if content.comments:
        hold.ready()
        files, _ = hold.client.pull_files(content.thread)
        shown = {
            file.filename: read_diff(f"+++ b/{file.filename}\n{file.patch or ''}") for file in files
        }
        kept = [each for each in content.comments if _is_shown(each, shown.get(each.path, {}))]
        if kept and len(kept) < len(content.comments):
            yield kept
    yield ()


def _is_shown(comment: ReviewComment, shown: dict[str, FileLines]) -> bool:
    lines = shown.get(comment.path)
    return lines is not None and comment.line in lines.hunk_of


def _body(
    hold: Hold,
    content: ReviewContent,
    marker: Marker,
    kept: Sequence[ReviewComment],
) -> dict[str, Any]:
    moved = [each for each in content.comments if each not in kept]
    line = make_marker(
        marker.kind, marker.familiar_id, marker.repo_id, marker.n, hold.services.secret_key
    )
    text = cut_bytes(hold.clean(_text(content, moved)), limits.COMMENT - len(line) - 1)
    return {
        "commit_id": content.sha,
        "event": content.event,
        "body": f"{line}\n{text}",
        "comments": [_comment(hold, each) for each in kept],
    }


def _text(content: ReviewContent, moved: Sequence[ReviewComment]) -> str:
    if not moved:
        return content.body
    return "\n\n".join([content.body, texts.REFUSED_LINES, *(each.spot for each in moved)])


def _comment(hold: Hold, comment: ReviewComment) -> dict[str, Any]:
    body: dict[str, Any] = {
        "path": comment.path,
        "line": comment.line,
        "side": "RIGHT",
        "body": cut_bytes(hold.clean(comment.body), limits.COMMENT),
    }
    # One line is no range: GitHub refuses a start that does not come before the end.
    if comment.start_line is not None and comment.start_line < comment.line:
        body |= {"start_line": comment.start_line, "start_side": "RIGHT"}
    return body


def _extend(hold: Hold, content: ReviewContent, found: PullReview) -> PullReview:
    """The review of this commit stands already: what is new is added below its text."""
    lead = content.body.split("\n", 1)[0]
    if _squeezed(lead) in _squeezed(found.body):
        return found  # An earlier try of ours got through.
    more = "\n\n".join([content.body, *(each.spot for each in content.comments)])
    hold.ready()
    body = cut_bytes(hold.clean(f"{found.body.rstrip()}\n\n---\n\n{more}"), limits.COMMENT)
    return hold.client.update_review(content.thread, found.id, body)


def _withdraw(hold: Hold, content: ReviewContent, message: str, *, keep: int) -> None:
    for review in _ours(hold, content):
        if review.state != _ASKED or review.id == keep:
            continue
        found = find_marker(review.body, hold.services.secret_key)
        if found is None or found.familiar_id != content.familiar_id:
            continue
        hold.ready()
        try:
            hold.client.dismiss_review(content.thread, review.id, message)
        except (GitHubNotFound, GitHubRejected):
            continue  # Dismissed by a person meanwhile.


def _ours(hold: Hold, content: ReviewContent) -> list[PullReview]:
    hold.ready()
    return [
        review
        for review in hold.client.list_reviews(content.thread)
        if hold.is_ours(None, review.author_id, review.author_login)
    ]


def _is(hold: Hold, review: PullReview, marker: Marker) -> bool:
    if review.id == hold.surface.object_id:
        return True
    return find_marker(review.body, hold.services.secret_key) == marker


def _squeezed(text: str) -> str:
    return " ".join(text.split())
