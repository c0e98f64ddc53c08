"""The small process that stands between a worker and a session.

It is started as a script (``python -I -S launch.py STATUS_FD CONFIG -- ARGV...``), so it uses the
standard library only. It is the child subreaper of the session: whatever the guest daemonises
falls back to it, so that "all descendants of this process" is exactly the session. It dies with
the worker thread that started it and takes the session along.

Signals it understands: ``SIGUSR1`` asks everybody to stop (SIGTERM), ``SIGTERM`` kills everybody.
On ``STATUS_FD`` it writes one JSON object per line: ``started``, ``spawn_error``, ``ended``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

SWEEP_SECS = 10.0
"""How long killing may take; a tree that outruns it is reported as left over."""

_HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)


def prctl(option: int, value: int) -> bool:
    """Set one attribute of this process; whether the kernel agreed."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)) == 0


def stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the state on (see proc(5)); empty when it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(fd, 4096).decode("ascii", "replace")
    except OSError:
        return []
    finally:
        os.close(fd)
    return text.rpartition(")")[2].split()


def process_ids() -> list[int]:
    """All processes of this PID namespace."""
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: tells a reused pid apart."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


def descendants(root: int) -> dict[int, str]:
    """All living processes below ``root`` with their state letter; the dead are left out.

    A zombie whose other threads still run is alive: that is how a program that ended its first
    thread looks. One pass over ``/proc``: the per-thread ``children`` files are only reliable
    while nothing forks, which a hostile tree does not promise.
    """
    parents: dict[int, tuple[int, str]] = {}
    for pid in process_ids():
        fields = stat_fields(pid)
        if fields:
            parents[pid] = (int(fields[1]), fields[0])
    known = {root}
    grown = True
    while grown:
        fresh = {pid for pid, (parent, _) in parents.items() if parent in known} - known
        known |= fresh
        grown = bool(fresh)
    found = {pid: parents[pid][1] for pid in known - {root}}
    return {pid: state for pid, state in found.items() if state not in "ZX" or _has_threads(pid)}


def _has_threads(pid: int) -> bool:
    try:
        return sum(1 for _ in os.scandir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def comm(pid: int) -> str:
    """The program name of a process, as the kernel keeps it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone, or not ours any more."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def threads_of(uid: int) -> int:
    """How many threads this user runs now: the kernel counts them against ``RLIMIT_NPROC``."""
    count = 0
    for pid in process_ids():
        try:
            if Path(f"/proc/{pid}").stat().st_uid == uid:
                count += int(stat_fields(pid)[17])
        except (OSError, IndexError):
            continue
    return count


def cap(name: str, value: int) -> None:
    """Lower a resource limit of this process for good."""
    number = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(number)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def reap() -> dict[int, int]:
    """Collect every child that has ended: pid -> wait status."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_tree(cgroup: str | None) -> int:
    """SIGKILL all descendants until none is left; returns how many outlived ``SWEEP_SECS``."""
    deadline = time.monotonic() + SWEEP_SECS
    pause = 0.001
    while True:
        if cgroup:
            try:
                Path(cgroup, "cgroup.kill").write_text("1")
            except OSError:
                cgroup = None
        alive = descendants(os.getpid())
        for pid in alive:
            # Frozen first, so that a fork bomb can't outrun the walk.
            send(pid, signal.SIGSTOP)
        for pid in alive:
            send(pid, signal.SIGKILL)
        reap()
        if not alive or time.monotonic() > deadline:
            return len(alive)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


class Status:
    """The channel back to the supervisor; a reader that is gone is not an error."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def tell(self, **fields: object) -> None:
        try:
            os.write(self._fd, json.dumps(fields).encode() + b"\n")
        except OSError:
            return


def guest(argv: list[str], config: dict[str, object], errors: int) -> None:
    """Become the session's first process. Runs after the fork; never returns."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (signal.SIGPIPE, signal.SIGXFSZ, *_HANDLED):
            # Python ignores the first two, and an ignored signal survives exec.
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        cgroup = config.get("cgroup")
        if isinstance(cgroup, str):
            Path(cgroup, "cgroup.procs").write_text("0")
        os.umask(0o077)
        limits = config.get("rlimits")
        for name, value in limits.items() if isinstance(limits, dict) else ():
            cap(name, value)
        processes = config.get("processes")
        if os.getuid() != 0 and isinstance(processes, int):
            # The limit is shared with everything else of this user, so it is only a backstop.
            cap("NPROC", threads_of(os.getuid()) + 4 * processes)
        if config.get("no_new_privs") and not prctl(PR_SET_NO_NEW_PRIVS, 1):
            raise OSError("the kernel refused no_new_privs")
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - argv list, no shell
    except OSError as error:
        os.write(errors, json.dumps([error.errno or 0, error.strerror or str(error)]).encode())
    finally:
        os._exit(127)


def main(args: list[str]) -> int:
    """Run one session and report how it ended."""
    status = Status(int(args[0]))
    config = json.loads(args[1])
    argv = args[3:]
    cgroup = config.get("cgroup")
    os.set_inheritable(int(args[0]), False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    prctl(PR_SET_DUMPABLE, 0)
    if os.getppid() != config["parent"]:
        return 1
    read_end, write_end = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        guest(argv, config, write_end)
    os.close(write_end)
    # The guest holds the pipes now; an open end here would hide that it closed them.
    for fd in (1, 2):
        os.close(fd)
    trouble = b""
    while chunk := os.read(read_end, 4096):
        trouble += chunk
    if trouble:
        os.waitpid(child, 0)
        number, text = json.loads(trouble)
        status.tell(event="spawn_error", errno=number, text=text)
        return 0
    status.tell(event="started", pid=child)
    ended: int | None = None
    while ended is None:
        received = signal.sigwait(_HANDLED)
        if received == signal.SIGCHLD:
            ended = reap().get(child)
        elif received == signal.SIGUSR1:
            spare = set(config.get("spare") or ())
            for pid in descendants(os.getpid()):
                if comm(pid) not in spare:
                    send(pid, signal.SIGTERM)
        else:
            # Told to kill, or the worker is gone.
            for pid in descendants(os.getpid()):
                send(pid, signal.SIGSTOP)
            send(child, signal.SIGKILL)
            _, ended = os.waitpid(child, 0)
    stray = len(descendants(os.getpid()))
    left = kill_tree(cgroup)
    code = os.waitstatus_to_exitcode(ended)
    status.tell(
        event="ended",
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stray=stray,
        left=left,
        secs=time.monotonic() - started,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
