"""When one surface of a task changes what another one has to say.

A pull request that was opened is linked from the status comment. One that could not be opened is a
failure of the work: Check Run and status comment say so and name the branch. Runs inside the
transaction that writes the surface itself, so neither is lost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from coven import texts_thread as texts
from coven.publication import (
    CheckRunContent,
    PullRequestContent,
    StatusCommentContent,
    check_run_subject,
    status_comment_subject,
)
from coven.store import surfaces, tasks
from coven.store.engine import Tx
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.values import SurfaceKind, SurfaceState
from worker.review.conclusion import TABLE, Case


def was_published(tx: Tx, row: Surface, now: datetime) -> None:
    """A new object exists; the status comment learns where it is."""
    # A review stands right below the comment; a link to it is not worth another edit.
    if row.kind is not SurfaceKind.PULL_REQUEST or row.published_at:
        return
    task = tasks.get(row.installation_id, tx, row.task_id)
    if task is not None:
        _comment(tx, task, _thread_of(row), _family_of(row), now, None)


def was_given_up(tx: Tx, row: Surface, reason: str, now: datetime) -> None:
    """``reason`` is for people, and redacted."""
    task = tasks.get(row.installation_id, tx, row.task_id)
    if task is None:
        return
    if row.kind is SurfaceKind.PULL_REQUEST:
        try:
            content = PullRequestContent.model_validate(row.desired)
        except ValidationError:
            return  # The row itself says that it can't be read.
        note = texts.pull_request_failed(content.head, reason)
        _check_run(tx, task, note, now)
        _comment(tx, task, content.thread, content.familiar_id, now, note)
    elif row.kind is SurfaceKind.REVIEW:
        _comment(tx, task, _thread_of(row), _family_of(row), now, texts.review_failed(reason))


def _check_run(tx: Tx, task: Task, note: str, now: datetime) -> None:
    subject = check_run_subject(task.id, task.round)
    found = surfaces.find(task.installation_id, tx, task.repo_id, SurfaceKind.CHECK_RUN, subject)
    if found is None:
        return
    content = CheckRunContent.model_validate(found.desired)
    if content.status != "completed" or note in content.summary:
        return
    changed = content.model_copy(
        update={
            "first_marks": False,
            "conclusion": TABLE[Case.NO_PULL_REQUEST],
            "title": texts.PULL_REQUEST_FAILED,
            "summary": f"{note}\n\n{content.summary}",
        }
    )
    _desire(tx, task, found, changed.model_dump(mode="json"), now)


def _comment(
    tx: Tx, task: Task, thread: int, familiar_id: str, now: datetime, note: str | None
) -> None:
    subject = status_comment_subject(thread, familiar_id)
    found = surfaces.find(
        task.installation_id, tx, task.repo_id, SurfaceKind.STATUS_COMMENT, subject
    )
    if found is None or found.task_id != task.id:
        return  # Newer work speaks there now.
    content = StatusCommentContent.model_validate(found.desired)
    if note is not None:
        if note in content.body:
            return
        changed = content.model_copy(
            update={"state": "failed", "body": f"{note}\n\n{content.body}"}
        )
    elif found.state is SurfaceState.PENDING and found.lease_token is None:
        return  # It will be written yet, and looks the places up then.
    else:
        changed = content.model_copy(update={"refresh": content.refresh + 1})
    _desire(tx, task, found, changed.model_dump(mode="json"), now)


def _desire(tx: Tx, task: Task, found: Surface, desired: dict[str, Any], now: datetime) -> None:
    surfaces.desire(task.installation_id, tx, task, found.kind, found.subject, desired, now)


def _thread_of(row: Surface) -> int:
    return int(row.desired.get("thread", 0))


def _family_of(row: Surface) -> str:
    return str(row.desired.get("familiar_id", ""))
