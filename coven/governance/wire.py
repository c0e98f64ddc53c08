"""The effects seam: every file write, removal, spawn and request of receiver and worker.

Each function asks the gate first, passes the fault points ``<point>.before`` and
``<point>.after``, and counts the effect. The raw calls are banned elsewhere by a lint rule, so a
rule that refuses here can't be walked around.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from coven.governance.faults import Faults, NoFaults

T = TypeVar("T")

_REMOVALS = 20
"""How often a tree is begun anew when another process removes it or adds to it meanwhile."""


@dataclass(frozen=True, slots=True)
class FilesystemWrite:
    """A file or folder is about to be written or removed."""

    path: Path


@dataclass(frozen=True, slots=True)
class ProcessSpawn:
    """A program is about to be started; ``argv[0]`` names the binary."""

    argv: tuple[str, ...]
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """An HTTP request, or a git transfer, is about to leave this machine."""

    method: str
    url: str


Action = FilesystemWrite | ProcessSpawn | NetworkRequest


class Gate(Protocol):
    """Decides about an action before it happens."""

    def check(self, action: Action) -> None:
        """Return when the action may happen; raise ``GovernanceRefused`` when it may not."""


class AllowAll:
    """The gate while no rules engine is configured."""

    def check(self, action: Action) -> None:
        return None


class EffectCounts:
    """How many effects of each kind and point this process has caused."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def add(self, kind: str, point: str) -> None:
        with self._lock:
            self._counts[kind, point] += 1

    def snapshot(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True)
class Seam:
    """What the seam needs: the gate, the fault plan and the counters."""

    gate: Gate = field(default_factory=AllowAll)
    faults: Faults = field(default_factory=NoFaults)
    counts: EffectCounts = field(default_factory=EffectCounts)

    def perform(self, action: Action, point: str, effect: Callable[[], T]) -> T:
        """Ask, count and perform ``effect``. Raises ``GovernanceRefused`` before it happens."""
        self.gate.check(action)
        self.faults.hit(f"{point}.before")
        self.counts.add(type(action).__name__, point)
        value = effect()
        self.faults.hit(f"{point}.after")
        return value


def governed_write(seam: Seam, path: Path, data: bytes, *, point: str, mode: int = 0o600) -> None:
    """Write a whole file atomically: a fresh sibling, then a rename. Raises ``OSError``."""
    seam.perform(FilesystemWrite(path), point, lambda: _write_atomically(path, data, mode))


def governed_make_dir(seam: Seam, path: Path, *, point: str, mode: int = 0o700) -> None:
    """Create a folder and its parents; existing is fine. Raises ``OSError``."""
    seam.perform(
        FilesystemWrite(path), point, lambda: path.mkdir(mode=mode, parents=True, exist_ok=True)
    )


def governed_remove_tree(seam: Seam, path: Path, *, point: str) -> None:
    """Remove a folder with all that is in it; absent is fine. Raises ``OSError`` if it survives."""
    seam.perform(FilesystemWrite(path), point, lambda: _remove_tree(path))


def governed_spawn(
    seam: Seam,
    argv: Sequence[str],
    *,
    point: str,
    env: Mapping[str, str],
    cwd: Path | None = None,
    **popen: Any,
) -> subprocess.Popen[bytes]:
    """Start a program with exactly ``env`` and no shell. Raises ``OSError``.

    ``popen`` takes the remaining keyword arguments of :class:`subprocess.Popen`.
    """
    if popen.get("shell"):
        raise ValueError("a shell is never used")
    return seam.perform(
        ProcessSpawn(tuple(argv), cwd),
        point,
        lambda: subprocess.Popen(list(argv), env=dict(env), cwd=cwd, **popen),
    )


def governed_request(
    seam: Seam, method: str, url: str, effect: Callable[[], T], *, point: str
) -> T:
    """Perform ``effect``, which sends the HTTP request ``method url``."""
    return seam.perform(NetworkRequest(method, url), point, effect)


def _write_atomically(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, flags, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_tree(path: Path) -> None:
    for _ in range(_REMOVALS):
        try:
            _remove_once(path)
            return
        except FileNotFoundError:
            continue  # somebody else removes the same tree
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
    _remove_once(path)


def _remove_once(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # A hostile session may nest folders beyond any recursion limit or path length, and take
    # permissions away. Every folder is moved up to the top before it is emptied, so no path that
    # is used here gets long.
    prefix = f".remove-{uuid.uuid4().hex}-"
    pending = [path]
    moved = 0
    while pending:
        folder = pending.pop()
        for entry in _entries(folder):
            place = Path(entry.path)
            if not entry.is_dir(follow_symlinks=False):
                place.unlink(missing_ok=True)
            elif folder == path:
                pending.append(place)
            else:
                with contextlib.suppress(FileNotFoundError):
                    place.chmod(0o700)
                    pending.append(place.rename(path / f"{prefix}{moved}"))
                    moved += 1
        if folder != path:
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()
    path.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder of a tree that is removed; nothing when it is gone already."""
    try:
        folder.chmod(0o700)
        with os.scandir(folder) as listing:
            return list(listing)
    except FileNotFoundError:
        return []
