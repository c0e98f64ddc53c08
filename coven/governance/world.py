"""What matchers ask the machine: real paths, programs, free space, addresses. All of it reading."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from coven.governance.matchers import Analyse, nothing_known
from coven.governance.paths import View


class Origin(StrEnum):
    """Who acts: our own code, or a tool call of the runtime."""

    ADAPTER = "adapter"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an action belongs. It comes from the task's record, never from the caller."""

    origin: Origin = Origin.ADAPTER
    namespace: str = "_global"
    task_id: str | None = None
    tool_use_id: str | None = None
    cwd: str | None = None
    workspace: str | None = None
    views: tuple[View, ...] = ()

    @property
    def base(self) -> str | None:
        """Where relative paths start."""
        return self.cwd or self.workspace


@dataclass(frozen=True, slots=True)
class World:
    """The questions, each a function, so that tests answer them."""

    physical: Callable[[str], str]
    """The real path. Raises ``OSError``."""

    folds_case: Callable[[str], bool]
    """Whether upper and lower case name the same file there."""

    which: Callable[[str], str | None]
    """The file that a bare program name starts."""

    free_bytes: Callable[[str], int]
    """Free bytes of the volume of a path. Raises ``OSError``."""

    addresses: Callable[[str], tuple[str, ...]]
    """The addresses of a host name. Raises ``OSError``."""

    analyse: Analyse = field(default=nothing_known)


def this_machine(analyse: Analyse = nothing_known, search_path: str | None = None) -> World:
    """The answers of this machine; programs are looked up in ``search_path``."""
    return World(
        physical=os.path.realpath,
        folds_case=CaseProbe(),
        which=lambda name: shutil.which(name, path=search_path),
        free_bytes=_free_bytes,
        addresses=_addresses,
        analyse=analyse,
    )


def no_machine(analyse: Analyse = nothing_known) -> World:
    """A machine that has no links, no programs and no network: for examples of rules."""
    return World(
        physical=lambda path: path,
        folds_case=lambda _: False,
        which=lambda _: None,
        free_bytes=_nothing,
        addresses=_nobody,
        analyse=analyse,
    )


class CaseProbe:
    """Whether a volume folds case: found out once, by asking for a name in other letters."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def __call__(self, path: str) -> bool:
        try:
            place, volume = _existing(path)
            if volume not in self._known:
                self._known[volume] = _folds_case(Path(place), volume)
            return self._known[volume]
        except OSError:
            return False


def _folds_case(place: Path, volume: int) -> bool:
    own = place.parent.stat().st_dev == volume and place != place.parent
    for entry in (place,) if own else itertools.islice(place.iterdir(), 50):
        other = entry.with_name(entry.name.swapcase())
        if other.name != entry.name:
            return other.exists() and other.samefile(entry)
    return False


def _free_bytes(path: str) -> int:
    volume = os.statvfs(_existing(path)[0])
    return volume.f_bavail * volume.f_frsize


def _existing(path: str) -> tuple[str, int]:
    """The deepest folder of an absolute path that is there, and its volume."""
    while True:
        try:
            return path, os.stat(path).st_dev  # noqa: PTH116 - asked for every path of a command
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(path)  # noqa: PTH120
            if above == path:
                raise
            path = above


def _addresses(host: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(item[4][0]) for item in found))


def _nothing(_: str) -> int:
    raise OSError("no volume is known")


def _nobody(_: str) -> tuple[str, ...]:
    raise OSError("no network is known")
