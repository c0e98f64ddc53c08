"""What the publisher adds to a text: links, earlier work, and what could not be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coven.markdown import code_span, inline, link

MAX_RUNS = 10
"""Earlier runs that a status comment lists, newest first."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One earlier piece of work on a thread."""

    verb: str
    state: str
    at: datetime
    sha: str | None = None
    summary: str | None = None
    url: str | None = None


def history(runs: Sequence[EarlierRun], room: int) -> str | None:
    """Earlier runs, folded. None when there are none, or no ``room`` (in bytes) for one."""
    lead = f"<details><summary>Earlier work here ({len(runs)})</summary>\n\n"
    end = "\n\n</details>"
    left = room - len((lead + end).encode())
    rows: list[str] = []
    for run in runs[:MAX_RUNS]:
        row = _row(run)
        left -= len(row.encode()) + 1
        if left < 0:
            break
        rows.append(row)
    return lead + "\n".join(rows) + end if rows else None


def links(known: Sequence[tuple[str, str | None]]) -> str | None:
    """One line with the places that are known, as (text, address)."""
    return " · ".join(link(text, url) for text, url in known if url) or None


PULL_REQUEST_FAILED = "Pull request not opened"


def pull_request_failed(branch: str, why: str) -> str:
    """Said on Check Run and status comment, above what they said before."""
    return (
        f"> **The pull request from {code_span(branch)} could not be opened.** "
        f"{inline(why, 500)}\n>\n> **Next:** the work is safe on {code_span(branch)}; open the "
        "pull request by hand, or ask for the work again when the cause is gone."
    )


def review_failed(why: str) -> str:
    """Said on the status comment when GitHub does not take a review."""
    return (
        f"> **The review could not be posted on the lines.** {inline(why, 500)} "
        "The findings stand here and in the Check Run."
    )


def _row(run: EarlierRun) -> str:
    sha = f" at {code_span(run.sha[:12])}" if run.sha else ""
    said = f": {inline(run.summary, 160)}" if run.summary else ""
    what = link(run.verb, run.url) if run.url else run.verb
    return f"- {run.at:%Y-%m-%d %H:%M} UTC · {what}{sha} · **{run.state}**{said}"
