"""Which findings may be published. Pure; the order is fixed and each gate counts what it withholds.

1. scope: the file is one of the changed files, or a file the review declares as supporting;
2. severity: at or above the configured floor;
3. duplicates: the same file and line with near-equal text; the most severe one stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coven.contract.result import Finding
from coven.values import Severity

MAX_FINDINGS = 500
"""More findings than this are noise; the rest is counted as withheld by ``limit``."""

_NOISE = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Gated:
    """What passed, most severe first, and how many each gate withheld."""

    findings: tuple[Finding, ...]
    withheld: tuple[tuple[str, int], ...]


def gate(
    findings: Sequence[Finding],
    *,
    changed: Iterable[str],
    supporting: Iterable[str],
    floor: Severity,
) -> Gated:
    """Apply all gates in order."""
    allowed = {normal_path(path) for path in (*changed, *supporting)}
    in_scope = [f for f in findings if normal_path(f.file) in allowed]
    heavy = [f for f in in_scope if Severity(f.severity).rank >= floor.rank]
    heavy.sort(key=lambda f: -Severity(f.severity).rank)
    seen: set[tuple[str, int | None, str]] = set()
    unique = []
    for finding in heavy:
        key = (normal_path(finding.file), finding.line, _essence(finding.title))
        if key not in seen:
            seen.add(key)
            unique.append(finding)
    kept = unique[:MAX_FINDINGS]
    return Gated(
        tuple(kept),
        (
            ("scope", len(findings) - len(in_scope)),
            ("severity floor", len(in_scope) - len(heavy)),
            ("duplicates", len(heavy) - len(unique)),
            ("limit", len(unique) - len(kept)),
        ),
    )


def normal_path(path: str) -> str:
    """A workspace-relative path in one spelling; what leaves the tree stays recognisably so."""
    return posixpath.normpath(path.strip().replace("\\", "/")).removeprefix("./")


def _essence(text: str) -> str:
    return _NOISE.sub(" ", text.casefold()).strip()
