"""From what the real runtime writes to strict v2. Pure; wrong things are left for the validator.

The runtime of today answers a v2 brief with a newer shape under the old version, and leaves a
line 0 or its current branch where v2 wants null. Such deviations are mapped and listed, so that
the attempt shows them; anything that is merely wrong stays as it is and is refused later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from coven.contract.base import field_problems, key_name, printable
from coven.contract.memory import MemoryProposal, MemoryRead, MemoryRejection, MemoryUsed

MAX_LISTED = 50

_TOP = (
    "contract_version",
    "status",
    "branch",
    "commits",
    "files_changed",
    "summary",
    "pr_body",
    "review",
    "exit_reason",
    "memory_used",
)
_REVIEW = (
    "mode",
    "evidence_status",
    "reviewed_files",
    "supporting_files",
    "findings",
    "tests_run",
    "no_findings_reason",
    "limitations",
)
_FINDING = ("severity", "file", "line", "title", "body", "recommendation")
_TEST = ("command", "status", "output_summary")
_COMMIT = ("sha", "message")
_MEMORY: Mapping[str, type[BaseModel]] = {
    "read": MemoryRead,
    "proposed": MemoryProposal,
    "rejected": MemoryRejection,
}


class _Notes:
    """The list of deviations, each once and bounded in number and length."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, text: str) -> None:
        self._found.setdefault(printable(text, 200))

    def listed(self) -> list[str]:
        found = list(self._found)
        if len(found) > MAX_LISTED:
            return [*found[:MAX_LISTED], f"and {len(found) - MAX_LISTED} more"]
        return found


def normalise(
    raw: dict[str, Any], *, default_branch: str, review: bool
) -> tuple[dict[str, Any], list[str]]:
    """A copy of ``raw`` in strict v2 as far as its deviations are known, and their list.

    ``review`` says that the task was a review, which has no branch and no commits of its own.
    Never raises, whatever JSON stands in ``raw``; ``raw`` itself is not changed.
    """
    notes = _Notes()
    result = _known(raw, _TOP, "", notes)
    _fill(result, ("branch", "exit_reason"), "", notes)
    if result.get("memory_used", ...) is None:
        del result["memory_used"]
    _git_facts(result, default_branch, review, notes)
    _each(result, "commits", _COMMIT, (), "commits", notes)
    if isinstance(result.get("review"), dict):
        result["review"] = _review(result["review"], notes)
    if "memory_used" in result:
        memory = _memory(result.pop("memory_used"), notes)
        if memory is not None:
            result["memory_used"] = memory
    return result, notes.listed()


def _known(
    value: dict[str, Any], names: tuple[str, ...], prefix: str, notes: _Notes
) -> dict[str, Any]:
    for key in value:
        if key not in names:
            notes.add(f"unknown key {prefix}{key_name(key)}")
    return {key: value[key] for key in names if key in value}


def _fill(value: dict[str, Any], names: tuple[str, ...], prefix: str, notes: _Notes) -> None:
    for name in names:
        if name not in value:
            value[name] = None
            notes.add(f"{prefix}{name} was left out; read as null")


def _git_facts(result: dict[str, Any], default_branch: str, review: bool, notes: _Notes) -> None:
    branch = result["branch"]
    if isinstance(branch, str) and branch in {"HEAD", default_branch} - {""}:
        which = "HEAD" if branch == "HEAD" else "the default branch"
        notes.add(f"branch was {which}; read as null")
        result["branch"] = None
    elif review and isinstance(branch, str):
        notes.add("branch was set on a review; read as null")
        result["branch"] = None
    if review and isinstance(result.get("commits"), list) and result["commits"]:
        notes.add("commits were listed on a review; left out")
        result["commits"] = []


def _each(
    holder: dict[str, Any],
    name: str,
    known: tuple[str, ...],
    nullable: tuple[str, ...],
    prefix: str,
    notes: _Notes,
) -> None:
    items = holder.get(name)
    if not isinstance(items, list):
        return
    cleaned = []
    for item in items:
        if isinstance(item, dict):
            item = _known(item, known, f"{prefix}[].", notes)
            _fill(item, nullable, f"{prefix}[].", notes)
        cleaned.append(item)
    holder[name] = cleaned


def _review(raw: dict[str, Any], notes: _Notes) -> dict[str, Any]:
    review = _known(raw, _REVIEW, "review.", notes)
    _fill(review, ("no_findings_reason",), "review.", notes)
    _each(review, "findings", _FINDING, ("line", "recommendation"), "review.findings", notes)
    _each(review, "tests_run", _TEST, (), "review.tests_run", notes)
    findings = review.get("findings")
    for finding in findings if isinstance(findings, list) else ():
        if isinstance(finding, dict) and type(finding["line"]) is int and finding["line"] == 0:
            notes.add("review.findings[].line was 0; read as null")
            finding["line"] = None
    reason = review["no_findings_reason"]
    blank = reason is None or (isinstance(reason, str) and not reason.strip())
    if review.get("evidence_status") == "complete" and findings == [] and blank:
        notes.add("no_findings_reason was blank on a clean review; evidence read as partial")
        review["evidence_status"] = "partial"
    return review


def _memory(raw: Any, notes: _Notes) -> dict[str, Any] | None:
    """What breaks the contract in here fails alone: the review is still published without it."""
    if not isinstance(raw, dict):
        notes.add("memory_used refused: not an object")
        return None
    memory = _known(raw, ("enabled", *_MEMORY), "memory_used.", notes)
    for name, model in _MEMORY.items():
        items = memory.get(name)
        if not isinstance(items, list):
            continue
        kept = []
        for item in items:
            if isinstance(item, dict):
                item = _known(item, tuple(model.model_fields), f"memory_used.{name}[].", notes)
            try:
                model.model_validate(item)
                kept.append(item)
            except ValidationError as error:
                notes.add(f"memory_used.{name}[] refused: {field_problems(error)}")
        memory[name] = kept
    try:
        MemoryUsed.model_validate_json(json.dumps(memory))
    except ValidationError as error:
        notes.add(f"memory_used refused: {field_problems(error)}")
        return None
    return memory
