"""Our one reaction on the comment that gave a command.

GitHub keeps reactions by (user, content), so adding one again changes nothing. The earlier one is
taken away first, by its stored id; after a try that was interrupted or had no answer, everything of
ours on the comment is looked for instead.
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
    row = hold.surface
    earlier: list[int] = []
    if row.tries > 1 or row.error is not None:
        # A try that did not end may have added another one than the one that is stored.
        hold.ready()
        earlier = [
            found.id
            for found in client.reactions(comment, kind)
            if found.content in OURS
            and found.content != content.content
            and hold.is_ours(None, found.user_id, found.user_login)
        ]
    elif row.object_id is not None:
        earlier = [row.object_id]
    hold.point("looked")
    for reaction_id in earlier:
        hold.ready()
        try:
            client.remove_reaction(comment, kind, reaction_id)
        except GitHubNotFound:
            continue  # taken away by an earlier try, or gone with the comment
    hold.ready()
    return Published(client.add_reaction(comment, kind, content.content), None)
