"""From a unified diff to the lines of the new side that a finding may stand on. Pure."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


def changed_lines(patch: str) -> dict[str, set[int]]:
    """Per file, the line numbers of the new version that the diff shows (added and context).

    GitHub accepts inline remarks on exactly these lines.
    """
    lines: dict[str, set[int]] = {}
    current: set[int] | None = None
    number = left = 0
    for line in patch.splitlines():
        if left <= 0:
            if line.startswith("+++ "):
                current = _start_file(lines, line)
            elif (hunk := _HUNK.match(line)) is not None:
                number, left = int(hunk[1]), int(hunk[2] or 1)
            continue
        if line.startswith(("+", " ")) or line == "":
            if current is not None:
                current.add(number)
            number += 1
            left -= 1
    return lines


def _start_file(lines: dict[str, set[int]], header: str) -> set[int] | None:
    name = header.removeprefix("+++ ").split("\t")[0]
    if name == "/dev/null":
        return None
    return lines.setdefault(name.removeprefix("b/"), set())
