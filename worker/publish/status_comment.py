"""The one status comment of a familiar on a thread, edited in place."""

from __future__ import annotations

from coven.publication import StatusCommentContent
from worker.publish import comments
from worker.publish.hold import Hold, Published


def publish(hold: Hold) -> Published:
    """Make the status comment equal to its content. Raises ``GitHubError``.

    It is looked for even before the first try: the thread outlives our database.
    """
    content = StatusCommentContent.model_validate(hold.surface.desired)
    marker = comments.marker_of(hold, content.familiar_id, content.thread)
    body = comments.marked(hold, marker, content.body)
    client = hold.client
    return comments.put(
        hold,
        body,
        look=lambda: comments.find(hold, marker, client.list_comments(content.thread)),
        create=lambda: client.create_comment(content.thread, body),
        update=lambda comment_id: client.update_comment(comment_id, body),
    )
