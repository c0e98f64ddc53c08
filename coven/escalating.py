"""A person's decision about an escalation: the one way, for comments, buttons, pages and the CLI.

Whether the person has write access is the caller's to look up, live; whether they may decide about
*this* is asked here. Ledger, task, record and Check Run change in one transaction, so a decision is
either taken, recorded and shown, or not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from coven import texts_governance as texts
from coven.clock import Clock
from coven.errors import StoreUnavailable
from coven.governance import escalate
from coven.governance.audit import Recorder, append, audit_unavailable
from coven.publication import CheckRunContent, check_run_subject
from coven.services import Bell, Services
from coven.settings.models import Settings
from coven.store import chain, escalations, surfaces, tasks
from coven.store.engine import Tx
from coven.store.escalations import Decision, Escalation, Status
from coven.store.tasks import Task
from coven.values import Conclusion, InstallationId, RepoId, SurfaceKind, TaskId, same_login


class Refusal(StrEnum):
    """Why a decision was not taken."""

    UNKNOWN = "unknown"
    """No such escalation in the installation, or in the repository that was meant."""
    OVER = "over"
    """Decided before, used, expired or cancelled."""
    SELF_APPROVAL = "self_approval"
    """``governance.four_eyes``: whoever gave the command can't approve what it leads to."""
    BOT = "bot"
    """Bots decide nothing."""


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides. ``login`` is for the record; ``id`` None for the operator of this server."""

    login: str
    id: int | None = None

    @property
    def is_bot(self) -> bool:
        """By GitHub's own ending, which no person can have."""
        return self.login.casefold().endswith("[bot]")


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a decision rests on. ``recorder`` None: there are no rules here, so nothing waits."""

    settings: Settings
    clock: Clock
    recorder: Recorder | None

    @classmethod
    def of(cls, services: Services) -> Grounds:
        """Those of a process."""
        recorder = services.rules.recorder if services.rules is not None else None
        return cls(services.settings, services.clock, recorder)


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of it: the escalation as it stands now, and why nothing was changed, if so."""

    escalation: Escalation | None
    refused: Refusal | None = None
    ring: tuple[TaskId, ...] = ()
    """Tasks whose surfaces have changed."""
    wake: tuple[TaskId, ...] = ()
    """Session tasks that go on now."""

    @property
    def done(self) -> bool:
        """Whether the decision was taken just now."""
        return self.refused is None


def decide_escalation(
    services: Services,
    installation: InstallationId,
    escalation_id: str,
    approve: bool,
    by: Decider,
    *,
    repo_id: RepoId | None = None,
) -> Decided:
    """Approve or deny, and wake whoever goes on. Idempotent: a second decision is refused.

    ``repo_id``: it must belong to this repository. Raises ``GovernanceRefused`` when the decision
    can't be written down.
    """
    try:
        with services.store.write("escalation.decide") as tx:
            decided = decide_in(
                Grounds.of(services), installation, tx, escalation_id, approve, by, repo_id=repo_id
            )
    except (StoreUnavailable, chain.ChainBroken) as error:
        raise audit_unavailable(error) from error
    ring(services.bell, decided)
    return decided


def decide_in(
    grounds: Grounds,
    installation: InstallationId,
    tx: Tx,
    escalation_id: str,
    approve: bool,
    by: Decider,
    *,
    repo_id: RepoId | None = None,
) -> Decided:
    """:func:`decide_escalation` in a transaction of the caller, who calls :func:`ring` after it."""
    name = escalations.parse_id(escalation_id)
    found = escalations.lock(installation, tx, name) if name else None
    if found is None or grounds.recorder is None or repo_id not in (None, found.repo_id):
        return Decided(None, Refusal.UNKNOWN)
    if by.is_bot:
        return Decided(found, Refusal.BOT)
    task = tasks.get(installation, tx, found.task_id)
    if approve and _is_own(grounds.settings, task, by):
        return Decided(found, Refusal.SELF_APPROVAL)
    now = grounds.clock.now()
    word: Decision = "approve" if approve else "deny"
    decided = escalations.decide(installation, tx, found.id, word, by.login, now)
    if decided is None:
        return Decided(found, Refusal.OVER)
    if decided.status is Status.APPROVED:
        if task is not None:
            _show_approved(tx, task, decided, now)
        tasks.resume(installation, tx, decided.task_id, now)
    event = escalate.event_of(decided, by.login)
    append(tx, grounds.recorder.signer, [event], now)
    mine = (decided.task_id,)
    return Decided(decided, ring=mine, wake=mine if decided.status is Status.APPROVED else ())


def ring(bell: Bell, decided: Decided) -> None:
    """Wake the workers; a decision that nobody hears is found by their sweep, within seconds."""
    for task_id in decided.ring:
        bell.publish(task_id)
    for task_id in decided.wake:
        bell.session(task_id)


def _is_own(settings: Settings, task: Task | None, by: Decider) -> bool:
    if not settings.governance.four_eyes or task is None:
        return False
    same_name = task.actor_login is not None and same_login(task.actor_login, by.login)
    return same_name or (by.id is not None and by.id == task.actor_id)


def _show_approved(tx: Tx, task: Task, decided: Escalation, now: datetime) -> None:
    """The Check Run that waited stops asking; the next round has a new one."""
    subject = check_run_subject(task.id, task.round)
    shown = surfaces.find(task.installation_id, tx, task.repo_id, SurfaceKind.CHECK_RUN, subject)
    if shown is None or shown.desired.get("escalation") != decided.id:
        return
    ended = {
        "conclusion": Conclusion.NEUTRAL,
        "title": texts.approved_title(decided.rule_id),
        "summary": texts.approved_why(decided.id, decided.rule_id, decided.decided_by),
        "actions": (),
        "escalation": None,
    }
    content = CheckRunContent.model_validate(shown.desired | ended)
    surfaces.desire(
        task.installation_id,
        tx,
        task,
        SurfaceKind.CHECK_RUN,
        shown.subject,
        content.model_dump(mode="json"),
        now,
    )
