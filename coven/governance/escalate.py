"""A person's decision about an escalation: ledger, task and record in one transaction."""

from __future__ import annotations

from coven.clock import Clock
from coven.governance.audit import Event, Recorder, redacted
from coven.redaction import Redactor
from coven.store import escalations, tasks
from coven.store.engine import Tx
from coven.store.escalations import Decision, Escalation, Status
from coven.values import InstallationId

_EVENTS = {
    Status.APPROVED: "governance.escalation_approved",
    Status.DENIED: "governance.escalation_denied",
    Status.EXPIRED: "governance.escalation_expired",
    Status.CANCELLED: "governance.escalation_cancelled",
}


def decide(
    recorder: Recorder,
    clock: Clock,
    installation: InstallationId,
    escalation_id: str,
    decision: Decision,
    by: str,
) -> Escalation | None:
    """Approve or deny. None when it was decided already, is over, or is unknown.

    ``by`` names the person, whose right to decide the caller has just checked. An approved task is
    queued again: ring ``bell.session``. A denied one is ended by the workers' next sweep. Raises
    ``GovernanceRefused`` when the decision can't be written down.
    """
    now = clock.now()
    decided: Escalation | None = None

    def write(tx: Tx) -> list[Event]:
        nonlocal decided
        decided = escalations.decide(installation, tx, escalation_id, decision, by, now)
        if decided is None:
            return []
        if decided.status is Status.APPROVED:
            tasks.resume(installation, tx, decided.task_id, now)
        return [event_of(decided, by)]

    recorder.commit_with(write, now)
    return decided


def end(recorder: Recorder, clock: Clock, found: Escalation, status: Status) -> bool:
    """Expire or cancel an open escalation, on record. False when somebody was faster."""
    now = clock.now()
    done = False

    def write(tx: Tx) -> list[Event]:
        nonlocal done
        done = escalations.end(found.installation_id, tx, found.id, status, now)
        return [event_of(found, "", status)] if done else []

    recorder.commit_with(write, now)
    return done


def event_of(found: Escalation, by: str, status: Status | None = None) -> Event:
    """The audit event of a decision."""
    facts = {
        "escalation_id": found.id,
        "rule_id": found.rule_id,
        "action_digest": found.action_digest,
        "policy_epoch": found.policy_epoch,
        "by": by,
    }
    return Event(
        _EVENTS[status or found.status],
        redacted(Redactor(), facts),
        agent_id=f"person:{by}" if by else "adapter",
        task_id=found.task_id,
        installation_id=found.installation_id,
    )
