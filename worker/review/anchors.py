"""From a unified diff to the lines that a finding may stand on. Pure.

GitHub takes inline comments on exactly the lines that a diff shows. A finding on such a line stands
there. One that misses them by at most :data:`NEAR` lines stands on the nearest one and names its
own line in words: models are often off by one or two. Anything else has no line and stands in the
text: no line given, a file that was deleted or is binary, a line beyond the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NEAR = 3
"""Lines between a finding and the line of the diff that it may stand on instead."""

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, '"': 34, "\\": 92}


@dataclass(frozen=True, slots=True)
class FileLines:
    """The new side of one file, as far as the diff shows it: added lines and context."""

    hunk_of: dict[int, int] = field(default_factory=dict)
    """Line number -> which hunk it is in."""
    text_of: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding stands. ``start_line`` is None for a single line, and less than ``line``."""

    line: int
    start_line: int | None = None
    exact: bool = True
    """False: the nearest line of the diff, not the finding's own."""


def read_diff(patch: str) -> dict[str, FileLines]:
    """Per file, the lines of the new version. Reads any text without an error."""
    files: dict[str, FileLines] = {}
    current: FileLines | None = None
    number = left = 0
    hunk = -1
    for line in patch.split("\n"):
        if left <= 0:
            if line.startswith("diff --git "):
                current = None
            elif line.startswith("+++ "):
                current, hunk = _start_file(files, line), -1
            elif (found := _HUNK.match(line)) is not None:
                number, left = int(found[1]), int(found[2] or 1)
                hunk += 1
            continue
        if line.startswith(("+", " ")) or line == "":
            if current is not None and number > 0:
                current.hunk_of[number] = hunk
                current.text_of[number] = line[1:].rstrip("\r")
            number += 1
            left -= 1
    return files


def changed_lines(patch: str) -> dict[str, set[int]]:
    """Per file, the line numbers of the new version that the diff shows."""
    return {name: set(lines.hunk_of) for name, lines in read_diff(patch).items()}


def place(
    files: Mapping[str, FileLines], path: str, line: int | None, start_line: int | None = None
) -> Place | None:
    """Where on the diff a finding stands, or None when it has no place there.

    A reversed range is turned round, and a range over several hunks begins in the hunk of its end.
    """
    lines = files.get(path)
    if lines is None or not lines.hunk_of or line is None:
        return None
    if start_line is not None and start_line > line:
        start_line, line = line, start_line
    at = line
    if at not in lines.hunk_of:
        near = [n for step in range(1, NEAR + 1) for n in (line - step, line + step)]
        found = next((n for n in near if n in lines.hunk_of), None)
        if found is None:
            return None
        return Place(found, exact=False)
    if start_line is None or start_line == at:
        return Place(at)
    hunk = lines.hunk_of[at]
    same = [n for n in lines.hunk_of if start_line <= n < at and lines.hunk_of[n] == hunk]
    return Place(at, min(same, default=None))


def _start_file(files: dict[str, FileLines], header: str) -> FileLines | None:
    name = header.removeprefix("+++ ").rstrip("\r")
    name = _unquoted(name) if name.startswith('"') else name.split("\t")[0]
    if name == "/dev/null":
        return None
    return files.setdefault(name.removeprefix("b/"), FileLines())


def _unquoted(name: str) -> str:
    """A name as git quotes it: in quotation marks, with C escapes of its bytes."""
    raw = bytearray()
    at = 1
    inside = name[: name.rfind('"')] if name.rfind('"') > 0 else name
    for found in _ESCAPE.finditer(inside, 1):
        raw += inside[at : found.start()].encode("utf-8", "surrogateescape")
        code = found[1]
        raw.append(int(code, 8) & 0xFF if len(code) == 3 else _ESCAPED.get(code, ord(code) & 0xFF))
        at = found.end()
    raw += inside[at:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")
