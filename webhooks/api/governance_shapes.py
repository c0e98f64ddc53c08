"""What the API takes and says about rules. Names are those of the rules' own JSON: snake case."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from coven.store.escalations import Status
from webhooks.api import inputs
from webhooks.api.inputs import MAX_ID, Body, Paged, Query
from webhooks.api.shapes import Answer, Page

KindName = Literal["bash", "filesystem_write", "network_request", "process_spawn", "custom"]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$", max_length=256)]
Count = Annotated[int, Field(ge=0, le=MAX_ID)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


def _flag(value: object) -> object:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


Flag = Annotated[Literal[True, False], BeforeValidator(_flag)]


class RulesQuery(Query):
    kind: KindName | None = None
    enabled_only: Flag = False


class EscalationsQuery(Paged):
    status: Status = Status.PENDING


class GovernanceAuditQuery(Paged):
    since: Annotated[int, Field(ge=0, le=MAX_ID), BeforeValidator(inputs._decimal)] = Field(
        default=0, description="Rows after this sequence."
    )


class CheckBody(Body):
    """One action, as its JSON form, and the task that it belongs to."""

    kind: KindName
    command: str | None = None
    cwd: str | None = None
    shell: str | None = None
    path: str | None = None
    op: str | None = None
    byte_estimate: int | None = None
    host: str | None = None
    scheme: str | None = None
    port: int | None = None
    method: str | None = None
    binary: str | None = None
    args: list[str] | None = None
    custom_kind: str | None = None
    payload: JsonValue = None
    task: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None


class SignedRow(Body):
    """A rule as its row, signed by the operator. ``matcher`` and ``examples`` are JSON texts."""

    id: Name
    kind: KindName
    matcher: Annotated[str, Field(max_length=65_536)]
    severity: Literal["log", "warn", "escalate", "refuse"]
    reason: Annotated[str, Field(max_length=1_000)]
    namespace: Annotated[str, Field(max_length=400)]
    created_by: Annotated[str, Field(max_length=200)]
    created_at: Count
    enabled: bool
    revision: Annotated[int, Field(ge=1, le=MAX_ID)]
    key_id: Hex
    signature: Hex
    attest_level: Literal["operator_signed"] = "operator_signed"
    removed_at: Count | None = None
    examples: Annotated[str, Field(max_length=65_536)] | None = None


class SignedHead(Body):
    """The policy head over the table that has the row."""

    epoch: Annotated[int, Field(ge=1, le=MAX_ID)]
    digest: Hex
    rule_count: Count
    signed_at: Count
    key_id: Hex
    signature: Hex


class ChangeBody(Body):
    row: SignedRow
    head: SignedHead


class DecisionBody(Body):
    installation_id: inputs.BodyId
    decision: Literal["approve", "deny"]


class Plain(BaseModel):
    """A part of an answer with the names of the rules' own JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlainAnswer(Answer):
    model_config = ConfigDict(alias_generator=None)


class RuleItem(Plain):
    id: str
    kind: str
    matcher: dict[str, Any] | None
    """Null where the token may not see what a rule matches."""
    severity: str
    reason: str
    namespace: str
    created_by: str
    created_at: int
    enabled: bool
    revision: int
    key_id: str | None
    signature: str | None
    attest_level: str
    removed_at: int | None
    examples: dict[str, Any] | None
    enforcement_state: str


class RulesAnswer(PlainAnswer):
    count: int
    rules: list[RuleItem]
    policy_epoch: int


class RuleAnswer(PlainAnswer):
    rule: RuleItem
    policy_epoch: int


class MatchItem(Plain):
    rule_id: str
    severity: str
    kind: str


class CheckAnswer(PlainAnswer):
    decision: dict[str, str | None]
    kind: str | None
    agent_id: str
    decision_id: str
    policy_epoch: int
    matched: list[MatchItem]
    error: Literal["GOVERNANCE_REFUSED", "GOVERNANCE_ESCALATED"] | None = None


class EscalationItem(Plain):
    id: str
    installation_id: int
    task_id: str
    repo_id: int
    namespace: str
    rule_id: str
    reason: str
    kind: str
    action_digest: str
    action_redacted: str
    policy_epoch: int
    head_sha: str | None
    status: str
    requested_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    consumed_at: datetime | None


class EscalationsAnswer(Page):
    escalations: list[EscalationItem]


class EscalationAnswer(PlainAnswer):
    escalation: EscalationItem


class AuditRow(Plain):
    sequence: int
    id: str
    agent_id: str
    event_type: str
    payload: str | None
    payload_hash: str
    attest_level: str
    key_id: str
    timestamp: str
    task_id: str | None
    installation_id: int | None
    decision_id: str | None
    prev_hash: str
    row_hash: str
    signature: str


class AuditHead(Plain):
    sequence: int
    row_hash: str


class GovernanceAuditAnswer(Page):
    rows: list[AuditRow]
    head: AuditHead | None
