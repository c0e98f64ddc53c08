"""Changing keys in the text of a TOML file while everything else stays as it was written. Pure.

Only plain forms are edited: ``[section]`` headers and keys on one line. The result is parsed and
compared with what was meant, so a file in another style is refused, never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coven.errors import ConfigurationError

Value = str | int | bool | tuple[str, ...]


class NotMergeable(ConfigurationError):
    """The file is written in a way that this can't edit safely."""


@dataclass(frozen=True, slots=True)
class Change:
    """``[section] key = value``; None takes the key out."""

    section: str
    key: str
    value: Value | None

    def __str__(self) -> str:
        return f"{self.section}.{self.key}"


def merge(
    text: str,
    changes: Sequence[Change],
    tables: Sequence[tuple[str, Mapping[str, Value]]] = (),
) -> str:
    """``text`` with the changes made and further ``[[name]]`` tables at its end.

    Raises ``NotMergeable``.
    """
    expected = _parse(text)
    lines = text.splitlines()
    for change in changes:
        if _expect(expected, change):
            lines = _changed(lines, change)
    for name, rows in tables:
        expected.setdefault(name, []).append({key: _plain(v) for key, v in rows.items()})
        lines += ["", f"[[{name}]]", *(f"{key} = {spelled(v)}" for key, v in rows.items())]
    while lines and not lines[0]:
        lines.pop(0)
    merged = "\n".join(lines) + "\n"
    try:
        same = tomllib.loads(merged) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise NotMergeable("setup: the file is written in a style that can't be edited safely")
    return merged


def spelled(value: Value) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the one character that TOML has escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "[" + ", ".join(spelled(item) for item in value) + "]"


def _plain(value: Value | None) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotMergeable(f"setup: the file is no TOML ({error}); correct it first") from None


def _expect(data: dict[str, Any], change: Change) -> bool:
    """Make the change in ``data``; whether it was not in effect already."""
    section = data.setdefault(change.section, {})
    if not isinstance(section, dict):
        raise NotMergeable(f"setup: {change.section} is no table in this file; correct it first")
    before = section.get(change.key)
    if change.value is None:
        section.pop(change.key, None)
    else:
        section[change.key] = _plain(change.value)
    return bool(before != section.get(change.key))


def _changed(lines: list[str], change: Change) -> list[str]:
    first, last = _section(lines, change.section)
    if first is None:
        if change.value is None:
            return lines
        return [*lines, "", f"[{change.section}]", f"{change.key} = {spelled(change.value)}"]
    row = re.compile(rf"\s*{re.escape(change.key)}\s*=")
    at = next((i for i in range(first + 1, last) if row.match(lines[i])), None)
    if change.value is None:
        return lines if at is None else [*lines[:at], *lines[at + 1 :]]
    written = f"{change.key} = {spelled(change.value)}"
    if at is not None:
        return [*lines[:at], written, *lines[at + 1 :]]
    end = last
    while end > first + 1 and not lines[end - 1].strip():
        end -= 1
    return [*lines[:end], written, *lines[end:]]


def _section(lines: list[str], name: str) -> tuple[int | None, int]:
    """The line of the header, and the line after the section's last one."""
    header = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]\s*(?:#.*)?\Z")
    first = next((i for i, line in enumerate(lines) if header.match(line)), None)
    if first is None:
        return None, len(lines)
    after = (i for i in range(first + 1, len(lines)) if re.match(r"\s*\[", lines[i]))
    return first, next(after, len(lines))
