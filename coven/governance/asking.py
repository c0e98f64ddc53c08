"""One question about one action, answered and on record: what CLI, HTTP and MCP have in common.

The boundary itself (:mod:`coven.governance.gate`) does more: it stops the effect. Here somebody
only wants to know.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coven.governance.actions import MalformedAction, action_json, parse_action
from coven.governance.audit import Event, Recorder, redacted
from coven.governance.engine import Engine
from coven.governance.evaluate import Decision
from coven.governance.gate import CHECK
from coven.governance.policy import Verdict
from coven.governance.strict_json import JsonValue
from coven.governance.world import Scope
from coven.redaction import Redactor
from coven.values import InstallationId, TaskId

REFUSED = "GOVERNANCE_REFUSED"
ESCALATED = "GOVERNANCE_ESCALATED"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, as the session knows; never from what is being asked."""

    agent: str
    point: str
    """Which surface: ``cli.check``, ``api.check``, ``mcp.check``."""
    installation: InstallationId | None = None
    task_id: TaskId | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict and where it stands on record."""

    decision: Decision
    kind: str | None
    agent: str
    decision_id: str

    def json(self) -> dict[str, Any]:
        """The check envelope, the same on every surface."""
        found: dict[str, Any] = {
            "decision": self.decision.json(),
            "kind": self.kind,
            "agent_id": self.agent,
            "decision_id": self.decision_id,
            "policy_epoch": self.decision.policy_epoch,
            "matched": self.decision.matched_json(),
        }
        if self.decision.is_blocking:
            waits = self.decision.verdict is Verdict.ESCALATE
            found["error"] = ESCALATED if waits else REFUSED
        return found


def ask(
    engine: Engine,
    recorder: Recorder,
    redactor: Redactor,
    action: Mapping[str, JsonValue],
    scope: Scope,
    asker: Asker,
) -> Answer:
    """The verdict, once its row is committed. Raises ``GovernanceRefused`` when it can't be."""
    decision = engine.decide(action, scope)
    shown: dict[str, Any]
    try:
        shown = dict(action_json(parse_action(action)))
        kind = str(shown["kind"])
    except MalformedAction as problem:
        shown, kind = {"kind": "malformed", "field": problem.field}, None
    payload = {
        "action": shown,
        "decision": decision.json(),
        "matched": decision.matched_json(),
        "policy_epoch": decision.policy_epoch,
        "origin": scope.origin.value,
        "namespace": scope.namespace,
        "point": asker.point,
    }
    decision_id = f"D-{uuid.uuid4().hex}"
    event = Event(
        CHECK,
        redacted(redactor, payload),
        asker.agent,
        asker.task_id,
        asker.installation,
        decision_id,
    )
    recorder.commit([event], engine.clock.now())
    return Answer(decision, kind, asker.agent, decision_id)
