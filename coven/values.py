"""Value types and vocabularies used in every room.

Identity is always numeric (a login or a repository name can be renamed and registered again by
somebody else); names are labels for people and URLs.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NewType

InstallationId = NewType("InstallationId", int)
"""GitHub App installation: the tenant."""

RepoId = NewType("RepoId", int)
"""Numeric repository id; survives renames and transfers."""

TaskId = NewType("TaskId", str)
"""32 lower-case hex digits, minted by us."""

DeliveryId = NewType("DeliveryId", str)
"""``X-GitHub-Delivery``; the same for every redelivery of one event."""

_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_DELIVERY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z")
_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?\Z")
_REPO = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")


class Sha(str):
    """A full commit id (40 or 64 lower-case hex digits); short ids and names are refused."""

    __slots__ = ()

    def __new__(cls, value: str) -> Sha:
        """Raises ``ValueError`` unless ``value`` is a full object id."""
        if not _SHA.match(value):
            raise ValueError(f"not a full commit id: {value[:80]!r}")
        return super().__new__(cls, value)


@dataclass(frozen=True, slots=True)
class RepoName:
    """``owner/name`` as GitHub spells it; compared case-insensitively, as GitHub does."""

    owner: str
    name: str

    def __post_init__(self) -> None:
        if not _OWNER.match(self.owner) or not _REPO.match(self.name) or self.name in {".", ".."}:
            raise ValueError(f"not a repository name: {f'{self.owner}/{self.name}'[:120]!r}")

    @classmethod
    def parse(cls, full_name: str) -> RepoName:
        """Split ``owner/name``. Raises ``ValueError`` for anything else."""
        owner, slash, name = full_name.partition("/")
        if not slash:
            raise ValueError(f"not a repository name: {full_name[:120]!r}")
        return cls(owner, name)

    @property
    def key(self) -> str:
        """Case-folded form for look-ups in configuration."""
        return f"{self.owner}/{self.name}".casefold()

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RepoName) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def same_login(left: str, right: str) -> bool:
    """GitHub logins are case-insensitive. Use numeric ids where they are known."""
    return left.casefold() == right.casefold()


def parse_delivery_id(value: str | None) -> DeliveryId | None:
    """The delivery id when it is one short printable token, else None."""
    return DeliveryId(value) if value and _DELIVERY.match(value) else None


def new_task_id() -> TaskId:
    """A fresh random task id."""
    return TaskId(uuid.uuid4().hex)


def new_token() -> str:
    """A fresh unguessable lease token."""
    return uuid.uuid4().hex


Visibility = Literal["public", "private", "internal"]
"""Who may see a repository: everybody, its collaborators, or all members of the enterprise."""


class TrustScope(StrEnum):
    """How far the actor of a task is trusted (memory contract, "Trust model")."""

    MAINTAINER = "maintainer"
    COLLABORATOR = "collaborator"
    EXTERNAL = "external"
    FORK_PR = "fork_pr"
    SCHEDULED = "scheduled"


class Lane(StrEnum):
    """Which kind of work a task is; decides authority, queue and Check Run name."""

    REVIEW = "review"
    """Reads a pull request; never gets push authority."""
    FIX = "fix"
    """May push one reserved branch and open a draft pull request."""
    CONTROL = "control"
    """Answers on the thread without a session (``status``, ``help``, ``cancel``)."""


class TaskState(StrEnum):
    """Life of a task; the last four are terminal."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


LIVE_STATES = (TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING)
TERMINAL_STATES = (
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.CANCELLED,
    TaskState.SUPERSEDED,
)


class ResultStatus(StrEnum):
    """``status`` of the result envelope (headless contract, section 3.3)."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"
    NEEDS_INPUT = "needs_input"


class Severity(StrEnum):
    """Severity of a finding (headless contract, section 3.2), lowest first."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info up to 4 for critical."""
        return list(Severity).index(self)


class Conclusion(StrEnum):
    """Conclusions a GitHub App may set on a Check Run (GitHub REST, "Checks")."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    ACTION_REQUIRED = "action_required"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"


class SurfaceKind(StrEnum):
    """What a surface row stands for on GitHub."""

    CHECK_RUN = "check_run"
    STATUS_COMMENT = "status_comment"
    REPLY = "reply"
    REVIEW = "review"
    PULL_REQUEST = "pull_request"
    REACTION = "reaction"


class SurfaceState(StrEnum):
    """``pending``: GitHub differs; ``published``: equal; ``failed``: given up, visible."""

    PENDING = "pending"
    PUBLISHED = "published"
    FAILED = "failed"
