"""Upkeep of mirrors: what beat calls, never in line with a session.

Checkouts borrow the mirror's objects, so while one exists nothing is deleted: packs are only
rolled up. Without borrowers, pins that nobody used for a while are dropped and pruned.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coven.governance.wire import governed_remove_tree
from coven.values import InstallationId, RepoId
from worker.workspace.mirror import PINS, Mirrors, uses_dir

PIN_DAYS = 30
_REPACK_SECS = 1_800.0
_LOCAL_SECS = 120.0


@dataclass(frozen=True, slots=True)
class Upkept:
    """What one round of upkeep did to a mirror."""

    path: Path
    borrowed: int
    """Checkouts that use it now."""
    pins_dropped: int
    bytes_before: int
    bytes_after: int


def maintain(mirrors: Mirrors, path: Path, *, pin_days: float = PIN_DAYS) -> Upkept:
    """Compact one mirror, after the checkouts in progress. Raises ``WorkspaceError``."""
    with mirrors.gate(path, exclusive=True):
        _remove_leftovers(mirrors, path)
        borrowed = len(mirrors.leases(path))
        before = _bytes(path)
        mirrors.settle(path)
        dropped = 0 if borrowed else _drop_pins(mirrors, path, pin_days)
        _git(mirrors, path, ["pack-refs", "--all"])
        if borrowed:
            _git(mirrors, path, ["repack", "-q", "-d", "--geometric=2"])
        else:
            _git(mirrors, path, ["repack", "-q", "-a", "-d"])
            _git(mirrors, path, ["prune", "--expire=now"])
        _git(mirrors, path, ["commit-graph", "write", "--reachable"])
        return Upkept(path, borrowed, dropped, before, _bytes(path))


def all_mirrors(mirrors: Mirrors) -> list[Path]:
    """Every mirror of every installation on this machine."""
    return sorted(path for path in mirrors.root.glob("*/*.git") if (path / "HEAD").is_file())


def forget_installation(mirrors: Mirrors, installation: InstallationId) -> None:
    """Remove every mirror of a tenant: the App was uninstalled."""
    folder = mirrors.root / str(int(installation))
    for path in sorted(folder.glob("*.git")):
        mirrors.discard(installation, RepoId(int(path.stem)))
    governed_remove_tree(mirrors.seam, folder, point="workspace.mirror.forget")


def _drop_pins(mirrors: Mirrors, path: Path, pin_days: float) -> int:
    oldest = mirrors.clock.now().timestamp() - pin_days * 86_400
    listing = _git(mirrors, path, ["for-each-ref", "--format=%(refname)", PINS])
    stale = []
    for ref in listing.decode("ascii", "replace").split():
        note = uses_dir(path) / ref.removeprefix(PINS)
        if not note.is_file() or note.stat().st_mtime < oldest:
            stale.append(ref)
            governed_remove_tree(mirrors.seam, note, point="workspace.mirror.use")
    if stale:
        commands = "".join(f"delete {ref}\n" for ref in stale)
        _git(mirrors, path, ["update-ref", "--stdin"], commands.encode())
    return len(stale)


def _remove_leftovers(mirrors: Mirrors, path: Path) -> None:
    """Halves of mirrors and packs from processes that died while making them."""
    for pattern in (f"{path.name}.new-*", f"{path.name}.trash-*"):
        for entry in path.parent.glob(pattern):
            governed_remove_tree(mirrors.seam, entry, point="workspace.mirror.remove")
    for entry in (path / "objects" / "pack").glob("tmp_*"):
        governed_remove_tree(mirrors.seam, entry, point="workspace.mirror.remove")


def _git(mirrors: Mirrors, path: Path, args: list[str], stdin: bytes | None = None) -> bytes:
    timeout = _REPACK_SECS if args[0] in {"repack", "prune"} else _LOCAL_SECS
    return mirrors.git.run(
        args, cwd=path, git_dir=path, timeout=timeout, stdin=stdin, point="workspace.upkeep"
    )


def _bytes(path: Path) -> int:
    return sum(entry.lstat().st_size for entry in path.rglob("*") if entry.is_file())
