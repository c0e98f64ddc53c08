"""Rules about ``filesystem_write``: which places, which operations, how many bytes. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from coven.governance.actions import FilesystemWrite, Op
from coven.governance.globs import PathGlob, path_glob
from coven.governance.matchers import Condition, Finding, yes
from coven.governance.paths import PathUnclear, Physical, Places, places, text_of
from coven.governance.shapes import InvalidMatcher, Members, refusing
from coven.governance.world import Scope, World

KEYS = ("glob", "glob_any", "glob_not_in", "op", "max_bytes")
NEEDED = ("glob", "glob_any", "glob_not_in", "max_bytes")

_WITH_TREE = frozenset({Op.DELETE, Op.RENAME, Op.SYMLINK})
"""These act on all that is below the path."""

_WITHOUT_BYTES = frozenset({Op.DELETE, Op.RENAME, Op.CHMOD, Op.SYMLINK})


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of one write; ``places`` is ``None`` when nobody can say where it goes."""

    action: FilesystemWrite
    places: Places | None
    folded: bool


@dataclass(frozen=True, slots=True)
class _Globs:
    """The spellings of one glob, and their beginnings that name a folder above it."""

    within: tuple[PathGlob, ...]
    above: tuple[PathGlob, ...]


@dataclass(frozen=True, slots=True)
class _Area:
    """One glob as written, and with case folded for volumes that do not tell case apart."""

    exact: _Globs
    folded: _Globs

    def globs(self, facts: FileFacts) -> _Globs:
        """The spellings that suit the volume."""
        return self.folded if facts.folded else self.exact


def facts(
    action: FilesystemWrite, unknown: frozenset[str], scope: Scope, world: World
) -> FileFacts:
    """The facts of one write."""
    if "path" in unknown:
        return FileFacts(action, None, folded=False)
    base = action.dir_fd_root or scope.base
    if base is not None and not base.startswith("/") and scope.base:
        base = f"{scope.base}/{base}"
    try:
        found = places(action.path, base, world.physical, scope.views)
    except PathUnclear:
        return FileFacts(action, None, folded=False)
    folded = any(world.folds_case(text_of(place)) for place in found.inside)
    if folded:
        found = Places(_fold(found.any), _fold(found.inside), found.device)
    return FileFacts(action, found, folded)


def conditions(members: Members, physical: Physical) -> tuple[Condition[FileFacts], ...]:
    """The parts of one matcher. Raises ``InvalidMatcher``."""
    found: list[Condition[FileFacts]] = []
    if "glob" in members:
        found.append(_within(_areas("glob", members.expanded("glob"), physical)))
    if "glob_any" in members:
        found.append(_within(_areas("glob_any", members.texts("glob_any"), physical)))
    if "glob_not_in" in members:
        found.append(_outside(_areas("glob_not_in", members.texts("glob_not_in"), physical)))
    if "op" in members:
        found.append(_operation(members.texts("op")))
    if "max_bytes" in members:
        found.append(_larger(members.count("max_bytes")))
    return tuple(found)


def _within(areas: Sequence[_Area]) -> Condition[FileFacts]:
    def condition(facts: FileFacts) -> Finding:
        if facts.places is None:
            return Finding.POSSIBLE
        spots, op = facts.places.any, facts.action.op
        with_tree = op is None or op in _WITH_TREE
        found = Finding.NO
        for area in areas:
            globs = area.globs(facts)
            for spot in spots:
                for glob in globs.within:
                    if glob.matches(spot):
                        return Finding.YES
                if with_tree and (not spot or any(glob.matches(spot) for glob in globs.above)):
                    found = max(found, Finding.YES if op else Finding.POSSIBLE)
        return found

    return condition


def _outside(areas: Sequence[_Area]) -> Condition[FileFacts]:
    if any(glob.matches(("x", "\1", "y")) for area in areas for glob in area.exact.within):
        raise InvalidMatcher("`glob_not_in` allows every path, so it can never match; narrow it")

    def condition(facts: FileFacts) -> Finding:
        if facts.places is None:
            return Finding.POSSIBLE
        return yes(
            any(
                not any(glob.matches(spot) for area in areas for glob in area.globs(facts).within)
                for spot in facts.places.inside
            )
        )

    return condition


def _operation(names: Sequence[str]) -> Condition[FileFacts]:
    for name in names:
        if name not in set(Op):
            raise InvalidMatcher(f"`op` names `{name[:40]}`; use {', '.join(Op)}")
    wanted = {Op(name) for name in names}

    def condition(facts: FileFacts) -> Finding:
        op = facts.action.op
        return Finding.POSSIBLE if op is None else yes(op in wanted)

    return condition


def _larger(limit: int) -> Condition[FileFacts]:
    def condition(facts: FileFacts) -> Finding:
        size = facts.action.byte_estimate
        if size is not None:
            return yes(size > limit)
        return Finding.NO if facts.action.op in _WITHOUT_BYTES else Finding.POSSIBLE

    return condition


def _areas(key: str, texts: Sequence[str], physical: Physical) -> tuple[_Area, ...]:
    return tuple(refusing(key, lambda text=text: _area(text, physical)) for text in texts)  # type: ignore[misc]


def _area(text: str, physical: Physical) -> _Area:
    written = tuple(dict.fromkeys((text, _resolved(text, physical))))
    composed = dict.fromkeys(unicodedata.normalize("NFC", spelling) for spelling in written)
    exact = tuple({**dict.fromkeys(written), **composed})
    return _Area(_globs(exact), _globs(tuple(dict.fromkeys(s.casefold() for s in exact))))


def _globs(spellings: Sequence[str]) -> _Globs:
    within = tuple(path_glob(spelling) for spelling in spellings)
    return _Globs(within, tuple(above for glob in within for above in glob.above()))


def _resolved(text: str, physical: Physical) -> str:
    """The glob with its literal beginning as the file system resolves it."""
    parts = text.split("/")
    fixed = 0
    while fixed < len(parts) and not set(parts[fixed]) & set("*?["):
        fixed += 1
    head, tail = "/".join(parts[:fixed]), "/".join(parts[fixed:])
    if not head:
        return text
    real = physical(head)
    return f"{real.rstrip('/')}/{tail}" if tail else real


def _fold(spots: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(tuple(part.casefold() for part in spot) for spot in spots))
