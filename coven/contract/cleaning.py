"""Redaction of a result: free text is masked, a secret in a structural field is a failure.

A masked branch, path or sha would name something that does not exist, so such a result is refused
as a whole instead of being rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from coven.contract.result import Result
from coven.errors import SecretFound
from coven.redaction import Redactor


def clean(result: Result, redactor: Redactor) -> Result:
    """``result`` fit to be stored and shown. Raises ``SecretFound``, which names the field."""
    for name, value in _structural(result):
        if redactor.has_secret(value):
            raise SecretFound(f"result: {name} holds a secret")
    document = redactor.tree(result.model_dump(mode="json", exclude_none=False))
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
    if result.memory_used is not None:
        for read in result.memory_used.read:
            yield "memory_used.read[].id", read.id
        for proposal in result.memory_used.proposed:
            yield "memory_used.proposed[].key", proposal.key
