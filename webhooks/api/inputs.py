"""What a request may carry: parameters and bodies as closed models, strict about every value."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from coven.values import RepoName, TaskState
from webhooks.api.cursors import MAX_CHARS
from webhooks.api.problems import Problem, bad_field
from webhooks.body import BadBody, decode

MAX_BODY_BYTES = 64 * 1024
MAX_LIMIT = 200
MAX_ID = 2**63 - 1

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}\Z", re.ASCII)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z",
    re.ASCII,
)
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_TOKEN_NAMES = {"token", "access_token", "api_key", "apikey", "authorization", "bearer"}


def _decimal(value: object) -> object:
    # Pydantic would also take "1_0", "+1" and " 1".
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise ValueError("write a whole number")
        return int(value)
    return value


def _time(value: object) -> object:
    if isinstance(value, str):
        if not _TIME.fullmatch(value):
            raise ValueError("write a time like 2026-07-14T10:00:00Z")
        return re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", value).upper()
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:  # the first or last hours that a date can have
        return _FIRST if value.year == 1 else _LAST


def _repo(value: str) -> str:
    RepoName.parse(value)
    return value


_PLAIN = r"^[^\x00-\x1f\x7f]+$"

Id = Annotated[int, Field(ge=1, le=MAX_ID), BeforeValidator(_decimal)]
Time = Annotated[datetime, BeforeValidator(_time), AfterValidator(_in_utc)]
Word = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_.:-]+$")]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=_PLAIN)]
Repo = Annotated[
    str,
    AfterValidator(_repo),
    WithJsonSchema(
        {
            "type": "string",
            # What RepoName takes, said in a pattern.
            "pattern": r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?/"
            r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$",
        }
    ),
]


class Query(BaseModel):
    """Parameters of a request; every one may be given once."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Scoped(Query):
    installation_id: Id | None = Field(
        default=None, description="Of this installation only; a tenant's token implies its own."
    )


class Paged(Scoped):
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), BeforeValidator(_decimal)] = 50
    cursor: Annotated[str, Field(min_length=1, max_length=MAX_CHARS)] | None = Field(
        default=None, description="`next_cursor` of the page before, with the same filters."
    )


class Window(Query):
    since: Time | None = Field(default=None, description="From then on.")
    until: Time | None = Field(default=None, description="Before then.")


class TasksQuery(Paged, Window):
    state: TaskState | None = None
    repo: Repo | None = None
    thread: Annotated[int, Field(ge=0, le=2**31 - 1), BeforeValidator(_decimal)] | None = Field(
        default=None, description="Number of the issue or pull request."
    )
    familiar: Word | None = None
    verb: Word | None = None
    q: Text | None = Field(default=None, description="In the title, or the start of the id.")


class DeliveriesQuery(Paged, Window):
    event: Word | None = None
    repo: Repo | None = None
    routing: Text | None = Field(
        default=None, description="How it begins: `task:`, `ignored:` or `rejected:`."
    )


class UsageQuery(Scoped, Window):
    pass


class RoutingQuery(Scoped, Window):
    repo: Repo | None = None


class AuditQuery(Paged, Window):
    caller: Text | None = None
    action: Word | None = None


BodyId = Annotated[int, Field(ge=1, le=MAX_ID)]


class Body(BaseModel):
    """A JSON object; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class CancelBody(Body):
    reason: Annotated[str, Field(min_length=1, max_length=160, pattern=_PLAIN)] | None = None


class NoBody(Body):
    pass


QueryT = TypeVar("QueryT", bound=BaseModel)


def read_query(model: type[QueryT], raw: bytes) -> QueryT:
    """The parameters of a request. Raises ``Problem`` naming the one that is wrong."""
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=40
        )
    except ValueError as error:
        raise Problem(
            400, "bad_query", "the query can't be read: encode it as UTF-8, with few parameters"
        ) from error
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise bad_field(name, "is given twice; give it once", "duplicate_parameter")
        values[name] = value
    return _validated(model, values, "parameter")


def refuse_tokens_in(raw: bytes) -> None:
    """A token in an address ends up in logs. Raises ``Problem``."""
    for part in raw.decode("latin-1").casefold().split("&"):
        name, _, value = part.partition("=")
        if name in _TOKEN_NAMES or "cvn_" in value:
            raise Problem(
                400,
                "token_in_query",
                "tokens are taken in the Authorization header only; this one may stand in logs "
                "by now, so rotate it: coven-github tokens rotate",
            )


def read_body(model: type[QueryT], raw: bytes, media_type: str | None) -> QueryT:
    """The body of a request; nothing at all counts as ``{}``. Raises ``Problem``."""
    if len(raw) > MAX_BODY_BYTES:
        raise Problem(413, "too_large", f"the body is longer than {MAX_BODY_BYTES} bytes")
    value: dict[str, Any] = {}
    if raw:
        if media_type != "application/json":
            raise Problem(415, "bad_media_type", "send JSON: Content-Type: application/json")
        try:
            value = decode(raw, media_type)
        except BadBody as error:
            raise Problem(
                400, error.reason, "the body is no plain JSON object in UTF-8; send one"
            ) from error
    return _validated(model, value, "key")


def _validated(model: type[QueryT], values: dict[str, Any], what: str) -> QueryT:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _problem(model, error.errors(include_url=False)[0], what) from None


def _problem(model: type[BaseModel], error: ErrorDetails, what: str) -> Problem:
    field = ".".join(str(step) for step in error["loc"] if not str(step).startswith("function-"))
    if error["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) or "none"
        return bad_field(field, f"there is no such {what}; known: {known}", f"unknown_{what}")
    if error["type"] == "missing":
        return bad_field(field, "is needed", f"missing_{what}")
    why = error["msg"].removeprefix("Value error, ")
    return bad_field(field or "body", f"{why[:1].lower()}{why[1:]}")
