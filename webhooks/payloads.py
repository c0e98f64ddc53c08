"""The few fields of a webhook payload that we read, and the rest tolerated.

Two readings: :func:`facts_of` takes what the ledger wants from any body and never fails;
:func:`read` validates the fields that routing relies on, only for events that we handle. A
present field of the wrong type is refused by name; a null user, body or head repository is normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from coven.tenancy.facts import Account, AccountSeen, Repo
from coven.values import InstallationId, RepoId, RepoName, Sha

MAX_ID = 2**63 - 1
MAX_NUMBER = 2**31 - 1


class BadPayload(Exception):
    """A field that we need has the wrong type; ``reason`` names it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def clean(text: str, limit: int) -> str:
    """Storable text: no NUL, no lone surrogate, at most ``limit`` characters."""
    return text[: limit + 1].replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:limit]


def _moment(value: object) -> object:
    """GitHub writes ISO 8601, and seconds since 1970 in a few places; else None."""
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**33:
        return datetime.fromtimestamp(value, UTC)
    return None


def _sha(value: object) -> object:
    return Sha(value.lower()) if isinstance(value, str) else value


def _string(value: object) -> object:
    return value if isinstance(value, str) else None


def _account(value: object) -> object:
    """An account without a usable id is as good as a deleted one."""
    return value if id_of(value) is not None else None


Id = Annotated[int, Field(ge=1, le=MAX_ID)]
Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Moment = Annotated[datetime | None, BeforeValidator(_moment)]
CommitId = Annotated[str, BeforeValidator(_sha)]


class Part(BaseModel):
    """Base of all parts: strict about what we read, blind to the rest."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)


class User(Part):
    """Identity is the id; deleted and enterprise-managed accounts may lack the rest."""

    id: Id
    login: str | None = None
    type: str | None = None

    @property
    def is_bot(self) -> bool:
        """An App's bot or another machine account that GitHub marks as such."""
        return self.type == "Bot" or (self.login or "").endswith("[bot]")


Somebody = Annotated[User | None, BeforeValidator(_account)]


class Owner(Part):
    id: Id
    login: str | None = None
    type: str | None = None


class Installation(Part):
    id: Id


class Repository(Part):
    id: Id
    full_name: str
    owner: Annotated[Owner | None, BeforeValidator(_account)] = None
    private: bool | None = None
    archived: bool | None = None
    default_branch: str | None = None


class HeadRepository(Part):
    id: Id


class Head(Part):
    sha: CommitId
    ref: str | None = None
    repo: HeadRepository | None = None


class Base(Part):
    sha: CommitId | None = None
    ref: str | None = None


class PullRequest(Part):
    number: Number
    title: str | None = None
    body: str | None = None
    state: str | None = None
    draft: bool | None = None
    user: Somebody = None
    head: Head
    base: Base | None = None
    updated_at: Moment = None
    created_at: Moment = None


class ViaApp(Part):
    id: Id | None = None


class Issue(Part):
    id: Id | None = None
    number: Number
    title: str | None = None
    body: str | None = None
    state: str | None = None
    user: Somebody = None
    pull_request: dict[str, Any] | None = None
    performed_via_github_app: ViaApp | None = None
    updated_at: Moment = None
    created_at: Moment = None


class Comment(Part):
    id: Id
    body: str | None = None
    user: Somebody = None
    created_at: Moment = None
    updated_at: Moment = None
    performed_via_github_app: ViaApp | None = None
    diff_hunk: str | None = None
    path: str | None = None
    line: int | None = None
    original_line: int | None = None


class Review(Part):
    id: Id
    body: str | None = None
    user: Somebody = None
    submitted_at: Moment = None
    updated_at: Moment = None


class ThreadComment(Part):
    id: Id


class ReviewThread(Part):
    comments: tuple[ThreadComment, ...] = Field(default=(), strict=False)


class Before(Part):
    """One changed field, as it was."""

    from_: Annotated[str | None, BeforeValidator(_string)] = Field(default=None, alias="from")


class Changes(Part):
    """What an ``edited`` event says of the state before."""

    body: Before | None = None
    base: dict[str, Any] | None = None


class Label(Part):
    name: str


class CheckApp(Part):
    id: Id | None = None


class CheckSuite(Part):
    head_sha: CommitId | None = None
    head_branch: str | None = None
    app: CheckApp | None = None


