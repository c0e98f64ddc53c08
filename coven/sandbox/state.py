"""What the sandbox knows: plain records in one container, guarded by one lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

JSON = dict[str, Any]

PERMISSION_OF_ROLE = {
    "admin": "admin",
    "maintain": "write",
    "write": "write",
    "triage": "read",
    "read": "read",
    "none": "none",
}
"""What ``permission`` says for each built-in ``role_name`` (REST, "Get repository permissions")."""

DEFAULT_PERMISSIONS = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
DEFAULT_EVENTS = (
    "check_run",
    "check_suite",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "repository",
)


def now() -> datetime:
    """Wall clock in whole seconds, as GitHub's stamps have it."""
    return datetime.now(UTC).replace(microsecond=0)


def stamp(moment: datetime | None) -> str | None:
    """ISO 8601 with ``Z``."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class User:
    id: int
    login: str
    type: str = "User"
    name: str | None = None
    deleted: bool = False
    created_at: datetime = field(default_factory=now)

    @property
    def email(self) -> str:
        return f"{self.id}+{self.login}@users.noreply.github.com"


@dataclass
class Role:
    """A collaborator's role; ``base`` counts for a custom one."""

    name: str
    base: str

    @property
    def permission(self) -> str:
        return PERMISSION_OF_ROLE[self.base]


@dataclass
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass
class Repo:
    id: int
    owner_id: int
    name: str
    private: bool = False
    default_branch: str = "main"
    fork_of: int | None = None
    archived: bool = False
    deleted: bool = False
    drafts: bool = True
    """Whether draft pull requests are supported here (plans differ)."""
    roles: dict[int, Role] = field(default_factory=dict)
    protected: set[str] = field(default_factory=set)
    labels: dict[str, Label] = field(default_factory=dict)
    last_number: int = 0
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    pushed_at: datetime = field(default_factory=now)


@dataclass
class Reaction:
    id: int
    user_id: int
    content: str
    created_at: datetime = field(default_factory=now)


@dataclass
class Comment:
    """A comment of an issue or of a pull request's conversation."""

    id: int
    repo_id: int
    number: int
    user_id: int
    body: str
    app_id: int | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    edits: int = 0
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Pull:
    """What makes an issue a pull request."""

    id: int
    head_repo_id: int | None
    head_label_owner: str
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    merged_at: datetime | None = None
    merged_by: int | None = None
    merge_commit_sha: str | None = None
    maintainer_can_modify: bool = False


@dataclass
class Thread:
    """An issue; with ``pull`` a pull request."""

    id: int
    repo_id: int
    number: int
    user_id: int
    title: str
    body: str | None
    state: str = "open"
    state_reason: str | None = None
    locked: bool = False
    app_id: int | None = None
    labels: list[str] = field(default_factory=list)
    assignees: list[int] = field(default_factory=list)
    pull: Pull | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    closed_at: datetime | None = None
    closed_by: int | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class ReviewComment:
    id: int
    repo_id: int
    number: int
    user_id: int
    body: str
    path: str
    commit_id: str
    diff_hunk: str
    line: int | None
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None
    subject_type: str = "line"
    review_id: int | None = None
    in_reply_to_id: int | None = None
    app_id: int | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Review:
    id: int
    repo_id: int
    number: int
    user_id: int
    body: str
    state: str
    commit_id: str
    app_id: int | None = None
    submitted_at: datetime | None = None
    dismissed: str | None = None


@dataclass
class CheckSuite:
    id: int
    repo_id: int
    head_sha: str
    app_id: int
    head_branch: str | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)


@dataclass
class CheckRun:
    id: int
    repo_id: int
    suite_id: int
    app_id: int
    name: str
    head_sha: str
    external_id: str = ""
    details_url: str | None = None
    status: str = "queued"
    conclusion: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[JSON] = field(default_factory=list)
    actions: list[JSON] = field(default_factory=list)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    history: list[JSON] = field(default_factory=list)
    """Status and conclusion after each write, oldest first."""


@dataclass
class App:
    id: int
    slug: str
    name: str
    client_id: str
    owner_id: int
    bot_id: int
    public_key: bytes | None = None
    permissions: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_PERMISSIONS))
    events: tuple[str, ...] = DEFAULT_EVENTS
    created_at: datetime = field(default_factory=now)


@dataclass(frozen=True)
class ManifestCode:
    """A manifest that a person confirmed, until its code is exchanged."""

    manifest: JSON
    org: str | None
    created_at: datetime


@dataclass
class Installation:
    id: int
    app_id: int
    account_id: int
    permissions: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_PERMISSIONS))
    repo_ids: set[int] | None = None
    """None means all repositories of the account."""
    suspended_at: datetime | None = None
    deleted: bool = False
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)


@dataclass
class Labelling:
    """An event of a thread: who set a label on it, or took it off. ``label`` is its key."""

    id: int
    repo_id: int
    number: int
    actor_id: int
    event: str
    label: str
    app_id: int | None = None
    created_at: datetime = field(default_factory=now)


@dataclass
class Subscription:
    """The marketplace plan of an account. Times are as the API writes them."""

    plan: str
    unit_count: int | None = None
    on_free_trial: bool = False
    free_trial_ends_on: str | None = None
    next_billing_date: str | None = None
    updated_at: datetime = field(default_factory=now)
    pending_plan: str | None = None
    pending_at: str | None = None


@dataclass
class Token:
    """An installation token. The log knows it by ``id`` only."""

    id: int
    value: str
    installation_id: int
    repo_ids: set[int] | None
    permissions: dict[str, str]
    expires_at: datetime
    revoked: bool = False


@dataclass
class Hook:
    """Where deliveries go."""

    id: int
    url: str | None = None
    secret: str | None = None
    timeout_secs: float = 10.0
    lose_percent: int = 0
    """How many of a hundred first attempts never reach the receiver; redeliveries do."""


@dataclass
class RateLimit:
    """The primary limit of one installation; counted per hour on github.com, here until reset."""

    limit: int = 5000
    used: int = 0
    reset_at: datetime = field(default_factory=lambda: now() + timedelta(hours=1))


@dataclass
class State:
    """Everything. Touch it with ``lock`` held; never hold the lock while waiting for a network."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    next_id: int = 1000
    users: dict[int, User] = field(default_factory=dict)
    repos: dict[int, Repo] = field(default_factory=dict)
    redirects: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[int, int], Thread] = field(default_factory=dict)
    deleted_threads: set[tuple[int, int]] = field(default_factory=set)
    labellings: list[Labelling] = field(default_factory=list)
    comments: dict[int, Comment] = field(default_factory=dict)
    review_comments: dict[int, ReviewComment] = field(default_factory=dict)
    reviews: dict[int, Review] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    runs: dict[int, CheckRun] = field(default_factory=dict)
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    limits: dict[int, RateLimit] = field(default_factory=dict)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    hook: Hook = field(default_factory=lambda: Hook(id=1))
    manifests: dict[str, ManifestCode] = field(default_factory=dict)
    """Confirmed manifests by code."""
    auto_events: set[str] = field(default_factory=set)
    """Events that API writes and pushes emit on their own; ``*`` means all."""
    token_lifetime: timedelta = timedelta(hours=1)
    content_per_minute: int | None = None
    """Secondary limit on content creation; None switches it off."""

    def new_id(self) -> int:
        """The next id. Kinds share the counter, so an id of the wrong kind never fits by luck."""
        self.next_id += 1
        return self.next_id
