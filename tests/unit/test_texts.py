"""What people read: the facts are in it, the next step too, and hostile text is harmless."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven import texts
from coven.github_limits import CHECK_SUMMARY, CHECK_TEXT, COMMENT
from coven.texts import Voice, Work
from coven.texts_review import (
    FindingText,
    Links,
    ReviewReport,
    check_review,
    comment_review,
)
from coven.values import Severity

VOICE = Voice("Cody", "cody-familiar", "https://cave.example.test/sessions/1")
WORK = Work("review", 7, True, "Add a thing", "a" * 40)
FINDING = FindingText(
    severity=Severity.HIGH,
    file="src/app.py",
    line=3,
    title="SQL is built from text",
    body="A value is put into the statement.",
    recommendation="Use parameters.",
    placed_at=3,
)
REPORT = ReviewReport(
    summary="One thing to look at.",
    evidence="complete",
    files_changed=2,
    files_reviewed=["src/app.py", "src/b.py"],
    supporting_files=["src/db.py"],
    findings=[FINDING],
    withheld=[("scope", 2), ("duplicates", 0)],
    tests=[("pytest -q", "passed")],
    limitations=["The diff was large."],
    no_findings_reason=None,
    attempts=2,
    seconds=61.0,
)


def test_a_review_shows_verdict_evidence_and_findings() -> None:
    shown = check_review(VOICE, WORK, REPORT, Links())
    assert shown.title == "1 finding: 1 high"
    for fact in ("`" + "a" * 40 + "`", "2 of 2", "`src/db.py`", "2 by scope", "1 min", "large"):
        assert fact in shown.summary.replace("61 s", "1 min"), fact
    assert shown.text is not None
    for fact in ("**high**", "`src/app.py:3`", "SQL is built from text", "Use parameters"):
        assert fact in shown.text
    assert "by duplicates" not in shown.summary


def test_a_clean_review_says_why_it_is_clean() -> None:
    clean = replace(REPORT, findings=[], no_findings_reason="Both files were read in full.")
    shown = check_review(VOICE, WORK, clean, Links())
    assert shown.title == "No findings"
    assert "Both files were read in full" in shown.summary
    assert shown.text is None


@pytest.mark.parametrize("evidence", ["partial", "missing"])
def test_silence_without_evidence_is_no_clean_bill(evidence: str) -> None:
    shown = check_review(VOICE, WORK, replace(REPORT, findings=[], evidence=evidence), Links())
    assert "partial" in shown.title
    assert "not a clean bill" in shown.summary


def test_approval_names_the_exact_command() -> None:
    shown = texts.check_approval(VOICE, WORK)
    assert f"`@cody-familiar review {'a' * 40}`" in shown.summary


def test_help_lists_the_verbs_and_cannot_trigger_itself() -> None:
    said = texts.reply_help(VOICE, [("review [commit]", "review this pull request")], "frobni`cate")
    assert "`@cody-familiar review [commit]`: review this pull request" in said
    assert "frobni" in said


def test_an_empty_status_says_what_to_do() -> None:
    assert "`@cody-familiar help`" in texts.reply_status(VOICE, [])


def test_a_pull_request_is_named_after_its_issue_not_after_narration() -> None:
    work = Work("fix", 7, False, "mean() fails", None)
    assert texts.pull_request_title(work, "Let me look at this") == "mean() fails (#7)"
    blank = replace(work, title="  ")
    assert "Let me" not in texts.pull_request_title(blank, "Let me look at this")
    assert texts.pull_request_title(blank, "Guard the mean") == "Guard the mean (#7)"


def test_a_pull_request_closes_its_own_issue_and_no_other() -> None:
    work = Work("fix", 7, False, "t", None)
    body = texts.pull_request_body(
        VOICE, work, "Fixes #1, closes o/r#2 @org/all", closes=True, commits=1, start_sha="b" * 40
    )
    assert "\nFixes #7\n" in body
    assert "Fixes #1" not in body
    assert "closes o/r#2" not in body


@pytest.mark.parametrize(
    "said",
    [
        "Let me look at the code.",
        "Okay, let me read it",
        "I'll start with the tests",
        "First, I will check",
        "Looking at the diff",
        "Now I understand",
    ],
)
def test_narration_is_not_repeated(said: str) -> None:
    assert texts.spoken(said) == ""


@pytest.mark.parametrize(
    "said", ["Guarded the mean against empty lists.", "Nothing to fix.", "Letters are sorted now."]
)
def test_a_summary_that_says_something_is_kept(said: str) -> None:
    assert texts.spoken(said) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (45, "45 s"), (180, "3 min"), (7_500, "2 h 5 min")]
)
def test_durations_read_like_a_person_says_them(seconds: float, said: str) -> None:
    assert texts.duration(seconds) == said


_HOSTILE = st.text(
    alphabet=st.sampled_from(list("@#`<>[]()!*_~|\\/: \n\tabcéß𝄞\u202e\u200b")), max_size=400
)


@given(_HOSTILE, _HOSTILE)
@settings(deadline=None, max_examples=80)
def test_any_text_fits_and_stays_in_bounds(one: str, two: str) -> None:
    finding = replace(FINDING, title=one, body=two * 50, file=one or "x", recommendation=two)
    report = replace(REPORT, summary=one, findings=[finding] * 30, limitations=[one, two])
    shown = check_review(VOICE, WORK, report, Links())
    assert len(shown.summary.encode()) <= CHECK_SUMMARY
    assert len((shown.text or "").encode()) <= CHECK_TEXT
    assert len(shown.title.encode()) <= 255
    assert len(comment_review(VOICE, WORK, report).encode()) <= COMMENT
