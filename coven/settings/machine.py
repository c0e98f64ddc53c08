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


def check_machine(settings: Settings, machine: Machine) -> list[Finding]:
    """All findings about this machine."""
    return [
        *_git(machine),
        *_key(settings),
        *_runtime(settings, machine),
        *_state(settings),
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


def _state(settings: Settings) -> Iterator[Finding]:
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
    path = settings.storage.path
    if settings.storage.database_url is None and path is not None and path.is_dir():
        yield error("storage.path", f"{path} is a folder", "name a file")


def _broker(settings: Settings, machine: Machine) -> Iterator[Finding]:
    if settings.queue.broker_url is not None:
        return
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
