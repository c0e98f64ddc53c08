"""The control lane: short answers on the thread, without a session and never behind one."""

from __future__ import annotations

import structlog

from coven import texts
from coven.errors import CovenError, LeaseLost
from coven.github.models import Permission
from coven.github.roles import Role
from coven.governance.context import acting
from coven.governance.refusal import ActionRefused
from coven.publication import ReplyContent, reply_subject
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import intake, tasks
from coven.store.attempts import AttemptEnd
from coven.store.tasks import Ending, Task
from coven.surfacing import Surfacing, voice_of
from coven.texts import Voice
from coven.texts_governance import reply_refused
from coven.tracing import within
from coven.trust import scope_of
from coven.values import SurfaceKind, TaskId, TaskState, TrustScope
from coven.verbs import HELP, VERBS, nearest
from worker import conversation, memory_commands, settle
from worker.claim import claim
from worker.governance import OUTCOME, acting_for
from worker.recheck import permission_of

_log = structlog.get_logger(__name__)

WRITERS = frozenset({"answer", "cancel", "resume"})
"""What only people with write access may do."""
ANSWERED = (TrustScope.MAINTAINER, TrustScope.COLLABORATOR)


def run_control(services: Services, task_id: TaskId, worker: str) -> None:
    """Answer a control task, if it is due and nobody has it."""
    claimed = claim(services, task_id, worker)
    if claimed is None:
        return
    task, _ = claimed
    familiar = services.settings.familiar(task.familiar_id)
    with (
        within(task.traceparent),
        structlog.contextvars.bound_contextvars(
            task=task.id, installation=task.installation_id, repository=str(task.repo)
        ),
    ):
        try:
            with acting(acting_for(services.settings, task)):
                _answer(services, task, familiar)
        except LeaseLost:
            _log.warning("lease_lost")
        except ActionRefused as error:
            _ruled(services, task, familiar, error)
        except CovenError as error:
            _log.warning("control_failed", why=services.redactor.text(str(error)))
            _again(services, task, familiar, error.public, error.retry_after)
        except Exception:  # noqa: BLE001 - the last net: an answer never stays open
            _log.exception("control_crashed")
            _again(services, task, familiar, CovenError.public, None)


def _answer(services: Services, task: Task, familiar: Familiar | None) -> None:
    if familiar is None:
        _end(services, task, TaskState.FAILED, "misconfigured", [])
        return
    if task.verb in memory_commands.ACTS:
        memory_commands.run(services, task, familiar)
        return
    writes = task.verb in WRITERS
    if not _may_ask(services, task, (TrustScope.MAINTAINER,) if writes else ANSWERED):
        why = "actor_lacks_write" if writes else "actor_not_collaborator"
        _end(services, task, TaskState.CANCELLED, why, [])
        return
    voice = voice_of(services.settings, familiar, task)
    if task.verb == "answer":
        resumed = conversation.hand_over(services, task)
        outcome = "handed_over" if resumed else "too_late"
        _end(services, task, TaskState.COMPLETED, outcome, [], good=resumed)
        return
    if task.verb == "cancel":
        stopped = conversation.stop_requested(services, task, familiar)
        body = conversation.stopped_text(voice, stopped) if stopped else None
    else:
        body = _reply(services, task, voice)
    wanted = [] if body is None else _replying(task, familiar, body)
    # Unknown words, and commands that could not be taken, are answered and not done.
    good = body is not None and task.verb in VERBS and not task.payload.get("reply_body")
    _end(services, task, TaskState.COMPLETED, "answered", wanted, good=good)


def _reply(services: Services, task: Task, voice: Voice) -> str:
    if task.verb == "status":
        with services.store.read() as tx:
            listed = tasks.on_thread(task.installation_id, tx, task.repo_id, task.thread)
        return texts.reply_status(voice, [_row(t) for t in listed if t.id != task.id][:10])
    worded = task.payload.get("reply_body")
    if isinstance(worded, str) and worded:
        return worded  # The receiver said it already, in finished Markdown.
    if task.verb == intake.RESUME:
        return texts.reply_resumed(voice)
    unknown = None if task.verb in VERBS else task.verb
    return texts.reply_help(voice, HELP, unknown, nearest(unknown) if unknown else None)


def _row(task: Task) -> tuple[str, str, str]:
    what = f"{task.verb} ({task.reason})"
    state = f"{task.state}: {task.outcome}" if task.outcome else str(task.state)
    said = texts.spoken(task.summary or "")
    return what, state, said or task.detail or (task.head_sha or "")[:12]


def _may_ask(services: Services, task: Task, enough: tuple[TrustScope, ...]) -> bool:
    # Confirmed at receipt is good enough for an answer; unconfirmed is looked at here. Who was
    # confirmed and not good enough made no task, so a fork's scope is the content's, not theirs.
    if task.trust_scope in enough or task.trust_evidence.get("source") == "permission_api":
        return True
    if task.trust_evidence.get("source") != "unavailable":
        return False
    client = services.github.for_repo(task.installation_id, task.repo_id, task.repo, Role.PUBLISH)
    permission: Permission | None = permission_of(client, task.actor_login, task.actor_id)
    private = client.repository().private
    collaborator = not private and client.is_collaborator(task.actor_login or "")
    return scope_of(permission, collaborator=collaborator, private=private) in enough


def _replying(task: Task, familiar: Familiar, body: str) -> list[Surfacing]:
    """The answer to a comment; nothing for what was no comment."""
    if task.comment_id is None:
        return []
    content = ReplyContent.model_validate(
        {
            "thread": task.thread,
            "familiar_id": familiar.id,
            "comment_id": task.comment_id,
            "comment_kind": task.comment_kind or "issue_comment",
            "body": body,
        }
    )
    return [Surfacing(SurfaceKind.REPLY, reply_subject(task.comment_id), content)]


def _ruled(services: Services, task: Task, familiar: Familiar | None, error: ActionRefused) -> None:
    """A rule said no. Asking again gives the same answer, so it is said and the task ends."""
    wanted = [] if familiar is None else _replying(task, familiar, reply_refused(error.facts))
    try:
        _end(services, task, TaskState.FAILED, OUTCOME, wanted)
    except LeaseLost:
        _log.warning("lease_lost")


def _end(
    services: Services,
    task: Task,
    state: TaskState,
    outcome: str,
    wanted: list[Surfacing],
    *,
    good: bool | None = None,
) -> None:
    settle.finish(services, task, Ending(state, outcome), AttemptEnd(outcome), wanted, good=good)


def _again(
    services: Services,
    task: Task,
    familiar: Familiar | None,
    why: str,
    retry_after: float | None,
) -> None:
    if familiar is None:
        return
    try:
        settle.retry_or_fail(
            services,
            task,
            familiar,
            AttemptEnd("infra", why),
            why=why,
            next_step="",
            retry_after=retry_after,
        )
    except LeaseLost:
        _log.warning("lease_lost")
