"""Globs whose time is bounded: no regular expressions, no backtracking over more than one star.

Paths: ``*`` any run within a segment, ``?`` one character, ``[ab]`` ``[a-z]`` ``[!a]`` a class,
``**`` as a whole segment any number of segments. ``X/**`` also means ``X`` itself. Leading dots
are ordinary, braces and backslashes are literal, both ends are anchored. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

_Atom: TypeAlias = "str | _Class | None"
"""A literal character, a class (``?`` excludes nothing), or ``None`` for ``*``."""


class GlobRefused(ValueError):
    """The pattern can't be read; the message says why."""


@dataclass(frozen=True, slots=True)
class _Class:
    members: frozenset[str]
    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def __contains__(self, char: str) -> bool:
        found = char in self.members or any(low <= char <= high for low, high in self.ranges)
        return found != self.negated


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern over one run of text."""

    atoms: tuple[_Atom, ...]
    literal: str | None
    begins: str
    ends: str
    """What every text that is meant begins and ends with; most are passed over by these alone."""

    @classmethod
    def of(cls, atoms: tuple[_Atom, ...]) -> Glob:
        """From its atoms."""
        begins, ends = _literal(atoms), _literal(atoms[::-1])[::-1]
        return cls(atoms, begins if len(begins) == len(atoms) else None, begins, ends)

    def matches(self, text: str) -> bool:
        """Whether the whole text is meant."""
        if self.literal is not None:
            return text == self.literal
        if not (text.startswith(self.begins) and text.endswith(self.ends)):
            return False
        return _match(self.atoms, text)


@dataclass(frozen=True, slots=True)
class PathGlob:
    """A pattern over the segments of an absolute path; ``None`` stands for ``**``."""

    text: str
    segments: tuple[Glob | None, ...]
    literals: frozenset[str]
    """Parts that stand in every path that is meant; most rules are passed over by these alone."""

    @classmethod
    def of(cls, text: str, segments: tuple[Glob | None, ...]) -> PathGlob:
        """From its parts."""
        found = (glob.literal for glob in segments if glob is not None)
        return cls(text, segments, frozenset(part for part in found if part is not None))

    def above(self) -> tuple[PathGlob, ...]:
        """The folders above, as far as the pattern names them: ``/a`` for ``/a/b/**``."""
        return tuple(
            PathGlob.of(self.text, self.segments[:end])
            for end in range(1, len(self.segments))
            if self.segments[end - 1] is not None
        )

    def matches(self, segments: tuple[str, ...]) -> bool:
        """Whether the path with these segments is meant."""
        return self.literals.issubset(segments) and _match_segments(self.segments, segments)


def path_glob(text: str) -> PathGlob:
    """Read a path pattern. Raises ``GlobRefused``."""
    if not text or "\0" in text:
        raise GlobRefused("a glob must be a text without NUL bytes")
    if not text.startswith(("/", "**")):
        raise GlobRefused(f"`{text}` can never match: begin with `/` or `**`")
    parts = [part for part in text.split("/") if part != ""]
    segments: list[Glob | None] = []
    for part in parts:
        if part in (".", ".."):
            raise GlobRefused(f"`{text}` can never match: leave `{part}` out")
        if part == "**":
            if not segments or segments[-1] is not None:
                segments.append(None)
        elif "**" in part:
            raise GlobRefused(f"`{text}` has `**` inside a segment; write it as a whole segment")
        else:
            segments.append(wildcard(part, classes=True))
    return PathGlob.of(text, tuple(segments))


def wildcard(text: str, *, classes: bool = False) -> Glob:
    """A pattern with ``*``; with ``classes`` also ``?`` and ``[..]``. Raises ``GlobRefused``."""
    atoms: list[_Atom] = []
    place = 0
    while place < len(text):
        char = text[place]
        place += 1
        if char == "*":
            if not atoms or atoms[-1] is not None:
                atoms.append(None)
        elif classes and char == "?":
            atoms.append(_Class(frozenset(), (), True))
        elif classes and char == "[":
            found, place = _class(text, place)
            atoms.append(found)
        else:
            atoms.append(char)
    return Glob.of(tuple(atoms))


def _literal(atoms: tuple[_Atom, ...]) -> str:
    return "".join(takewhile(lambda atom: isinstance(atom, str), atoms))  # type: ignore[arg-type]


def _class(text: str, place: int) -> tuple[_Class, int]:
    end = text.find("]", place + (2 if text[place : place + 1] in ("!", "^") else 1))
    if end < 0:
        raise GlobRefused(f"`{text}` opens a class and never closes it; add `]`")
    inside = text[place:end]
    negated = inside[:1] in ("!", "^")
    inside = inside[1:] if negated else inside
    members: set[str] = set()
    ranges: list[tuple[str, str]] = []
    while inside:
        if len(inside) >= 3 and inside[1] == "-":
            if inside[0] > inside[2]:
                raise GlobRefused(f"`{text}` has a range that runs backwards; swap its ends")
            ranges.append((inside[0], inside[2]))
            inside = inside[3:]
        else:
            members.add(inside[0])
            inside = inside[1:]
    return _Class(frozenset(members), tuple(ranges), negated), end + 1


def _match(atoms: tuple[_Atom, ...], text: str) -> bool:
    """Two pointers and one place to return to: at most ``len(atoms) * len(text)`` steps."""
    at = here = 0
    star = mark = -1
    while here < len(text):
        atom = atoms[at] if at < len(atoms) else ""
        if atom is None:
            star, mark = at, here
            at += 1
        elif atom and text[here] in atom:
            at += 1
            here += 1
        elif star >= 0:
            mark += 1
            at, here = star + 1, mark
        else:
            return False
    return all(atom is None for atom in atoms[at:])


def _match_segments(globs: tuple[Glob | None, ...], segments: tuple[str, ...]) -> bool:
    at = here = 0
    star = mark = -1
    while here < len(segments):
        if at < len(globs) and globs[at] is None:
            star, mark = at, here
            at += 1
            continue
        glob = globs[at] if at < len(globs) else None
        if glob is not None and glob.matches(segments[here]):
            at += 1
            here += 1
        elif star >= 0:
            mark += 1
            at, here = star + 1, mark
        else:
            return False
    return all(glob is None for glob in globs[at:])
