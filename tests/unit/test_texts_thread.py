"""What the publisher adds to a text stays bounded and harmless; reviews say where findings are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from coven import texts
from coven import texts_review as review
from coven.texts import Voice, Work
from coven.texts_review import EarlierText, FindingText, ReviewReport
from coven.texts_thread import MAX_RUNS, EarlierRun, history, pull_request_failed
from coven.values import Severity

VOICE = Voice("Cody", "cody-familiar")
WORK = Work("review", 7, True, "Add a thing", "a" * 40)
WHEN = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)


def run(summary: str = "Read it.") -> EarlierRun:
    return EarlierRun("review", "done", WHEN, "b" * 40, summary, "https://git.example.test/runs/1")


def test_earlier_runs_are_folded_bounded_and_counted() -> None:
    folded = history([run()] * 30, 10_000)
    assert folded is not None
    assert folded.startswith("<details><summary>Earlier work here (30)</summary>\n\n- ")
    assert folded.endswith("</details>")
    assert folded.count("\n- ") == MAX_RUNS


@pytest.mark.parametrize("room", [0, 50, 300, 1_000])
def test_the_history_keeps_within_its_room(room: int) -> None:
    folded = history([run("é" * 500)] * 5, room)
    assert folded is None or len(folded.encode()) <= room


def test_what_a_run_said_can_neither_ping_nor_close_the_fold() -> None:
    folded = history([run("</details> @everyone fixes #1 <!-- coven-github:v1 -->")], 10_000) or ""
    assert folded.count("</details>") == 1
    assert "<!--" not in folded
    html = MarkdownIt().render(folded)
    assert "<code>@everyone</code>" in html


def test_a_refused_pull_request_names_its_branch_and_the_next_step() -> None:
    said = pull_request_failed("cody/fix-1", "GitHub refused it. @mona")
    assert said.count("`cody/fix-1`") == 2
    assert "**Next:**" in said
    assert "`@mona`" in said
    assert all(line.startswith(">") for line in said.splitlines())


def finding(**changes: object) -> FindingText:
    facts: dict[str, object] = {
        "severity": Severity.HIGH,
        "file": "a.py",
        "line": 3,
        "title": "Default of `pack` is shared",
        "body": "One call changes the next.",
        "recommendation": "Use None.",
        "placed_at": 3,
    }
    return FindingText(**(facts | changes))  # type: ignore[arg-type]


def report(*findings: FindingText, **changes: object) -> ReviewReport:
    facts: dict[str, object] = {
        "summary": "",
        "evidence": "complete",
        "files_changed": 2,
        "files_reviewed": ["a.py"],
        "supporting_files": [],
        "findings": findings,
        "withheld": (),
        "tests": (),
        "limitations": (),
        "no_findings_reason": None,
    }
    return ReviewReport(**(facts | changes))  # type: ignore[arg-type]


def test_a_digest_tells_the_findings_in_full_and_a_list_does_not() -> None:
    told = report(finding())
    assert "One call changes the next." in review.comment_review(VOICE, WORK, told, digest=True)
    assert "One call changes the next." not in review.comment_review(VOICE, WORK, told)


def test_only_new_findings_are_counted_by_the_review_and_old_ones_are_not_repeated() -> None:
    told = report(
        finding(),
        finding(line=9, since="c" * 40),
        before="c" * 40,
        fixed=[EarlierText(Severity.LOW, "b.py", 1, "Old trouble", "c" * 40)],
    )
    body = review.review_body(VOICE, WORK, told, inline_count=1, off_diff=[])
    assert "1 new finding, 1 on the lines below." in body
    assert "1 finding of an earlier review is still open" in body
    assert "~~Old trouble~~" in body


def test_a_suggestion_takes_the_place_of_the_recommendation() -> None:
    said = review.review_comment(finding(suggestion="    x = None"))
    assert said.endswith("```suggestion\n    x = None\n```")
    assert "Recommendation" not in said


def test_a_comment_beside_its_line_names_the_line() -> None:
    assert "About line 3" in review.review_comment(finding(placed_at=2))


def test_code_in_a_title_stays_code_and_the_rest_is_neutralised() -> None:
    said = review.finding_in_words(finding(title="`pack` pings @mona <b>"))
    html = MarkdownIt().render(said)
    assert "<code>pack</code>" in html
    assert "<code>@mona</code>" in html
    assert "<b>" not in html


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        ("Return 0 for an empty list\n\nMore.", "Return 0 for an empty list (#7)"),
        ("Let me look at the issue.", "Add a thing (#7)"),
        ("  ", "Add a thing (#7)"),
    ],
)
def test_a_pull_request_is_called_by_the_summary_or_the_issue(summary: str, title: str) -> None:
    assert texts.pull_request_title(WORK, summary) == title


def test_narration_at_the_start_of_a_pull_request_is_left_out() -> None:
    body = texts.pull_request_body(
        VOICE, WORK, "Let me read it.\n\nIt is mended.", closes=True, commits=1, start_sha="d" * 40
    )
    assert body.startswith("It is mended.")
    assert body.count("Fixes #7") == 1
