"""What we read from GitHub, as frozen values. Each ``from_json`` takes one decoded answer.

GitHub leaves out or nulls more than its documentation says: deleted users, deleted head
repositories, empty bodies. Ids that are not there are None and never defaulted to something that
looks trusted. A value that must be there and is not raises ``ValueError``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from coven.values import RepoId, Sha, Visibility

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository; ``id`` is its identity, owner and name are labels."""

    id: RepoId
    owner: str
    name: str
    default_branch: str
    private: bool
    visibility: Visibility
    archived: bool
    owner_id: int | None
    owner_login: str | None

    @classmethod
    def from_json(cls, data: Json) -> Repository:
        """Raises ``ValueError``."""
        owner = data.get("owner") or {}
        full_name = _text(data, "full_name")
        slash_owner, _, name = full_name.partition("/")
        return cls(
            id=RepoId(_int(data, "id")),
            owner=slash_owner,
            name=name or _text(data, "name"),
            default_branch=_text(data, "default_branch"),
            private=bool(data.get("private", True)),
            visibility=_visibility(data),
            archived=bool(data.get("archived", False)),
            owner_id=_optional_int(owner.get("id")),
            owner_login=owner.get("login"),
        )


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request. ``head_repo_id`` is None when the head repository is gone: a fork."""

    number: int
    title: str
    body: str
    state: str
    draft: bool
    merged: bool
    head_sha: Sha
    head_ref: str
    head_repo_id: RepoId | None
    head_repo_full_name: str | None
    base_sha: Sha
    base_ref: str
    author_id: int | None
    author_login: str | None
    html_url: str
    updated_at: datetime
    base_repo_id: RepoId | None = None
    head_label: str | None = None
    """``owner:branch``, for exact comparison."""
    changed_files: int | None = None

    @classmethod
    def from_json(cls, data: Json) -> PullRequest:
        """Raises ``ValueError``."""
        head, base = _dict(data, "head"), _dict(data, "base")
        head_repo = head.get("repo") or {}
        user = data.get("user") or {}
        return cls(
            number=_int(data, "number"),
            title=data.get("title") or "",
            body=data.get("body") or "",
            state=_text(data, "state"),
            draft=bool(data.get("draft", False)),
            merged=bool(data.get("merged") or data.get("merged_at")),
            head_sha=Sha(_text(head, "sha")),
            head_ref=_text(head, "ref"),
            head_repo_id=_repo_id(head_repo.get("id")),
            head_repo_full_name=head_repo.get("full_name"),
            base_sha=Sha(_text(base, "sha")),
            base_ref=_text(base, "ref"),
            author_id=_optional_int(user.get("id")),
            author_login=user.get("login"),
            html_url=data.get("html_url") or "",
            updated_at=parse_time(_text(data, "updated_at")),
            base_repo_id=_repo_id((base.get("repo") or {}).get("id")),
            head_label=head.get("label"),
            changed_files=_optional_int(data.get("changed_files")),
        )


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a pull request; ``patch`` is None for binary and too large files."""

    filename: str
    status: str
    additions: int
    deletions: int
    patch: str | None
    previous_filename: str | None

    @classmethod
    def from_json(cls, data: Json) -> ChangedFile:
        """Raises ``ValueError``."""
        return cls(
            filename=_text(data, "filename"),
            status=data.get("status") or "modified",
            additions=_optional_int(data.get("additions")) or 0,
            deletions=_optional_int(data.get("deletions")) or 0,
            patch=data.get("patch"),
            previous_filename=data.get("previous_filename"),
        )


@dataclass(frozen=True, slots=True)
class Permission:
    """What a person may do in a repository.

    ``permission`` is GitHub's legacy level (``admin``, ``write``, ``read``, ``none``) and decides;
    ``role_name`` may be the name of a custom role. ``read`` on a public repository is everybody.
    """

    permission: str
    role_name: str
    user_id: int | None

    @classmethod
    def from_json(cls, data: Json) -> Permission:
        """Raises ``ValueError``."""
        permission = _text(data, "permission")
        return cls(
            permission=permission,
            role_name=data.get("role_name") or permission,
            user_id=_optional_int((data.get("user") or {}).get("id")),
        )

    @property
    def can_write(self) -> bool:
        """Write, maintain or admin, by built-in or custom role."""
        return self.permission in {"admin", "maintain", "write"}


NO_PERMISSION = Permission("none", "none", None)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object on GitHub that we made or found."""

    id: int
    url: str | None
    raw: Json = field(repr=False)

    @classmethod
    def from_json(cls, data: Json) -> ObjectRef:
        """Raises ``ValueError``."""
        return cls(_int(data, "id"), data.get("html_url") or data.get("url"), data)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a thread or a diff. ``app_id`` names the App that wrote it, if one did."""

    id: int
    body: str
    author_id: int | None
    author_login: str | None
    app_id: int | None
    url: str | None

    @classmethod
    def from_json(cls, data: Json) -> Comment:
        """Raises ``ValueError``."""
        user = data.get("user") or {}
        return cls(
            id=_int(data, "id"),
            body=data.get("body") or "",
            author_id=_optional_int(user.get("id")),
            author_login=user.get("login"),
            app_id=_optional_int((data.get("performed_via_github_app") or {}).get("id")),
            url=data.get("html_url"),
        )


