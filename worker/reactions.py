"""How a command's own comment shows what became of it: one reaction of ours.

Heard (eyes) when its sender's rights are known, then done (rocket) or not (confused). A comment
that was never acknowledged gets nothing when its work is refused, so strangers see no sign of us.
"""

from __future__ import annotations

from coven.store import surfaces
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.surfacing import Surfacing, reaction
from coven.values import SurfaceKind, TaskState


def heard(tx: Tx, task: Task) -> list[Surfacing]:
    """The acknowledgement of a command whose sender could not be confirmed at receipt."""
    wanted = reaction(task.comment_id, task.comment_kind, "eyes")
    return wanted if wanted and not _shown(tx, task, wanted[0].subject) else []


def final(tx: Tx, task: Task, *, good: bool | None = None) -> list[Surfacing]:
    """The reaction to an ended task; ``good`` overrides what its state says."""
    done = task.state is TaskState.COMPLETED
    wanted = reaction(
        task.comment_id,
        task.comment_kind,
        "rocket" if (done if good is None else good) else "confused",
    )
    if not wanted or done:
        return wanted
    return wanted if _shown(tx, task, wanted[0].subject) else []


def _shown(tx: Tx, task: Task, subject: str) -> bool:
    tenant, repo = task.installation_id, task.repo_id
    return surfaces.find(tenant, tx, repo, SurfaceKind.REACTION, subject) is not None
