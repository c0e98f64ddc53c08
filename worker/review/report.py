"""From a result to what is shown: gates, anchors, suggestions, and what earlier reviews showed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from coven import texts_review as texts
from coven.contract.result import Finding, Result
from coven.github_limits import ANNOTATION_TITLE
from coven.markdown import plain
from coven.publication import Annotation, ReviewComment
from coven.texts_review import EarlierText, FindingText, ReviewReport
from coven.values import Severity
from worker.review.anchors import FileLines, place, read_diff
from worker.review.earlier import Known, compare, marks
from worker.review.gates import gate, normal_path
from worker.review.suggestions import suggestion
from worker.workspace.changes import Changes

LEVELS = {
    Severity.INFO: "notice",
    Severity.LOW: "notice",
    Severity.MEDIUM: "warning",
    Severity.HIGH: "failure",
    Severity.CRITICAL: "failure",
}
"""GitHub's annotation level of a severity."""
MAX_ANNOTATIONS = 200
"""Annotations on one Check Run; further findings stand in its text."""
MAX_INLINE = 30
"""Inline comments of one review; further findings stand in its body."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report is made of, beside the result."""

    changes: Changes
    sha: str
    floor: Severity
    clean: Callable[[str], str]
    """Redacts one text."""
    exists: Callable[[Collection[str]], Collection[str]]
    """Which of these paths are files at the reviewed commit."""
    before: Sequence[Known] = ()
    before_sha: str | None = None
    notes: Sequence[str] = ()
    attempts: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The report, what goes onto the lines, and what the next review has to know."""

    report: ReviewReport
    annotations: tuple[Annotation, ...]
    known: tuple[Known, ...]


def review(result: Result, facts: Facts) -> Reviewed:
    """Judge the findings of a review. No I/O but what ``facts.exists`` does."""
    claims, changes, clean = result.review, facts.changes, facts.clean
    changed = {change.filename for change in changes.files}
    wanted = {normal_path(path) for path in claims.supporting_files} - changed
    named = {normal_path(finding.file) for finding in claims.findings}
    gated = gate(
        claims.findings,
        changed=changed,
        supporting=facts.exists(wanted & named),
        floor=facts.floor,
        renamed={
            change.previous_filename: change.filename
            for change in changes.files
            if change.previous_filename and change.status == "renamed"
        },
    )
    lines = read_diff(changes.patch)
    names = marks([(f.file, f.title, _line_text(lines, f)) for f in gated.findings])
    compared = compare(
        names,
        facts.before,
        read={normal_path(path) for path in claims.reviewed_files},
        changed=changed,
    )
    found = [
        _finding(finding, lines, clean, compared.since.get(name))
        for finding, name in zip(gated.findings, names, strict=True)
    ]
    removed = {change.filename for change in changes.files if change.status == "removed"}
    known = [
        Known(
            mark=name,
            path=finding.file,
            line=finding.line,
            severity=finding.severity,
            title=finding.title,
            since=finding.since or facts.sha,
        )
        for finding, name in zip(found, names, strict=True)
    ]
    limits = [*claims.limitations, *facts.notes, *_notes(changes)]
    report = ReviewReport(
        summary=clean(result.summary),
        evidence=claims.evidence_status,
        files_changed=max(len(changes.files), changes.total_files),
        files_reviewed=[
            clean(path)
            for path in dict.fromkeys(map(normal_path, claims.reviewed_files))
            if path in changed
        ],
        supporting_files=[clean(path) for path in claims.supporting_files],
        findings=found,
        withheld=gated.withheld,
        tests=[(clean(run.command), run.status) for run in claims.tests_run],
        limitations=[clean(limit) for limit in dict.fromkeys(limits)],
        no_findings_reason=clean(claims.no_findings_reason or "") or None,
        attempts=facts.attempts,
        seconds=facts.seconds,
        before=facts.before_sha,
        fixed=[_earlier(each) for each in compared.fixed],
        unseen=[_earlier(each) for each in compared.unseen],
    )
    annotations = [
        _annotation(finding)
        for finding in found
        if finding.line is not None and finding.file not in removed
    ]
    return Reviewed(report, tuple(annotations[:MAX_ANNOTATIONS]), (*known, *compared.unseen))


def inline_comments(report: ReviewReport) -> tuple[list[ReviewComment], list[str]]:
    """What goes onto the lines of a pull request review, and what goes into its body."""
    fresh = report.fresh
    comments = [
        ReviewComment(
            path=finding.file,
            line=finding.placed_at,
            body=texts.review_comment(finding),
            spot=texts.finding_in_words(finding),
        )
        for finding in fresh
        if finding.placed_at is not None
    ]
    beside = [texts.finding_in_words(finding) for finding in fresh if not finding.anchored]
    return comments[:MAX_INLINE], [*(c.spot for c in comments[MAX_INLINE:]), *beside]


def _notes(changes: Changes) -> list[str]:
    cut = "The diff was too large to be shown whole." if changes.truncated else None
    return [note for note in (cut, *changes.notes) if note]


def _line_text(lines: dict[str, FileLines], finding: Finding) -> str:
    at = lines.get(finding.file)
    return at.text_of.get(finding.line or 0, "") if at is not None else ""


def _finding(
    finding: Finding,
    lines: dict[str, FileLines],
    clean: Callable[[str], str],
    since: str | None,
) -> FindingText:
    at = place(lines, finding.file, finding.line)
    replacement = None
    if at is not None and at.exact:
        replacement = suggestion(finding.recommendation, _line_text(lines, finding))
    return FindingText(
        severity=Severity(finding.severity),
        file=clean(finding.file),
        line=finding.line,
        title=clean(finding.title),
        body=clean(finding.body),
        recommendation=clean(finding.recommendation) if finding.recommendation else None,
        placed_at=at.line if at is not None else None,
        since=since,
        suggestion=replacement
        if replacement is not None and clean(replacement) == replacement
        else None,
    )


def _annotation(finding: FindingText) -> Annotation:
    return Annotation.model_validate(
        {
            "path": finding.file,
            "start_line": finding.line,
            "end_line": finding.line,
            "level": LEVELS[finding.severity],
            "title": plain(finding.title, ANNOTATION_TITLE),
            "message": texts.annotation_message(finding),
        }
    )


def _earlier(known: Known) -> EarlierText:
    return EarlierText(known.severity, known.path, known.line, known.title, known.since)
