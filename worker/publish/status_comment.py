"""The one status comment of a familiar on a thread, edited in place.

Below what is desired stand the links to what else is known of the work, and earlier work of the
thread, folded: both are read from the ledgers when the comment is written.
"""

from __future__ import annotations

from coven import github_limits as limits
from coven import texts_thread as texts
from coven.markers import MAX_LENGTH
from coven.publication import StatusCommentContent
from coven.store import surfaces, tasks
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.texts_thread import EarlierRun
from coven.values import LIVE_STATES, Lane, SurfaceKind, TaskState
from worker.publish import comments
from worker.publish.hold import Hold, Published

LOOK_BACK = 40
_SPARE = 200


def publish(hold: Hold) -> Published:
    """Make the status comment equal to its content. Raises ``GitHubError``.

    It is looked for even before the first try: the thread outlives our database.
    """
    content = StatusCommentContent.model_validate(hold.surface.desired)
    marker = comments.marker_of(hold, content.familiar_id, content.thread)
    body = comments.marked(hold, marker, _with_context(hold, content))
    client = hold.client
    return comments.put(
        hold,
        body,
        look=lambda: comments.find(hold, marker, client.list_comments(content.thread)),
        create=lambda: client.create_comment(content.thread, body),
        update=lambda comment_id: client.update_comment(comment_id, body),
    )


def _with_context(hold: Hold, content: StatusCommentContent) -> str:
    row = hold.surface
    with hold.services.store.read() as tx:
        places = _places(hold, tx)
        runs = [
            _run(tx, task)
            for task in tasks.on_thread(
                row.installation_id, tx, row.repo_id, content.thread, limit=LOOK_BACK
            )
            if _is_earlier(task, row.task_id, content.familiar_id, row.generation)
        ]
    body = "\n\n".join(part for part in (content.whole_body, texts.links(places)) if part)
    room = limits.COMMENT - MAX_LENGTH - _SPARE - len(body.encode())
    folded = texts.history(runs, room)
    return f"{body}\n\n{folded}" if folded else body


def _places(hold: Hold, tx: Tx) -> list[tuple[str, str | None]]:
    row = hold.surface
    known = {
        surface.kind: surface.object_url
        for surface in surfaces.of_task(row.installation_id, tx, row.task_id)
    }
    return [
        ("Pull request", known.get(SurfaceKind.PULL_REQUEST)),
        ("Check Run", known.get(SurfaceKind.CHECK_RUN)),
    ]


def _is_earlier(task: Task, current: str, familiar_id: str, generation: int) -> bool:
    return (
        task.id != current
        and task.familiar_id == familiar_id
        and task.lane is not Lane.CONTROL
        and task.state not in LIVE_STATES
        and task.generation < generation
    )


def _run(tx: Tx, task: Task) -> EarlierRun:
    urls = {
        surface.kind: surface.object_url
        for surface in surfaces.of_task(task.installation_id, tx, task.id)
    }
    done = task.state is TaskState.COMPLETED
    return EarlierRun(
        verb=task.verb,
        state="done" if done else str(task.state),
        at=task.finished_at or task.updated_at,
        sha=task.head_sha if task.is_pull else None,
        summary=task.summary if done else task.outcome,
        url=urls.get(SurfaceKind.PULL_REQUEST) or urls.get(SurfaceKind.CHECK_RUN),
    )
