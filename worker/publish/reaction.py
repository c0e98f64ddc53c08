"""Our one reaction on the comment that gave a command.

GitHub keeps reactions by (user, content), so adding one again changes nothing. The earlier one is
taken away first: whatever is interrupted, the next try finds it by its stored id, or in the list
when an answer of GitHub was lost.
"""

from __future__ import annotations

from typing import get_args

from coven.errors import GitHubNotFound
from coven.publication import ReactionContent
from worker.publish.hold import Hold, Published

OURS = frozenset(get_args(ReactionContent.model_fields["content"].annotation))


def publish(hold: Hold) -> Published:
    """Show exactly this reaction of ours. Raises ``GitHubError``."""
    content = ReactionContent.model_validate(hold.surface.desired)
    client, kind, comment = hold.client, content.comment_kind, content.comment_id
    earlier: list[int] = []
    if hold.surface.object_id is not None:
        earlier = [hold.surface.object_id]
    elif not hold.first_ever:
        hold.ready()
        earlier = [
            found.id
            for found in client.reactions(comment, kind)
            if found.content in OURS
            and found.content != content.content
            and hold.is_ours(None, found.user_id, found.user_login)
        ]
    hold.point("looked")
    for reaction_id in earlier:
        hold.ready()
        try:
            client.remove_reaction(comment, kind, reaction_id)
        except GitHubNotFound:
            continue  # taken away by an earlier try, or gone with the comment
    hold.ready()
    return Published(client.add_reaction(comment, kind, content.content), None)
