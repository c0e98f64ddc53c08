"""What is raised when an action may not happen, with the facts that people are shown."""

from __future__ import annotations

from dataclasses import dataclass

from coven.errors import GovernanceRefused


@dataclass(frozen=True, slots=True)
class Facts:
    """Why, by which rule, and where it stands on record. ``action`` is redacted JSON."""

    rule_id: str
    reason: str
    kind: str
    action: str
    decision_id: str
    policy_epoch: int
    sequence: int
    row_hash: str
    """Hex; empty when the row is written later, with the delivery."""

    @property
    def record(self) -> str:
        """Place in the audit chain, short: what an anchor needs."""
        return f"{self.sequence}:{self.row_hash[:16]}"


class ActionRefused(GovernanceRefused):
    """A rule, or the state of the rules, refused this action. Never retried."""

    code = "GOVERNANCE_REFUSED"

    def __init__(self, facts: Facts) -> None:
        super().__init__(
            f"{facts.rule_id}: {facts.reason} ({facts.kind}; decision {facts.decision_id})",
            public=f"Rule {facts.rule_id} refused this: {facts.reason}",
        )
        self.facts = facts


class ActionEscalated(ActionRefused):
    """A person must approve this action first."""

    code = "GOVERNANCE_ESCALATED"

    def __init__(self, facts: Facts, escalation_id: str) -> None:
        super().__init__(facts)
        self.escalation_id = escalation_id
        self.public = f"Rule {facts.rule_id} wants a person to approve this ({escalation_id})."
