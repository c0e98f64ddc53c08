"""What a session did to its tree, read as data: no git runs there, no link is followed.

The tree is compared with a clean one of the same commit. Whatever may be published is copied
over; whatever is odd stops the import with its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from coven.errors import WorkspaceUnavailable
from coven.governance.actions import Op
from coven.governance.wire import (
    Seam,
    governed_make_dir,
    governed_remove_tree,
    governed_write,
    writing,
)
from worker.workspace.errors import EditsRefused, TooBig
from worker.workspace.names import is_runtime_state, is_workflow, path_problem, shown

_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """How much one session may publish."""

    files: int = 1_000
    file_bytes: int = 10 * 2**20
    total_bytes: int = 50 * 2**20
    entries: int = 500_000
    """Files and folders looked at, ignored ones included."""


@dataclass(frozen=True, slots=True)
class Found:
    """One file or link in the session's tree."""

    path: str
    size: int
    executable: bool
    target: str | None = None
    """Where a symbolic link points; None for a file."""


@dataclass
class Edits:
    """What differs from the clean tree."""

    written: list[Found] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    """State of the runtime and files that were left out of the checkout; never published."""

    @property
    def paths(self) -> list[str]:
        """All changed paths, sorted."""
        return sorted({*(item.path for item in self.written), *self.removed})


def scan(tree: Path, limits: ImportLimits) -> Iterator[Found]:
    """Every file and link below ``tree`` but its own ``.git``, without following any link.

    Raises ``EditsRefused`` for devices, pipes and sockets, ``TooBig`` above ``limits.entries``.
    """
    seen = 0
    # A stack, not recursion: a hostile tree may be deeper than any call stack.
    stack: list[str] = [""]
    while stack:
        folder = stack.pop()
        for name, info in _listing(tree / folder if folder else tree):
            path = f"{folder}/{name}" if folder else name
            if path == ".git":
                continue
            seen += 1
            if seen > limits.entries:
                raise TooBig(f"the session left more than {limits.entries} files and folders")
            if stat.S_ISDIR(info.st_mode):
                if name.casefold() == ".git":
                    raise refuse(path, "is a repository inside the tree")
                stack.append(path)
            elif stat.S_ISLNK(info.st_mode):
                yield Found(path, 0, executable=False, target=str((tree / path).readlink()))
            elif stat.S_ISREG(info.st_mode):
                yield Found(path, info.st_size, bool(info.st_mode & stat.S_IXUSR))
            else:
                raise refuse(path, "is a device, pipe or socket")


def _listing(folder: Path) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                ((entry.name, entry.stat(follow_symlinks=False)) for entry in entries),
                key=lambda item: item[0],
            )
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            text = "a folder is nested too deeply"
            raise EditsRefused(text, public=_public(text)) from error
        raise WorkspaceUnavailable(f"the session's tree: {error.strerror}") from error


def compare(
    session: Path,
    clean: Path,
    tracked: Collection[str],
    left_out: Collection[str],
    ignored: Callable[[list[str]], Collection[str]],
    limits: ImportLimits,
    *,
    submodules: Collection[str],
    symlinks: bool,
    workflows: bool,
) -> Edits:
    """Decide what of the session's tree may be published.

    ``tracked`` are the paths in the clean tree, ``left_out`` those that were never written;
    ``ignored`` says which of some new paths git ignores. Raises ``EditsRefused`` and ``TooBig``.
    """
    if session.is_symlink():
        raise EditsRefused("the session replaced its tree by a link")
    edits, present, fresh = Edits(), set(), []
    known = frozenset(tracked)
    left = frozenset(left_out)
    folded = {path.casefold() for path in known}
    for found in scan(session, limits):
        present.add(found.path)
        if found.path in known and found.path not in left and _same(session, clean, found):
            continue
        if found.path in left or is_runtime_state(found.path):
            edits.discarded.append(found.path)
        elif found.path in known:
            edits.written.append(found)
        else:
            fresh.append(found)
    for found in fresh:
        _refuse_submodule(found.path, submodules)
    if fresh:
        # Below what is a file or link in the clean tree git has no opinion about ignoring.
        asked = [item.path for item in fresh if not _ancestors(item.path) & known]
        skip = frozenset(ignored(asked)) if asked else frozenset()
        edits.written += [item for item in fresh if item.path not in skip]
    edits.removed = sorted(path for path in known - present - left if not is_runtime_state(path))
    gone = {path.casefold() for path in edits.removed}
    for found in edits.written:
        _check(found, known, folded - gone, symlinks=symlinks)
    for path in edits.paths:
        if is_workflow(path) and not workflows:
            raise refuse(path, "is a GitHub Actions workflow, which this App may not change")
    _check_size(edits, limits)
    return edits


