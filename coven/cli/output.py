"""Showing things: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Where tables go. Wide enough not to cut ids when it is no terminal."""
    out = Console(highlight=False, markup=False, emoji=False)
    return out if out.is_terminal else Console(width=160, highlight=False, markup=False)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print a table, or ``empty`` when there are no rows."""
    listed = [[plain(cell) for cell in row] for row in rows]
    if not listed:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def show_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print ``name  value`` lines; None values are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            table.add_row(Text(name), Text(plain(value)))
    console().print(table)


def show_json(value: object) -> None:
    """Print one JSON document."""
    json.dump(value, sys.stdout, indent=2, sort_keys=True, default=_json_default)
    sys.stdout.write("\n")


def complain(text: str) -> None:
    """Say on stderr what went wrong, one line per problem."""
    for line in text.splitlines() or [""]:
        print(f"coven-github: {plain(line)}", file=sys.stderr)


def plain(value: object) -> str:
    """A cell: times short, nothing for None, no control characters from outside."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    text = str(value)
    return "".join(char if char.isprintable() else " " for char in text)


def _json_default(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
