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


class Owner(Part):
    id: Id | None = None
    login: str | None = None


class Installation(Part):
    id: Id


class Repository(Part):
    id: Id
    full_name: str
    owner: Owner | None = None
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
    user: User | None = None
    head: Head
    base: Base | None = None
    updated_at: Moment = None
    created_at: Moment = None


class Issue(Part):
    number: Number
    title: str | None = None
    body: str | None = None
    state: str | None = None
    user: User | None = None
    pull_request: dict[str, Any] | None = None
    updated_at: Moment = None
    created_at: Moment = None


class ViaApp(Part):
    id: Id | None = None


class Comment(Part):
    id: Id
    body: str | None = None
    user: User | None = None
    created_at: Moment = None
    performed_via_github_app: ViaApp | None = None
    diff_hunk: str | None = None
    path: str | None = None
    line: int | None = None
    original_line: int | None = None


class Review(Part):
    id: Id
    body: str | None = None
    user: User | None = None
    submitted_at: Moment = None


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
    sender: User | None = None
    issue: Issue | None = None
    pull_request: PullRequest | None = None
    comment: Comment | None = None
    review: Review | None = None
    label: Label | None = None
    assignee: User | None = None
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


def facts_of(body: dict[str, Any]) -> Facts:
    """Never fails: a value of a wrong type counts as absent."""
    installation = _id(body.get("installation"))
    repo = _id(body.get("repository"))
    return Facts(
        action=_text(body.get("action"), 80),
        installation_id=InstallationId(installation) if installation else None,
        repo_id=RepoId(repo) if repo else None,
        repo_name=_text(_get(body.get("repository"), "full_name"), 260),
        sender_id=_id(body.get("sender")),
        sender_login=_text(_get(body.get("sender"), "login"), 120),
    )


def repo_name(repository: Repository) -> RepoName:
    """The repository's name. Raises ``BadPayload``."""
    try:
        return RepoName.parse(repository.full_name)
    except ValueError as error:
        raise BadPayload("bad_field:repository.full_name") from error


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _id(value: object) -> int | None:
    number = _get(value, "id")
    usable = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MAX_ID
    return number if usable and isinstance(number, int) else None


def _text(value: object, limit: int) -> str | None:
    return clean(value, limit) if isinstance(value, str) and value else None
