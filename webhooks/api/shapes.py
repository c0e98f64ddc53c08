"""What answers look like. Keys are camelCase; times are RFC 3339 in UTC; nothing unlisted goes out.

Leases, payloads and the runtime's output stay inside.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Shape(BaseModel):
    """Base of all answers and their parts."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Answer(Shape):
    ok: Literal[True] = True


class Page(Answer):
    """A list that goes on at ``next_cursor``; null on the last page."""

    model_config = ConfigDict(alias_generator=None)

    next_cursor: str | None = None


class TaskItem(Shape):
    id: str
    installation_id: int
    repo: str
    repo_id: int
    issue_number: int
    issue_title: str
    is_pull: bool
    verb: str
    lane: str
    reason: str
    automatic: bool
    status: Literal["queued", "running", "review", "done", "failed", "superseded"]
    """As boards show it: ``review`` is work that waits for a person."""
    state: str
    outcome: str | None
    summary: str | None
    branch: str | None
    pr_number: int | None
    pr_url: str | None
    check_run_url: str | None
    familiar_id: str
    familiar_name: str
    session_id: str
    actor: str | None
    head_sha: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class AttemptItem(Shape):
    number: int
    round: int
    phase: str
    started_at: datetime
    heartbeat_at: datetime
    finished_at: datetime | None
    start_sha: str | None
    exit_code: int | None
    signal: int | None
    outcome: str | None
    detail: str | None
    tolerated: list[str]


class SurfaceItem(Shape):
    id: int
    kind: str
    state: str
    url: str | None
    tries: int
    error: str | None
    updated_at: datetime
    published_at: datetime | None


class TrustItem(Shape):
    scope: str
    content_scope: str
    evidence: dict[str, Any]


class DeliveryItem(Shape):
    id: str
    event: str
    action: str | None
    installation_id: int | None
    repo: str | None
    repo_id: int | None
    sender: str | None
    routing: str
    task_id: str | None
    seen: int
    body_sha256: str
    received_at: datetime
    updated_at: datetime


class TaskDetail(TaskItem):
    detail: str | None
    trust: TrustItem
    attempts_used: int
    max_attempts: int
    waiting_for: str | None
    not_before: datetime | None
    expires_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    parent_task_id: str | None
    superseded_by: str | None


class TasksAnswer(Page):
    tasks: list[TaskItem]


class ActivityItem(Shape):
    at: datetime
    task_id: str
    op: str
    entry_id: str | None
    target: str | None
    scope: str
    outcome: str


class TaskAnswer(Answer):
    task: TaskDetail
    attempts: list[AttemptItem]
    surfaces: list[SurfaceItem]
    routing: DeliveryItem | None
    memory: list[ActivityItem]


class CancelAnswer(Answer):
    task: str
    answer: Literal["asked", "settled soon", "already asked"]


class RetryAnswer(Answer):
    task: str
    round: int


class UsageItem(Shape):
    installation_id: int
    repo: str
    familiar_id: str
    tasks: int
    completed: int
    failed: int
    runtime_secs: int


class UsageDay(Shape):
    """From the ledger that limits are counted by; nothing shortens it."""

    day: str
    repo_id: int
    familiar_id: str
    tasks: int
    attempts: int
    seconds: int


class UsageAnswer(Answer):
    usage: list[UsageItem]
    days: list[UsageDay]
    """Of one installation; empty where the request names none, or sees some repositories only."""


class DeliveriesAnswer(Page):
    deliveries: list[DeliveryItem]


class DeliveryAnswer(Answer):
    delivery: DeliveryItem


class TriggersItem(Shape):
    assignment: bool
    labels: bool
    commands: bool
    reviews: bool


class RepoRoutingItem(Shape):
    enabled: bool | None
    familiars: list[str] | None
    assignment: bool | None
    labels: bool | None
    commands: bool | None
    reviews: bool | None


class RoutingReason(Shape):
    routing: str
    """``task``, ``ignored:<reason>`` or ``rejected:<reason>``."""
    count: int
    last_at: datetime


class RoutingItem(Shape):
    installation_id: int
    account: str | None
    familiars: list[str]
    triggers: TriggersItem
    repos: dict[str, RepoRoutingItem]
    listed: bool
    reasons: list[RoutingReason]


class RoutingAnswer(Answer):
    routing: RoutingItem


class AuditItem(Shape):
    id: int
    at: datetime
    installation_id: int | None
    caller: str
    action: str
    target: str | None
    result: str
    rows: int | None
    times: int


class AuditAnswer(Page):
    events: list[AuditItem]


class WhoamiAnswer(Answer):
    caller: str
    installation_id: int | None
    scopes: list[str]
    repos: list[str]


class CapabilitiesAnswer(Answer):
    version: str
    capabilities: dict[str, dict[str, bool | int | str | None]]


class ProblemItem(BaseModel):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(extra="forbid")

    type: str
    title: str
    status: int
    detail: str
    ok: Literal[False]
    error: str
    field: str | None = None
