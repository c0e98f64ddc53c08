"""Measuring a running session: resident memory, processes, and what it wrote to disk."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from worker.runtime.launch import descendants
from worker.runtime.session import Limits

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class TreeUse:
    """What all processes of a session use at one moment."""

    processes: int
    rss_bytes: int


def measure_tree(launcher: int, exact_above: int | None = None) -> TreeUse:
    """Sum over everything below the launcher; the launcher itself does not count.

    The quick sum counts a page once for each process that inherited it by fork. A sum above
    ``exact_above`` is therefore taken again with such pages counted once.
    """
    pids = descendants(launcher)
    total = sum(resident(pid) for pid in pids)
    if exact_above is not None and total > exact_above:
        total = sum(own_share(pid) for pid in pids)
    return TreeUse(len(pids), total)


def own_share(pid: int) -> int:
    """Like :func:`resident`, but of a page that n processes share only an n-th counts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
    except OSError:
        # A process can hide this; then it counts in full.
        return resident(pid)
    shares = [
        int(line.split()[1]) for line in lines if line.startswith((b"Pss_Anon:", b"Pss_Shmem:"))
    ]
    return sum(shares) * 1024 if len(shares) == 2 else resident(pid)


def resident(pid: int) -> int:
    """Resident bytes of one process, without pages of shared files; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        return max(0, int(fields[1]) - int(fields[2])) * PAGE + _shared_memory(pid)
    except (OSError, IndexError, ValueError):
        return 0


def _shared_memory(pid: int) -> int:
    """Resident bytes of shared memory segments: they fill memory as private ones do."""
    try:
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"RssShmem:"):
                return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return 0


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What lies below the writable folders."""

    total_bytes: int
    largest_bytes: int


def measure_disk(folders: Iterable[Path]) -> DiskUse:
    """Blocks in use below ``folders``, links not followed; sparse files count what they hold."""
    total = largest = 0
    seen: set[tuple[int, int]] = set()
    pending = [str(folder) for folder in folders]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                pending.append(entry.path)
            if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
                if (info.st_dev, info.st_ino) in seen:
                    continue
                seen.add((info.st_dev, info.st_ino))
            total += info.st_blocks * 512
            if stat.S_ISREG(info.st_mode):
                largest = max(largest, info.st_size)
    return DiskUse(total, largest)


def tree_breach(use: TreeUse, limits: Limits) -> str | None:
    """The limit that the tree is over, by name."""
    if use.processes > limits.processes:
        return "processes"
    return "memory" if use.rss_bytes > limits.memory_bytes else None


def disk_breach(use: DiskUse, limits: Limits) -> str | None:
    """The limit that the disk is over, by name.

    ``RLIMIT_FSIZE`` stops a file exactly at the limit, so a file of that size means it was hit.
    """
    if use.largest_bytes >= limits.file_bytes:
        return "file size"
    return "disk" if use.total_bytes > limits.workspace_bytes else None


class DiskWatch:
    """Measures the writable folders on its own thread, so that a big tree delays nobody."""

    def __init__(self, folders: tuple[Path, ...], limits: Limits, every_secs: float = 1.0) -> None:
        self._folders = folders
        self._limits = limits
        self._every = every_secs
        self._stop = threading.Event()
        self.breach: str | None = None
        self._thread = threading.Thread(target=self._run, name="coven-disk", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop and wait for the measurement under way."""
        self._stop.set()
        self._thread.join()

    def last_look(self) -> str | None:
        """The breach found so far, else one found now that the session is over."""
        return self.breach or disk_breach(measure_disk(self._folders), self._limits)

    def _run(self) -> None:
        pause = self._every
        while not self._stop.wait(pause):
            started = time.monotonic()
            self.breach = disk_breach(measure_disk(self._folders), self._limits)
            if self.breach:
                return
            # At most a twentieth of one core, however large the tree is.
            pause = max(self._every, 20 * (time.monotonic() - started))
