"""When a recommendation may become a suggestion block that one click applies. Pure.

Conservative, since a wrong suggestion is worse than none. All of these must hold:

- the recommendation is one fenced code block and nothing else;
- the finding stands on its own line of the diff, so exactly this line would be replaced;
- the block is marked ``suggestion``, or it is one line that keeps at least half of the words of the
  line that it replaces (so it is a version of it, not an example);
- it differs from the line, has at most :data:`MAX_LINES` lines and holds no fence of its own.

A block without indentation gets the indentation of the line.
"""

from __future__ import annotations

import re

MAX_LINES = 20
MAX_LINE = 400
KEPT = 0.5

_BLOCK = re.compile(r"(```|~~~)[ \t]*([\w+#.-]*)[ \t]*\n(.*?)\n?\1", re.DOTALL)
_WORD = re.compile(r"\w+")


def suggestion(recommendation: str | None, line: str) -> str | None:
    """The replacement for ``line`` (without its line end), or None."""
    found = _BLOCK.fullmatch((recommendation or "").replace("\r\n", "\n").strip())
    if found is None:
        return None
    marked, code = found[2].casefold() == "suggestion", found[3]
    rows = code.split("\n")
    if "```" in code or "~~~" in code or not code.strip() or len(rows) > MAX_LINES:
        return None
    if any(len(row) > MAX_LINE or not row.replace("\t", "").isprintable() for row in rows):
        return None
    if not marked and (len(rows) > 1 or not _version_of(code, line)):
        return None
    indent = line[: len(line) - len(line.lstrip())]
    if indent and not rows[0][:1].isspace():
        rows = [indent + row if row.strip() else row for row in rows]
    replacement = "\n".join(row.rstrip() for row in rows)
    return replacement if replacement != line.rstrip() else None


def _version_of(new: str, old: str) -> bool:
    before, after = set(_WORD.findall(old)), set(_WORD.findall(new))
    return bool(before) and len(before & after) / len(before) >= KEPT
