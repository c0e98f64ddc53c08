"""All text that people read on GitHub, as functions from facts to Markdown.

Whatever comes from users, models, branches or errors is neutralised here, once, for the place
where it stands. Every ending names the next step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from coven.github_limits import CHECK_TEXT, CHECK_TITLE, COMMENT, MEMORY_BYTES, PULL_BODY
from coven.markdown import block, cell, code_span, cut_bytes, inline, link, plain

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
class CheckText:
    """The three texts of a Check Run."""

    title: str
    summary: str
    text: str | None = None


def check_queued(voice: Voice, work: Work) -> CheckText:
    """Work is accepted and waits for a worker."""
    return CheckText(
        "Queued", paragraphs(f"{voice.name} will start on the {work.noun}.", more(voice))
    )


def check_working(voice: Voice, work: Work, phase: str, seconds: float, attempt: int) -> CheckText:
    """The heartbeat line of a running attempt."""
    nth = f", attempt {attempt}" if attempt > 1 else ""
    return CheckText(
        f"Working: {phase}",
        paragraphs(
            f"{voice.name} is on the {work.noun}: {phase} ({duration(seconds)}{nth}).", more(voice)
        ),
    )


def check_retrying(voice: Voice, why: str, seconds: float, attempt: int, most: int) -> CheckText:
    """An attempt failed in a way that may pass; the next one has a time."""
    return CheckText(
        f"Waiting to try again ({attempt} of {most})",
        paragraphs(
            f"Attempt {attempt} of {most} did not finish: {inline(why, 400)}",
            f"The next one starts in about {duration(seconds)}.",
            more(voice),
        ),
    )


def check_ended(voice: Voice, title: str, why: str, next_step: str | None = None) -> CheckText:
    """An ending without a result: failed, declined, cancelled, superseded, timed out."""
    return CheckText(
        title_line(title),
        paragraphs(block(why, 4_000), f"**Next:** {next_step}" if next_step else None, more(voice)),
    )


def check_approval(voice: Voice, work: Work) -> CheckText:
    """Automatic review of an outsider's change waits for a maintainer."""
    return CheckText(
        "Waiting for a maintainer",
        paragraphs(
            "This pull request comes from outside, so it is reviewed when a maintainer asks.",
            f"**Next:** a maintainer comments {code_span(f'@{voice.handle} review {work.sha}')} "
            "(the full commit id binds the approval to exactly this version).",
            more(voice),
        ),
    )


def check_fix(
    voice: Voice, work: Work, summary: str, branch: str | None, commits: int, files: Sequence[str]
) -> CheckText:
    """A finished fix: what was pushed, or that nothing was."""
    pushed = (
        f"{count(commits, 'commit')} on {code_span(branch)}; a draft pull request follows."
        if branch
        else "Nothing was changed."
    )
    return CheckText(
        title_line(f"{count(commits, 'commit')} pushed" if branch else "No changes"),
        cut_bytes(
            paragraphs(
                said(summary, 2_000),
                pushed,
                bullets("Files", [code_span(name) for name in files[:50]], safe=True),
                f"Work: {work.noun}.",
                more(voice),
            ),
            CHECK_TEXT,
            CUT,
        ),
    )


def comment(voice: Voice, work: Work, state: str, *parts: str | None) -> str:
    """The status comment: one headline with the state, then what there is to say.

    ``parts`` are finished Markdown.
    """
    at = f" at {code_span(work.sha[:12])}" if work.sha else ""
    head = f"**{inline(voice.name, 60)}** · {work.noun}{at} · **{state}**"
    return cut_bytes(paragraphs(head, *parts, more(voice)), COMMENT - 300, CUT)


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


def comment_fix(
    voice: Voice,
    work: Work,
    summary: str,
    branch: str | None,
    *,
    commits: int = 0,
    partial: bool = False,
) -> str:
    """A finished fix; the publisher adds the link to the pull request."""
    outcome = (
        f"{count(commits, 'commit')} on {code_span(branch)}, in a draft pull request of its own."
        if branch
        else "No changes were needed, so there is no pull request."
    )
    state = "partial" if partial else "done"
    return comment(voice, work, state, said(summary, 2_000), outcome)


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
    """The summary's first line, or the issue's title when that is blank or narration."""
    first = next((line for line in spoken(summary).splitlines() if line.strip()), "")
    wanted = plain(first, 180).strip() or plain(work.title, 180).strip()
    return f"{wanted or work.noun.capitalize()} (#{work.thread})"


