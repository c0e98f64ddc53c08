"""Finding processes of sessions that nobody supervises any more.

Every process of a session carries two variables in its initial environment: ``COVEN_SESSION``
(unguessable) and ``COVEN_SUPERVISOR`` (``<pid>:<start ticks>:<checkout>``). A guest can drop them
by replacing its environment, but then it is still a descendant of the launcher; only one that
also kills the launcher gets away from this walk. A control group still holds it, and in a PID
namespace (bubblewrap, container) it can't reach the launcher at all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from coven.governance.wire import Seam
from worker.runtime import launch
from worker.runtime.backend import SESSION, SUPERVISOR
from worker.runtime.cgroup import sweep_groups
from worker.runtime.command import run_command
from worker.runtime.container import Container

PATIENCE_SECS = 10.0


def supervisor_mark(cwd: Path) -> str:
    """The value of ``COVEN_SUPERVISOR`` for sessions that this process starts in ``cwd``."""
    pid = os.getpid()
    return f"{pid}:{launch.start_ticks(pid)}:{cwd}"


def is_orphaned(mark: str, root: Path, start_of: Callable[[int], int | None]) -> bool:
    """Whether ``mark`` is of a checkout below ``root`` and its supervisor is gone. Pure.

    ``start_of`` gives the start time of a living process, so that a reused pid is no supervisor.
    """
    pid, _, rest = mark.partition(":")
    start, _, cwd = rest.partition(":")
    if not pid.isdigit() or not Path(cwd).is_relative_to(root):
        return False
    return str(start_of(int(pid))) != start


def marks() -> Iterator[tuple[int, dict[str, str]]]:
    """All processes that carry our marks, as far as this user may see them."""
    for pid in launch.process_ids():
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if SESSION.encode() not in raw:
            continue
        pairs = (item.partition(b"=") for item in raw.split(b"\0"))
        found = {
            key.decode(): value.decode("utf-8", "surrogateescape")
            for key, _, value in pairs
            if key in (SESSION.encode(), SUPERVISOR.encode())
        }
        if found:
            yield pid, found


def kill_session(session: str) -> int:
    """Kill what carries this session's mark, until nothing does; returns how many there were."""
    return _kill(lambda found: found.get(SESSION) == session)


def sweep_orphans(marker_root: Path, seam: Seam | None = None) -> int:
    """Kill what dead workers left running for checkouts below ``marker_root``; returns how many.

    Call it at the start of a worker and now and then. Sessions of living workers are not touched.
    """
    root = marker_root.absolute()

    def stale(found: dict[str, str]) -> bool:
        return is_orphaned(found.get(SUPERVISOR, ""), root, launch.start_ticks)

    killed = _kill(stale)
    sweep_groups(seam or Seam())
    return killed


def sweep_containers(container: Container, marker_root: Path, seam: Seam) -> int:
    """Remove containers of dead supervisors for checkouts below ``marker_root``; returns how many.

    An engine that does not answer is left for the next sweep.
    """
    removed = 0
    for line in run_command(seam, container.list_command(), container.cli_env).splitlines():
        name, _, mark = line.partition("\t")
        if is_orphaned(mark, marker_root.absolute(), launch.start_ticks):
            run_command(seam, container.remove_command(name), container.cli_env)
            removed += 1
    return removed


def _kill(matches: Callable[[dict[str, str]], bool]) -> int:
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        found = {pid for pid, mark in marks() if matches(mark)} - {os.getpid()}
        for pid in list(found):
            found |= set(launch.descendants(pid))
        for pid in found:
            launch.send(pid, signal.SIGSTOP)
        for pid in found:
            launch.send(pid, signal.SIGKILL)
        killed |= found
        if not found or time.monotonic() > deadline:
            return len(killed)
        time.sleep(0.01)
