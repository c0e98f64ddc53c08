"""What people see of a task before any worker has touched it. Pure.

Pull request work with a known head gets its Check Run, everything else the status comment. An
outsider's automatic review gets a Check Run that says how a maintainer asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coven import texts
from coven.publication import (
    CheckRunContent,
    Content,
    ReactionContent,
    StatusCommentContent,
    check_run_external_id,
    check_run_name,
    check_run_subject,
    reaction_subject,
    status_comment_subject,
)
from coven.settings.models import Familiar, Settings
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.texts import CheckText, Voice, Work
from coven.values import Conclusion, Lane, SurfaceKind, TaskState

_OPEN_COMMENT = frozenset({"queued", "working"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """One surface to be desired."""

    kind: SurfaceKind
    subject: str
    content: Content


def opening(settings: Settings, task: Task, familiar: Familiar) -> list[Wanted]:
    """The first surfaces of a task; the control lane only answers."""
    return [*_heard(task, "eyes"), *_opening(settings, task, familiar)]


def taken(comment_id: int, comment_kind: str | None) -> list[Wanted]:
    """The reaction to a comment whose words go on to work that waited for them."""
    return _reaction(comment_id, comment_kind, "rocket")


def _heard(task: Task, content: str) -> list[Wanted]:
    if task.comment_id is None or task.round > 1:
        return []  # A later round was started by something else than this comment.
    return _reaction(task.comment_id, task.comment_kind, content)


def _reaction(comment_id: int, comment_kind: str | None, content: str) -> list[Wanted]:
    if comment_kind not in ("issue_comment", "review_comment"):
        return []  # GitHub takes no reactions on the body of a review.
    shown = ReactionContent.model_validate(
        {"comment_id": comment_id, "comment_kind": comment_kind, "content": content}
    )
    return [Wanted(SurfaceKind.REACTION, reaction_subject(comment_id), shown)]


def _opening(settings: Settings, task: Task, familiar: Familiar) -> list[Wanted]:
    if task.lane is Lane.CONTROL:
        return []
    voice, work = _voice(settings, familiar, task), _work(task)
    if task.state is TaskState.WAITING:
        text = texts.check_approval(voice, work)
        return _check(task, familiar, voice, text, Conclusion.ACTION_REQUIRED)
    if task.is_pull and task.head_sha is not None:
        return _check(task, familiar, voice, texts.check_queued(voice, work), None)
    content = StatusCommentContent(
        thread=task.thread,
        familiar_id=familiar.id,
        state="queued",
        body=texts.comment_queued(voice, work),
    )
    subject = status_comment_subject(task.thread, familiar.id)
    return [Wanted(SurfaceKind.STATUS_COMMENT, subject, content)]


def closing(
    settings: Settings, task: Task, familiar: Familiar, shown: Surface, why: str
) -> Wanted | None:
    """How a surface ends whose task was settled before a worker took it; None: it stays."""
    superseded = task.state is TaskState.SUPERSEDED
    title = "Superseded" if superseded else "Cancelled"
    voice, work = _voice(settings, familiar, task), _work(task)
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
        return Wanted(shown.kind, shown.subject, CheckRunContent.model_validate(desired | ended))
    if shown.kind is SurfaceKind.REACTION:
        return Wanted(
            shown.kind,
            shown.subject,
            ReactionContent.model_validate(desired | {"content": "confused"}),
        )
    if shown.kind is SurfaceKind.STATUS_COMMENT and desired.get("state") in _OPEN_COMMENT:
        state = "superseded" if superseded else "cancelled"
        body = texts.comment_ended(voice, work, state, why)
        content = StatusCommentContent.model_validate(desired | {"state": state, "body": body})
        return Wanted(shown.kind, shown.subject, content)
    return None


def head_moved(settings: Settings, task: Task, familiar: Familiar, head: str) -> Wanted:
    """A review that somebody asked for, and that a push has overtaken."""
    voice, work = _voice(settings, familiar, task), _work(task)
    running = task.state is TaskState.RUNNING
    bound = task.payload.get("approved_sha")
    content = StatusCommentContent(
        thread=task.thread,
        familiar_id=familiar.id,
        state="working" if running else "queued",
        body=texts.comment_head_moved(
            voice, work, head, running=running, bound=bound if isinstance(bound, str) else None
        ),
    )
    subject = status_comment_subject(task.thread, familiar.id)
    return Wanted(SurfaceKind.STATUS_COMMENT, subject, content)


def _check(
    task: Task, familiar: Familiar, voice: Voice, text: CheckText, conclusion: Conclusion | None
) -> list[Wanted]:
    content = CheckRunContent(
        name=check_run_name(familiar.display_name, task.lane),
        head_sha=task.head_sha or "",
        external_id=check_run_external_id(task.id, task.round),
        status="completed" if conclusion else "queued",
        conclusion=conclusion,
        title=text.title,
        summary=text.summary,
        text=text.text,
        details_url=voice.session_url,
    )
    return [Wanted(SurfaceKind.CHECK_RUN, check_run_subject(task.id, task.round), content)]


def _voice(settings: Settings, familiar: Familiar, task: Task) -> Voice:
    base = settings.server.cave_base_url
    return Voice(
        familiar.display_name,
        familiar.handle,
        f"{base.rstrip('/')}/sessions/{task.id}" if base else None,
    )


def _work(task: Task) -> Work:
    return Work(task.verb, task.thread, task.is_pull, task.title, task.head_sha)