def copy(seam: Seam, session: Path, clean: Path, edits: Edits) -> None:
    """Bring the clean tree to the session's state. Raises ``EditsRefused`` and ``OSError``."""
    for path in edits.removed:
        governed_remove_tree(seam, clean / path, point="workspace.import.remove")
    for found in edits.written:
        target = clean / found.path
        _clear_way(seam, clean, found.path)
        governed_make_dir(seam, target.parent, point="workspace.import.make")
        if found.target is not None:
            make = partial(target.symlink_to, found.target)
            seam.perform(writing(target, Op.SYMLINK), "workspace.import.link", make)
            continue
        data = _read(session, found)
        mode = 0o700 if found.executable else 0o600
        governed_write(seam, target, data, point="workspace.import.write", mode=mode)


def _refuse_submodule(path: str, submodules: Collection[str]) -> None:
    # A folder that became a file or link is met as its own path.
    if (_ancestors(path) | {path}) & frozenset(submodules):
        raise refuse(path, "is inside a submodule")


def _ancestors(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:index]) for index in range(1, len(parts))}


def refuse(path: str, why: str) -> EditsRefused:
    """The error that names a path; its public form too."""
    text = f"`{shown(path)[:200].replace('`', '')}` {why}"
    return EditsRefused(text, public=_public(text))


def _public(text: str) -> str:
    return f"The familiar's edits could not be published: {text}."


def _check(
    found: Found, known: Collection[str], folded: Collection[str], *, symlinks: bool
) -> None:
    path = found.path
    if (problem := path_problem(path)) is not None:
        raise refuse(path, problem)
    if path not in known and path.casefold() in folded:
        raise refuse(path, "differs from another file by letter case only")
    if found.target is None:
        return
    if not symlinks:
        raise refuse(path, "is a symbolic link, which is not allowed here")
    if PurePosixPath(path).name.casefold() in {".gitmodules", ".gitattributes", ".gitignore"}:
        raise refuse(path, "may not be a symbolic link")
    if not stays_inside(path, found.target):
        raise refuse(path, "is a symbolic link that leaves the tree")


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` points below the tree's root and not into ``.git``. Lexical."""
    if not target or target.startswith("/") or "\0" in target:
        return False
    depth = path.split("/")[:-1]
    for part in target.split("/"):
        if part in {"", "."}:
            continue
        if part == "..":
            if not depth:
                return False
            depth.pop()
            continue
        depth.append(part)
        if path_problem(part) is not None:
            return False
    return bool(depth)


def _check_size(edits: Edits, limits: ImportLimits) -> None:
    count = len(edits.written) + len(edits.removed)
    if count > limits.files:
        raise TooBig(
            f"the session changed {count} files; {limits.files} are allowed",
            public=f"The familiar changed {count} files; at most {limits.files} are published.",
        )
    for found in edits.written:
        if found.size > limits.file_bytes:
            raise TooBig(
                f"{shown(found.path)[:200]} has {found.size} bytes; {limits.file_bytes} are allowed"
            )
    total = sum(found.size for found in edits.written)
    if total > limits.total_bytes:
        raise TooBig(f"the session wrote {total} bytes; {limits.total_bytes} are allowed")


def _same(session: Path, clean: Path, found: Found) -> bool:
    other = clean / found.path
    try:
        info = other.lstat()
    except OSError:
        return False
    if found.target is not None:
        return stat.S_ISLNK(info.st_mode) and str(other.readlink()) == found.target
    if not stat.S_ISREG(info.st_mode) or info.st_size != found.size:
        return False
    if bool(info.st_mode & stat.S_IXUSR) != found.executable:
        return False
    with _open(session, found) as left, other.open("rb") as right:
        while True:
            a, b = left.read(_CHUNK), right.read(_CHUNK)
            if a != b:
                return False
            if not a:
                return True


def _read(session: Path, found: Found) -> bytes:
    with _open(session, found) as file:
        if os.fstat(file.fileno()).st_nlink > 1:
            raise refuse(found.path, "is a hard link")
        data = file.read(found.size + 1)
    if len(data) != found.size:
        raise refuse(found.path, "changed while it was read")
    return data


def _open(session: Path, found: Found) -> IO[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(session / found.path, flags)
    except OSError as error:
        raise refuse(found.path, f"can't be read ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise refuse(found.path, "is not a plain file")
    return os.fdopen(handle, "rb")


def _clear_way(seam: Seam, clean: Path, path: str) -> None:
    """Remove a file or link that stands where a folder, or the new entry, must be."""
    parts = path.split("/")
    for index in range(1, len(parts) + 1):
        entry = clean.joinpath(*parts[:index])
        is_last = index == len(parts)
        if entry.is_symlink() or (entry.exists() and (is_last or not entry.is_dir())):
            governed_remove_tree(seam, entry, point="workspace.import.remove")
