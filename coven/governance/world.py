"""What matchers ask the machine: real paths, programs, free space, addresses. All of it reading."""

from __future__ import annotations

import os
import shutil
import socket
import sys
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
        folds_case=_folds_case,
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


def _folds_case(path: str) -> bool:
    if sys.platform.startswith("linux"):
        return False
    place = _existing(path)
    other = place.with_name(place.name.swapcase())
    try:
        return other.name != place.name and other.samefile(place)
    except OSError:
        return False


def _free_bytes(path: str) -> int:
    volume = os.statvfs(_existing(path))
    return volume.f_bavail * volume.f_frsize


def _existing(path: str) -> Path:
    place = Path(os.path.realpath(path))
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def _addresses(host: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(item[4][0]) for item in found))


def _nothing(_: str) -> int:
    raise OSError("no volume is known")


def _nobody(_: str) -> tuple[str, ...]:
    raise OSError("no network is known")
