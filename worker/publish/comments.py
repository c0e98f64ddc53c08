"""Finding, creating and changing one comment of ours, by stored id or authenticated marker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coven import github_limits as limits
from coven.errors import GitHubNotFound
from coven.github.models import Comment
from coven.markdown import cut_bytes
from coven.markers import Marker, find_marker, make_marker
from coven.values import RepoId
from worker.publish.hold import Hold, Published


def marked(hold: Hold, marker: Marker, body: str) -> str:
    """The whole text of a comment or pull request: marker, then the body within the limit."""
    line = make_marker(
        marker.kind, marker.familiar_id, marker.repo_id, marker.n, hold.services.secret_key
    )
    return f"{line}\n{cut_bytes(hold.clean(body), limits.COMMENT - len(line) - 1)}"


def marker_of(hold: Hold, familiar_id: str, n: int) -> Marker:
    """What the marker of this surface says."""
    return Marker(str(hold.surface.kind), familiar_id, RepoId(hold.surface.repo_id), n)


def find(hold: Hold, marker: Marker, comments: Iterator[Comment]) -> Comment | None:
    """The oldest comment of our App that carries exactly this marker."""
    key = hold.services.secret_key
    hold.ready()
    for comment in comments:
        if find_marker(comment.body, key) == marker and hold.is_ours(
            comment.app_id, comment.author_id, comment.author_login
        ):
            return comment
        hold.ready()
    return None


def put(
    hold: Hold,
    body: str,
    *,
    look: Callable[[], Comment | None],
    create: Callable[[], Comment],
    update: Callable[[int], Comment] | None,
) -> Published:
    """One comment with this body, whatever is there. Raises ``GitHubError``.

    A comment that a person deleted is written anew, once in this try. ``update`` is None where
    GitHub's text is left as it was first written.
    """
    known = hold.surface.object_id
    if known is not None and update is not None:
        hold.point("looked")
        hold.ready()
        try:
            comment = update(known)
        except GitHubNotFound:
            pass  # deleted by a person: look for another one of ours, then write it once more
        else:
            return Published(comment.id, comment.url)
    elif known is not None:
        hold.point("looked")
        return Published(known, hold.surface.object_url)
    found = look()
    if found is not None:
        hold.remember(found.id, found.url)
    hold.point("looked")
    hold.ready()
    if found is None:
        found = create()
    elif update is not None and _lines(found.body) != _lines(body):
        found = update(found.id)
    return Published(found.id, found.url)


def _lines(body: str) -> list[str]:
    # GitHub may give back other line ends, and no space at the end.
    return body.replace("\r\n", "\n").rstrip().split("\n")
