"""A control group of its own for a session, where this process may make one (cgroup v2).

It makes killing atomic and, with delegated controllers, limits memory and processes in the
kernel. Nothing depends on it: without it the launcher's walk and the watcher do the work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from coven.errors import GovernanceRefused
from coven.governance.wire import Seam, writing
from worker.runtime import launch
from worker.runtime.session import Limits

PREFIX = "coven-session-"


def own_group(mountinfo: str, membership: str) -> Path | None:
    """Where this process sits in the cgroup v2 tree, from the text of the two proc(5) files."""
    mounts = [line.split() for line in mountinfo.splitlines()]
    for fields in mounts:
        if "-" in fields and fields[fields.index("-") + 1] == "cgroup2":
            for line in membership.splitlines():
                if line.startswith("0::"):
                    return Path(fields[4]) / line[3:].lstrip("/")
    return None


def _here() -> Path | None:
    try:
        return own_group(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        )
    except OSError:
        return None


class Cgroup:
    """The group of one session; ``path`` is None when there is none. Use as a context manager."""

    def __init__(self, seam: Seam, path: Path | None) -> None:
        self._seam = seam
        self.path = path

    @classmethod
    def create(cls, seam: Seam, session: str, limits: Limits) -> Cgroup:
        """Make the group, or an empty stand-in when that is not possible."""
        base = _here()
        if base is None or not os.access(base, os.W_OK):
            return cls(seam, None)
        me = os.getpid()
        path = base / f"{PREFIX}{me}-{launch.start_ticks(me)}-{session}"
        group = cls(seam, path)
        if not group._try(path, lambda path: path.mkdir(mode=0o755)):
            return cls(seam, None)
        if not (path / "cgroup.kill").exists():
            group.remove()
            return cls(seam, None)
        group._set("memory.max", str(limits.memory_bytes))
        group._set("memory.swap.max", "0")
        group._set("memory.oom.group", "1")
        group._set("pids.max", str(limits.processes))
        return group

    def __enter__(self) -> Cgroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.remove()

    def kill(self) -> None:
        """SIGKILL everything in the group."""
        self._set("cgroup.kill", "1")

    def out_of_memory(self) -> bool:
        """Whether the kernel killed for ``memory.max``."""
        if self.path is None:
            return False
        try:
            events = (self.path / "memory.events").read_text()
        except OSError:
            return False
        return any(
            line.startswith("oom_kill ") and int(line.split()[1]) > 0
            for line in events.splitlines()
        )

    def remove(self) -> None:
        """Remove the group; it empties a moment after the kill, so this tries for a second."""
        for _ in range(100):
            if self.path is None or not self.path.exists():
                return
            if self._try(self.path, lambda path: path.rmdir()):
                return
            time.sleep(0.01)

    def _set(self, name: str, value: str) -> None:
        if self.path is not None and (self.path / name).exists():
            self._try(self.path / name, lambda path: _put(path, value))

    def _try(self, path: Path | None, effect: Callable[[Path], None]) -> bool:
        if path is None:
            return False
        try:
            self._seam.perform(writing(path), "session.cgroup", lambda: effect(path))
        except (OSError, GovernanceRefused):
            return False
        return True


def _put(path: Path, value: str) -> None:
    path.write_text(value)


def owner_gone(name: str, start_of: Callable[[int], int | None]) -> bool:
    """Whether a group with this name belongs to a supervisor that does not live any more. Pure."""
    pid, _, rest = name.removeprefix(PREFIX).partition("-")
    start = rest.partition("-")[0]
    return pid.isdigit() and str(start_of(int(pid))) != start


def sweep_groups(seam: Seam) -> None:
    """Kill and remove the groups of sessions whose supervisor is gone."""
    base = _here()
    for path in base.glob(f"{PREFIX}*") if base is not None else ():
        if owner_gone(path.name, launch.start_ticks):
            group = Cgroup(seam, path)
            group.kill()
            group.remove()
