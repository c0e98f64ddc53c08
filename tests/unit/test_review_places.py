"""Where findings stand, which may be applied by a click, and what earlier reviews showed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.contract.exit_codes import Outcome, Verdict
from coven.contract.result import Finding
from coven.publication import DEEPEN_BUTTON, FIX_BUTTON, CheckAction
from coven.values import Conclusion, Severity
from worker.review.anchors import NEAR, Place, place, read_diff
from worker.review.conclusion import TABLE, Case, concluded, concluded_review, table
from worker.review.earlier import Known, compare, marks, read_back, stored
from worker.review.gates import gate
from worker.review.suggestions import suggestion

DIFF = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,3 @@
 one
+two
 three
@@ -40,0 +41,2 @@
+fortyone
+fortytwo
diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
--- a/old.py
+++ b/new.py
@@ -1 +1 @@
-x
+y
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-z
diff --git "a/na\\303\\257ve.py" "b/na\\303\\257ve.py"
--- "a/na\\303\\257ve.py"
+++ "b/na\\303\\257ve.py"
@@ -0,0 +1 @@
+w
"""
FILES = read_diff(DIFF)


@pytest.mark.parametrize(
    ("path", "line", "start", "expected"),
    [
        ("a.py", 2, None, Place(2)),
        ("a.py", 1, None, Place(1)),
        ("a.py", 3 + NEAR, None, Place(3, exact=False)),
        ("a.py", 4 + NEAR, None, None),
        ("a.py", 43, None, Place(42, exact=False)),
        ("a.py", 9_999, None, None),
        ("a.py", None, None, None),
        ("new.py", 1, None, Place(1)),
        ("old.py", 1, None, None),
        ("gone.py", 1, None, None),
        ("logo.png", 1, None, None),
        ("elsewhere.py", 1, None, None),
        ("naïve.py", 1, None, Place(1)),
        ("a.py", 3, 1, Place(3, 1)),
        ("a.py", 1, 3, Place(3, 1)),
        ("a.py", 2, 2, Place(2)),
        ("a.py", 42, 2, Place(42, 41)),
        ("a.py", 41, 3, Place(41)),
    ],
)
def test_a_finding_stands_on_a_line_of_the_diff_or_nowhere(
    path: str, line: int | None, start: int | None, expected: Place | None
) -> None:
    assert place(FILES, path, line, start) == expected


def test_lines_that_hold_odd_separators_are_counted_as_git_counts_them() -> None:
    files = read_diff("+++ b/a\n@@ -0,0 +1,2 @@\n+one\x0c\u2028\x85still one\n+two\n")
    assert set(files["a"].hunk_of) == {1, 2}


@given(st.text(max_size=300))
@settings(deadline=None, max_examples=100)
def test_any_text_is_read_as_a_diff_and_placed_on_its_own_lines(text: str) -> None:
    files = read_diff(text)
    for path, lines in files.items():
        for line in lines.hunk_of:
            assert place(files, path, line) == Place(line)


LINE = "    if x == None:"


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("```python\n    if x is None:\n```", "    if x is None:"),
        ("```\nif x is None:\n```", "    if x is None:"),
        ("```suggestion\nraise ValueError\n```", "    raise ValueError"),
        ("```suggestion\nif x is None:\n    return\n```", "    if x is None:\n        return"),
        ("```python\nif x is None:\n    return\n```", None),
        ("```python\nsomething_else()\n```", None),
        ("```python\n    if x == None:\n```", None),
        ("Write this:\n```python\nif x is None:\n```", None),
        ("Write `is None`.", None),
        ("```suggestion\n\n```", None),
        ("```suggestion\na\u202eb\n```", None),
        ("~~~suggestion\n```\nx\n```\n~~~", None),
        (None, None),
    ],
)
def test_only_exact_replacements_become_suggestions(
    advice: str | None, expected: str | None
) -> None:
    assert suggestion(advice, LINE) == expected


def finding(**changes: object) -> Finding:
    return Finding.model_validate(
        {
            "severity": "low",
            "file": "a.py",
            "line": 10,
            "title": "Query is built from text",
            "body": "A value with a quote changes the statement.",
            "recommendation": None,
        }
        | changes
    )


