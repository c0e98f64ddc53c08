"""Gates and anchors: which findings are shown, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.contract.result import Finding
from coven.values import Severity
from worker.review.anchors import changed_lines
from worker.review.gates import MAX_FINDINGS, gate, normal_path

PATCH = """diff --git a/src/app.py b/src/app.py
index 111..222 100644
--- a/src/app.py
+++ b/src/app.py
@@ -1,3 +1,4 @@
 import os
+import sys
\x20
-old = 1
+new = 1
@@ -20,0 +22,2 @@ def f():
+++ not a header
+last
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
"""


def finding(file: str = "src/app.py", line: int | None = 2, **extra: object) -> Finding:
    return Finding.model_validate(
        {
            "severity": "medium",
            "file": file,
            "line": line,
            "title": "A title",
            "body": "b",
            "recommendation": None,
        }
        | extra
    )


def test_lines_of_the_new_side_are_anchors() -> None:
    assert changed_lines(PATCH) == {"src/app.py": {1, 2, 3, 4, 22, 23}}


def test_a_deleted_file_has_no_anchor() -> None:
    assert "gone.py" not in changed_lines(PATCH)


@given(st.text(max_size=300))
@settings(deadline=None, max_examples=200)
def test_any_text_is_read_as_a_patch_without_an_error(text: str) -> None:
    for numbers in changed_lines(text).values():
        assert all(isinstance(number, int) for number in numbers)


def test_findings_outside_the_change_are_withheld_and_counted() -> None:
    gated = gate(
        [finding(), finding(file="other.py")],
        changed=["src/app.py"],
        supporting=[],
        floor=Severity.INFO,
    )
    assert [f.file for f in gated.findings] == ["src/app.py"]
    assert dict(gated.withheld)["scope"] == 1


def test_a_supporting_file_is_in_scope() -> None:
    gated = gate(
        [finding(file="lib/x.py")], changed=[], supporting=["lib/x.py"], floor=Severity.INFO
    )
    assert len(gated.findings) == 1


def test_the_severity_floor_withholds_what_is_below() -> None:
    gated = gate(
        [finding(severity="low"), finding(severity="high", line=3)],
        changed=["src/app.py"],
        supporting=[],
        floor=Severity.MEDIUM,
    )
    assert [f.severity for f in gated.findings] == [Severity.HIGH]
    assert dict(gated.withheld)["severity floor"] == 1


def test_of_near_equal_findings_the_most_severe_stays() -> None:
    gated = gate(
        [
            finding(title="SQL injection!", severity="low"),
            finding(title="sql  injection", severity="critical", file="./src/app.py"),
        ],
        changed=["src/app.py"],
        supporting=[],
        floor=Severity.INFO,
    )
    assert [f.severity for f in gated.findings] == [Severity.CRITICAL]
    assert dict(gated.withheld)["duplicates"] == 1


def test_the_most_severe_come_first() -> None:
    gated = gate(
        [finding(severity=s, line=n * 10 + 1) for n, s in enumerate(["low", "critical", "high"])],
        changed=["src/app.py"],
        supporting=[],
        floor=Severity.INFO,
    )
    assert [str(f.severity) for f in gated.findings] == ["critical", "high", "low"]


def test_a_flood_of_findings_is_bounded_and_counted() -> None:
    flood = [finding(line=n * 10 + 1) for n in range(MAX_FINDINGS + 7)]
    gated = gate(flood, changed=["src/app.py"], supporting=[], floor=Severity.INFO)
    assert len(gated.findings) == MAX_FINDINGS
    assert dict(gated.withheld)["limit"] == 7


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./a.py", "a.py"),
        ("a//b.py", "a/b.py"),
        ("a\\b.py", "a/b.py"),
        ("../x", "../x"),
        ("/etc/passwd", "/etc/passwd"),
        (" a.py ", "a.py"),
    ],
)
def test_paths_have_one_spelling(path: str, expected: str) -> None:
    assert normal_path(path) == expected
