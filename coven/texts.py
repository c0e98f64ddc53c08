"""All text that people read on GitHub, as functions from facts to Markdown.

Whatever comes from users, models, branches or errors is neutralised here, once, for the place
where it stands. Every ending names the next step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from coven.github_limits import ANNOTATION_MESSAGE, CHECK_TEXT, CHECK_TITLE, COMMENT
from coven.markdown import block, cell, code_span, cut_bytes, inline, link, plain
from coven.values import Severity

CUT = "\n\n_Cut here: GitHub allows no more._\n"


@dataclass(frozen=True, slots=True)
class Voice:
    """Who speaks, and where more is to be seen."""

    name: str
    handle: str
    session_url: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What the text is about."""

    verb: str
    thread: int
    is_pull: bool
    title: str
    sha: str | None = None

    @property
    def noun(self) -> str:
        """``review of #7`` or ``fix for #7``."""
        return f"{'review of' if self.verb in REVIEW_VERBS else f'{self.verb} for'} #{self.thread}"


_NARRATION = re.compile(
    r"(?:(?:ok(?:ay)?|sure|great|alright|first|now|next|so)\b[,.!]?\s+)*"
    r"(?:let me|let's|let us|i'll|i will|i'm going|i am going|i need to|i should|i'm now|"
    r"looking|reading|checking|starting|going to|now i)\b",
    re.IGNORECASE,
)

REVIEW_VERBS = frozenset({"review", "deepen", "retry"})


@dataclass(frozen=True, slots=True)
class FindingText:
    """One published finding."""

    severity: Severity
    file: str
    line: int | None
    title: str
    body: str
    recommendation: str | None
    anchored: bool


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
    tolerated: Sequence[str] = ()
    attempts: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckText:
    """The three texts of a Check Run."""

    title: str
    summary: str
    text: str | None = None


def check_queued(voice: Voice, work: Work) -> CheckText:
    """Work is accepted and waits for a worker."""
    return CheckText("Queued", _lines(f"{voice.name} will start on the {work.noun}.", _more(voice)))


def check_working(voice: Voice, work: Work, phase: str, seconds: float, attempt: int) -> CheckText:
    """The heartbeat line of a running attempt."""
    nth = f", attempt {attempt}" if attempt > 1 else ""
    return CheckText(
        f"Working: {phase}",
        _lines(
            f"{voice.name} is on the {work.noun}: {phase} ({duration(seconds)}{nth}).", _more(voice)
        ),
    )


def check_retrying(voice: Voice, why: str, seconds: float, attempt: int, most: int) -> CheckText:
    """An attempt failed in a way that may pass; the next one has a time."""
    return CheckText(
        f"Waiting to try again ({attempt} of {most})",
        _lines(
            f"Attempt {attempt} of {most} did not finish: {inline(why, 400)}",
            f"The next one starts in about {duration(seconds)}.",
            _more(voice),
        ),
    )


def check_ended(voice: Voice, title: str, why: str, next_step: str | None = None) -> CheckText:
    """An ending without a result: failed, declined, cancelled, superseded, timed out."""
    return CheckText(
        _title(title),
        _lines(block(why, 4_000), f"**Next:** {next_step}" if next_step else None, _more(voice)),
    )


def check_approval(voice: Voice, work: Work) -> CheckText:
    """Automatic review of an outsider's change waits for a maintainer."""
    return CheckText(
        "Waiting for a maintainer",
        _lines(
            "This pull request comes from outside, so it is reviewed when a maintainer asks.",
            f"**Next:** a maintainer comments {code_span(f'@{voice.handle} review {work.sha}')} "
            "(the full commit id binds the approval to exactly this version).",
            _more(voice),
        ),
    )


def check_review(voice: Voice, work: Work, report: ReviewReport) -> CheckText:
    """A finished review: verdict, evidence, findings."""
    summary = _lines(
        _said(report.summary, 2_000),
        _verdict(report),
        _evidence_table(work, report),
        _bullets("Limitations", report.limitations),
        _more(voice),
    )
    details = [_finding(finding) for finding in report.findings]
    text = "\n\n".join(["### Findings", *details]) if details else None
    return CheckText(
        _title(review_title(report)),
        cut_bytes(summary, CHECK_TEXT, CUT),
        cut_bytes(text, CHECK_TEXT, CUT) if text else None,
    )


def check_fix(
    voice: Voice, work: Work, summary: str, branch: str | None, commits: int, files: Sequence[str]
) -> CheckText:
    """A finished fix: what was pushed, or that nothing was."""
    pushed = (
        f"{_count(commits, 'commit')} on {code_span(branch)}; a draft pull request follows."
        if branch
        else "Nothing was changed."
    )
    return CheckText(
        _title(f"{_count(commits, 'commit')} pushed" if branch else "No changes"),
        cut_bytes(
            _lines(
                _said(summary, 2_000),
                pushed,
                _bullets("Files", [code_span(name) for name in files[:50]], safe=True),
                f"Work: {work.noun}.",
                _more(voice),
            ),
            CHECK_TEXT,
            CUT,
        ),
    )


