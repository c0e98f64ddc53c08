"""How a command's own comment shows what became of it: one reaction of ours.

Heard (eyes) when its sender's rights are known, then done (rocket) or not (confused). A comment
that was never acknowledged gets nothing when its work is refused, so strangers see no sign of us.
"""

from __future__ import annotations

from typing import Literal

from coven.publication import ReactionContent, reaction_subject
from coven.store import surfaces
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.values import SurfaceKind, TaskState
from worker.show import Surfacing

ON = ("issue_comment", "review_comment")
"""GitHub takes no reactions on the body of a review."""


def reaction(task: Task, content: Literal["eyes", "rocket", "confused"]) -> list[Surfacing]:
    """Our reaction to the comment that this task came from, if it came from one."""
    if task.comment_id is None or task.comment_kind not in ON:
        return []
    shown = ReactionContent.model_validate(
        {"comment_id": task.comment_id, "comment_kind": task.comment_kind, "content": content}
    )
    return [Surfacing(SurfaceKind.REACTION, reaction_subject(task.comment_id), shown)]


def heard(tx: Tx, task: Task) -> list[Surfacing]:
    """The acknowledgement of a command whose sender could not be confirmed at receipt."""
    wanted = reaction(task, "eyes")
    return wanted if wanted and not _shown(tx, task, wanted[0].subject) else []


def final(tx: Tx, task: Task, *, good: bool | None = None) -> list[Surfacing]:
    """The reaction to an ended task; ``good`` overrides what its state says."""
    done = task.state is TaskState.COMPLETED
    wanted = reaction(task, "rocket" if (done if good is None else good) else "confused")
    if not wanted or done:
        return wanted
    return wanted if _shown(tx, task, wanted[0].subject) else []


def _shown(tx: Tx, task: Task, subject: str) -> bool:
    tenant, repo = task.installation_id, task.repo_id
    return surfaces.find(tenant, tx, repo, SurfaceKind.REACTION, subject) is not None