class CheckRun(Part):
    """A Check Run of any App; ``external_id`` is ours only when ``app`` is."""

    head_sha: CommitId | None = None
    external_id: str | None = None
    app: CheckApp | None = None


class RequestedAction(Part):
    identifier: str | None = None


class Payload(Part):
    """What routing reads."""

    action: str | None = None
    installation: Installation | None = None
    repository: Repository | None = None
    sender: Somebody = None
    issue: Issue | None = None
    pull_request: PullRequest | None = None
    comment: Comment | None = None
    review: Review | None = None
    thread: ReviewThread | None = None
    changes: Changes | None = None
    ref: str | None = None
    deleted: bool | None = None
    label: Label | None = None
    assignee: Somebody = None
    check_run: CheckRun | None = None
    check_suite: CheckSuite | None = None
    requested_action: RequestedAction | None = None


def read(body: dict[str, Any]) -> Payload:
    """The fields that routing reads. Raises ``BadPayload`` naming the first bad field."""
    try:
        return Payload.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        kind: Literal["missing_field", "bad_field"] = (
            "missing_field" if first["type"] == "missing" else "bad_field"
        )
        where = ".".join(str(step) for step in first["loc"])
        raise BadPayload(f"{kind}:{where}"[:150]) from error


@dataclass(frozen=True, slots=True)
class Facts:
    """What the delivery ledger wants to know of any body; None where it is not there."""

    action: str | None = None
    installation_id: InstallationId | None = None
    repo_id: RepoId | None = None
    repo_name: str | None = None
    sender_id: int | None = None
    sender_login: str | None = None
    seen: AccountSeen | None = None


def facts_of(body: dict[str, Any]) -> Facts:
    """Never fails: a value of a wrong type counts as absent."""
    installation = id_of(body.get("installation"))
    repo = id_of(body.get("repository"))
    return Facts(
        action=text_of(body.get("action"), 80),
        installation_id=InstallationId(installation) if installation else None,
        repo_id=RepoId(repo) if repo else None,
        repo_name=text_of(member_of(body.get("repository"), "full_name"), 260),
        sender_id=id_of(body.get("sender")),
        sender_login=text_of(member_of(body.get("sender"), "login"), 120),
        seen=_seen(body) if installation and repo else None,
    )


def _seen(body: dict[str, Any]) -> AccountSeen | None:
    repository = body.get("repository")
    owner = account_of(member_of(repository, "owner"))
    shown = repo_of(repository)
    if owner is None or shown is None:
        return None
    return AccountSeen(owner, shown, moment(member_of(repository, "updated_at")))


def account_of(value: object) -> Account | None:
    """An account as a fact; None when it has no usable id."""
    number = id_of(value)
    if number is None:
        return None
    return Account(
        number, text_of(member_of(value, "login"), 120), text_of(member_of(value, "type"), 40)
    )


def repo_of(value: object) -> Repo | None:
    """A repository as a fact; None when it has no usable id."""
    number = id_of(value)
    if number is None:
        return None
    return Repo(
        number,
        text_of(member_of(value, "full_name"), 260),
        flag_of(member_of(value, "private")),
        flag_of(member_of(value, "archived")),
        text_of(member_of(value, "default_branch"), 260),
    )


def moment(value: object) -> datetime | None:
    """A time as payloads write it; None for anything else."""
    found = _moment(value)
    return found if isinstance(found, datetime) else None


def repo_name(repository: Repository) -> RepoName:
    """The repository's name. Raises ``BadPayload``."""
    try:
        return RepoName.parse(repository.full_name)
    except ValueError as error:
        raise BadPayload("bad_field:repository.full_name") from error


def member_of(value: object, key: str) -> object:
    """A field of an object; None when there is no such thing."""
    return value.get(key) if isinstance(value, dict) else None


def flag_of(value: object) -> bool | None:
    """A truth value; None for anything else."""
    return value if isinstance(value, bool) else None


def id_of(value: object) -> int | None:
    """The ``id`` of an object; None unless it is a number that an id can be."""
    number = member_of(value, "id")
    usable = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MAX_ID
    return number if usable and isinstance(number, int) else None


def text_of(value: object, limit: int) -> str | None:
    """Storable text, cut; None when it is empty or no text."""
    return clean(value, limit) if isinstance(value, str) and value else None
