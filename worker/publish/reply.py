"""One answer to one comment, where people look for it.

A comment of the conversation is answered on the thread, a comment on the diff in its own thread
(on the conversation when GitHub does not take a reply there), a review on the thread: GitHub has
no replies to reviews.
"""

from __future__ import annotations

from coven.errors import GitHubNotFound, GitHubRejected
from coven.github.models import Comment
from coven.publication import ReplyContent
from worker.publish import comments
from worker.publish.hold import Hold, Published


def publish(hold: Hold) -> Published:
    """Make the answer equal to its content. Raises ``GitHubError``.

    An answer on the diff is written once and then left alone.
    """
    content = ReplyContent.model_validate(hold.surface.desired)
    marker = comments.marker_of(hold, content.familiar_id, content.comment_id)
    body = comments.marked(hold, marker, content.body)
    client = hold.client
    on_diff = content.comment_kind == "review_comment"

    def look() -> Comment | None:
        if hold.first_ever:
            return None
        found = None
        if on_diff:
            found = comments.find(hold, marker, client.review_comments(content.thread))
        return found or comments.find(hold, marker, client.list_comments(content.thread))

    def create() -> Comment:
        if not on_diff:
            return client.create_comment(content.thread, body)
        try:
            return client.reply_to_review_comment(content.thread, content.comment_id, body)
        except (GitHubNotFound, GitHubRejected):
            # Deleted meanwhile, or itself a reply, which GitHub does not let one answer.
            hold.ready()
            return client.create_comment(content.thread, body)

    def update(comment_id: int) -> Comment:
        return client.update_comment(comment_id, body)

    return comments.put(hold, body, look=look, create=create, update=None if on_diff else update)
