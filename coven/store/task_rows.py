"""The rows of the task ledger as values: what is wanted, what is stored, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from coven.store.tables import tasks
from coven.values import (
    DeliveryId,
    InstallationId,
    Lane,
    RepoId,
    RepoName,
    ResultStatus,
    TaskId,
    TaskState,
    TrustScope,
    Visibility,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """Work wanted, as the receiver (or a re-run) states it."""

    id: TaskId
    installation_id: InstallationId
    repo_id: RepoId
    repo_owner: str
    repo_name: str
    thread: int
    is_pull: bool
    title: str
    lane: Lane
    verb: str
    reason: str
    automatic: bool
    familiar_id: str
    trust_scope: TrustScope
    content_trust: TrustScope
    trust_evidence: dict[str, Any]
    source_at: datetime
    semantic_key: str
    max_attempts: int
    created_at: datetime
    payload: dict[str, Any] = field(default_factory=dict)
    state: TaskState = TaskState.QUEUED
    account_id: int | None = None
    account_login: str | None = None
    repo_private: bool | None = None
    repo_visibility: Visibility | None = None
    """Known after the worker's look; an internal repository is private too."""
    delivery_id: DeliveryId | None = None
    priority: int = 0
    actor_id: int | None = None
    actor_login: str | None = None
    author_id: int | None = None
    author_login: str | None = None
    comment_id: int | None = None
    comment_kind: str | None = None
    head_sha: str | None = None
    head_ref: str | None = None
    head_repo_id: int | None = None
    base_sha: str | None = None
    base_ref: str | None = None
    default_branch: str | None = None
    not_before: datetime | None = None
    expires_at: datetime | None = None
    waiting_for: str | None = None
    parent_task_id: TaskId | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(NewTask):
    """A row of the task ledger."""

    seq: int
    round: int
    attempts_used: int
    lease_token: str | None
    lease_expires_at: datetime | None
    dispatched_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    superseded_by: TaskId | None
    result_status: ResultStatus | None
    outcome: str | None
    summary: str | None
    detail: str | None
    branch: str | None
    pr_number: int | None
    result: dict[str, Any] | None
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def repo(self) -> RepoName:
        """The repository as last seen by name."""
        return RepoName(self.repo_owner, self.repo_name)

    @property
    def generation(self) -> int:
        """Orders the writers of one surface: a newer task, then a later round, wins."""
        return self.seq * 1000 + self.round

    @property
    def from_fork(self) -> bool:
        """Whether the head is in another repository, or its repository is gone."""
        return self.is_pull and self.head_sha is not None and self.head_repo_id != self.repo_id


@dataclass(frozen=True, slots=True)
class Pulse:
    """Answer to a heartbeat: whether the lease is still ours, and whether to stop."""

    alive: bool
    cancel_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a running task ends."""

    state: TaskState
    outcome: str
    summary: str | None = None
    detail: str | None = None
    result_status: ResultStatus | None = None
    branch: str | None = None
    pr_number: int | None = None
    result: dict[str, Any] | None = None


FIELDS = tuple(tasks.c[name] for name in Task.__dataclass_fields__)


def from_row(row: Row[Any]) -> Task:
    """A row of :data:`FIELDS` as a value."""
    values = dict(row._mapping)
    values["lane"] = Lane(values["lane"])
    values["state"] = TaskState(values["state"])
    values["trust_scope"] = TrustScope(values["trust_scope"])
    values["content_trust"] = TrustScope(values["content_trust"])
    if values["result_status"] is not None:
        values["result_status"] = ResultStatus(values["result_status"])
    return Task(**values)
