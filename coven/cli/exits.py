"""Exit codes of ``coven-github``; documented in docs/operations.md."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""The command ran and the answer is bad: the doctor found errors, a demo step failed."""
UNUSABLE = 2
"""Wrong usage, or a configuration that can't be used."""
NOT_FOUND = 3
UNAVAILABLE = 4
"""The database or GitHub can't be reached now; try again."""
INTERRUPTED = 130
