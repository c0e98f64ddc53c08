"""The result envelope: models, and the reading of a file that a hostile run may have written.

Headless contract, section 3. Everything in a result is a claim.
"""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.config import JsonDict, JsonValue

from coven.contract.base import Closed, field_problems, printable
from coven.contract.dialect import normalise
from coven.contract.memory import MemoryUsed
from coven.contract.strict_json import BadJson, parse_object
from coven.values import ResultStatus, Severity

__all__ = [
    "MAX_BYTES",
    "Commit",
    "Finding",
    "MemoryUsed",
    "Result",
    "ResultReading",
    "Review",
    "TestRun",
    "normalise",
    "read_result",
    "validate",
]

MAX_BYTES = 1_048_576
"""Largest result file that is read."""

_CLOCK_SLACK = 1.0
"""Seconds: file times tick more coarsely than the clock."""

_BRANCH = (
    r"^(?![-/.])(?!refs/)(?!HEAD$)(?!@$)(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)))"
    r"[^\x00-\x20\x7f~^:?*\[\\]*[^\x00-\x20\x7f~^:?*\[\\./]$"
)
_BRANCH_PATTERN = re.compile(_BRANCH)

ReviewMode = Literal["none", "pull_request", "review_comment"]
Evidence = Literal["not_applicable", "complete", "partial", "missing"]
ExitReason = Literal["test_failure", "ambiguous_spec", "git_conflict", "infra_error"]
Status = Literal["success", "partial", "failure", "needs_input"]
Level = Literal["info", "low", "medium", "high", "critical"]


def _branch(value: str) -> str:
    hidden = any(unicodedata.category(char) in ("Cc", "Cf") for char in value)
    if hidden or not _BRANCH_PATTERN.match(value):
        raise ValueError("not a branch name that may be used")
    return value


Branch = Annotated[
    str, Field(max_length=255, json_schema_extra={"pattern": _BRANCH}), AfterValidator(_branch)
]
Path_ = Annotated[str, Field(min_length=1, max_length=4096)]


class Commit(Closed):
    """A commit that the runtime says it made; verified against the remote before any use."""

    sha: str = Field(pattern=r"^[0-9a-f]{7,64}$")
    message: str


class Finding(Closed):
    """One finding of a review."""

    severity: Level
    file: Path_
    line: int | None = Field(ge=1)
    title: str
    body: str
    recommendation: str | None

    @property
    def level(self) -> Severity:
        """The severity as our own ordered type."""
        return Severity(self.severity)


class TestRun(Closed):
    """A command that the runtime says it ran; not evidence that it ran."""

    __test__ = False  # not a test class, whatever its name

    command: str
    status: Literal["passed", "failed", "not_run", "unknown"]
    output_summary: str | None = None


_REVIEW_MODE: JsonDict = {"enum": ["pull_request", "review_comment"]}
_REVIEW_RULES: list[JsonValue] = [
    {
        "if": {"properties": {"mode": _REVIEW_MODE}},
        "then": {"properties": {"evidence_status": {"not": {"const": "not_applicable"}}}},
        "else": {"properties": {"evidence_status": {"const": "not_applicable"}}},
    },
    {
        "if": {
            "properties": {
                "mode": _REVIEW_MODE,
                "evidence_status": {"not": {"const": "missing"}},
            }
        },
        "then": {"properties": {"reviewed_files": {"minItems": 1}}},
    },
    {
        "if": {
            "properties": {
                "evidence_status": {"const": "complete"},
                "findings": {"maxItems": 0},
            }
        },
        "then": {"properties": {"no_findings_reason": {"type": "string", "pattern": r"\S"}}},
    },
]


class Review(Closed):
    """Evidence and findings (section 3.2); mode ``none`` for work that is not a review."""

    model_config = ConfigDict(json_schema_extra={"allOf": _REVIEW_RULES})

    mode: ReviewMode
    evidence_status: Evidence
    reviewed_files: tuple[Path_, ...]
    supporting_files: tuple[Path_, ...]
    findings: tuple[Finding, ...]
    tests_run: tuple[TestRun, ...]
    no_findings_reason: str | None
    limitations: tuple[str, ...]

    @model_validator(mode="after")
    def _evidence(self) -> Review:
        if self.mode == "none":
            if self.evidence_status != "not_applicable":
                raise ValueError("evidence_status must be not_applicable when mode is none")
            return self
        if self.evidence_status == "not_applicable":
            raise ValueError(f"evidence_status must not be not_applicable in mode {self.mode}")
        if not self.reviewed_files and self.evidence_status != "missing":
            raise ValueError("reviewed_files must name a file unless evidence_status is missing")
        if (
            self.evidence_status == "complete"
            and not self.findings
            and not (self.no_findings_reason or "").strip()
        ):
            raise ValueError("no_findings_reason must explain a complete review without findings")
        return self


