"""Characters that show nothing, and a way to show them. Pure."""

from __future__ import annotations

import unicodedata

_KEPT_CONTROLS = frozenset("\n\t")
# Render as nothing, but are neither controls nor format characters for Unicode.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def is_hidden(char: str) -> bool:
    """Whether a character shows nothing: zero-width, bidi, tag, selector, control."""
    if char in _KEPT_CONTROLS:
        return False
    return (
        unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
        or char in _BLANK_LETTERS
        or "\ufe00" <= char <= "\ufe0e"
        or "\U000e0100" <= char <= "\U000e01ef"
    )


def with_visible(text: str) -> tuple[str, int]:
    """Show invisible characters as escapes, where they must be seen; and their count."""
    count = 0
    shown = []
    for char in text:
        # A line end of Windows is the content of a file and no trick.
        if char == "\r" or not is_hidden(char):
            shown.append(char)
            continue
        count += 1
        shown.append(f"\\u{{{ord(char):x}}}")
    return "".join(shown), count
