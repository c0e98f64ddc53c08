"""The static rules find real defects at real lines, and leave clean code alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.sandbox.runtime.changes import changed_lines
from coven.sandbox.runtime.repairs import (
    REPAIRS,
    default_to_none,
    guard_empty_length,
    literal_replacements,
    named_files,
)
from coven.sandbox.runtime.rules import findings


def _titles(name: str, text: str) -> list[tuple[int, str, str]]:
    return [(item.line, item.severity, item.title) for item in findings(name, text, None)]


@pytest.mark.parametrize(
    ("name", "line", "severity", "title"),
    [
        ("a.py", 'password = "hunter2hunter2"', "critical", "Credential written into the source"),
        ("a.js", "const apiKey = 'abcdefgh1234'", "critical", "Credential written into the source"),
        ("a.py", "eval(text)", "high", "Text is run as code"),
        ("a.py", "run(cmd, shell=True)", "high", "Command goes through a shell"),
        ("a.py", 'q = f"SELECT * FROM t WHERE a = {x}"', "high", "SQL is built from text"),
        ("a.py", 'q = "SELECT * FROM t WHERE a = " + x', "high", "SQL is built from text"),
        ("a.py", "yaml.load(f)", "high", "YAML is loaded with an unsafe loader"),
        ("a.py", "if x == None: pass", "low", "Comparison with None by value"),
        ("a.py", "breakpoint()", "medium", "Debugger statement left in"),
        ("a.ts", "  debugger;", "medium", "Debugger statement left in"),
        ("a.py", 'u = "http://api.acme.test/x"', "low", "Plain HTTP address"),
        ("a.py", "r = range(len(x) + 1)", "high", "Loop runs one step too far"),
        ("a.js", "for (i = 0; i <= a.length; i++) {}", "high", "Loop runs one step too far"),
        ("a.go", "x := 1 // TODO later", "info", "Unfinished work is marked here"),
        ("a.py", "def f(x=[]): return x", "medium", "Mutable default argument in `f`"),
        ("a.py", "x = open(p).read()", "low", "File is never closed"),
        ("a.py", "def f(:", "high", "File does not parse"),
    ],
)
def test_a_defect_is_found(name: str, line: str, severity: str, title: str) -> None:
    assert _titles(name, line + "\n") == [(1, severity, title)]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.py", "password = os.environ['PASSWORD']"),
        ("a.py", 'password = "${PASSWORD_FILE}"'),
        ("a.py", "ast.literal_eval(text)"),
        ("a.py", "yaml.load(f, Loader=SafeLoader)"),
        ("a.py", "if x is None: y = 1"),
        ("a.py", 'u = "http://localhost:8080"'),
        ("a.py", 'cursor.execute("SELECT * FROM t WHERE a = ?", (x,))'),
        ("a.py", "def f(x=()): return x"),
        ("a.py", "r = range(len(x))"),
        ("a.txt", "eval(text)"),
    ],
)
def test_clean_code_is_left_alone(name: str, line: str) -> None:
    assert _titles(name, line + "\n") == []


def test_a_division_is_found_only_without_a_guard() -> None:
    bare = "def mean(v):\n    return sum(v) / len(v)\n"
    guarded = "def mean(v):\n    if not v:\n        return 0\n    return sum(v) / len(v)\n"
    assert [line for line, _, _ in _titles("a.py", bare)] == [2]
    assert _titles("a.py", guarded) == []


def test_a_silent_handler_is_found() -> None:
    text = "try:\n    f()\nexcept:\n    pass\n"
    assert [(line, severity) for line, severity, _ in _titles("a.py", text)] == [(3, "medium")]


def test_only_changed_lines_are_reported() -> None:
    text = "eval(a)\neval(b)\neval(c)\n"
    assert [item.line for item in findings("a.py", text, {2})] == [2]


PATCH = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,3 @@
 one
+two
 three
@@ -10 +11,2 @@ def f():
-old
+++ new
+newer
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
"""


def test_new_lines_are_read_from_a_patch() -> None:
    assert changed_lines(PATCH) == {"a.py": {2, 11, 12}}


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="+-@ ,0123456789ab/\n\\", max_size=300))
def test_any_text_is_a_patch_without_trouble(text: str) -> None:
    assert all(line >= 0 for lines in changed_lines(text).values() for line in lines)


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=300))
def test_rules_and_repairs_take_any_text(text: str) -> None:
    findings("a.py", text, None)
    for repair in REPAIRS:
        repair.apply(text)


def test_an_empty_sequence_is_guarded_after_the_docstring() -> None:
    text = 'def mean(v):\n    """Average."""\n    return sum(v) / len(v)\n'
    fixed = guard_empty_length(text)
    assert fixed == (
        'def mean(v):\n    """Average."""\n    if not v:\n        return 0\n'
        "    return sum(v) / len(v)\n"
    )
    namespace: dict[str, object] = {}
    exec(fixed, namespace)
    mean = namespace["mean"]
    assert callable(mean)
    assert mean([]) == 0
    assert mean([1, 2]) == 1.5


def test_a_mutable_default_is_made_inside() -> None:
    fixed = default_to_none("def add(x, seen=[], tags={}):\n    seen.append(x)\n    return seen\n")
    namespace: dict[str, object] = {}
    exec(fixed, namespace)
    add = namespace["add"]
    assert callable(add)
    assert add(1) == [1]
    assert add(2) == [2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a == None or b != None:\n", "if a is None or b is not None:\n"),
        ("x = yaml.load(f)\n", "x = yaml.safe_load(f)\n"),
        ("x = yaml.load(f, Loader=L)\n", "x = yaml.safe_load(f)\n"),
        ("for i in range(len(x) + 1):\n", "for i in range(len(x)):\n"),
        ("try:\n    f()\nexcept:\n    g()\n", "try:\n    f()\nexcept Exception:\n    g()\n"),
        (
            "def f(p):\n    return open(p).read()\n",
            "def f(p):\n    with open(p) as handle:\n        return handle.read()\n",
        ),
        ("a = 1\nbreakpoint()\nb = 2\n", "a = 1\nb = 2\n"),
    ],
)
def test_a_mechanical_repair(before: str, after: str) -> None:
    text = before
    for repair in REPAIRS:
        text = repair.apply(text)
    assert text == after


def test_files_are_named_by_path_or_by_an_unambiguous_name() -> None:
    known = ["src/calc.py", "a/util.py", "b/util.py", "README.md"]
    assert named_files("`calc.py` fails; see util.py and ./README.md, v1.2", known) == [
        "src/calc.py",
        "README.md",
    ]


def test_a_literal_replacement_is_understood() -> None:
    assert literal_replacements("Please replace `teh` with `the`.") == [("teh", "the")]
    assert literal_replacements("replace it") == []
