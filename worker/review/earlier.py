"""What earlier reviews of this thread have shown: what is new, what remains, what was fixed.

Each completed review keeps the list of what it showed beside its result. The next one compares, so
that nothing is posted twice and what was mended is said. A finding is known by its file, its words
and the text of its line, so that it stays the same one when lines above it move.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from coven.values import Severity
from worker.review.gates import essence

KEY = "shown"
"""Where the list stands in the stored result of a task."""
MAX_KNOWN = 500


class Known(BaseModel):
    """One finding that an earlier review showed. Texts are redacted, not yet neutralised."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    mark: str
    path: str
    line: int | None
    severity: Severity
    title: str
    since: str
    """The commit at which it was first shown."""


@dataclass(frozen=True, slots=True)
class Compared:
    """``since`` maps marks of findings that were shown before to the commit of their first time."""

    since: Mapping[str, str]
    fixed: tuple[Known, ...]
    unseen: tuple[Known, ...]
    """Shown before, not found now, but their files were not read this time: nobody knows."""


def marks(findings: Sequence[tuple[str, str, str]]) -> list[str]:
    """A stable name per finding from (path, title, text of its line)."""
    seen: Counter[str] = Counter()
    named = []
    for path, title, text in findings:
        words = "\0".join((path, essence(title), " ".join(text.split())))
        digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
        seen[digest] += 1
        named.append(digest if seen[digest] == 1 else f"{digest}-{seen[digest]}")
    return named


def compare(
    found: Collection[str], before: Sequence[Known], *, read: Collection[str], changed: set[str]
) -> Compared:
    """``read`` are the files that this review looked at, ``changed`` those that the head changes.

    What is gone counts as fixed when its file was read, or is not part of the change any more.
    """
    since = {known.mark: known.since for known in before if known.mark in found}
    gone = [known for known in before if known.mark not in found]
    looked = set(read)
    fixed = [known for known in gone if known.path in looked or known.path not in changed]
    unseen = [known for known in gone if known.path in changed and known.path not in looked]
    return Compared(since, tuple(fixed), tuple(unseen))


def stored(known: Sequence[Known]) -> list[dict[str, Any]]:
    """For the row of the task."""
    return [each.model_dump(mode="json") for each in known[:MAX_KNOWN]]


def read_back(result: Mapping[str, Any] | None) -> list[Known] | None:
    """What an earlier task kept; None when it kept nothing that can be read."""
    kept = (result or {}).get(KEY)
    if not isinstance(kept, list):
        return None
    try:
        return [Known.model_validate(each) for each in kept[:MAX_KNOWN]]
    except ValidationError:
        return None
