"""The lint rule of the effects seam: no raw write, removal, spawn or request in the product.

ruff bans the calls that have a module name (``subprocess.Popen``, ``shutil.rmtree``); methods such
as ``Path.write_text`` can only be seen by their name, so this reads the syntax trees.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

METHODS = frozenset(
    [
        *["write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "replace", "touch"],
        *["symlink_to", "hardlink_to", "chmod", "urlopen", "create_connection", "urlretrieve"],
    ]
)
FUNCTIONS = frozenset(
    [
        *[f"os.{name}" for name in ("remove", "unlink", "rmdir", "mkdir", "makedirs", "rename")],
        *[f"os.{name}" for name in ("replace", "symlink", "link", "truncate", "system", "popen")],
        *[f"os.{name}" for name in ("fork", "posix_spawn", "execv", "execve", "chmod")],
        *[f"os.{name}" for name in ("posix_spawnp", "execvp", "execvpe", "execl", "execlp")],
        *[f"os.{name}" for name in ("spawnv", "spawnve", "spawnl", "chown", "removedirs")],
        *[f"os.{name}" for name in ("renames", "mkfifo", "mknod")],
        *[f"shutil.{name}" for name in ("rmtree", "copy", "copyfile", "copytree", "move")],
        *[f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")],
        *[f"requests.{name}" for name in ("get", "post", "put", "patch", "delete", "request")],
    ]
)

# Each entry says why the raw call is right there. Tools for people (cli, sandbox) are no part of
# the receiver and the workers.
EXEMPT = {
    "coven/governance/wire.py": "the seam itself",
    "coven/settings/secret_key.py": "inside seam.perform",
    "coven/embedded.py": "inside seam.perform, or the socket folder of the embedded broker",
    "coven/store/engine.py": "the folder of the SQLite file, before there is a process to govern",
    "coven/contract/schemas.py": "writes documents for developers",
    "worker/runtime/launch.py": "runs inside the session's own process tree",
    "worker/runtime/cgroup.py": "the kernel's control files, inside seam.perform",
}
WHOLE_ROOMS_EXEMPT = ("coven/cli/", "coven/sandbox/")


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and f"{owner.id}.{node.func.attr}" in FUNCTIONS:
                yield node.lineno, f"{owner.id}.{node.func.attr}"
            elif node.func.attr in METHODS and not text_method(node):
                yield node.lineno, f".{node.func.attr}"
            elif node.func.attr == "open" and writes(node.args[:1], node):
                yield node.lineno, ".open for writing"
        elif (
            isinstance(node.func, ast.Name)
            and node.func.id == "open"
            and writes(node.args[1:2], node)
        ):
            yield node.lineno, "open for writing"


def text_method(node: ast.Call) -> bool:
    """``str.replace`` and ``datetime.replace`` are no effects: two arguments, or keywords only."""
    assert isinstance(node.func, ast.Attribute)
    if node.func.attr != "replace":
        return False
    return len(node.args) >= 2 or (not node.args and bool(node.keywords))


def writes(mode: list[ast.expr], node: ast.Call) -> bool:
    named = [word.value for word in node.keywords if word.arg == "mode"]
    for value in [*mode, *named]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return bool(set(value.value) & set("wax+"))
    return False


def product_files() -> list[str]:
    found = []
    for room in ("coven", "webhooks", "worker"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(WHOLE_ROOMS_EXEMPT):
                found.append(name)
    return found


@pytest.mark.parametrize("name", product_files())
def test_effects_go_through_the_seam(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    raw = [f"{name}:{line}: {what}" for line, what in calls(tree)]
    if name in EXEMPT:
        return
    governed = governed_lines(tree)
    left = [entry for entry in raw if int(entry.split(":")[1]) not in governed]
    assert left == [], "use coven.governance.wire: " + "; ".join(left)


def governed_lines(tree: ast.AST) -> set[int]:
    """Lines inside functions or lambdas that are handed to ``seam.perform`` in the same module."""
    handed = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "perform"
        for argument in ast.walk(node)
        if isinstance(argument, ast.Name)
    }
    lines: set[int] = set()
    for node in ast.walk(tree):
        is_effect = isinstance(node, ast.FunctionDef) and node.name in handed
        is_call = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "perform"
        )
        if is_effect or is_call:
            assert isinstance(node, ast.FunctionDef | ast.Call)
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


@pytest.mark.parametrize("name", sorted(EXEMPT))
def test_every_exemption_is_still_needed(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert list(calls(tree)), f"{name} has no raw effect any more: take it off the list"


def names_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_only_the_seam_says_that_an_effect_was_asked_for() -> None:
    users = [name for name in product_files() if "governed" in names_in(name)]
    assert users == ["coven/governance/wire.py"]


def test_only_the_chain_touches_the_rows_of_the_record() -> None:
    users = {name for name in product_files() if "signed_events" in names_in(name)}
    assert users <= {"coven/store/chain.py", "coven/store/tables_governance.py"}
    text = (ROOT / "coven/store/chain.py").read_text(encoding="utf-8")
    assert "delete(" not in text
    assert text.count("update(signed_events)") == 1, "emptying payloads, and nothing else"


@pytest.mark.parametrize(
    "code",
    [
        "path.write_text('x')",
        "open('f', 'w')",
        "path.open('ab')",
        "import os\nos.unlink('f')",
        "import shutil\nshutil.rmtree('d')",
        "path.replace(other)",
        "import requests\nrequests.get('u')",
        "open('f', mode='x')",
    ],
)
def test_the_rule_sees_raw_effects(code: str) -> None:
    assert list(calls(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["'a'.replace('b', 'c')", "now.replace(tzinfo=None)", "open('f')", "path.open('rb')"]
)
def test_the_rule_leaves_innocent_calls_alone(code: str) -> None:
    assert list(calls(ast.parse(code))) == []