def review_title(report: ReviewReport) -> str:
    """One line: how many findings of which severity, or that there are none."""
    if not report.findings:
        return "No findings" if report.evidence == "complete" else "No findings, evidence partial"
    per_severity = [
        f"{n} {severity}"
        for severity in reversed(Severity)
        if (n := sum(finding.severity is severity for finding in report.findings))
    ]
    return f"{_count(len(report.findings), 'finding')}: {', '.join(per_severity)}"


def comment(voice: Voice, work: Work, state: str, *paragraphs: str | None) -> str:
    """The status comment: one headline with the state, then what there is to say.

    ``paragraphs`` are finished Markdown.
    """
    at = f" at {code_span(work.sha[:12])}" if work.sha else ""
    head = f"**{inline(voice.name, 60)}** · {work.noun}{at} · **{state}**"
    return cut_bytes(_lines(head, *paragraphs, _more(voice)), COMMENT - 300, CUT)


def comment_queued(voice: Voice, work: Work) -> str:
    """Accepted, not started."""
    return comment(voice, work, "queued", "This is accepted and waits for a worker.")


def comment_working(voice: Voice, work: Work, phase: str) -> str:
    """Started. Holds no clock: the comment is edited on changes of state only."""
    return comment(voice, work, "working", f"Now: {phase}.")


def comment_head_moved(
    voice: Voice, work: Work, head: str, *, running: bool, bound: str | None = None
) -> str:
    """A push overtook a review that somebody asked for: which commit it is about, then."""
    now = code_span(head[:12]) if head else "another commit"
    if bound:
        said = (
            f"The head moved to {now}. This review was asked for {code_span(bound[:12])} only, "
            "so it does not go on to the new version."
        )
    elif running and work.sha:
        said = (
            f"The head moved to {now} while {code_span(work.sha[:12])} was being read. "
            f"What is found in {code_span(work.sha[:12])} is not shown on the new version."
        )
    else:
        said = f"The head moved to {now}; the review reads the head as it is when it starts."
    return comment(voice, work, "working" if running else "queued", said)


def comment_review(voice: Voice, work: Work, report: ReviewReport, check_url: str | None) -> str:
    """A finished review in short; the Check Run has the details."""
    state = "done" if report.evidence == "complete" else "partial"
    rows = [
        f"- **{finding.severity}** {_where(finding)}: {inline(finding.title, 200)}"
        for finding in report.findings[:20]
    ]
    more = len(report.findings) - len(rows)
    return comment(
        voice,
        work,
        state,
        _said(report.summary, 1_000),
        _verdict(report),
        "\n".join(rows) if rows else None,
        f"…and {more} more in the Check Run." if more > 0 else None,
        link("All findings with their lines", check_url) if check_url else None,
    )


def comment_fix(voice: Voice, work: Work, summary: str, branch: str | None) -> str:
    """A finished fix; the pull request links back by itself."""
    outcome = (
        f"The work is on {code_span(branch)}; a draft pull request from it follows."
        if branch
        else "No changes were needed, so there is no pull request."
    )
    return comment(
        voice,
        work,
        "done",
        _said(summary, 2_000),
        outcome,
    )


def comment_ended(
    voice: Voice, work: Work, state: str, why: str, next_step: str | None = None
) -> str:
    """An ending without a result."""
    return comment(
        voice, work, state, block(why, 4_000), f"**Next:** {next_step}" if next_step else None
    )


def comment_question(voice: Voice, work: Work, question: str) -> str:
    """The familiar needs an answer to go on."""
    return comment(
        voice,
        work,
        "needs input",
        block(question, 4_000),
        "**Next:** answer in a comment here. Somebody with write access to the repository can; "
        "the work goes on by itself.",
    )


def pull_request_title(work: Work, summary: str) -> str:
    """The issue's title: a model's one-liner is often narration."""
    wanted = plain(work.title, 180).strip() or plain(spoken(summary), 180).strip()
    return f"{wanted or work.noun.capitalize()} (#{work.thread})"


def pull_request_body(
    voice: Voice, work: Work, body: str, *, closes: bool, commits: int, start_sha: str
) -> str:
    """The familiar's words, neutralised, then the facts that we vouch for."""
    facts = _lines(
        f"{'Fixes' if closes else 'Part of'} #{work.thread}",
        f"_By **{inline(voice.name, 60)}**: {_count(commits, 'commit')} on top of "
        f"{code_span(start_sha[:12])}. Opened as a draft: a person decides._",
        _more(voice),
    )
    room = COMMENT - 300 - len(facts.encode())
    return f"{cut_bytes(block(body, room), room, CUT)}\n\n---\n\n{facts}"


