"""What the record says about escalations, and their end when nobody decides.

Persons decide through :mod:`coven.escalating`.
"""

from __future__ import annotations

from coven.clock import Clock
from coven.governance.audit import Event, Recorder, redacted
from coven.redaction import Redactor
from coven.store import escalations
from coven.store.engine import Tx
from coven.store.escalations import Escalation, Status

_EVENTS = {
    Status.APPROVED: "governance.escalation_approved",
    Status.DENIED: "governance.escalation_denied",
    Status.EXPIRED: "governance.escalation_expired",
    Status.CANCELLED: "governance.escalation_cancelled",
}


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
