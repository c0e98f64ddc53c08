"""Work that goes on from earlier work: re-runs, buttons, ``retry`` and answers to a question.

Routing is pure and sees one payload; what it refers to stands in the ledger. This step reads the
ledger and turns such references into plain intents. It decides no rights: a click or an answer
needs the sender's own write access, and never says anything about the content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coven import semantic_keys
from coven.answers import was_given
from coven.settings.models import Familiar
from coven.store import intake, tasks
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.values import LIVE_STATES, Lane, TaskId, TaskState
from coven.waiting import WAITING_FOR_ANSWER, WAITING_FOR_APPROVAL
from webhooks.addressed import MAX_SESSIONS
from webhooks.intents import (
    ARGS_CHARS,
    BODY_CHARS,
    Answer,
    Click,
    Ignored,
    Intent,
    Needs,
    Person,
    Place,
    Routed,
    Scene,
    Tenancy,
    texts,
)
from webhooks.payloads import clean
from webhooks.say import nothing_to_retry

LOOKBACK = 100
"""Tasks of one thread that are considered, newest first."""
CARRIED = ("body", "comment_body", "args", "label", "diff_hunk", "path", "line")
"""Texts of the earlier task that the new one is told as well."""
FINDINGS = 20

Settled = tuple[Intent, ...] | Ignored | Tenancy


def needs_ledger(routed: Routed) -> bool:
    """Whether :func:`resolve` has something to do."""
    if isinstance(routed, Ignored):
        return routed.answer is not None
    if isinstance(routed, Tenancy):
        return False
    if isinstance(routed, Click):
        return True
    return any(intent.verb == "retry" or intent.answer is not None for intent in routed)


def resolve(tx: Tx, routed: Routed) -> Settled:
    """Intents in place of references to earlier work."""
    if isinstance(routed, Click):
        return _clicked(tx, routed)
    if isinstance(routed, Tenancy):
        return routed
    if isinstance(routed, Ignored):
        return routed if routed.answer is None else _answered(tx, routed.answer) or routed
    if len(routed) == 1 and routed[0].answer is not None:
        return _answered(tx, routed[0].answer) or routed
    return tuple(_retried(tx, i) if i.verb == "retry" else i for i in routed)


# --- answers


def _answered(tx: Tx, answer: Answer) -> tuple[Intent, ...] | None:
    place = answer.scene.place
    listed = tasks.on_thread(place.installation_id, tx, place.repo_id, answer.thread, LOOKBACK)
    waiting = [
        (task, familiar)
        for task in listed
        if task.state is TaskState.WAITING
        and task.waiting_for == WAITING_FOR_ANSWER
        and not was_given(task, answer.comment_id)
        and (familiar := _serving(answer.scene, task)) is not None
    ]
    if not waiting:
        return None
    text = answer.text.casefold()
    # Who is named is meant; else whoever asked last.
    named = [pair for pair in waiting if f"@{pair[1].handle.casefold()}" in text]
    task, familiar = (named or waiting)[0]
    intent = _like(answer.scene, task, familiar)
    return (
        replace(
            intent,
            lane=Lane.CONTROL,
            verb="answer",
            reason="answer",
            semantic_key=semantic_keys.answer(
                place.repo_id, answer.comment_kind, answer.comment_id
            ),
            priority=10,
            comment_id=answer.comment_id,
            comment_kind=answer.comment_kind,
            source_at=answer.at,
            resumes=task.id,
            parent_task_id=task.id,
            payload=texts(answer=(answer.text, BODY_CHARS)),
        ),
    )


# --- retry


def _retried(tx: Tx, intent: Intent) -> Intent:
    last = last_session(
        tasks.on_thread(intent.installation_id, tx, intent.repo_id, intent.thread, LOOKBACK),
        intent.familiar.id,
    )
    if last is None:
        return replace(
            intent,
            lane=Lane.CONTROL,
            semantic_key=semantic_keys.control(intent.repo_id, intent.comment_id),
            ignored_as="nothing_to_retry",
            payload={"reply_body": nothing_to_retry(intent.familiar.handle)},
        )
    carried = {name: last.payload[name] for name in CARRIED if name in last.payload}
    if "approved_sha" in last.payload:
        carried["approved_sha"] = last.payload["approved_sha"]
    more = intent.payload.get("args")
    if isinstance(more, str) and more:
        told = "\n\n".join(filter(None, (carried.get("args"), more)))
        carried["args"] = clean(told, ARGS_CHARS)
    return replace(
        intent,
        lane=last.lane,
        verb=last.verb,
        semantic_key=semantic_keys.asked_work(
            last.verb, intent.repo_id, last.thread, intent.familiar.id
        ),
        payload=intent.payload | carried,
        parent_task_id=last.id,
    )


def last_session(listed: list[Task], familiar_id: str) -> Task | None:
    """The newest ended piece of work of this familiar. ``listed``: newest first."""
    for task in listed:
        ended = task.state not in LIVE_STATES
        if ended and task.lane is not Lane.CONTROL and task.familiar_id == familiar_id:
            return task
    return None


# --- clicks


def _clicked(tx: Tx, click: Click) -> Settled:
    place = click.scene.place
    if click.external_id is None:
        found = intake.tasks_of_head(
            place.installation_id, tx, place.repo_id, click.head_sha, click.branch
        )
        parents = list({(t.thread, t.familiar_id, t.lane): t for t in reversed(found)}.values())
    else:
        task_id = TaskId(click.external_id.partition(":")[0])
        known = tasks.get(place.installation_id, tx, task_id)
        parents = [known] if known is not None and known.repo_id == place.repo_id else []
    if not parents:
        return Ignored("unknown_check")
    wanted = [_again(click, parent) for parent in parents[-MAX_SESSIONS:]]
    intents = tuple(item for item in wanted if isinstance(item, Intent))
    if intents:
        return intents
    return next(item for item in wanted if isinstance(item, Ignored))


def _again(click: Click, parent: Task) -> Intent | Ignored:
    scene = click.scene
    familiar = _serving(scene, parent)
    if familiar is None:
        return Ignored("no_familiar")
    if click.wanted in ("mem_approve", "gov_approve", "gov_deny"):
        return _decision(click, parent, familiar)
    waits_for_maintainer = (
        parent.state is TaskState.WAITING and parent.waiting_for == WAITING_FOR_APPROVAL
    )
    if click.wanted == "rerun" and parent.state in LIVE_STATES and not waits_for_maintainer:
        return Ignored(f"already_queued:{parent.id}")
    if click.wanted != "rerun" and not parent.is_pull:
        return Ignored("not_a_pull_request")
    verb = parent.verb if click.wanted == "rerun" else click.wanted
    lane = parent.lane if click.wanted == "rerun" else Lane.REVIEW
    carried: dict[str, Any] = {n: parent.payload[n] for n in CARRIED if n in parent.payload}
    if click.wanted == "fix":
        lane = Lane.FIX
        told = findings_text(parent)
        if not told:
            return Ignored("nothing_to_fix")
        carried |= texts(comment_body=(told, ARGS_CHARS))
        carried.pop("args", None)
    if parent.is_pull and (lane is Lane.REVIEW or click.wanted == "fix"):
        # The click was about what stands on this commit, and vouches for nothing pushed later.
        carried["approved_sha"] = click.head_sha
    how = "check_run" if click.external_id else "check_suite"
    return replace(
        _like(scene, parent, familiar),
        lane=lane,
        verb=verb,
        reason=f"{how}:{click.wanted}",
        semantic_key=semantic_keys.asked_work(
            verb, scene.place.repo_id, parent.thread, familiar.id
        ),
        head_sha=click.head_sha if parent.is_pull else None,
        payload=carried,
        parent_task_id=parent.id,
    )


def _decision(click: Click, parent: Task, familiar: Familiar) -> Intent:
    """The worker decides on the one thing that this Check Run offers, if it still does."""
    run, repo = click.external_id or "", click.scene.place.repo_id
    key = semantic_keys.escalation_click(click.wanted, repo, run)
    if click.wanted == "mem_approve":
        key = semantic_keys.memory_click(repo, run)
    return replace(
        _like(click.scene, parent, familiar),
        lane=Lane.CONTROL,
        verb=click.wanted,
        reason=f"check_run:{click.wanted}",
        semantic_key=key,
        priority=10,
        payload={"check_run": run},
        parent_task_id=parent.id,
    )


def findings_text(parent: Task) -> str:
    """The findings of a stored result, for the brief of a fix; empty without any. Pure."""
    review = (parent.result or {}).get("review")
    found = review.get("findings") if isinstance(review, dict) else None
    listed = found if isinstance(found, list) else []
    rows = [entry for entry in listed if isinstance(entry, dict)]
    if not rows:
        return ""
    lines = [f"Fix these findings of the review of {parent.head_sha or 'this pull request'}:"]
    for number, entry in enumerate(rows[:FINDINGS], 1):
        place = f"{entry.get('file', '?')}:{entry.get('line') or '-'}"
        lines.append(f"{number}. [{entry.get('severity', '?')}] {place} {entry.get('title', '')}")
        for part in ("body", "recommendation"):
            if entry.get(part):
                lines.append(f"   {str(entry[part])[:1_500]}")
    if len(rows) > FINDINGS:
        lines.append(f"… and {len(rows) - FINDINGS} more that are not listed here.")
    return "\n".join(lines)


# --- shared


def _serving(scene: Scene, task: Task) -> Familiar | None:
    return next((f for f in scene.scope.familiars if f.id == task.familiar_id), None)


def _like(scene: Scene, task: Task, familiar: Familiar) -> Intent:
    """An intent about the thread of an earlier task, by whoever sent this delivery."""
    place = {name: getattr(scene.place, name) for name in Place.__dataclass_fields__}
    author = Person(task.author_id, task.author_login) if task.author_id is not None else None
    return Intent(
        **place,
        familiar=familiar,
        lane=task.lane,
        verb=task.verb,
        reason="",
        needs=Needs.WRITE,
        semantic_key="",
        thread=task.thread,
        is_pull=task.is_pull,
        title=task.title,
        actor=scene.actor,
        author=author,
        source_at=None,
        payload={},
        external=scene.policy.external,
        priority=5,
        head_sha=task.head_sha,
        head_ref=task.head_ref,
        head_repo_id=task.head_repo_id,
        base_sha=task.base_sha,
        base_ref=task.base_ref,
    )
