"""Which findings may be published. Pure; the order is fixed and each gate counts what it withholds.

1. scope: the file is one of the changed files (a deleted one too, and a renamed one by either
   name), or a file that the review declares as supporting and that exists at the reviewed commit;
2. severity: at or above the configured floor;
3. duplicates: the same file, at most :data:`NEAR` lines apart, near-equal text; the most severe
   one stays;
4. limit: no more than :data:`MAX_FINDINGS`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coven.contract.result import Finding
from coven.values import Severity

MAX_FINDINGS = 500
"""More findings than this are noise; the rest is counted as withheld by ``limit``."""
MAX_COMPARED = 2_000
"""So many findings are compared with each other; the work would grow with the square."""
NEAR = 3
ALIKE = 0.7
"""Share of words in common (Jaccard index) from which two texts say the same."""
_MAX_WORDS = 80

_NOISE = re.compile(r"[^\w]+")


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
    renamed: Mapping[str, str] | None = None,
) -> Gated:
    """Apply all gates in order. ``renamed`` maps old names of changed files to their new ones."""
    new_names = renamed or {}
    allowed = {normal_path(path) for path in (*changed, *supporting)}
    in_scope = []
    for finding in findings:
        path = normal_path(finding.file)
        path = new_names.get(path, path)
        if path in allowed:
            in_scope.append(finding.model_copy(update={"file": path}))
    heavy = [f for f in in_scope if Severity(f.severity).rank >= floor.rank]
    heavy.sort(key=lambda f: -Severity(f.severity).rank)
    considered = heavy[:MAX_COMPARED]
    unique = _without_duplicates(considered)
    kept = unique[:MAX_FINDINGS]
    return Gated(
        tuple(kept),
        (
            ("scope", len(findings) - len(in_scope)),
            ("severity floor", len(in_scope) - len(heavy)),
            ("duplicates", len(considered) - len(unique)),
            ("limit", len(unique) - len(kept) + len(heavy) - len(considered)),
        ),
    )


def normal_path(path: str) -> str:
    """A workspace-relative path in one spelling; what leaves the tree stays recognisably so."""
    return posixpath.normpath(path.strip().replace("\\", "/")).removeprefix("./")


def essence(text: str) -> str:
    """The words of a text, without case, marks and spaces."""
    return _NOISE.sub(" ", text.casefold()).strip()


@dataclass(frozen=True, slots=True)
class _Said:
    title: str
    words: frozenset[str]

    def same_as(self, other: _Said) -> bool:
        if self.title == other.title:
            return True
        both = len(self.words & other.words)
        return both > 0 and both / len(self.words | other.words) >= ALIKE


def _without_duplicates(findings: Sequence[Finding]) -> list[Finding]:
    seen: dict[tuple[str, int | None], list[_Said]] = {}
    unique = []
    for finding in findings:
        title = essence(finding.title)
        said = _Said(title, frozenset(f"{title} {essence(finding.body)}".split()[:_MAX_WORDS]))
        if any(said.same_as(other) for key in _neighbours(finding) for other in seen.get(key, ())):
            continue
        seen.setdefault((finding.file, finding.line), []).append(said)
        unique.append(finding)
    return unique


def _neighbours(finding: Finding) -> list[tuple[str, int | None]]:
    if finding.line is None:
        return [(finding.file, None)]
    return [
        (finding.file, line) for line in range(max(1, finding.line - NEAR), finding.line + NEAR + 1)
    ]
