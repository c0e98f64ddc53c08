"""Which lines of a patch a review comment may stand on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class Anchor:
    """One line of a diff: its hunk, its numbers on both sides, and the text up to it."""

    hunk: int
    left: int | None
    right: int | None
    index: int


def anchors(patch: str) -> Iterator[Anchor]:
    """Every line of the patch that exists on some side."""
    left = right = 0
    hunk = -1
    for index, line in enumerate(patch.split("\n")):
        start = HUNK.match(line)
        if start:
            hunk += 1
            left, right = int(start[1]), int(start[2])
        elif line.startswith("+"):
            yield Anchor(hunk, None, right, index)
            right += 1
        elif line.startswith("-"):
            yield Anchor(hunk, left, None, index)
            left += 1
        elif not line.startswith("\\"):
            yield Anchor(hunk, left, right, index)
            left, right = left + 1, right + 1


def find(patch: str, line: int, side: str) -> Anchor | None:
    """The place of a line number on a side, if the diff shows it."""
    for anchor in anchors(patch):
        if (anchor.right if side == "RIGHT" else anchor.left) == line:
            return anchor
    return None


def hunk_text(patch: str, anchor: Anchor) -> str:
    """``diff_hunk``: from the hunk's header to the line itself."""
    lines = patch.split("\n")
    start = anchor.index
    while start > 0 and not HUNK.match(lines[start]):
        start -= 1
    return "\n".join(lines[start : anchor.index + 1])
