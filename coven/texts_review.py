"""What people read about a review: Check Run, annotations, inline comments, status comment.

Facts come in, finished Markdown goes out; whatever others wrote is neutralised here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from coven.github_limits import ANNOTATION_MESSAGE, CHECK_TEXT, COMMENT
from coven.markdown import block, code_cell, code_span, cut_bytes, inline, link, plain
from coven.texts import (
    CUT,
    CheckText,
    Voice,
    Work,
    bullets,
    comment,
    count,
    duration,
    more,
    paragraphs,
    said,
    title_line,
)
from coven.values import Severity

LISTED = 20
"""Findings that a comment lists; the Check Run has all of them."""

_CODE = re.compile(r"`([^`\n]{1,120})`")


@dataclass(frozen=True, slots=True)
class FindingText:
    """One published finding. ``placed_at`` is the line of the diff that it stands on, if any."""

    severity: Severity
    file: str
    line: int | None
    title: str
    body: str
    recommendation: str | None
    placed_at: int | None = None
    since: str | None = None
    """The commit at which it was shown first, when that was before this one."""
    suggestion: str | None = None
    """Replacement for exactly its line."""

    @property
    def anchored(self) -> bool:
        """Whether the diff shows a line for it."""
        return self.placed_at is not None


@dataclass(frozen=True, slots=True)
class EarlierText:
    """A finding of an earlier review that is not among the new ones."""

    severity: Severity
    file: str
    line: int | None
    title: str
    since: str


@dataclass(frozen=True, slots=True)
class Links:
    """Where else this work is to be seen; each is left out while it is not known."""

    pull: str | None = None
    comment: str | None = None
    check: str | None = None

    def line(self) -> str | None:
        """One line with what is known."""
        shown = [
            link(text, url)
            for text, url in (
                ("Pull request", self.pull),
                ("Status comment", self.comment),
                ("All findings", self.check),
            )
            if url
        ]
        return " · ".join(shown) or None


Refused = tuple[str, int, Sequence[tuple[str, int]]]
"""``proposed`` or ``read``, how many of them were refused, and how many for which reason."""


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """What a review came to, after the gates."""

    summary: str
    evidence: str
    files_changed: int
    files_reviewed: Sequence[str]
    supporting_files: Sequence[str]
    findings: Sequence[FindingText]
    withheld: Sequence[tuple[str, int]]
    tests: Sequence[tuple[str, str]]
    limitations: Sequence[str]
    no_findings_reason: str | None
    attempts: int = 1
    seconds: float = 0.0
    before: str | None = None
    """The commit of the last review of this thread, if there was one."""
    fixed: Sequence[EarlierText] = ()
    unseen: Sequence[EarlierText] = ()
    """Shown earlier and not looked at this time."""
    memory_refused: Sequence[Refused] = ()

    @property
    def fresh(self) -> list[FindingText]:
        """Findings that no earlier review has shown."""
        return [finding for finding in self.findings if finding.since is None]


def review_title(report: ReviewReport) -> str:
    """One line: how many findings of which severity, or that there are none."""
    if not report.findings:
        return "No findings" if report.evidence == "complete" else "No findings, evidence partial"
    per_severity = [
        f"{n} {severity}"
        for severity in reversed(Severity)
        if (n := sum(finding.severity is severity for finding in report.findings))
    ]
    return f"{count(len(report.findings), 'finding')}: {', '.join(per_severity)}"


def check_review(voice: Voice, work: Work, report: ReviewReport, links: Links) -> CheckText:
    """A finished review: verdict, what changed since the last one, evidence, findings."""
    summary = paragraphs(
        said(report.summary, 2_000),
        # With findings, the title has said it already.
        None if report.findings else _verdict(report),
        _progress(report),
        _evidence_table(work, report),
        memory_line(report.memory_refused),
        bullets("Limitations", report.limitations),
        links.line(),
        more(voice),
    )
    off = [finding for finding in report.findings if not finding.anchored]
    on = [finding for finding in report.findings if finding.anchored]
    parts = [
        "### Findings" if on else None,
        *(_finding(finding) for finding in on),
        "### Findings beside the changed lines" if off else None,
        *(_finding(finding) for finding in off),
    ]
    text = paragraphs(*parts)
    return CheckText(
        title_line(review_title(report)),
        cut_bytes(summary, CHECK_TEXT, CUT),
        cut_bytes(text, CHECK_TEXT, CUT) if text else None,
    )


def comment_review(voice: Voice, work: Work, report: ReviewReport, *, digest: bool = False) -> str:
    """A finished review in short. ``digest``: this comment is where the findings are read."""
    state = "done" if report.evidence == "complete" else "partial"
    if digest:
        shown = [_finding(finding) for finding in report.findings[:LISTED]]
    else:
        rows = [_row(finding) for finding in report.findings[:LISTED]]
        shown = ["\n".join(rows)] if rows else []
    left = len(report.findings) - LISTED
    return comment(
        voice,
        work,
        state,
        said(report.summary, 1_000),
        _verdict(report),
        *shown,
        f"…and {left} more in the Check Run." if left > 0 else None,
        _earlier("Fixed", report.fixed, report.before, struck=True),
        _earlier("Not looked at this time", report.unseen, None),
        _read_line(report),
    )


def review_body(
    voice: Voice, work: Work, report: ReviewReport, *, inline_count: int, off_diff: Sequence[str]
) -> str:
    """The text of a pull request review; its comments stand on the lines themselves."""
    known = len(report.findings) - len(report.fresh)
    fresh = "new " if known else ""
    lead = f"**{inline(voice.name, 60)}** reviewed {code_span((work.sha or '')[:12])}: "
    lead += f"{count(len(report.fresh), f'{fresh}finding')}"
    lead += f", {inline_count} on the lines below." if inline_count else "."
    return cut_bytes(
        paragraphs(
            lead,
            f"{count(known, 'finding')} of an earlier review "
            f"{'is' if known == 1 else 'are'} still open and not repeated here."
            if known
            else None,
            _earlier("Fixed", report.fixed, report.before, struck=True),
            "**Beside the changed lines**" if off_diff else None,
            *off_diff,
            more(voice),
        ),
        COMMENT - 400,
        CUT,
    )


def review_comment(finding: FindingText) -> str:
    """An inline comment on a line of the diff."""
    about = (
        f"_About line {finding.line}, which the diff does not show._"
        if finding.placed_at != finding.line
        else None
    )
    if finding.suggestion is not None:
        advice: str | None = f"```suggestion\n{finding.suggestion}\n```"
    else:
        advice = _advice(finding)
    head = f"**{finding.severity}** · **{_titled(finding.title, 250)}**"
    body = paragraphs(head, about, block(finding.body, 8_000))
    return f"{cut_bytes(body, COMMENT // 2, CUT)}\n\n{advice}" if advice else body


def finding_in_words(finding: FindingText) -> str:
    """A finding with its place, for texts that stand beside the code."""
    return _finding(finding, note=False)


def annotation_message(finding: FindingText) -> str:
    """Plain text: GitHub does not render Markdown in annotations."""
    advice = f"\n\nRecommendation: {finding.recommendation}" if finding.recommendation else ""
    return plain(f"{finding.body}{advice}", ANNOTATION_MESSAGE, lines=True)


def memory_line(refused: Sequence[Refused]) -> str | None:
    """How much of what a run said about memory was refused, and why; None when nothing was."""
    nouns = {"proposed": "proposal", "read": "read"}
    parts = [
        f"{count(number, nouns[kind])} refused "
        f"({', '.join(f'{n} {code_span(reason)}' for reason, n in reasons)})"
        for kind, number, reasons in refused
    ]
    return f"**Memory:** {'; '.join(parts)}." if parts else None


def with_memory(text: CheckText, refused: Sequence[Refused]) -> CheckText:
    """A Check Run that also says what was refused of memory."""
    line = memory_line(refused)
    if line is None:
        return text
    summary = cut_bytes(text.summary, CHECK_TEXT - len(line.encode()) - 2, CUT)
    return CheckText(text.title, f"{summary}\n\n{line}", text.text)


WITHDRAWN = "A later review found nothing that stands in the way any more."
REFUSED_LINES = "> GitHub did not take these findings on their lines, so they stand here."


def _verdict(report: ReviewReport) -> str:
    if report.findings:
        return f"**{review_title(report)}.**"
    if report.evidence == "complete" and report.no_findings_reason:
        return f"**No findings.** {block(report.no_findings_reason, 1_500)}"
    return (
        "**No findings, but the evidence is not complete**, so this is not a clean bill: "
        "see the limitations."
    )


def _progress(report: ReviewReport) -> str | None:
    if report.before is None:
        return None
    fresh = len(report.fresh)
    parts = [
        f"{fresh} new",
        f"{len(report.findings) - fresh} still open",
        f"{len(report.fixed)} fixed",
        *([f"{len(report.unseen)} not looked at again"] if report.unseen else []),
    ]
    return f"Since the review of {code_span(report.before[:12])}: {', '.join(parts)}."


def _evidence_table(work: Work, report: ReviewReport) -> str:
    listed = _names(report.supporting_files) or "none"
    tests = ", ".join(f"{code_cell(name)} {status}" for name, status in report.tests[:10])
    if len(report.tests) > 10:
        tests += f" and {len(report.tests) - 10} more"
    rows = [
        ("Reviewed commit", code_span(work.sha) if work.sha else "unknown"),
        ("Files reviewed", f"{len(report.files_reviewed)} of {report.files_changed} changed"),
        ("Read for context", listed),
        ("Tests run", tests or "none"),
        ("Withheld", ", ".join(f"{n} by {gate}" for gate, n in report.withheld if n) or "none"),
        ("Attempts", str(report.attempts)),
        ("Duration", duration(report.seconds)),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"| Evidence | {report.evidence} |\n| --- | --- |\n{table}"


def _names(names: Sequence[str]) -> str:
    more_names = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(code_cell(name) for name in names[:10]) + more_names


def _finding(finding: FindingText, *, note: bool = True) -> str:
    off = None
    if note and finding.placed_at is None:
        off = "_Not on a line that the diff shows, so it stands only here._"
    since = f"_Open since {code_span(finding.since[:12])}._" if finding.since else None
    head = (
        f"**{finding.severity}** · {_where(finding.file, finding.line)}"
        f" · **{_titled(finding.title, 250)}**"
    )
    return paragraphs(head, block(finding.body, 8_000), _advice(finding), since, off)


def _advice(finding: FindingText) -> str | None:
    if not finding.recommendation:
        return None
    return f"**Recommendation:** {block(finding.recommendation, 4_000)}"


def _row(finding: FindingText) -> str:
    since = f" (open since {code_span(finding.since[:12])})" if finding.since else ""
    return (
        f"- **{finding.severity}** "
        f"{_where(finding.file, finding.line)}: {_titled(finding.title, 200)}{since}"
    )


def _earlier(
    heading: str, findings: Sequence[EarlierText], before: str | None, *, struck: bool = False
) -> str | None:
    if not findings:
        return None
    since = f" since {code_span(before[:12])}" if before else ""
    mark = "~~" if struck else ""
    rows = [
        f"- {_where(each.file, each.line)}: {mark}{_titled(each.title, 200)}{mark}"
        for each in findings[:LISTED]
    ]
    left = len(findings) - len(rows)
    if left > 0:
        rows.append(f"- …and {left} more")
    return "\n".join([f"**{heading}{since}**", "", *rows])


def _read_line(report: ReviewReport) -> str:
    tests = f", {count(len(report.tests), 'test command')} run" if report.tests else ""
    return (
        f"<sub>Read {len(report.files_reviewed)} of {count(report.files_changed, 'changed file')}"
        f"{tests}, in {duration(report.seconds)}.</sub>"
    )


def _titled(text: str, limit: int) -> str:
    """One line in which `code` stays code; everything else is neutralised as ever."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    parts = _CODE.split(cut)
    shown = [
        code_span(part) if index % 2 else _spaced(part) for index, part in enumerate(parts) if part
    ]
    return "".join(shown).strip() or "(no title)"


def _spaced(text: str) -> str:
    words = inline(text, 400)
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and words else ""
    return f"{before}{words}{after}"


def _where(file: str, line: int | None) -> str:
    return code_span(f"{file}:{line}" if line else file)
