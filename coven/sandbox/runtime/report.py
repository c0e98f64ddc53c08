"""The result envelope in two dialects: what the real runtime writes, and the strict contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coven.sandbox.runtime.brief import Brief
from coven.sandbox.runtime.git import Checkout
from coven.sandbox.runtime.rules import Finding

SUMMARY_LIMIT = 140


@dataclass
class Work:
    """What a session did, before it is put into a dialect."""

    status: str = "success"
    exit_reason: str | None = None
    exit_code: int = 0
    prose: str = ""
    """Everything the familiar said, glued together as the real runtime does."""
    closing: str = ""
    """Its last message alone."""
    findings: list[Finding] = field(default_factory=list)
    supporting: list[str] = field(default_factory=list)
    tests: list[dict[str, str]] = field(default_factory=list)
    no_findings_reason: str | None = None
    limitations: list[str] = field(default_factory=list)
    mode: str = "none"
    evidence: str = "not_applicable"
    start_sha: str | None = None
    pushed_branch: str | None = None


def headline(text: str) -> str:
    """First line that is not blank, without heading marks, cut to 140 characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.lstrip("#").strip()
    return line if len(line) <= SUMMARY_LIMIT else line[: SUMMARY_LIMIT - 1] + "…"


def envelope(brief: Brief, checkout: Checkout, work: Work, *, strict: bool) -> dict[str, Any]:
    """The result of ``work`` as a JSON object."""
    return _strict(brief, checkout, work) if strict else _real(brief, checkout, work)


def _review(brief: Brief, work: Work) -> dict[str, Any]:
    none = work.mode == "none"
    evidence = work.evidence if brief.files else "missing"
    return {
        "mode": work.mode,
        "evidence_status": "not_applicable" if none else evidence,
        "reviewed_files": [] if none else list(brief.files),
        "supporting_files": work.supporting,
        "findings": [item.as_json() for item in work.findings],
        "tests_run": work.tests,
        "no_findings_reason": work.no_findings_reason,
        "limitations": work.limitations,
    }


def _real(brief: Brief, checkout: Checkout, work: Work) -> dict[str, Any]:
    """Today's runtime: HEAD's name, everything since the default branch, always a memory block."""
    review = _review(brief, work)
    review["memory"] = {
        "domains_loaded": [] if work.mode == "none" else ["default-branch"],
        "entries": [],
    }
    return {
        "contract_version": brief.version,
        "status": work.status,
        "branch": checkout.branch,
        "commits": checkout.commits(brief.default_branch),
        "files_changed": checkout.files_changed(brief.default_branch),
        "summary": headline(work.prose),
        "pr_body": work.prose,
        "review": review,
        "exit_reason": work.exit_reason,
    }


def _strict(brief: Brief, checkout: Checkout, work: Work) -> dict[str, Any]:
    """The contract to the letter: only what this run pushed."""
    pushed = work.pushed_branch is not None and work.start_sha is not None
    span = f"{work.start_sha}..HEAD"
    files = checkout.maybe("diff", "--name-only", "-z", span, "--").split("\0") if pushed else []
    return {
        "contract_version": brief.version,
        "status": work.status,
        "branch": work.pushed_branch if pushed else None,
        "commits": checkout.log(span) if pushed else [],
        "files_changed": sorted(name for name in files if name),
        "summary": headline(work.closing),
        "pr_body": work.closing,
        "review": _review(brief, work),
        "exit_reason": work.exit_reason,
    }
