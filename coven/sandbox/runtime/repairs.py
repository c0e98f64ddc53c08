"""Mechanical repairs that the reference runtime can make, and the words that ask for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coven.sandbox.runtime.python_rules import unguarded_divisions

_REPLACE = re.compile(
    r"(?i)\b(?:replace|change|rename|correct)\s+`([^`\n]{1,200})`\s+(?:with|to|by|into)\s+"
    r"`([^`\n]{0,200})`"
)
_FILE = re.compile(r"[\w./-]*\w\.[A-Za-z]\w{0,9}\b")


@dataclass(frozen=True)
class Repair:
    """One kind of repair."""

    words: re.Pattern[str]
    """What an issue says when it means this defect."""
    done: str
    """What was done, for the commit and the write-up."""
    apply: Callable[[str], str]
    """New text of a file; the same text when there is nothing to repair. Never raises."""


def named_files(text: str, known: Iterable[str]) -> list[str]:
    """Files of the repository that a text names, by path or by unambiguous file name."""
    files = list(known)
    by_name: dict[str, list[str]] = {}
    for name in files:
        by_name.setdefault(name.rpartition("/")[2], []).append(name)
    found: list[str] = []
    for match in _FILE.finditer(text):
        token = match.group().removeprefix("./")
        hits = [token] if token in files else by_name.get(token, [])
        if len(hits) == 1 and hits[0] not in found:
            found.append(hits[0])
    return found


def literal_replacements(text: str) -> list[tuple[str, str]]:
    """Pairs of "replace `a` with `b`" in a text."""
    return [pair for pair in _REPLACE.findall(text) if pair[0] != pair[1]]


def guard_empty_length(text: str) -> str:
    """Return early in functions that divide by the length of an unguarded argument."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    lines = text.split("\n")
    inserts: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        arguments = {item.arg for item in [*node.args.args, *node.args.kwonlyargs]}
        for counted in dict.fromkeys(name for _, name in unguarded_divisions(node)):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            if counted not in arguments or first.lineno == node.lineno:
                continue
            indent = " " * first.col_offset
            inserts.setdefault(first.lineno, []).extend(
                [f"{indent}if not {counted}:", f"{indent}    return 0"]
            )
    for number in sorted(inserts, reverse=True):
        lines[number - 1 : number - 1] = inserts[number]
    return "\n".join(lines)


def default_to_none(text: str) -> str:
    """Replace mutable default arguments by None and make the value inside the function."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    lines = text.split("\n")
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(functions, key=lambda item: item.lineno, reverse=True):
        arguments = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        pairs = list(zip(arguments, node.args.defaults, strict=True))
        first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
        for argument, default in reversed(pairs):
            simple = isinstance(default, ast.List | ast.Dict) and ast.unparse(default) in "[]{}"
            if not simple or default.lineno != default.end_lineno or first.lineno == node.lineno:
                continue
            if not lines[default.lineno - 1].isascii():
                continue
            indent = " " * first.col_offset
            lines[first.lineno - 1 : first.lineno - 1] = [
                f"{indent}if {argument.arg} is None:",
                f"{indent}    {argument.arg} = {ast.unparse(default)}",
            ]
            line = lines[default.lineno - 1]
            lines[default.lineno - 1] = (
                line[: default.col_offset] + "None" + line[default.end_col_offset :]
            )
    return "\n".join(lines)


def _sub(pattern: str, replacement: str, flags: int = 0) -> Callable[[str], str]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.sub(replacement, text)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


REPAIRS = (
    Repair(
        _words(r"\bempty\b|ZeroDivision|divi(?:de|sion)|average|mean\b"),
        "Return early when the sequence is empty",
        guard_empty_length,
    ),
    Repair(
        _words(r"==\s*None|!=\s*None|\bis None\b|compar\w* (?:to|with) None|None comparison"),
        "Compare with None by identity",
        lambda text: re.sub(r"==\s*None\b", "is None", re.sub(r"!=\s*None\b", "is not None", text)),
    ),
    Repair(
        _words(r"yaml|unsafe load|safe_load"),
        "Load YAML with the safe loader",
        _sub(r"\byaml\.load\(([^(),]+)(?:,[^()]*)?\)", r"yaml.safe_load(\1)"),
    ),
    Repair(
        _words(r"off.by.one|IndexError|index out of range|one (?:step )?too far|last element"),
        "Stop the loop at the last element",
        _sub(r"range\(\s*(len\([^()]*\))\s*\+\s*1\s*\)", r"range(\1)"),
    ),
    Repair(
        _words(r"bare except|swallow|silent\w* (?:error|exception|fail)"),
        "Let system exits and interrupts through",
        _sub(r"^(\s*)except\s*:", r"\1except Exception:", re.MULTILINE),
    ),
    Repair(
        _words(
            r"file handle|file descriptor|(?:never|not) closed|leak\w* (?:file|handle)|with block"
        ),
        "Close the file by a with block",
        _sub(
            r"^(\s*)(return |\w+ = )(open\([^()]*\))\.read\(\)[ \t]*$",
            r"\1with \3 as handle:\n\1    \2handle.read()",
            re.MULTILINE,
        ),
    ),
    Repair(
        _words(r"mutable default|default argument|shared (?:list|dict|default)"),
        "Make the default value inside the function",
        default_to_none,
    ),
    Repair(
        _words(r"debugger|breakpoint|\bpdb\b"),
        "Remove the debugger statement",
        _sub(r"^\s*(?:breakpoint\(\)|import pdb; ?pdb\.set_trace\(\)|debugger;?)\s*\n", "", re.M),
    ),
    Repair(
        _words(r"plain http|insecure (?:url|http)|use https|http://"),
        "Use https",
        _sub(r"([\"'])http://(?!localhost|127\.)", r"\1https://"),
    ),
)
