"""Which lines of a file a pull request added or touched."""

from __future__ import annotations

import re
from collections.abc import Iterable

from coven.sandbox.runtime.brief import Brief
from coven.sandbox.runtime.git import Checkout

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


def changed_lines(patch: str) -> dict[str, set[int]]:
    """New-side line numbers of added lines, by file, from a unified diff. Never raises."""
    found: dict[str, set[int]] = {}
    current: set[int] | None = None
    line = 0
    left = 0
    for text in patch.splitlines():
        if left <= 0 and text.startswith("+++ "):
            name = text[4:].split("\t")[0].strip().strip('"')
            name = name.removeprefix("b/")
            current = found.setdefault(name, set()) if name != "/dev/null" else None
            continue
        hunk = _HUNK.match(text)
        if hunk:
            line = int(hunk.group(1))
            left = int(hunk.group(2)) if hunk.group(2) is not None else 1
            continue
        if left <= 0:
            continue
        if text.startswith("+"):
            if current is not None:
                current.add(line)
            line += 1
            left -= 1
        elif not text.startswith(("-", "\\")):
            line += 1
            left -= 1
    return found


class ChangedLines:
    """Answers which lines of a file are new: by the brief's diff, else by git, else all."""

    def __init__(self, brief: Brief, checkout: Checkout) -> None:
        self._known = changed_lines(brief.instruction)
        missing = [name for name in brief.files if not self._known.get(name)]
        if missing:
            base = checkout.maybe("merge-base", f"origin/{brief.default_branch}", "HEAD").strip()
            if base:
                self._known.update(changed_lines(self._diff(checkout, base, missing)))

    def of(self, name: str) -> set[int] | None:
        """The new lines of ``name``, or None when that can't be told."""
        return self._known.get(name) or None

    @staticmethod
    def _diff(checkout: Checkout, base: str, names: Iterable[str]) -> str:
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "-U0", "--no-renames")
        return checkout.maybe("diff", *options, base, "HEAD", "--", *list(names)[:500])
