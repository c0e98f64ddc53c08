"""The page for newcomers names only commands, options and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import typer

from coven.cli.main import build

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "getting-started.md").read_text()
THEIRS = {"--url", "--target"}
"""Options of the forwarders."""


def commands() -> dict[str, click.Command]:
    """Every command by its words."""
    found: dict[str, click.Command] = {}
    top = typer.main.get_command(build())
    assert isinstance(top, click.Group)
    for name, command in top.commands.items():
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": one for below, one in command.commands.items()}
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
    named = set(re.findall(r"(?<![\w-])(--[a-z-]+)", PAGE)) - THEIRS
    assert {"--code", "--online", "--webhook-url", "--no-fixes"} <= named
    assert named <= known


def test_the_readme_sends_newcomers_there() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "docs/getting-started.md" in readme
    assert "coven-github setup" in readme
