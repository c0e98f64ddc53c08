"""Rules that need the syntax tree of a Python file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from coven.sandbox.runtime.rules import Finding

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_findings(name: str, text: str) -> Iterator[Finding]:
    """What the syntax tree shows; a file that does not parse is itself a finding."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        yield Finding(
            "high",
            name,
            getattr(error, "lineno", None) or 1,
            "File does not parse",
            f"Python can't read this file: {getattr(error, 'msg', 'invalid source')}.",
            "Fix the syntax.",
        )
        return
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            yield from _mutable_defaults(name, node)
            for division, counted in unguarded_divisions(node):
                yield Finding(
                    "high",
                    name,
                    division.lineno,
                    f"Division by the length of `{counted}` without a guard",
                    f"When `{counted}` is empty this raises ZeroDivisionError.",
                    f"Return early when `{counted}` is empty.",
                )
        elif isinstance(node, ast.ExceptHandler):
            yield from _silent_handler(name, node)
        elif isinstance(node, ast.Call):
            yield from _unclosed_open(name, node)


def _mutable_defaults(name: str, node: _Function) -> Iterator[Finding]:
    for default in [*node.args.defaults, *node.args.kw_defaults]:
        if isinstance(default, ast.List | ast.Dict | ast.Set):
            yield Finding(
                "medium",
                name,
                default.lineno,
                f"Mutable default argument in `{node.name}`",
                "The default is made once and shared by all calls, so one call changes the next.",
                "Use None as the default and make the value inside the function.",
            )


def unguarded_divisions(function: _Function) -> list[tuple[ast.BinOp, str]]:
    """Divisions by ``len(x)`` in a function that never tests ``x`` or its length."""
    tested: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            tested |= {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
        elif isinstance(node, ast.ExceptHandler) and _names(node, "ZeroDivisionError"):
            return []
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
            counted = _len_of(node.right)
            if counted is not None and counted not in tested:
                found.append((node, counted))
    return found


def _names(handler: ast.ExceptHandler, error: str) -> bool:
    return handler.type is not None and error in ast.unparse(handler.type)


def _len_of(node: ast.expr) -> str | None:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "len"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
    ):
        return node.args[0].id
    return None


def _silent_handler(name: str, node: ast.ExceptHandler) -> Iterator[Finding]:
    silent = all(isinstance(item, ast.Pass) for item in node.body)
    broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
    if silent and broad:
        yield Finding(
            "medium",
            name,
            node.lineno,
            "Every error is swallowed",
            "This handler catches everything and does nothing, so defects stay hidden.",
            "Catch the errors that you expect and log or handle them.",
        )


def _unclosed_open(name: str, node: ast.Call) -> Iterator[Finding]:
    """``open(...).read()`` and its kin: nobody closes the file."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "open":
        yield Finding(
            "low",
            name,
            node.lineno,
            "File is never closed",
            "The file stays open until the garbage collector finds it.",
            "Open it in a `with` block.",
        )
