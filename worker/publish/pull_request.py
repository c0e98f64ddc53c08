"""The draft pull request of a branch: opened once, adopted when it is there, then updated."""

from __future__ import annotations

from coven import github_limits as limits
from coven.errors import GitHubRejected
from coven.github.models import PullRequest
from coven.markdown import clean_line, cut_plain
from coven.markers import find_marker
from coven.publication import PullRequestContent
from worker.publish import comments
from worker.publish.hold import Hold, Published

NO_DRAFTS = (
    "> This repository does not offer draft pull requests, so this one is open for review at once."
)


def publish(hold: Hold) -> Published:
    """Make the pull request of a branch equal to its content. Raises ``GitHubError``.

    The object id is the number of the pull request.
    """
    content = PullRequestContent.model_validate(hold.surface.desired)
    title = cut_plain(clean_line(hold.clean(content.title)), limits.PULL_TITLE) or content.head
    marker = comments.marker_of(hold, content.familiar_id, content.thread)
    body = comments.marked(hold, marker, content.whole_body)
    number = hold.surface.object_id
    if number is not None:
        hold.point("looked")
        hold.ready()
        pull = hold.client.update_pull(number, title=title, body=body)
        return Published(pull.number, pull.html_url or None)
    found = None if hold.first_ever else _find(hold, content)
    if found is not None:
        hold.remember(found.number, found.html_url or None)
    hold.point("looked")
    if found is not None:
        return _adopt(hold, found, title, body)
    return _open(hold, content, title, body)


def _open(hold: Hold, content: PullRequestContent, title: str, body: str) -> Published:
    hold.ready()
    try:
        pull = hold.client.create_pull(title, content.head, content.base, body, content.draft)
    except GitHubRejected as error:
        if _says(error, "already exists"):
            found = _find(hold, content)
            if found is None:
                raise
            hold.remember(found.number, found.html_url or None)
            return _adopt(hold, found, title, body)
        if content.draft and _says(error, "draft"):
            noted = comments.marked(
                hold,
                comments.marker_of(hold, content.familiar_id, content.thread),
                f"{NO_DRAFTS}\n\n{content.whole_body}",
            )
            return _open(hold, content.model_copy(update={"draft": False}), title, noted)
        raise _explained(error, content) from error
    return Published(pull.number, pull.html_url or None)


def _adopt(hold: Hold, found: PullRequest, title: str, body: str) -> Published:
    # Somebody else may have opened it from our branch: then its words are theirs.
    ours = find_marker(found.body, hold.services.secret_key) is not None or hold.is_ours(
        None, found.author_id, found.author_login
    )
    if ours and (found.title != title or found.body.replace("\r\n", "\n") != body):
        hold.ready()
        found = hold.client.update_pull(found.number, title=title, body=body)
    return Published(found.number, found.html_url or None)


def _find(hold: Hold, content: PullRequestContent) -> PullRequest | None:
    """The pull request of exactly this branch; a closed one only when it shows the same commit."""
    hold.ready()
    found = hold.client.pulls_from(hold.surface.repo_owner, content.head)
    found = [pull for pull in found if pull.base_ref == content.base]
    still_open = [pull for pull in found if pull.state == "open"]
    same = [pull for pull in found if pull.head_sha == content.head_sha]
    return next(iter(still_open or same), None)


def _explained(error: GitHubRejected, content: PullRequestContent) -> GitHubRejected:
    if _says(error, "no commits between"):
        public = (
            f"There is nothing to propose: {content.head} holds no commit beyond {content.base}."
        )
    else:
        public = f"GitHub did not accept a pull request from {content.head} to {content.base}."
    return GitHubRejected(str(error), status=error.status, public=public)


def _says(error: GitHubRejected, words: str) -> bool:
    return words in str(error).casefold()
