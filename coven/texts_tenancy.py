"""What people read about limits and plans: functions from facts to Markdown."""

from __future__ import annotations

from datetime import UTC, datetime

from coven import texts
from coven.markdown import code_span, inline
from coven.texts import CheckText, Voice, Work

_LIMITS = {
    "max_tasks_per_day": "{allowed} {sessions} per day",
    "max_minutes_per_month": "{allowed} {minutes} of sessions per month",
}


def limit_words(limit: str, allowed: int) -> str:
    """A limit in words: ``25 sessions per day``."""
    one = allowed == 1
    return _LIMITS[limit].format(
        allowed=allowed,
        sessions="session" if one else "sessions",
        minutes="minute" if one else "minutes",
    )


def moment(at: datetime) -> str:
    """A time for people: ``2026-01-02 00:00 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def why_over(limit: str, allowed: int) -> str:
    """The sentence about a limit that is reached."""
    return f"This installation has used all of its {limit_words(limit, allowed)}."


def check_over(
    voice: Voice, work: Work, limit: str, allowed: int, resets_at: datetime
) -> CheckText:
    """Work waits for a limit to reset."""
    return CheckText(
        texts.title_line(f"Over the limit until {moment(resets_at)}"),
        texts.paragraphs(
            why_over(limit, allowed),
            f"The {work.noun} starts after {moment(resets_at)}, by itself.",
            "**Next:** wait, or ask the operator of this App for a higher limit.",
            texts.more(voice),
        ),
    )


def comment_over(voice: Voice, work: Work, limit: str, allowed: int, resets_at: datetime) -> str:
    """The status comment of work that waits for a limit to reset."""
    return texts.comment(
        voice,
        work,
        "over the limit",
        why_over(limit, allowed),
        f"This starts after {moment(resets_at)}, by itself.",
    )


def next_after_reset(resets_at: datetime) -> str:
    """The next step where work over a limit ends instead of waiting."""
    return f"Write the command again after {moment(resets_at)}, or ask for a higher limit."


NO_PLAN = "The account of this repository has no active plan, so nothing is started here."
NO_PLAN_STEP = "An owner of the account can choose a plan in the GitHub Marketplace."


REPO_FILE_TITLE = "This file can't be used"


def repo_file_problems(path: str, problems: list[tuple[str, int | None]]) -> str:
    """What is wrong with a repository's own file, as part of a Check Run's summary."""
    lines = [
        f"- {f'line {line}: ' if line is not None else ''}{inline(what, 300)}"
        for what, line in problems
    ]
    head = f"{code_span(path)} can't be used as it stands in this version:"
    foot = "A file that can't be read switches nothing off: all that the operator allows is on."
    return "\n".join([head, "", *lines, "", foot])
