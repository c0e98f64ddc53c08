"""What people see of a task before any worker has touched it. Pure.

Pull request work with a known head gets its Check Run, everything else the status comment. An
outsider's automatic review gets a Check Run that says how a maintainer asks for it.
"""

from __future__ import annotations

from typing import Any

from coven import texts
from coven.publication import CheckRunContent, ReactionContent, StatusCommentContent
from coven.settings.models import Familiar, Settings
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.surfacing import (
    Surfacing,
    check_run,
    reaction,
    status_comment,
    voice_of,
    work_of,
)
from coven.values import Conclusion, Lane, SurfaceKind, TaskState

_OPEN_COMMENT = frozenset({"queued", "working"})


def opening(settings: Settings, task: Task, familiar: Familiar) -> list[Surfacing]:
    """The first surfaces of a task; the control lane only answers."""
    return [*_heard(task), *_opening(settings, task, familiar)]


def taken(comment_id: int, comment_kind: str | None) -> list[Surfacing]:
    """The reaction to a comment whose words go on to work that waited for them."""
    return reaction(comment_id, comment_kind, "rocket")


def _heard(task: Task) -> list[Surfacing]:
    # A later round was started by something else than this comment.
    return [] if task.round > 1 else reaction(task.comment_id, task.comment_kind, "eyes")


def _opening(settings: Settings, task: Task, familiar: Familiar) -> list[Surfacing]:
    if task.lane is Lane.CONTROL:
        return []
    voice, work = voice_of(settings, familiar, task), work_of(task)
    if task.state is TaskState.WAITING:
        text = texts.check_approval(voice, work)
        shown = check_run(task, familiar, voice, text, conclusion=Conclusion.ACTION_REQUIRED)
    else:
        # None for issues, and for pull requests whose head the payload does not tell.
        shown = check_run(task, familiar, voice, texts.check_queued(voice, work), status="queued")
        shown = shown or status_comment(task, familiar, "queued", texts.comment_queued(voice, work))
    return [shown] if shown is not None else []


def closing(
    settings: Settings, task: Task, familiar: Familiar, shown: Surface, why: str
) -> Surfacing | None:
    """How a surface ends whose task was settled before a worker took it; None: it stays."""
    superseded = task.state is TaskState.SUPERSEDED
    title = "Superseded" if superseded else "Cancelled"
    voice, work = voice_of(settings, familiar, task), work_of(task)
    desired: dict[str, Any] = shown.desired
    if shown.kind is SurfaceKind.CHECK_RUN:
        text = texts.check_ended(voice, title, why)
        ended = {
            "status": "completed",
            "conclusion": Conclusion.NEUTRAL if superseded else Conclusion.CANCELLED,
            "title": text.title,
            "summary": text.summary,
            "text": text.text,
            "actions": (),
        }
        return Surfacing(shown.kind, shown.subject, CheckRunContent.model_validate(desired | ended))
    if shown.kind is SurfaceKind.REACTION:
        return Surfacing(
            shown.kind,
            shown.subject,
            ReactionContent.model_validate(desired | {"content": "confused"}),
        )
    if shown.kind is SurfaceKind.STATUS_COMMENT and desired.get("state") in _OPEN_COMMENT:
        state = "superseded" if superseded else "cancelled"
        body = texts.comment_ended(voice, work, state, why)
        content = StatusCommentContent.model_validate(desired | {"state": state, "body": body})
        return Surfacing(shown.kind, shown.subject, content)
    return None


def head_moved(settings: Settings, task: Task, familiar: Familiar, head: str) -> Surfacing:
    """A review that somebody asked for, and that a push has overtaken."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    running = task.state is TaskState.RUNNING
    bound = task.payload.get("approved_sha")
    body = texts.comment_head_moved(
        voice, work, head, running=running, bound=bound if isinstance(bound, str) else None
    )
    return status_comment(task, familiar, "working" if running else "queued", body)
