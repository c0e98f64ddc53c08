"""What maintainers decide on a thread: about memory, and about whatever else waits under an id.

Nothing rests on what the receiver knew: write access is looked up when the decision is carried
out, and the decision, its answer and the end of the command are one transaction, so that a command
that runs again finds its own work done. Who may not decide gets one reaction and no word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from coven import texts_memory_replies as texts
from coven.github.roles import Role
from coven.memory.book import Person
from coven.publication import ReplyContent, reply_subject
from coven.services import Services
from coven.settings.models import Familiar
from coven.store.attempts import AttemptEnd
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.surfacing import Surfacing, reaction, voice_of
from coven.texts import Voice
from coven.trust import may_write
from coven.values import SurfaceKind, TaskId, TaskState
from worker import settle
from worker.recheck import permission_of

MAX_IDS = 20
"""Ids that one command answers."""

_ID = re.compile(r"[`*_(\[]*([ME])-([0-9A-Z]{8})[`*_)\].]*\Z", re.IGNORECASE | re.ASCII)
_NAMES = re.compile(r"(?<![0-9A-Z])[ME]-[0-9A-Z]{8}(?![0-9A-Z])", re.IGNORECASE | re.ASCII)
_BETWEEN = re.compile(r"[\s,;]+")


@dataclass(frozen=True, slots=True)
class Command:
    """One decision, by somebody who was just seen to have write access."""

    verb: str
    args: str
    services: Services
    task: Task
    familiar: Familiar
    voice: Voice
    by: Person
    now: datetime
    public: bool
    """Whether everybody reads the thread."""


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a command."""

    body: str | None
    good: bool
    """Whether what was wished is so now."""
    ring: Sequence[TaskId] = ()
    """Tasks whose surfaces have changed."""
    wake: Sequence[TaskId] = ()
    """Session tasks that go on now."""


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one id."""

    text: str
    good: bool
    ring: Sequence[TaskId] = ()
    wake: Sequence[TaskId] = ()


Act = Callable[[Command, Tx], Said]
"""What a verb does, in the transaction that ends the command."""
Handler = Callable[[Command, Tx, str, bool], Line]
"""(command, transaction, id, approve or deny) -> what came of it."""


def named_ids(args: str) -> list[str] | None:
    """The ids that ``approve`` and ``deny`` name, in their order, each once. Pure.

    None when there is none, too many, or one stands among other words: ``approve M-1, not M-2``
    must not be read as two approvals. Words after the ids are a remark as long as they name none.
    """
    words = [word for word in _BETWEEN.split(args.strip()) if word]
    found: list[str] = []
    rest = False
    for word in words:
        match = _ID.match(word)
        if match is None and _NAMES.search(word):
            return None
        if match is None:
            rest = rest or word.casefold() not in ("and", "&")
        elif rest:
            return None
        else:
            name = f"{match[1].upper()}-{match[2].upper()}"
            found += [name] if name not in found else []
    return found if 0 < len(found) <= MAX_IDS else None


def wishes(task: Task) -> list[tuple[str, str]]:
    """The decisions of one comment in their order, as (verb, words). Pure."""
    found = [(task.verb, _text(task, "args"))]
    while (verb := _text(task, f"verb_{len(found) + 1}")) != "":
        found.append((verb, _text(task, f"args_{len(found) + 1}")))
    return found


def write_access(services: Services, task: Task) -> tuple[bool, bool]:
    """Whether the actor has write access now, and whether the repository is public.

    Raises ``GitHubError`` when GitHub does not say.
    """
    client = services.github.for_repo(task.installation_id, task.repo_id, task.repo, Role.PUBLISH)
    repository = client.repository()
    if repository.id != task.repo_id:
        return False, True  # Another repository has the name now: rights there are none here.
    if not may_write(permission_of(client, task.actor_login, task.actor_id)):
        return False, True
    return True, not repository.private


def carry_out(
    services: Services,
    task: Task,
    familiar: Familiar,
    acts: Mapping[str, Act],
) -> None:
    """Carry the decisions of a comment out and end their task.

    Raises ``LeaseLost`` and ``CovenError``.
    """
    may, public = write_access(services, task)
    if not may or task.actor_id is None:
        ending = Ending(TaskState.CANCELLED, "actor_lacks_write")
        seen = reaction(task.comment_id, task.comment_kind, "confused")
        settle.finish(services, task, ending, AttemptEnd(ending.outcome), seen)
        return
    wished = wishes(task)
    command = Command(
        *wished[0],
        services,
        task,
        familiar,
        voice_of(services.settings, familiar, task),
        Person(task.actor_id, task.actor_login or str(task.actor_id)),
        services.clock.now(),
        public,
    )
    with services.store.write("control.decide") as tx:
        said = [
            acts[verb](replace(command, verb=verb, args=args), tx)
            for verb, args in wished
            if verb in acts
        ]
        good = all(each.good for each in said)
        outcome = "done" if good else "not_done"
        settle.finish_in(
            services,
            tx,
            task,
            Ending(TaskState.COMPLETED, outcome),
            AttemptEnd(outcome),
            _reply(task, familiar, texts.reply_all([each.body for each in said if each.body])),
            good=good,
        )
    for task_id in dict.fromkeys([task.id, *(ring for each in said for ring in each.ring)]):
        services.bell.publish(task_id)
    for task_id in dict.fromkeys(each for said_one in said for each in said_one.wake):
        services.bell.session(task_id)


def answer_ids(
    command: Command, tx: Tx, ids: Sequence[str], approve: bool, handlers: Mapping[str, Handler]
) -> Said:
    """Approve or deny each id by the handler of its first letter; one line each."""
    lines = [handlers[name[0]](command, tx, name, approve) for name in ids]
    ring = [task_id for line in lines for task_id in line.ring]
    good = all(line.good for line in lines)
    wake = [task_id for line in lines for task_id in line.wake]
    return Said(texts.reply_answered([line.text for line in lines]), good, ring, wake)


def _text(task: Task, name: str) -> str:
    value = task.payload.get(name)
    return value if isinstance(value, str) else ""


def _reply(task: Task, familiar: Familiar, body: str) -> list[Surfacing]:
    if not body or task.comment_id is None:
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
