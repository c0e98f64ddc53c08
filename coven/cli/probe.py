"""Trying the session backend out. It lives with the workers, so a process of theirs is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from coven.cli.processes import environment
from coven.governance.wire import Seam, governed_spawn
from coven.settings.machine import BackendProbe, BackendReport
from coven.settings.models import Settings

_PROBE_SECS = 60


def backend_report(config: Path | None) -> BackendProbe:
    """A probe for the doctor: what a worker says of the backend that ``config`` names."""

    def probe(settings: Settings) -> BackendReport:
        process = governed_spawn(
            Seam(),
            [sys.executable, "-m", "worker.runtime"],
            point="doctor.backend",
            env=environment(config),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        name = settings.worker.backend
        try:
            output, errors = process.communicate(timeout=_PROBE_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            why = f"{name} did not answer in {_PROBE_SECS} s; try it by hand"
            return BackendReport(problems=(why,))
        try:
            said = json.loads(output)
            return BackendReport(
                problems=tuple(map(str, said["problems"])),
                notices=tuple(map(str, said["notices"])),
                describe=tuple(map(str, said["describe"])),
                version=said["version"],
                contract=said["contract"],
            )
        except (ValueError, KeyError, TypeError):
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            return BackendReport(problems=(f"{name} can't be tried: {' '.join(last)[-300:]}",))

    return probe


def backend_problems(config: Path | None, settings: Settings) -> list[str]:
    """What keeps the backend of ``config`` from working here, one sentence each."""
    return list(backend_report(config)(settings).problems)
