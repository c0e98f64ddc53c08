"""The page of commands is the table of verbs."""

from __future__ import annotations

from pathlib import Path

from coven.commands_page import render

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_page_is_the_one_that_the_table_makes() -> None:
    """Made anew by ``python -m coven.commands_page > docs/commands.md``."""
    assert PAGE.read_text() == render()