@pytest.mark.parametrize(
    ("second", "kept"),
    [
        ({"line": 12, "title": "The query is built from text"}, 1),
        ({"line": 14, "title": "The query is built from text"}, 2),
        ({"file": "./a.py"}, 1),
        ({"file": "b.py"}, 2),
        ({"title": "Loop never ends", "body": "The counter stands still."}, 2),
        ({"line": None}, 2),
    ],
)
def test_near_equal_findings_within_a_few_lines_are_one(
    second: dict[str, object], kept: int
) -> None:
    gated = gate(
        [finding(), finding(severity="high", **second)],
        changed=["a.py", "b.py"],
        supporting=[],
        floor=Severity.INFO,
    )
    assert len(gated.findings) == kept
    assert gated.findings[0].severity == "high"


def test_a_renamed_file_is_known_by_its_old_name_too() -> None:
    gated = gate(
        [finding(file="old.py")],
        changed=["new.py"],
        supporting=[],
        floor=Severity.INFO,
        renamed={"old.py": "new.py"},
    )
    assert [f.file for f in gated.findings] == ["new.py"]


def known(mark: str, path: str = "a.py") -> Known:
    return Known(mark=mark, path=path, line=1, severity=Severity.LOW, title="t", since="a" * 40)


def test_what_is_gone_is_fixed_only_when_its_file_was_read_or_left_the_change() -> None:
    before = [known("1"), known("2"), known("3", "b.py"), known("4", "c.py")]
    compared = compare({"1", "9"}, before, read={"a.py"}, changed={"a.py", "b.py"})
    assert dict(compared.since) == {"1": "a" * 40}
    assert [each.mark for each in compared.fixed] == ["2", "4"]
    assert [each.mark for each in compared.unseen] == ["3"]


def test_a_finding_keeps_its_mark_when_it_moves_and_equal_ones_are_told_apart() -> None:
    first = marks([("a.py", "Title!", "x = 1"), ("a.py", "title", "x  = 1")])
    assert first[0] != first[1]
    assert marks([("a.py", "title", " x = 1 ")]) == first[:1]
    assert marks([("b.py", "title", "x = 1")]) != first[:1]


def test_what_is_stored_comes_back_and_anything_else_is_nothing() -> None:
    assert read_back({"shown": stored([known("1")])}) == [known("1")]
    assert read_back({"shown": []}) == []
    for odd in (None, {}, {"shown": 1}, {"shown": [{"mark": 1}]}, {"shown": ["x"]}):
        assert read_back(odd) is None


def test_every_outcome_has_a_row_and_a_timeout_says_so() -> None:
    for outcome in Outcome:
        verdict = Verdict(outcome, False, Conclusion.SUCCESS, None, "", False)
        assert concluded(verdict) in TABLE.values()
    late = Verdict(Outcome.timed_out, True, Conclusion.FAILURE, None, "", False)
    assert concluded(late) is Conclusion.TIMED_OUT


@pytest.mark.parametrize(
    ("evidence", "severities", "fail_on", "expected"),
    [
        ("complete", [], "none", Conclusion.SUCCESS),
        ("complete", ["critical"], "none", Conclusion.SUCCESS),
        ("complete", ["high"], "high", Conclusion.FAILURE),
        ("complete", ["medium"], "high", Conclusion.SUCCESS),
        ("partial", ["high"], "high", Conclusion.FAILURE),
        ("partial", [], "high", Conclusion.NEUTRAL),
        ("missing", [], "none", Conclusion.NEUTRAL),
    ],
)
def test_serious_findings_and_weak_evidence_tighten_a_review(
    evidence: str, severities: list[str], fail_on: str, expected: Conclusion
) -> None:
    assert concluded_review(evidence, map(Severity, severities), fail_on) is expected


def test_the_documented_table_is_the_one_in_the_code() -> None:
    page = Path(__file__).parents[2].joinpath("docs/publishing.md").read_text()
    assert table() in page
    assert len(set(re.findall(r"^\| ([^|]+) \| `", table(), re.MULTILINE))) == len(Case)


def test_buttons_fit_githubs_limits() -> None:
    for action in (FIX_BUTTON, DEEPEN_BUTTON):
        assert CheckAction.model_validate(action.model_dump()) == action
