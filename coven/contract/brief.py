"""The session brief: the only thing that the runtime is told (headless contract, section 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonValue

from coven.contract.base import Closed, field_problems, key_name
from coven.contract.memory import MemoryPolicy
from coven.contract.strict_json import BadJson, parse_object
from coven.errors import ContractViolation, SecretFound
from coven.redaction import JSON, Redactor

CONTRACT_VERSION = "2"

_LOCAL = ("127.0.0.1", "::1", "localhost")
_FORBIDDEN_KEY = re.compile(r"(?i)auth|.*token.*|authorization|credentials?|password|secret")

Trigger = Literal["issue_assigned", "pr_review_comment", "issue_mention"]

_PAIRS: dict[str, Trigger] = {
    "fix_issue": "issue_assigned",
    "address_review_comment": "pr_review_comment",
    "respond_to_mention": "issue_mention",
}
"""Which trigger comes with which kind of task (section 2.2)."""


def _clone_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        local = (parts.hostname or "") in _LOCAL
    except ValueError:
        raise ValueError("must be a URL") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError("must be an https:// URL")
    if not parts.hostname or "@" in value or any(char.isspace() for char in value):
        raise ValueError("must name a host and hold no credentials")
    return value


def _absolute(value: str) -> str:
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or "\0" in value:
        raise ValueError("must be an absolute path without '..'")
    return value


CloneUrl = Annotated[
    str,
    AfterValidator(_clone_url),
    Field(
        json_schema_extra={
            "pattern": r"^(?:https://|http://(?:127\.0\.0\.1|localhost|\[::1\])[:/])[^@\s]+$"
        }
    ),
]
AbsolutePath = Annotated[
    str,
    AfterValidator(_absolute),
    Field(json_schema_extra={"pattern": r"^/(?!(?:.*/)?\.\.(?:/|$))"}),
]
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]
Name = Annotated[str, Field(min_length=1)]


class BriefRepo(Closed):
    """The repository; ``default_branch`` as GitHub says it, never assumed."""

    owner: Name
    name: Name
    clone_url: CloneUrl
    default_branch: Name


class FixIssue(Closed):
    """Work on an issue. A missing body is sent as ``""``: the runtime refuses null."""

    kind: Literal["fix_issue"] = "fix_issue"
    issue_number: Number
    issue_title: str
    issue_body: str


class AddressReviewComment(Closed):
    """Work on a review comment of a pull request."""

    kind: Literal["address_review_comment"] = "address_review_comment"
    pr_number: Number
    comment_body: str
    diff_hunk: str | None = None


class RespondToMention(Closed):
    """An answer on a thread; the number may be a pull request's."""

    kind: Literal["respond_to_mention"] = "respond_to_mention"
    issue_number: Number
    comment_body: str


BriefTask = Annotated[
    FixIssue | AddressReviewComment | RespondToMention, Field(discriminator="kind")
]


class BriefFamiliar(Closed):
    """Who works. ``model`` None leaves the choice to the runtime."""

    id: Name
    display_name: Name
    model: str | None = None
    skills: tuple[str, ...] = ()


class BriefWorkspace(Closed):
    """Where the checkout is; the runtime writes nowhere else."""

    root: AbsolutePath


class ReviewFile(Closed):
    """A changed file of the reviewed pull request, relative to the workspace."""

    filename: Name


class ReviewContext(Closed):
    """Puts the runtime into review mode."""

    kind: Literal["pull_request"] = "pull_request"
    files: tuple[ReviewFile, ...] = ()


_TRIGGER_RULES: list[JsonValue] = [
    {
        "if": {"properties": {"task": {"properties": {"kind": {"const": kind}}}}},
        "then": {"properties": {"trigger": {"const": trigger}}},
    }
    for kind, trigger in _PAIRS.items()
]


class SessionBrief(Closed):
    """Read context only: a brief never holds a credential (section 5.1)."""

    model_config = ConfigDict(json_schema_extra={"allOf": _TRIGGER_RULES})

    contract_version: Literal["2"] = "2"
    trigger: Trigger
    repo: BriefRepo
    task: BriefTask
    familiar: BriefFamiliar
    workspace: BriefWorkspace
    review_context: ReviewContext | None = None
    audit_instruction: str | None = None
    memory_policy: MemoryPolicy | None = None

    @model_validator(mode="after")
    def _paired(self) -> SessionBrief:
        expected = _PAIRS[self.task.kind]
        if self.trigger != expected:
            raise ValueError(f"task kind {self.task.kind} goes with trigger {expected}")
        return self


def to_json(brief: SessionBrief) -> dict[str, Any]:
    """The brief as it is written: nullable fields are null, an absent memory policy is left out."""
    document: dict[str, Any] = brief.model_dump(mode="json")
    if brief.memory_policy is None:
        del document["memory_policy"]
    else:
        document["memory_policy"] = brief.memory_policy.model_dump(mode="json", exclude_none=True)
    return document


def serialise(brief: SessionBrief, redactor: Redactor) -> bytes:
    """The bytes of the brief file. Raises ``SecretFound`` and ``ContractViolation``.

    Free text has to be redacted by whoever puts it in (``redactor.text``): this is the last guard,
    not the cleaner. Redacted text always passes.
    """
    return encode(to_json(brief), redactor)


def encode(document: dict[str, Any], redactor: Redactor) -> bytes:
    """The bytes of a brief given as JSON.

    Raises ``SecretFound`` for a secret, a live value or a credentialed URL in any string, and
    ``ContractViolation`` for anything else that breaks the contract; both name the field only.
    """
    for path, is_key, text in _strings(document, ""):
        if is_key and _FORBIDDEN_KEY.fullmatch(text):
            raise ContractViolation(f"brief: {path} is a field that may hold a credential")
        if redactor.has_secret(text):
            raise SecretFound(f"brief: {path} holds a secret; redact it before building the brief")
    try:
        SessionBrief.model_validate_json(json.dumps(document))
        raw = json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8")
    except ValidationError as error:
        raise ContractViolation(f"brief: {field_problems(error)}") from None
    except UnicodeEncodeError:
        raise ContractViolation("brief: a string holds half of a surrogate pair") from None
    return raw + b"\n"


def parse(raw: bytes) -> SessionBrief:
    """Read a brief strictly, as a conforming runtime does. Raises ``ContractViolation``."""
    try:
        document = parse_object(raw)
        version = document.get("contract_version")
        if version != CONTRACT_VERSION:
            raise ContractViolation("brief: contract_version is not one that we implement ('2')")
        return SessionBrief.model_validate_json(json.dumps(document))
    except BadJson as error:
        raise ContractViolation(f"brief: {error}") from None
    except ValidationError as error:
        raise ContractViolation(f"brief: {field_problems(error)}") from None


def _strings(value: JSON, path: str) -> Iterator[tuple[str, bool, str]]:
    """Each string with its path, and whether it is a key."""
    if isinstance(value, str):
        yield path, False, value
    elif isinstance(value, dict):
        for key, item in value.items():
            # A key is ours, but this guard has to hold for one that is not.
            here = f"{path}.{key_name(key)}" if path else key_name(key)
            yield here, True, key
            yield from _strings(item, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]")