def pull_request_body(
    voice: Voice, work: Work, body: str, *, closes: bool, commits: int, start_sha: str
) -> str:
    """The familiar's words, neutralised, then the facts that we vouch for."""
    facts = paragraphs(
        f"{'Fixes' if closes else 'Part of'} #{work.thread}",
        f"_By **{inline(voice.name, 60)}**: {count(commits, 'commit')} on top of "
        f"{code_span(start_sha[:12])}. Opened as a draft: a person decides._",
        more(voice),
    )
    # What there is to say about memory comes below, and must not push the facts out.
    room = PULL_BODY - 300 - MEMORY_BYTES - len(facts.encode())
    told = block(_told(body), room)
    return f"{cut_bytes(told, room, CUT)}\n\n---\n\n{facts}"


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
    return paragraphs(
        "Cancelled:",
        "\n".join(lines),
        f"**Next:** write {_say(voice, 'retry')} to do the last of it again.",
    )


def reply_help(
    voice: Voice,
    verbs: Sequence[tuple[str, str]],
    unknown: str | None = None,
    meant: str | None = None,
) -> str:
    """Answer to ``help`` and to words that are no command. Never triggers itself.

    ``meant``: the verb that the unknown word is close to; then nothing else is listed.
    """
    if unknown and meant:
        return (
            f"{code_span(unknown[:40])} is not a command here. Did you mean "
            f"{code_span(f'@{voice.handle} {meant}')}?\n\n"
            f"**Next:** write that, or {code_span(f'@{voice.handle} help')} for the whole list."
        )
    lead = (
        f"{code_span(unknown[:40])} is not a command here. These are:"
        if unknown
        else f"{voice.name} understands, at the start of a line:"
    )
    rows = [f"- {_say(voice, verb)}: {what}" for verb, what in verbs]
    return "\n\n".join([lead, "\n".join(rows)])


def reply_resumed(voice: Voice) -> str:
    """Answer to ``resume``: a pause for too many requests has ended."""
    return (
        f"{voice.name} takes commands here again. What was asked for during the pause was not "
        f"started.\n\n**Next:** write it once more, such as {_say(voice, 'review')}."
    )


def spoken(summary: str) -> str:
    """A summary worth repeating: nothing when it only says what comes next.

    The runtime of today takes its first streamed line for the summary, which is most often of the
    kind "Let me look at …".
    """
    return "" if _NARRATION.match(summary.strip()) else summary


def _told(body: str) -> str:
    """A text without the paragraphs at its start that only say what comes next."""
    parts = re.split(r"\n[ \t]*\n", body.strip())
    while len(parts) > 1 and "\n" not in parts[0] and not spoken(parts[0]):
        parts.pop(0)
    return "\n\n".join(parts)


def duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def said(summary: str, limit: int) -> str | None:
    """A summary as Markdown, None when there is nothing in it."""
    words = spoken(summary).strip()
    return block(words, limit) if words else None


def bullets(heading: str, items: Sequence[str], *, safe: bool = False) -> str | None:
    """A list with a bold heading; ``safe`` items are finished Markdown."""
    if not items:
        return None
    rows = [f"- {item if safe else inline(item, 400)}" for item in items]
    return "\n".join([f"**{heading}**", "", *rows])


def _cell(text: str) -> str:
    return cell(text, 200)


def _say(voice: Voice, words: str) -> str:
    return code_span(f"@{voice.handle} {words}")


def count(number: int, noun: str) -> str:
    """``1 finding``, ``2 findings``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def title_line(text: str) -> str:
    """The title of a Check Run: one plain line."""
    return plain(text, CHECK_TITLE)


def more(voice: Voice) -> str | None:
    """The link to the session's page, where there is one."""
    return link("Session details", voice.session_url) if voice.session_url else None


def with_section(text: CheckText, section: str | None) -> CheckText:
    """The same text with a section in front of its summary; itself without one."""
    if section is None:
        return text
    return CheckText(
        text.title, cut_bytes(paragraphs(section, text.summary), CHECK_TEXT, CUT), text.text
    )


def paragraphs(*parts: str | None) -> str:
    """Finished Markdown, one block after the other."""
    return "\n\n".join(part for part in parts if part)
