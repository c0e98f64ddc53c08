"""From the state of a task to the surfaces that show it. Pure, but for :func:`desire_all`.

Pull request work shows a Check Run on its head and one status comment. Issue work shows the
status comment first; its Check Run goes on what was pushed or, when nothing was, on the commit
that the work started from (``checks.on_start_commit``).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from coven import texts
from coven.publication import CheckRunContent, CommentState
from coven.settings.models import Familiar, Settings
from coven.store import surfaces
from coven.store.engine import Tx
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.surfacing import (
    Surfacing,
    check_run,
    status_comment,
    voice_of,
    work_of,
)
from coven.surfacing import familiar_of as familiar_of
from coven.values import Conclusion, SurfaceKind


def queued(settings: Settings, task: Task, familiar: Familiar) -> list[Surfacing]:
    """What a task shows that will start, or go on in its next round."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    check = check_run(task, familiar, voice, texts.check_queued(voice, work), status="queued")
    comment = status_comment(task, familiar, "queued", texts.comment_queued(voice, work))
    return _present(check, comment)


def heartbeat(
    settings: Settings, task: Task, familiar: Familiar, phase: str, seconds: float
) -> list[Surfacing]:
    """The Check Run of a running attempt, with the time that it took so far."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    text = texts.check_working(voice, work, phase, seconds, task.attempts_used)
    return _present(check_run(task, familiar, voice, text))


def moved_on(
    settings: Settings, task: Task, familiar: Familiar, shown: Surface, head: str
) -> Surfacing:
    """How a Check Run ends whose work goes on, on a newer head."""
    why = f"The head moved to {head} before this began, so it goes on there."
    text = texts.check_ended(voice_of(settings, familiar, task), "Goes on at a newer commit", why)
    ended = {
        "status": "completed",
        "conclusion": Conclusion.NEUTRAL,
        "title": text.title,
        "summary": text.summary,
        "text": text.text,
    }
    content = CheckRunContent.model_validate(shown.desired | ended)
    return Surfacing(SurfaceKind.CHECK_RUN, shown.subject, content)


def working(
    settings: Settings, task: Task, familiar: Familiar, phase: str, seconds: float, attempt: int
) -> list[Surfacing]:
    """What a running task shows."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    check = check_run(
        task, familiar, voice, texts.check_working(voice, work, phase, seconds, attempt)
    )
    comment = status_comment(
        task, familiar, "working", texts.comment_working(voice, work, "reading the code")
    )
    return _present(check, comment)


def retrying(
    settings: Settings, task: Task, familiar: Familiar, why: str, seconds: float, attempt: int
) -> list[Surfacing]:
    """What a task shows between two attempts."""
    voice = voice_of(settings, familiar, task)
    text = texts.check_retrying(voice, why, seconds, attempt, task.max_attempts)
    return _present(check_run(task, familiar, voice, text))


def ended(
    settings: Settings,
    task: Task,
    familiar: Familiar,
    *,
    state: CommentState,
    conclusion: Conclusion,
    title: str,
    why: str,
    next_step: str | None = None,
    start_sha: str | None = None,
) -> list[Surfacing]:
    """What a task shows that ended without a result."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    check = check_run(
        task,
        familiar,
        voice,
        texts.check_ended(voice, title, why, next_step),
        conclusion=conclusion,
        head_sha=start_sha if settings.checks.on_start_commit else None,
    )
    comment = status_comment(
        task, familiar, state, texts.comment_ended(voice, work, state, why, next_step)
    )
    return _present(check, comment)


def approval(settings: Settings, task: Task, familiar: Familiar) -> list[Surfacing]:
    """What an outsider's pull request shows until a maintainer asks for the review."""
    voice, work = voice_of(settings, familiar, task), work_of(task)
    return _present(
        check_run(
            task,
            familiar,
            voice,
            texts.check_approval(voice, work),
            conclusion=Conclusion.ACTION_REQUIRED,
        )
    )


def desire_all(tx: Tx, task: Task, wanted: Iterable[Surfacing], now: datetime) -> None:
    """State all of them in this transaction; a newer task's surfaces stay as they are."""
    for surfacing in wanted:
        surfaces.desire(
            task.installation_id,
            tx,
            task,
            surfacing.kind,
            surfacing.subject,
            surfacing.content.model_dump(mode="json"),
            now,
        )


def _present(*wanted: Surfacing | None) -> list[Surfacing]:
    return [surfacing for surfacing in wanted if surfacing is not None]
