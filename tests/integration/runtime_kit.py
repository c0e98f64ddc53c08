"""What the tests of supervision share: backends, a short way to run, and looking around."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

from coven.clock import SystemClock
from coven.contract.exit_codes import ProcessEnd
from coven.governance.wire import Seam
from coven.redaction import Redactor
from tests.services import missing
from worker.runtime import launch
from worker.runtime.backend import Backend
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.environment import DEFAULT_PATH
from worker.runtime.host import Host
from worker.runtime.session import Limits, SessionSpec
from worker.runtime.supervise import run_session

PYTHON = Path(sys.base_prefix).resolve()


def backend_named(name: str) -> Backend:
    """The backend, or a visible skip when this machine can't have it."""
    if name == "host":
        return Host()
    if which("bwrap") is None:
        missing("bubblewrap", "bwrap is not installed")
    return Bubblewrap((PYTHON,))


def python(code: str) -> tuple[str, ...]:
    """A guest in Python that every backend can start."""
    return (str(PYTHON / "bin" / "python3"), "-I", "-S", "-c", code)


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def spec_for(folder: Path, argv: tuple[str, ...], **changes: Any) -> SessionSpec:
    values: dict[str, Any] = {
        "argv": argv,
        "env": {"PATH": DEFAULT_PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        "cwd": folder,
        "writable": (folder,),
        "readable": (),
        "timeout_secs": 20.0,
        "grace_secs": 0.3,
        "limits": Limits(),
    }
    return SessionSpec(**{**values, **changes})


def run(
    backend: Backend,
    folder: Path,
    argv: tuple[str, ...],
    *,
    pulse: Callable[[], str | None] = lambda: None,
    pulse_every: float = 30.0,
    redactor: Redactor | None = None,
    **changes: Any,
) -> ProcessEnd:
    spec = spec_for(folder, argv, **changes)
    known = redactor or Redactor()
    return run_session(spec, backend, Seam(), SystemClock(), known, pulse, pulse_every)


def processes_with(text: str) -> list[int]:
    """Living processes whose command line holds ``text``."""
    found = []
    for pid in launch.process_ids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if text.encode() in line and launch.stat_fields(pid)[:1] not in (["Z"], []):
            found.append(pid)
    return found


def wait_for(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The first true value of ``condition``; fails the test when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("condition did not become true in time")
