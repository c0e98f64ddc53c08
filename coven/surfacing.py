"""From a task to the surfaces that show it: what receiver and worker both state. Pure.

The receiver shows the first words about a task and the worker all later ones; both build the same
objects here, so that a surface looks the same whoever wrote it last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from coven.publication import (
    Annotation,
    CheckRunContent,
    CommentState,
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
from coven.store.tasks import Task
from coven.texts import CheckText, Voice, Work
from coven.values import Conclusion, SurfaceKind


@dataclass(frozen=True, slots=True)
class Surfacing:
    """One surface to be desired."""

    kind: SurfaceKind
    subject: str
    content: Content


def voice_of(settings: Settings, familiar: Familiar, task: Task) -> Voice:
    """Who speaks for this task."""
    base = settings.server.cave_base_url
    url = f"{base.rstrip('/')}/sessions/{task.id}" if base else None
    return Voice(familiar.display_name, familiar.handle, url)


def familiar_of(settings: Settings, task: Task) -> Familiar:
    """The task's familiar, or a nameless one when it was taken out of the configuration."""
    known = settings.familiar(task.familiar_id)
    return known or Familiar(
        id=task.familiar_id, display_name=task.familiar_id, bot_username=task.familiar_id
    )


def work_of(task: Task) -> Work:
    """What this task is about, for the texts."""
    return Work(task.verb, task.thread, task.is_pull, task.title, task.head_sha)


def check_run(
    task: Task,
    familiar: Familiar,
    voice: Voice,
    text: CheckText,
    *,
    conclusion: Conclusion | None = None,
    status: str | None = None,
    head_sha: str | None = None,
    annotations: Sequence[Annotation] = (),
) -> Surfacing | None:
    """The Check Run of this round; None while there is no commit to put it on."""
    sha = head_sha or (task.head_sha if task.is_pull else None)
    if sha is None:
        return None
    return Surfacing(
        SurfaceKind.CHECK_RUN,
        check_run_subject(task.id, task.round),
        CheckRunContent.model_validate(
            {
                "name": check_run_name(familiar.display_name, task.lane),
                "head_sha": sha,
                "external_id": check_run_external_id(task.id, task.round),
                "status": "completed" if conclusion else status or "in_progress",
                "conclusion": conclusion,
                "title": text.title,
                "summary": text.summary,
                "text": text.text,
                "annotations": tuple(annotations),
                "details_url": voice.session_url,
            }
        ),
    )


def status_comment(task: Task, familiar: Familiar, state: CommentState, body: str) -> Surfacing:
    """The one status comment of this familiar on the thread."""
    return Surfacing(
        SurfaceKind.STATUS_COMMENT,
        status_comment_subject(task.thread, familiar.id),
        StatusCommentContent(thread=task.thread, familiar_id=familiar.id, state=state, body=body),
    )


def reaction(
    comment_id: int | None,
    comment_kind: str | None,
    content: Literal["eyes", "rocket", "confused"],
) -> list[Surfacing]:
    """Our reaction to a comment; nothing for what is no comment, or takes no reactions.

    GitHub takes none on the body of a review.
    """
    if comment_id is None or comment_kind not in ("issue_comment", "review_comment"):
        return []
    shown = ReactionContent.model_validate(
        {"comment_id": comment_id, "comment_kind": comment_kind, "content": content}
    )
    return [Surfacing(SurfaceKind.REACTION, reaction_subject(comment_id), shown)]
