"""The page for newcomers names only commands, options and files that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from coven.cli.main import build

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "getting-started.md").read_text()
THEIRS = {"--url", "--target"}
"""Options of the forwarders."""


def commands() -> dict[str, Any]:
    """Every command by its words."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(build()).commands.items():  # type: ignore[attr-defined]
        found[name] = command
        for below, one in getattr(command, "commands", {}).items():
            found[f"{name} {below}"] = one
    return found


def test_every_command_is_there() -> None:
    known = commands()
    named = re.findall(r"coven-github ([a-z]+(?: [a-z]+)?)", PAGE)
    assert len(named) >= 8
    for words in named:
        assert words in known or words.split()[0] in known, words


def test_every_option_is_there() -> None:
    known = {
        option
        for command in commands().values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE)) - THEIRS
    assert {"--code", "--online", "--webhook-url", "--no-fixes"} <= named
    assert named <= known


def test_the_readme_sends_newcomers_there() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "docs/getting-started.md" in readme
    assert "coven-github setup" in readme
