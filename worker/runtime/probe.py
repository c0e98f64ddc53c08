"""Trying a backend out: the smallest sessions that must succeed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from coven.clock import SystemClock
from coven.contract.exit_codes import ProcessEnd
from coven.governance.wire import Seam
from coven.redaction import Redactor
from worker.runtime.environment import DEFAULT_PATH
from worker.runtime.session import SessionSpec

if TYPE_CHECKING:
    from worker.runtime.backend import Backend

PROBE_SECS = 15.0


def run_probe(backend: Backend, argv: tuple[str, ...]) -> str | None:
    """Run ``argv`` in ``backend``; what went wrong in one sentence, or None."""
    end = try_out(backend, argv)
    if end.spawn_error is None and end.exit_code == 0:
        return None
    detail = end.spawn_error or end.stderr_tail.strip()[-300:] or f"exit {end.exit_code}"
    return f"worker.backend = {backend.name} can't start a process: {detail}"


def runtime_version(backend: Backend, program: str) -> tuple[str | None, str | None]:
    """``(version, problem)`` of the runtime as a session of ``backend`` would find it."""
    end = try_out(backend, (program, "--version"))
    if end.spawn_error is not None:
        return None, end.spawn_error
    version = end.stdout_tail.strip().partition("\n")[0][:100]
    if end.exit_code != 0 or not version:
        return None, f"`{program} --version` ended with {end.exit_code} and no version"
    return version, None


def try_out(backend: Backend, argv: tuple[str, ...]) -> ProcessEnd:
    """Run a command in an empty folder under ``backend``."""
    from worker.runtime.supervise import run_session  # supervision imports the backends' interface

    with tempfile.TemporaryDirectory(prefix="coven-probe-") as name:
        folder = Path(name)
        spec = SessionSpec(
            argv=argv,
            env={"PATH": DEFAULT_PATH, "HOME": name, "LANG": "C.UTF-8"},
            cwd=folder,
            writable=(folder,),
            readable=(),
            timeout_secs=PROBE_SECS,
            grace_secs=1,
        )
        return run_session(spec, backend, Seam(), SystemClock(), Redactor(), lambda: None, 60)
