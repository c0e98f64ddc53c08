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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from coven.errors import GovernanceRefused
from coven.governance.actions import (
    Action,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
)
from coven.governance.faults import Faults, NoFaults

T = TypeVar("T")

_REMOVALS = 20
"""How often a tree is begun anew when another process removes it or adds to it meanwhile."""


class Gate(Protocol):
    """Decides about an action before it happens, and writes the verdict down."""

    def check(self, action: Action, point: str) -> Action:
        """The action that may happen: as a rule the one that was asked about.

        ``point`` names the place in the code. Raises ``GovernanceRefused`` when it may not happen.
        """

    def malformed(self, problem: MalformedAction, point: str) -> None:
        """Asked when an action can't even be described, so that no rule could judge it."""


class AllowAll:
    """The gate while no rules engine is configured."""

    def check(self, action: Action, point: str) -> Action:
        return action

    def malformed(self, problem: MalformedAction, point: str) -> None:
        return None


class _Inside(threading.local):
    depth = 0


_inside = _Inside()


@contextlib.contextmanager
def governed() -> Iterator[None]:
    """What runs within was asked for: the backstop (:mod:`coven.governance.backstop`) lets it."""
    _inside.depth += 1
    try:
        yield
    finally:
        _inside.depth -= 1


def is_governed() -> bool:
    """Whether this thread is inside an effect that the gate allowed."""
    return _inside.depth > 0


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

    def perform(
        self,
        action: Action | MalformedAction,
        point: str,
        effect: Callable[[], T],
        again: Callable[[Action], T] | None = None,
    ) -> T:
        """Ask, count and perform ``effect``. Raises ``GovernanceRefused`` before it happens.

        ``again`` performs a rewritten action instead, where the caller knows how.
        """
        if isinstance(action, MalformedAction):
            self.gate.malformed(action, point)
            return self._perform("Malformed", point, effect)
        decided = self.gate.check(action, point)
        if decided != action:
            if again is None:
                raise GovernanceRefused(f"{point}: a rule rewrites what can't be rewritten here")
            rewritten = again
            return self._perform(type(decided).__name__, point, lambda: rewritten(decided))
        return self._perform(type(action).__name__, point, effect)

    def _perform(self, kind: str, point: str, effect: Callable[[], T]) -> T:
        self.faults.hit(f"{point}.before")
        self.counts.add(kind, point)
        with governed():
            value = effect()
        self.faults.hit(f"{point}.after")
        return value


def writing(
    path: Path, op: Op | None = None, byte_estimate: int | None = None
) -> Action | MalformedAction:
    """The write of a path, also when its name is one that no rule can judge."""
    return _described(lambda: FilesystemWrite.of(path.absolute(), op, byte_estimate))


def spawning(
    argv: Sequence[str], cwd: Path | None, env: Mapping[str, str]
) -> Action | MalformedAction:
    """The start of a program; of its environment only the names."""
    return _described(lambda: ProcessSpawn.of(argv, cwd, sorted(env)))


def requesting(method: str, url: str) -> Action | MalformedAction:
    """A request, or a git transfer, to a URL."""
    return _described(lambda: NetworkRequest.of(method, url))


def _described(make: Callable[[], Action]) -> Action | MalformedAction:
    try:
        return make()
    except MalformedAction as problem:
        return problem


def governed_write(seam: Seam, path: Path, data: bytes, *, point: str, mode: int = 0o600) -> None:
    """Write a whole file atomically: a fresh sibling, then a rename. Raises ``OSError``."""
    seam.perform(
        writing(path, Op.MODIFY, len(data)),
        point,
        lambda: _write_atomically(path, data, mode),
        lambda action: _write_atomically(_path_of(action), data, mode),
    )


def governed_make_dir(seam: Seam, path: Path, *, point: str, mode: int = 0o700) -> None:
    """Create a folder and its parents; existing is fine. Raises ``OSError``."""
    if path.is_dir():
        return
    seam.perform(
        writing(path, Op.CREATE),
        point,
        lambda: path.mkdir(mode=mode, parents=True, exist_ok=True),
        lambda action: _path_of(action).mkdir(mode=mode, parents=True, exist_ok=True),
    )


def governed_remove_tree(seam: Seam, path: Path, *, point: str) -> None:
    """Remove a folder with all that is in it; absent is fine. Raises ``OSError`` if it survives."""
    if not path.is_symlink() and not path.exists():
        return
    seam.perform(
        writing(path, Op.DELETE),
        point,
        lambda: _remove_tree(path),
        lambda action: _remove_tree(_path_of(action)),
    )


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

    def start(words: Sequence[str], where: Path | str | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(list(words), env=dict(env), cwd=where, **popen)

    def rewritten(action: Action) -> subprocess.Popen[bytes]:
        if not isinstance(action, ProcessSpawn):
            raise GovernanceRefused(f"{point}: a rule makes another kind of action of it")
        return start(action.argv, action.cwd)

    return seam.perform(spawning(argv, cwd, env), point, lambda: start(argv, cwd), rewritten)


def governed_request(
    seam: Seam, method: str, url: str, effect: Callable[[], T], *, point: str
) -> T:
    """Perform ``effect``, which sends the HTTP request ``method url``."""
    return seam.perform(requesting(method, url), point, effect)


def _path_of(action: Action) -> Path:
    if not isinstance(action, FilesystemWrite):
        raise GovernanceRefused("a rule makes another kind of action of a write")
    return Path(action.path)


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
