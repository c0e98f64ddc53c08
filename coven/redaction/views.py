"""Readings of a text in which hidden splits are undone, with the way back to the original.

A secret may be cut by invisible characters (U+200B, U+2061, terminal colours), written in
full-width or mathematical letters, or spelled in Unicode tag characters. Detection runs on a view
without those; a hit is mapped back, so innocent text keeps every character it had.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from functools import cache

from coven.redaction.spans import Span

_INVISIBLE = (
    "\x00-\x08\x0e-\x1f\x7f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(rf"(?:\x1b\[[0-9;]{{0,16}}[A-Za-z]|[{_INVISIBLE}])++")
_NEEDS_VIEW = re.compile(r"[^\t\n\r\x20-\x7e]")
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_TAG_LETTERS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_SPACE = re.compile(r"\s++")

# Blocks whose compatibility form is one ASCII character: full-width, superscripts, letterlike
# symbols, enclosed and mathematical letters and digits.
_STYLED = (
    (0x00AA, 0x00BB),
    (0x02B0, 0x02E5),
    (0x1D2C, 0x1D6B),
    (0x2070, 0x209D),
    (0x2100, 0x2150),
    (0x2460, 0x2500),
    (0xFE4D, 0xFE6C),
    (0xFF01, 0xFF5F),
    (0x1D400, 0x1D800),
    (0x1F130, 0x1F16A),
    (0x1FBF0, 0x1FBFA),
)


@cache
def _folding() -> dict[int, int]:
    table: dict[int, int] = {}
    for low, high in _STYLED:
        for code in range(low, high):
            plain = unicodedata.normalize("NFKC", chr(code))
            if len(plain) == 1 and plain.isascii():
                table[code] = ord(plain)
    return table


class View:
    """A text with pieces left out; knows where each of its characters stood."""

    def __init__(self, text: str, parent: View | None = None) -> None:
        self.text = text
        self._parent = parent
        # Breakpoints: from this position of the view on, so many characters were left out.
        self._at = array("q")
        self._removed = array("q")

    def without(self, hidden: re.Pattern[str], *, only_with: str | None = None) -> View:
        """A view on this view without the matches (those that hold ``only_with``, if given)."""
        pieces: list[str] = []
        view = View("", self)
        position = removed = 0
        for match in hidden.finditer(self.text):
            start, end = match.span()
            if only_with is not None and only_with not in match[0]:
                continue
            pieces.append(self.text[position:start])
            removed += end - start
            view._at.append(end - removed)
            view._removed.append(removed)
            position = end
        pieces.append(self.text[position:])
        view.text = "".join(pieces)
        return view

    def original(self, span: Span) -> Span:
        """The span of the outermost text that a span of this view stands for."""
        view: View | None = self
        start, end = span
        while view is not None:
            start, end = view._shift(start), view._shift(end - 1) + 1
            view = view._parent
        return start, end

    def _shift(self, position: int) -> int:
        at = bisect_right(self._at, position) - 1
        return position + (self._removed[at] if at >= 0 else 0)


def readings(text: str) -> list[View]:
    """The views to search: one for plain text, more when it hides characters."""
    if not _NEEDS_VIEW.search(text):
        return [View(text)]
    found = [View(text.translate(_folding())).without(_HIDDEN)]
    if _TAGS.search(text):
        found.append(View(text.translate(_TAG_LETTERS | _folding())).without(_HIDDEN))
    return found


def unwrapped(view: View) -> View | None:
    """``view`` with its lines joined, for values that a tool has wrapped; None for one line."""
    return view.without(_SPACE, only_with="\n") if "\n" in view.text else None