_STATUS_RULES: list[JsonValue] = [
    {
        "if": {"properties": {"status": {"const": "success"}}},
        "then": {"properties": {"exit_reason": {"type": "null"}}},
    },
    {
        "if": {"properties": {"status": {"enum": ["failure", "needs_input"]}}},
        "then": {"properties": {"exit_reason": {"type": "string"}}},
    },
]


class Result(Closed):
    """The whole envelope, strict v2 with the optional memory report."""

    model_config = ConfigDict(json_schema_extra={"allOf": _STATUS_RULES})

    contract_version: Literal["2"]
    status: Status
    branch: Branch | None
    commits: tuple[Commit, ...]
    files_changed: tuple[Path_, ...]
    summary: str
    pr_body: str
    review: Review
    exit_reason: ExitReason | None
    memory_used: MemoryUsed | None = None

    @model_validator(mode="after")
    def _reason(self) -> Result:
        if self.status == "success" and self.exit_reason is not None:
            raise ValueError("exit_reason must be null when status is success")
        if self.status in ("failure", "needs_input") and self.exit_reason is None:
            raise ValueError(f"exit_reason must be given when status is {self.status}")
        return self

    @property
    def outcome(self) -> ResultStatus:
        """The status as our own type."""
        return ResultStatus(self.status)


@dataclass(frozen=True)
class ResultReading:
    """What became of the result file.

    ``result`` is None when it is missing or broken; ``problem`` then says why, in one safe line.
    ``tolerated`` lists deviations that were accepted, and shown on the attempt.
    """

    result: Result | None
    tolerated: list[str] = field(default_factory=list)
    problem: str | None = None
    missing: bool = False


def validate(
    document: dict[str, Any],
    *,
    expected_version: str,
    default_branch: str = "",
    review: bool = False,
) -> ResultReading:
    """Normalise and validate a parsed document. Pure; never raises for bad content."""
    version = document.get("contract_version")
    if version != expected_version:
        shown = printable(version, 20) if isinstance(version, str) else type(version).__name__
        problem = f"contract_version must be '{expected_version}', not {shown}"
        return ResultReading(None, problem=problem)
    clean, tolerated = normalise(document, default_branch=default_branch, review=review)
    try:
        result = Result.model_validate_json(json.dumps(clean))
    except ValidationError as error:
        return ResultReading(None, tolerated, problem=field_problems(error))
    return ResultReading(result, tolerated)


def read_result(
    directory: Path,
    name: str,
    *,
    not_before: float,
    expected_version: str,
    default_branch: str = "",
    review: bool = False,
) -> ResultReading:
    """Read ``name`` in the attempt's own output folder, once, after the session is gone.

    ``not_before`` is the start of the attempt in seconds since the epoch: an older file is not
    this attempt's. ``default_branch`` and ``review`` (a review lane) steer the normaliser. Never
    raises for what a session may have left there: a link, a pipe, a device, a folder, a huge or
    broken file each come back as ``problem``.
    """
    try:
        raw = _read(directory, name, not_before)
    except FileNotFoundError:
        return ResultReading(None, problem="no result file was written", missing=True)
    except _Refused as error:
        return ResultReading(None, problem=str(error))
    except OSError as error:
        detail = os.strerror(error.errno) if error.errno else "unknown error"
        return ResultReading(None, problem=f"the result file can't be read: {detail}")
    try:
        document = parse_object(raw)
    except BadJson as error:
        return ResultReading(None, problem=f"the result file is broken: {error}")
    return validate(
        document, expected_version=expected_version, default_branch=default_branch, review=review
    )


class _Refused(Exception):
    """The file is not one that may be read."""


def _read(directory: Path, name: str, not_before: float) -> bytes:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError("a result name is one path component")
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Looked at before it is opened: opening a device can have effects of its own.
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _check(seen, not_before)
        # Without O_NONBLOCK a pipe put there in between would block for ever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as file:
        opened = os.fstat(handle)
        _check(opened, not_before)
        if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino):
            raise _Refused("the result file was exchanged while it was read")
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise _Refused(f"the result file is larger than {MAX_BYTES} bytes")
    return raw


def _check(status: os.stat_result, not_before: float) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _Refused(f"the result is {_kind(status.st_mode)}, not a regular file")
    if status.st_nlink != 1:
        raise _Refused("the result file has a second name (hard link)")
    if not status.st_mode & stat.S_IRUSR:
        raise _Refused("the result file is not readable by its owner")
    if status.st_size > MAX_BYTES:
        raise _Refused(f"the result file is larger than {MAX_BYTES} bytes")
    if status.st_mtime < not_before - _CLOCK_SLACK:
        raise _Refused("the result file is older than the attempt")


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return name
    return "a device"
