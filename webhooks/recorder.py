"""The one transaction of a delivery: its row, its tasks, supersessions and first surfaces.

All of it is written, or nothing. Whoever writes the delivery row first has won; everybody else
rolls back and answers duplicate, so parallel copies of a delivery can't make two tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from coven import tracing
from coven.answers import with_answer
from coven.governance.gate import Deferred
from coven.semantic_keys import behind
from coven.services import Services
from coven.store import book, deliveries, installations, intake, plans, tasks
from coven.store.deliveries import Delivery, Received
from coven.store.engine import Tx
from coven.store.tasks import NewTask, Task
from coven.tenancy.facts import AccountSeen, PlanChanged, RepositoryChanged
from coven.values import (
    DeliveryId,
    InstallationId,
    Lane,
    RepoId,
    RepoName,
    TaskId,
    TaskState,
    new_task_id,
)
from coven.verbs import VERBS
from coven.waiting import APPROVAL_PATIENCE, WAITING_FOR_ANSWER, WAITING_FOR_APPROVAL
from webhooks import first_surface
from webhooks.addressed import deleted_reason
from webhooks.breaker import Breaker
from webhooks.intents import BODY_CHARS, TITLE_CHARS, Ignored, Intent, Tenancy
from webhooks.payloads import clean
from webhooks.settled import Settled
from webhooks.stops import Stops
from webhooks.trust import Admitted

COMMIT = "webhook.commit"
"""Fault points ``webhook.commit.before`` and ``.after``."""
MARK_MEMORY = timedelta(days=1)
"""How long an event that undoes a wish is remembered for wishes that arrive later."""
CLICKS = ("check_run:", "check_suite:")
"""How the reason of work begins that somebody clicked for."""
CLICK_WINDOW = timedelta(minutes=1)
"""Equal clicks within this time are one click that was delivered twice."""


class _Lost(Exception):
    """Another request wrote this delivery first; everything here is rolled back."""


class Recorder:
    """Writes what was decided about a delivery."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.settings
        self._stops = Stops(services.settings)
        self._breaker = Breaker()

    def settle(
        self,
        received: Received,
        known: Delivery | None,
        decided: Sequence[Admitted | Ignored | Tenancy],
        seen: AccountSeen | None = None,
        verdicts: Deferred | None = None,
    ) -> Settled:
        """Write the delivery and what follows from it. Raises ``StoreUnavailable``.

        ``seen``: whose repository it is, which every event tells. ``verdicts``: what the rules said
        about the look-ups; written with the delivery, last, as it holds up other writers.
        """
        rules = self._services.rules
        events = verdicts.close() if verdicts is not None else []
        settled = Settled()
        try:
            with self._services.store.write(COMMIT) as tx:
                if seen is not None and received.installation_id is not None:
                    _see(received.installation_id, tx, seen, received.received_at)
                outcomes = [self._one(tx, received, item, settled) for item in decided]
                settled.routing, settled.task_id = _headline(outcomes)
                row = replace(received, routing=settled.routing, task_id=settled.task_id)
                self._write(tx, row, known)
                if rules is not None:
                    rules.append_in(tx, events)
        except _Lost:
            if rules is not None:
                rules.flush(events)
            return Settled(duplicate=True)
        return settled

    def reject(self, received: Received, known: Delivery | None, reason: str) -> None:
        """Write a delivery whose body can't be used. Raises ``StoreUnavailable``."""
        try:
            with self._services.store.write(COMMIT) as tx:
                self._write(tx, replace(received, routing=f"rejected:{reason}"[:200]), known)
        except _Lost:
            return

    def again(self, known: Delivery, now: datetime) -> Settled:
        """A settled delivery came again: what failed runs anew. Raises ``StoreUnavailable``."""
        settled = Settled(routing=known.routing, task_id=known.task_id, duplicate=True)
        with self._services.store.write(COMMIT) as tx:
            deliveries.count_duplicate(tx, known.id, now)
            if known.installation_id is None:
                return settled
            for task in intake.tasks_of_delivery(known.installation_id, tx, known.id):
                if task.state is TaskState.FAILED:
                    self._revive(tx, task, now, settled)
        return settled

    def _revive(self, tx: Tx, task: Task, now: datetime, settled: Settled) -> None:
        revived = tasks.revive_failed(task.installation_id, tx, task.id, now)
        if revived is None:
            return
        settled.duplicate = False
        settled.task_id = task.id
        if revived.trust_evidence.get("source") != "unavailable":
            self._show(tx, revived, now, settled)
        settled.ring_for(revived)

    def _write(self, tx: Tx, row: Received, known: Delivery | None) -> None:
        if known is None:
            written = deliveries.record(tx, row)
        else:
            written = deliveries.reroute(tx, row, known.routing)
        if not written:
            raise _Lost

    def _one(
        self,
        tx: Tx,
        received: Received,
        item: Admitted | Ignored | Tenancy,
        settled: Settled,
    ) -> tuple[str, TaskId | None]:
        if isinstance(item, Ignored | Tenancy):
            return self._noted(tx, received, item, settled), None
        intent = item.intent
        intake.lock_thread(intent.installation_id, tx, intent.repo_id, intent.thread)
        reason = self._seen(tx, received, item)
        if reason is not None:
            return f"ignored:{reason}", None
        if intent.lane is not Lane.CONTROL and not intent.automatic:
            why = self._breaker.paused(tx, intent, received.received_at)
            if why is not None:
                return self._paused(tx, received, item, why, settled)
        new = self._new_task(received, item)
        if intent.resumes is not None and item.show:
            return self._resume(tx, intent, intent.resumes, received.received_at, settled)
        if intent.automatic:
            self._stops.supersede_older(tx, new, settled)
        if not tasks.insert_new(intent.installation_id, tx, new):
            holder = tasks.live_with_key(intent.installation_id, tx, intent.semantic_key)
            if holder is not None and _waits_for_words(holder) and _has_words(item):
                return self._resume(tx, intent, holder.id, received.received_at, settled)
            if not _queued_behind(tx, new, holder):
                return f"ignored:already_queued{f':{holder.id}' if holder else ''}", None
        task = tasks.get(intent.installation_id, tx, new.id)
        assert task is not None
        if "approved_sha" in task.payload and item.show:
            self._stops.settle_waiting(tx, task, settled)
        if item.show:
            self._show(tx, task, received.received_at, settled)
        settled.ring_for(task)
        routing = f"ignored:{intent.ignored_as}" if intent.ignored_as else f"task:{task.id}"
        return routing, task.id

    def _noted(self, tx: Tx, received: Received, item: Ignored | Tenancy, settled: Settled) -> str:
        now = received.received_at
        if isinstance(item, Tenancy):
            if isinstance(item.fact, PlanChanged):
                plans.learn(tx, item.fact, now)
            elif item.installation_id is not None:
                installations.learn(item.installation_id, tx, item.fact, now)
                if isinstance(item.fact, RepositoryChanged):
                    _rename_memory(item.installation_id, tx, RepoId(item.fact.repo.id))
        for effect in item.effects:
            self._stops.apply(tx, effect, now, settled)
        return f"{'learned' if isinstance(item, Tenancy) else 'ignored'}:{item.reason}"

    def _paused(
        self, tx: Tx, received: Received, item: Admitted, why: str, settled: Settled
    ) -> tuple[str, TaskId | None]:
        """Nothing starts; the first who may ask is told, once per pause."""
        notice = self._breaker.notice(tx, item, why, received.received_at)
        if notice is None:
            return f"ignored:{why}", None
        new = self._new_task(received, replace(item, intent=notice))
        if not tasks.insert_new(notice.installation_id, tx, new):
            return f"ignored:{why}", None
        settled.controls.append(new.id)
        return f"ignored:{why}", new.id

    def _resume(
        self, tx: Tx, intent: Intent, waiting: TaskId, now: datetime, settled: Settled
    ) -> tuple[str, TaskId | None]:
        """A person with write access said what a task waits for: it goes on in its next round."""
        task = tasks.get(intent.installation_id, tx, waiting)
        if task is None or not _waits_for_words(task):
            return "ignored:not_addressed", None
        said = intent.payload.get("answer") or intent.payload.get("comment_body")
        text = said if isinstance(said, str) else ""
        by = intent.actor.login if intent.actor else None
        payload = with_answer(task, text, by, intent.comment_id, self._services.redactor.text)
        resumed = tasks.resume(intent.installation_id, tx, waiting, now, payload=payload)
        if resumed is None:
            return "ignored:not_addressed", None
        self._show(tx, resumed, now, settled)
        for wanted in first_surface.taken(intent.comment_id or 0, intent.comment_kind):
            self._stops.desire(tx, resumed, wanted, now, settled)
        settled.ring_for(resumed)
        return f"task:{resumed.id}", resumed.id

    def _seen(self, tx: Tx, received: Received, item: Admitted) -> str | None:
        """Why this is no new work after all, or None."""
        intent, now = item.intent, received.received_at
        tenant, repo = intent.installation_id, intent.repo_id
        digest = hashlib.sha256(received.body).hexdigest()
        same = intake.task_of_same_body(tenant, tx, received.event, digest, received.id)
        if same is not None and not self._clicked_again(tx, intent, same, now):
            return f"same_event:{same}"
        if intent.comment_id is not None and intent.comment_kind is not None:
            kind, comment = intent.comment_kind, intent.comment_id
            for task in intake.tasks_of_comment(tenant, tx, repo, kind, comment):
                if intent.edited and not _ran(task):
                    continue
                # Another command of this very delivery is no repetition.
                if task.delivery_id != received.id or task.semantic_key == intent.semantic_key:
                    return f"already_handled:{task.id}"
            gone = deleted_reason(kind, comment)
            if intake.was_ignored(tenant, tx, repo, gone, now - MARK_MEMORY):
                return "comment_deleted"
        if intent.source_at is not None:
            since = now - MARK_MEMORY
            for prefix in intent.voided_by:
                if intake.marked_after(tenant, tx, repo, prefix, intent.source_at, since):
                    return f"undone:{prefix.rstrip(':')}"
        if intent.automatic:
            return self._stale(tx, intent)
        stopped = self._stopped_before(tx, intent)
        if stopped is not None:
            return f"cancelled:{stopped}"
        return None

    def _clicked_again(self, tx: Tx, intent: Intent, same: TaskId, now: datetime) -> bool:
        """A button has no id of its own, so two clicks may be equal to the byte."""
        earlier = tasks.get(intent.installation_id, tx, same)
        return (
            intent.reason.startswith(CLICKS)
            and earlier is not None
            and earlier.created_at <= now - CLICK_WINDOW
        )

    def _stopped_before(self, tx: Tx, intent: Intent) -> TaskId | None:
        """The ``cancel`` that was written after this command, though it arrived first."""
        if intent.comment_id is None or intent.source_at is None or intent.lane is Lane.CONTROL:
            return None
        listed = tasks.on_thread(intent.installation_id, tx, intent.repo_id, intent.thread)
        for task in listed:
            if (
                task.verb == "cancel"
                and task.lane is Lane.CONTROL
                and task.state is TaskState.COMPLETED
                and task.familiar_id == intent.familiar.id
                and task.source_at > intent.source_at
            ):
                return task.id
        return None

    def _stale(self, tx: Tx, intent: Intent) -> str | None:
        """Whether this head was reviewed, is about to be, or is not the newest one."""
        tenant = intent.installation_id
        earlier = tasks.automatic_review_of(tenant, tx, intent.semantic_key, intent.head_sha or "")
        if earlier is not None and earlier.state in (TaskState.COMPLETED, TaskState.FAILED):
            done = earlier.state is TaskState.COMPLETED
            return f"{'already_reviewed' if done else 'review_failed'}:{earlier.id}"
        stopping = earlier is not None and earlier.cancel_requested_at is not None
        if earlier is not None and earlier.finished_at is None and not stopping:
            return f"already_queued:{earlier.id}"
        newest = tasks.newest_head_at(tenant, tx, intent.repo_id, intent.thread)
        if newest is not None and intent.source_at is not None and intent.source_at < newest:
            return "stale_head"
        return None

    def _show(self, tx: Tx, task: Task, now: datetime, settled: Settled) -> None:
        familiar = self._settings.familiar(task.familiar_id)
        if familiar is None:
            return
        for wanted in first_surface.opening(self._settings, task, familiar):
            self._stops.desire(tx, task, wanted, now, settled)

    def _new_task(self, received: Received, item: Admitted) -> NewTask:
        intent, now = item.intent, received.received_at
        waiting = item.state is TaskState.WAITING
        redact = self._services.redactor.text
        return NewTask(
            id=new_task_id(),
            installation_id=intent.installation_id,
            account_id=intent.account_id,
            account_login=intent.account_login,
            repo_id=RepoId(intent.repo_id),
            repo_owner=intent.repo.owner,
            repo_name=intent.repo.name,
            repo_private=intent.repo_private,
            default_branch=intent.default_branch,
            delivery_id=DeliveryId(received.id),
            thread=intent.thread,
            is_pull=intent.is_pull,
            title=clean(redact(intent.title), TITLE_CHARS),
            lane=intent.lane,
            verb=intent.verb,
            reason=intent.reason,
            automatic=intent.automatic,
            priority=intent.priority,
            familiar_id=intent.familiar.id,
            actor_id=intent.actor.id if intent.actor else None,
            actor_login=intent.actor.login if intent.actor else None,
            author_id=intent.author.id if intent.author else None,
            author_login=intent.author.login if intent.author else None,
            trust_scope=item.trust_scope,
            content_trust=item.content_trust,
            trust_evidence=item.evidence,
            comment_id=intent.comment_id,
            comment_kind=intent.comment_kind,
            head_sha=intent.head_sha,
            head_ref=intent.head_ref,
            head_repo_id=intent.head_repo_id,
            base_sha=intent.base_sha,
            base_ref=intent.base_ref,
            source_at=intent.source_at or now,
            payload=_redacted(intent.payload, redact),
            semantic_key=intent.semantic_key,
            max_attempts=1 + self._settings.worker.max_retries,
            state=item.state,
            waiting_for=WAITING_FOR_APPROVAL if waiting else None,
            expires_at=now + APPROVAL_PATIENCE if waiting else None,
            parent_task_id=intent.parent_task_id,
            created_at=now,
            traceparent=tracing.current(),
        )


