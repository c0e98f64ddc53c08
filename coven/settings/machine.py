"""What can be wrong with the machine that a configuration is to run on. Looks, changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coven.embedded import find_server
from coven.errors import ConfigurationError
from coven.github.keys import read_app_key
from coven.governance.wire import Seam, governed_spawn
from coven.settings.defaults import is_volatile
from coven.settings.findings import Finding, error, ok, warning
from coven.settings.models import Settings


@dataclass(frozen=True, slots=True)
class BackendReport:
    """What a worker says of the configured session backend, and of the runtime below it."""

    problems: tuple[str, ...] = ()
    """What keeps it from working, one sentence each."""
    notices: tuple[str, ...] = ()
    """What works but may surprise."""
    describe: tuple[str, ...] = ()
    """What it enforces and what it does not."""
    version: str | None = None
    """What the runtime says of itself; None when it was not asked."""
    contract: str | None = None
    """The version of the contract that briefs are written in, and results must be."""


BackendProbe = Callable[[Settings], BackendReport]
"""Supplied by the caller, since the backends live with the workers."""

_MIN_GIT = (2, 31)
"""First version that takes configuration by ``GIT_CONFIG_COUNT``."""
_MIN_FREE_BYTES = 2**30
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")


@dataclass(frozen=True)
class Machine:
    """The machine as the checks see it; tests hand in another one."""

    which: Callable[[str], str | None] = shutil.which
    git_version: Callable[[], str | None] = lambda: _git_version(Seam())
    broker_program: Callable[[], Path | None] = find_server
    backend_report: BackendProbe = lambda _: BackendReport()
    in_memory: Callable[[Path], bool] = lambda path: _in_memory(path)
    """Whether a folder is on a file system that forgets everything with the power."""


def check_machine(settings: Settings, machine: Machine) -> list[Finding]:
    """All findings about this machine."""
    return [
        *_git(machine),
        *_key(settings),
        *_runtime(settings, machine),
        *_state(settings, machine),
        *_broker(settings, machine),
        *_backend(settings, machine.backend_report(settings)),
    ]


def _backend(settings: Settings, report: BackendReport) -> Iterator[Finding]:
    worker = settings.worker
    for problem in report.problems:
        yield error("worker.backend", *_split(problem))
    for notice in report.notices:
        yield warning("worker.workspace_root", *_split(notice))
    if not report.problems and report.describe:
        yield ok("worker.backend", f"{worker.backend}: its self-test passed")
    for line in report.describe:
        yield ok("worker.backend", line)
    if report.contract is not None:
        runtime = report.version or "the runtime"
        yield ok(
            "worker.profile",
            f"{worker.profile}: {runtime} gets briefs of contract version {report.contract}, "
            "and a result of another version is refused",
        )


def _git(machine: Machine) -> Iterator[Finding]:
    version = machine.git_version()
    match = _VERSION.search(version or "")
    if match is None:
        yield error("git", "is not installed", "install git 2.31 or newer")
    elif (int(match[1]), int(match[2])) < _MIN_GIT:
        yield error("git", f"{match[0]} is too old", "install git 2.31 or newer")
    else:
        yield ok("git", match[0])


def _key(settings: Settings) -> Iterator[Finding]:
    try:
        read_app_key(settings.github)
    except ConfigurationError as refused:
        key, _, rest = str(refused).partition(": ")
        yield error(key, *_split(rest))
        return
    path = settings.github.private_key_path
    if path is not None and settings.github.private_key is None and path.stat().st_mode & 0o004:
        yield warning(
            "github.private_key_path", f"everybody here can read {path}", f"chmod 600 {path}"
        )


def _runtime(settings: Settings, machine: Machine) -> Iterator[Finding]:
    worker = settings.worker
    if worker.backend == "container":
        key, name = "worker.container.docker_bin", worker.container.docker_bin
    else:
        key, name = "worker.coven_code_bin", worker.coven_code_bin
    found = machine.which(name)
    if found is None:
        yield error(key, f"there is no program {name}", "install it, or give its whole path")
    else:
        yield ok(key, found)


def _state(settings: Settings, machine: Machine) -> Iterator[Finding]:
    state = settings.server.state_dir
    existing = next((p for p in (state, *state.parents) if p.exists()), Path("/"))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield error(
            "server.state_dir",
            f"{state} can't be written",
            "create it and give it to the user of this process",
        )
        return
    if state.exists():
        yield ok("server.state_dir", str(state))
    else:
        yield ok("server.state_dir", f"{state} (made on first start)")
    free = shutil.disk_usage(existing).free
    if free < _MIN_FREE_BYTES:
        yield warning(
            "server.state_dir", f"only {free // 2**20} MiB are free", "make room for checkouts"
        )
    if machine.in_memory(existing) and not is_volatile(state):
        yield warning(
            "server.state_dir",
            f"{existing} is a file system in memory: a restart forgets all work and memory",
            "use a folder on a disk or a volume",
        )
    yield from _database_file(settings, machine)


def _database_file(settings: Settings, machine: Machine) -> Iterator[Finding]:
    if settings.storage.database_url is not None:
        return
    if settings.server.deployment == "hosted":
        yield warning(
            "storage.database_url",
            "is not set: SQLite serves one machine only",
            "use PostgreSQL for a hosted server",
        )
    path = settings.storage.path
    if path is None:
        return
    if path.is_dir():
        yield error("storage.path", f"{path} is a folder", "name a file")
        return
    folder = next((p for p in path.parents if p.exists()), Path("/"))
    target = path if path.exists() else folder
    if not os.access(target, os.W_OK):
        yield error(
            "storage.path", f"{target} can't be written", "give it to the user of this process"
        )
    elif is_volatile(path) or machine.in_memory(folder):
        yield warning(
            "storage.path",
            f"{path} lies where a restart or a clean-up forgets it",
            "use a file on a disk or a volume",
        )


def _broker(settings: Settings, machine: Machine) -> Iterator[Finding]:
    if settings.queue.broker_url is not None:
        return
    if settings.server.deployment == "hosted":
        yield warning(
            "queue.broker_url",
            "is not set: the embedded server serves one machine only",
            "use a Redis-compatible server for a hosted server",
        )
    program = machine.broker_program()
    if program is None:
        yield error(
            "queue.broker_url",
            "is not set, and no server program is installed here",
            "set it, or install valkey or redis-server",
        )
    else:
        yield ok("queue.broker_url", f"embedded {program.name}")


def _split(sentence: str) -> tuple[str, str]:
    """Problem and next step of a sentence like ``problem; next step`` or ``problem: next``."""
    problem, mark, step = sentence.partition("; ")
    if not mark:
        problem, mark, step = sentence.rpartition(": ")
    return (problem, step) if mark else (sentence, "see docs/operations.md")


def _in_memory(path: Path) -> bool:
    """By the longest mount point above ``path``; False where mounts can't be listed."""
    try:
        text = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    here, kind = 0, ""
    real = path.resolve()
    for line in text.splitlines():
        _, point, found, *_ = [*line.split(" "), "", "", ""]
        where = Path(point.replace("\\040", " "))
        if real.is_relative_to(where) and len(where.parts) >= here:
            here, kind = len(where.parts), found
    return kind in {"tmpfs", "ramfs"}


def _git_version(seam: Seam) -> str | None:
    try:
        process = governed_spawn(
            seam,
            ["git", "version"],
            point="doctor.git",
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        output, _ = process.communicate(timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return output.decode("ascii", "replace") if process.returncode == 0 else None