def reply_status(voice: Voice, rows: Sequence[tuple[str, str, str]]) -> str:
    """Answer to ``status``: (what, state, detail) per task of the thread, newest first."""
    if not rows:
        return f"{voice.name} has nothing on this thread. Write {_say(voice, 'help')} for a start."
    lines = [
        f"| {_cell(what)} | {_cell(state)} | {_cell(detail)} |" for what, state, detail in rows
    ]
    table = "\n".join(["| Work | State | |", "| --- | --- | --- |", *lines])
    return cut_bytes(table, COMMENT - 300, CUT)


def reply_cancelled(voice: Voice, rows: Sequence[tuple[str, str]]) -> str:
    """Answer to ``cancel`` that stopped something: (what, how) per piece of work."""
    lines = [f"- {inline(what, 200)}: {how}" for what, how in rows]
    return _lines(
        "Cancelled:",
        "\n".join(lines),
        f"**Next:** write {_say(voice, 'retry')} to do the last of it again.",
    )


def reply_help(voice: Voice, verbs: Sequence[tuple[str, str]], unknown: str | None = None) -> str:
    """Answer to ``help`` and to words that are no command. Never triggers itself."""
    lead = (
        f"{code_span(unknown[:40])} is not a command here. These are:"
        if unknown
        else f"{voice.name} understands, at the start of a line:"
    )
    rows = [f"- {_say(voice, verb)}: {what}" for verb, what in verbs]
    return "\n\n".join([lead, "\n".join(rows)])


def annotation_message(finding: FindingText) -> str:
    """Plain text: GitHub does not render Markdown in annotations."""
    advice = f"\n\nRecommendation: {finding.recommendation}" if finding.recommendation else ""
    return plain(f"{finding.body}{advice}", ANNOTATION_MESSAGE, lines=True)


def spoken(summary: str) -> str:
    """A summary worth repeating: nothing when it only says what comes next.

    The runtime of today takes its first streamed line for the summary, which is most often of the
    kind "Let me look at …".
    """
    return "" if _NARRATION.match(summary.strip()) else summary


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _said(summary: str, limit: int) -> str | None:
    words = spoken(summary).strip()
    return block(words, limit) if words else None


def _verdict(report: ReviewReport) -> str:
    if report.findings:
        return f"**{review_title(report)}.**"
    if report.evidence == "complete" and report.no_findings_reason:
        return f"**No findings.** {block(report.no_findings_reason, 1_500)}"
    return (
        "**No findings, but the evidence is not complete**, so this is not a clean bill: "
        "see the limitations."
    )


def _evidence_table(work: Work, report: ReviewReport) -> str:
    listed = ", ".join(code_span(name) for name in report.supporting_files[:10]) or "none"
    tests = ", ".join(f"{code_span(name)} {status}" for name, status in report.tests[:10])
    rows = [
        ("Reviewed commit", code_span(work.sha) if work.sha else "unknown"),
        ("Evidence", report.evidence),
        ("Files reviewed", f"{len(report.files_reviewed)} of {report.files_changed} changed"),
        ("Read for context", listed),
        ("Tests run", tests or "none"),
        ("Withheld", ", ".join(f"{n} by {gate}" for gate, n in report.withheld if n) or "none"),
        ("Attempts", str(report.attempts)),
        ("Duration", duration(report.seconds)),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"| Evidence | |\n| --- | --- |\n{table}"


def _finding(finding: FindingText) -> str:
    advice = (
        f"**Recommendation:** {block(finding.recommendation, 4_000)}"
        if finding.recommendation
        else None
    )
    off = None if finding.anchored else "_Not on a changed line, so it stands only here._"
    head = f"**{finding.severity}** · {_where(finding)} · **{inline(finding.title, 250)}**"
    return _lines(head, block(finding.body, 8_000), advice, off)


def _where(finding: FindingText) -> str:
    return code_span(f"{finding.file}:{finding.line}" if finding.line else finding.file)


def _bullets(heading: str, items: Sequence[str], *, safe: bool = False) -> str | None:
    if not items:
        return None
    rows = [f"- {item if safe else inline(item, 400)}" for item in items]
    return "\n".join([f"**{heading}**", "", *rows])


def _cell(text: str) -> str:
    return cell(text, 200)


def _say(voice: Voice, words: str) -> str:
    return code_span(f"@{voice.handle} {words}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _title(text: str) -> str:
    return plain(text, CHECK_TITLE)


def _more(voice: Voice) -> str | None:
    return link("Session details", voice.session_url) if voice.session_url else None


def _lines(*paragraphs: str | None) -> str:
    return "\n\n".join(part for part in paragraphs if part)