@dataclass(frozen=True, slots=True)
class Reaction:
    """Somebody's reaction to a comment."""

    id: int
    content: str
    user_id: int | None
    user_login: str | None

    @classmethod
    def from_json(cls, data: Json) -> Reaction:
        """Raises ``ValueError``."""
        user = data.get("user") or {}
        return cls(
            id=_int(data, "id"),
            content=str(data.get("content") or ""),
            user_id=_optional_int(user.get("id")),
            user_login=user.get("login"),
        )


@dataclass(frozen=True, slots=True)
class PullReview:
    """A review of a pull request. ``state`` is GitHub's: ``COMMENTED``, ``CHANGES_REQUESTED``, …

    GitHub may show an older review on a newer commit after a force push, so ``commit_id`` is no
    proof of what was reviewed.
    """

    id: int
    body: str
    state: str
    author_id: int | None
    author_login: str | None
    commit_id: str | None
    url: str | None

    @classmethod
    def from_json(cls, data: Json) -> PullReview:
        """Raises ``ValueError``."""
        user = data.get("user") or {}
        return cls(
            id=_int(data, "id"),
            body=data.get("body") or "",
            state=data.get("state") or "",
            author_id=_optional_int(user.get("id")),
            author_login=user.get("login"),
            commit_id=data.get("commit_id"),
            url=data.get("html_url"),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """How ``head`` stands to ``base``. ``commits`` are the ones ahead, oldest first.

    Complete when ``len(commits) == ahead_by``.
    """

    status: str
    ahead_by: int
    behind_by: int
    commits: tuple[Sha, ...]
    merge_base: Sha

    @property
    def complete(self) -> bool:
        """Whether every commit ahead is listed."""
        return len(self.commits) == self.ahead_by


@dataclass(frozen=True, slots=True)
class Token:
    """An installation token. Never logged; never stored."""

    value: str = field(repr=False)
    expires_at: datetime
    permissions: dict[str, str]


@dataclass(frozen=True, slots=True)
class AppInfo:
    """The App itself. ``bot_user_id`` is None while GitHub would not tell."""

    id: int
    slug: str
    bot_login: str
    bot_user_id: int | None


@dataclass(frozen=True, slots=True)
class AppRegistration:
    """The App as it is registered: what it was granted, and GitHub's clock when it said so."""

    id: int
    slug: str
    html_url: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    said_at: datetime | None

    @classmethod
    def from_json(cls, data: Json, said_at: datetime | None) -> AppRegistration:
        """Raises ``ValueError`` and ``KeyError``."""
        permissions = data.get("permissions") or {}
        return cls(
            id=_int(data, "id"),
            slug=_text(data, "slug"),
            html_url=_text(data, "html_url"),
            permissions={str(name): str(level) for name, level in permissions.items()},
            events=tuple(str(name) for name in data.get("events") or ()),
            said_at=said_at,
        )


@dataclass(frozen=True, slots=True)
class HookConfig:
    """Where GitHub sends deliveries; the secret itself is never told."""

    url: str
    content_type: str
    has_secret: bool
    insecure_ssl: bool

    @classmethod
    def from_json(cls, data: Json) -> HookConfig:
        return cls(
            url=str(data.get("url") or ""),
            content_type=str(data.get("content_type") or ""),
            has_secret=bool(data.get("secret")),
            insecure_ssl=str(data.get("insecure_ssl", "0")) == "1",
        )


@dataclass(frozen=True, slots=True)
class HookDelivery:
    """One attempt of GitHub to deliver one event to our webhook.

    ``guid`` is the ``X-GitHub-Delivery`` and the same for every attempt; ``id`` names the attempt.
    ``status_code`` is 0 for time-outs and refused connections, so only ``ok`` tells success.
    """

    id: int
    guid: str
    delivered_at: datetime
    redelivery: bool
    status: str
    status_code: int
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    request_headers: Json = field(default_factory=dict, repr=False)
    payload: Json | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether our server accepted this attempt."""
        return self.status.upper() == "OK" or 200 <= self.status_code < 300

    @classmethod
    def from_json(cls, data: Json) -> HookDelivery:
        """Raises ``ValueError``."""
        request = data.get("request") or {}
        payload = request.get("payload")
        return cls(
            id=_int(data, "id"),
            guid=_text(data, "guid"),
            delivered_at=parse_time(_text(data, "delivered_at")),
            redelivery=bool(data.get("redelivery", False)),
            status=data.get("status") or "",
            status_code=_optional_int(data.get("status_code")) or 0,
            event=_text(data, "event"),
            action=data.get("action"),
            installation_id=_optional_int(data.get("installation_id")),
            repository_id=_optional_int(data.get("repository_id")),
            request_headers=request.get("headers") or {},
            payload=payload if isinstance(payload, dict) else None,
        )


@dataclass(frozen=True, slots=True)
class LabelledIssue:
    """An issue in a list. GitHub lists pull requests too."""

    number: int
    title: str
    body: str
    is_pull: bool
    author_id: int | None
    author_login: str | None
    updated_at: datetime

    @classmethod
    def from_json(cls, data: Json) -> LabelledIssue:
        """Raises ``ValueError``."""
        user = data.get("user") or {}
        return cls(
            number=_int(data, "number"),
            title=data.get("title") or "",
            body=data.get("body") or "",
            is_pull=data.get("pull_request") is not None,
            author_id=_optional_int(user.get("id")),
            author_login=user.get("login"),
            updated_at=parse_time(_text(data, "updated_at")),
        )


@dataclass(frozen=True, slots=True)
class Labelling:
    """An event of an issue; ``label`` is empty for events without one."""

    event: str
    label: str
    actor_id: int | None
    actor_login: str | None
    at: datetime

    @classmethod
    def from_json(cls, data: Json) -> Labelling:
        """Raises ``ValueError``."""
        actor, label = data.get("actor") or {}, data.get("label") or {}
        return cls(
            event=_text(data, "event"),
            label=label.get("name") or "",
            actor_id=_optional_int(actor.get("id")),
            actor_login=actor.get("login"),
            at=parse_time(_text(data, "created_at")),
        )


@dataclass(frozen=True, slots=True)
class InstallationInfo:
    """An installation of the App, as the API shows it."""

    id: int
    account_id: int | None
    account_login: str | None
    account_type: str | None
    selection: str | None
    permissions: dict[str, str]
    events: tuple[str, ...]
    suspended: bool
    updated_at: datetime

    @classmethod
    def from_json(cls, data: Json) -> InstallationInfo:
        """Raises ``ValueError``."""
        account = data.get("account") or {}
        permissions = data.get("permissions") or {}
        return cls(
            id=_int(data, "id"),
            account_id=_optional_int(account.get("id")),
            account_login=account.get("login"),
            account_type=account.get("type"),
            selection=data.get("repository_selection"),
            permissions={str(name): str(level) for name, level in permissions.items()},
            events=tuple(str(name) for name in data.get("events") or ()),
            suspended=data.get("suspended_at") is not None,
            updated_at=parse_time(_text(data, "updated_at")),
        )


@dataclass(frozen=True, slots=True)
class PurchaseInfo:
    """The marketplace plan of an account, as the API shows it."""

    account_id: int
    account_login: str | None
    account_type: str | None
    plan_id: int | None
    plan_name: str | None
    unit_count: int | None
    on_free_trial: bool
    free_trial_ends_on: datetime | None
    next_billing_date: datetime | None
    updated_at: datetime | None
    pending_plan_id: int | None = None
    pending_plan_name: str | None = None
    pending_units: int | None = None
    pending_at: datetime | None = None
    """When another plan takes effect; None when none does."""

    @classmethod
    def from_json(cls, data: Json) -> PurchaseInfo:
        """Raises ``ValueError``."""
        bought = _dict(data, "marketplace_purchase")
        plan = bought.get("plan") or {}

        pending = data.get("marketplace_pending_change") or {}
        next_plan = pending.get("plan") or {}

        def time(name: str, of: Json = bought) -> datetime | None:
            value = of.get(name)
            return parse_time(value) if isinstance(value, str) and value else None

        return cls(
            account_id=_int(data, "id"),
            account_login=data.get("login"),
            account_type=data.get("type"),
            plan_id=_optional_int(plan.get("id")),
            plan_name=plan.get("name"),
            unit_count=_optional_int(bought.get("unit_count")),
            on_free_trial=bool(bought.get("on_free_trial", False)),
            free_trial_ends_on=time("free_trial_ends_on"),
            next_billing_date=time("next_billing_date"),
            updated_at=time("updated_at"),
            pending_plan_id=_optional_int(next_plan.get("id")),
            pending_plan_name=next_plan.get("name"),
            pending_units=_optional_int(pending.get("unit_count")),
            pending_at=time("effective_date", pending),
        )


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A page of hook deliveries, newest first; ``next_cursor`` is None on the last one."""

    items: tuple[HookDelivery, ...]
    next_cursor: str | None


def parse_time(value: str) -> datetime:
    """An aware UTC time from GitHub's ISO 8601. Raises ``ValueError``."""
    parsed = datetime.fromisoformat(value)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _visibility(data: Json) -> Visibility:
    if not data.get("private", True):
        return "public"
    return "internal" if data.get("visibility") == "internal" else "private"


def _dict(data: Json, key: str) -> Json:
    value = data.get(key)
    if not isinstance(value, dict):
        raise ValueError(f"{key}: missing")
    return value


def _text(data: Json, key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key}: missing")
    return value


def _int(data: Json, key: str) -> int:
    value = _optional_int(data.get(key))
    if value is None:
        raise ValueError(f"{key}: missing")
    return value


def _optional_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _repo_id(value: object) -> RepoId | None:
    number = _optional_int(value)
    return RepoId(number) if number is not None else None