def _queued_behind(tx: Tx, new: NewTask, holder: Task | None) -> bool:
    """Queue behind work that was told to stop and has not ended yet: that is not this work."""
    if holder is None or holder.cancel_requested_at is None:
        return False
    again = replace(new, semantic_key=behind(new.semantic_key, holder.id))
    return tasks.insert_new(new.installation_id, tx, again)


def _see(tenant: InstallationId, tx: Tx, seen: AccountSeen, now: datetime) -> None:
    """Learn whose repository it is, and write only what is new: this comes with every delivery."""
    known = installations.get(tenant, tx)
    repo = installations.repository(tenant, tx, RepoId(seen.repo.id))
    if known is not None and repo is not None:
        account = (known.account_id, known.account_login)
        shown = (f"{repo.owner}/{repo.name}", repo.private, repo.archived)
        told = (seen.repo.full_name, seen.repo.private, seen.repo.archived)
        if account == (seen.account.id, seen.account.login) and shown == told:
            return
    installations.learn(tenant, tx, seen, now)
    _rename_memory(tenant, tx, RepoId(seen.repo.id))


def _rename_memory(tenant: InstallationId, tx: Tx, repo_id: RepoId) -> None:
    """Keys of memory name the repository as it is called now."""
    known = installations.repository(tenant, tx, repo_id)
    if known is None or known.state != installations.PRESENT:
        return
    try:
        repo = RepoName(known.owner or "", known.name or "")
    except ValueError:
        return  # not told in full
    book.follow(tenant, tx, repo_id, repo)


def _ran(task: Task) -> bool:
    """Whether a command was carried out, and not only answered as not understood."""
    return task.verb in VERBS and "reply_body" not in task.payload


def _has_words(item: Admitted) -> bool:
    """Whether a command says something new itself: its own words, by somebody who may."""
    intent = item.intent
    own = intent.comment_id is not None and intent.parent_task_id is None
    return item.show and own and bool(intent.payload.get("args"))


def _waits_for_words(task: Task) -> bool:
    return task.state is TaskState.WAITING and task.waiting_for == WAITING_FOR_ANSWER


def _redacted(payload: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    # Redacted before it is cut once more: a cut secret would not be known for one.
    return {
        name: clean(redact(value), BODY_CHARS) if isinstance(value, str) else value
        for name, value in payload.items()
    }


def _headline(outcomes: list[tuple[str, TaskId | None]]) -> tuple[str, TaskId | None]:
    """What the delivery's row says: its first task, else the first reason that has an answer."""
    for routing, task_id in outcomes:
        if routing.startswith("task:"):
            return routing, task_id
    return next(((r, t) for r, t in outcomes if t is not None), outcomes[0])
