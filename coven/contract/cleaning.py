"""Redaction of a result: free text is masked, a secret in a structural field is a failure.

A masked branch, path or sha would name something that does not exist, so such a result is refused
as a whole instead of being rewritten. Memory is the exception: a key with a secret is masked whole
and refused with its entry, since nothing said about memory may cost the review.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from coven.contract.memory import SUMMARY_CHARS
from coven.contract.result import Result
from coven.errors import SecretFound
from coven.redaction import MASK, Redactor

_MEMORY_TEXTS = {"read": ("id",), "proposed": ("key", "summary"), "rejected": ("summary",)}


def clean(result: Result, redactor: Redactor) -> Result:
    """``result`` fit to be stored and shown. Raises ``SecretFound``, which names the field."""
    for name, value in _structural(result):
        if redactor.has_secret(value):
            raise SecretFound(f"result: {name} holds a secret")
    raw = result.model_dump(mode="json", exclude_none=False)
    _mask_memory(raw.get("memory_used"), redactor)
    document = redactor.tree(raw)
    assert isinstance(document, dict)
    if document.get("memory_used") is None:
        document.pop("memory_used", None)
    return Result.model_validate_json(json.dumps(document))


def _structural(result: Result) -> Iterator[tuple[str, str]]:
    if result.branch is not None:
        yield "branch", result.branch
    for commit in result.commits:
        yield "commits[].sha", commit.sha
    for name, paths in (
        ("files_changed", result.files_changed),
        ("review.reviewed_files", result.review.reviewed_files),
        ("review.supporting_files", result.review.supporting_files),
        ("review.findings[].file", tuple(finding.file for finding in result.review.findings)),
    ):
        for path in paths:
            yield name, path


def _mask_memory(memory: Any, redactor: Redactor) -> None:
    """In place; a mask may be longer than what it hides, and the contract bounds these texts."""
    for name, fields in _MEMORY_TEXTS.items():
        for entry in (memory or {}).get(name) or ():
            for field in fields:
                if not redactor.has_secret(entry[field]):
                    continue
                text = redactor.text(entry[field])
                whole = field in ("id", "key") or len(text) > SUMMARY_CHARS
                entry[field] = MASK if whole else text
