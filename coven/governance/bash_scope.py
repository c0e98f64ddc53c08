"""What is known about variables and folders while a shell command is walked through. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace

from coven.governance.bash_words import UNKNOWN, Unreadable, Words, is_known

MAX_CWDS = 16
"""Folders that a command may stand in before the folder counts as unknown."""


_SPLITTING = "IFS"

MAX_VALUES = 16
MAX_VALUE_CHARS = 4096
"""Beyond these a variable counts as unknown."""


class Variables:
    """Every value that any assignment of the command gives, whatever the order.

    A variable that something else may set as well, or that comes from the environment, is unknown.
    """

    def __init__(self, home: str | None) -> None:
        self._sources: dict[str, list[str]] = {}
        self._unknown: set[str] = set()
        self._everything_unknown = False
        self._busy: set[str] = set()
        self._known: dict[str, tuple[str, ...] | None] = {}
        self._home = home
        self.words = Words(self.lookup, self.home)

    def assign(self, name: str, source: str | None) -> None:
        """``name`` may get the value of this word; ``None`` for a value nobody knows."""
        if source is None:
            self._unknown.add(name)
        else:
            self._sources.setdefault(name, []).append(source)

    def forget_all(self) -> None:
        """Something may set any variable."""
        self._everything_unknown = True

    @property
    def assigned(self) -> frozenset[str]:
        """Names that the command assigns itself."""
        return frozenset(self._sources) | self._unknown

    def leaves(self, name: str) -> bool:
        """Whether nothing may change this variable."""
        return not self._everything_unknown and name not in self.assigned

    def lookup(self, name: str) -> tuple[str, ...] | None:
        """The possible values of a variable, or None. Ask only when all assignments are told."""
        if name not in self._known:
            self._known[name] = self._values(name)
        return self._known[name]

    def _values(self, name: str) -> tuple[str, ...] | None:
        if self._everything_unknown or name in self._unknown or name in self._busy:
            return None
        sources = self._sources.get(name)
        if not sources:
            value = {_SPLITTING: " \t\n", "HOME": self._home}.get(name)
            return None if value is None else (value,)
        if _SPLITTING in self._sources:
            return None  # fields would be split otherwise than we know
        self._busy.add(name)
        try:
            found = [value for source in sources for value in self.words.value(source)]
        except Unreadable:
            return None
        finally:
            self._busy.discard(name)
        unique = tuple(dict.fromkeys(found))
        fits = len(unique) <= MAX_VALUES and all(len(value) <= MAX_VALUE_CHARS for value in unique)
        return unique if fits else None

    def home(self) -> tuple[str, ...] | None:
        """Where ``~`` leads."""
        if "HOME" in self.assigned or self._everything_unknown:
            return self.lookup("HOME")
        return None if self._home is None else (self._home,)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a command stands and what it reads."""

    cwds: tuple[str, ...] = ("",)
    """Possible folders: ``""`` is where the whole command began, ``UNKNOWN`` one nobody knows."""
    stdin: str = ""
    """What standard input holds, with marks; empty for nothing."""
    depth: int = 0
    """How many shells or wrappers deep."""

    def at(self, cwds: Iterable[str]) -> Scope:
        """The same scope, standing in one of these folders."""
        unique = tuple(dict.fromkeys(cwds))
        if len(unique) > MAX_CWDS or UNKNOWN in unique:
            unique = (UNKNOWN,)
        return replace(self, cwds=unique)

    def reading(self, stdin: str) -> Scope:
        """The same scope with another standard input."""
        return replace(self, stdin=stdin)

    def deeper(self) -> Scope:
        """One shell or wrapper further in."""
        return replace(self, depth=self.depth + 1)

    def moved(self, target: str) -> Scope:
        """After ``cd target``."""
        return self.at(join(cwd, target) for cwd in self.cwds)


def join(cwd: str, path: str) -> str:
    """``path`` as seen from ``cwd``; ``UNKNOWN`` when that can't be known. Keeps ``..``."""
    if not path:
        return cwd
    if not is_known(path[:1]) and path[:1] == UNKNOWN:
        return UNKNOWN
    if path.startswith("/"):
        return path
    if cwd == UNKNOWN:
        return UNKNOWN
    return posixpath.join(cwd, path) if cwd else path
