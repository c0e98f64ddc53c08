"""Trying the session backend out. It lives with the workers, so a process of theirs is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from coven.cli.processes import environment
from coven.governance.wire import Seam, governed_spawn
from coven.settings.machine import BackendProbe
from coven.settings.models import Settings

_PROBE_SECS = 60


def backend_probe(config: Path | None) -> BackendProbe:
    """A probe for the doctor: problems of the backend that ``config`` names."""

    def probe(settings: Settings) -> list[str]:
        process = governed_spawn(
            Seam(),
            [sys.executable, "-m", "worker.runtime"],
            point="doctor.backend",
            env=environment(config),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            output, errors = process.communicate(timeout=_PROBE_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return [f"{settings.worker.backend} did not answer in {_PROBE_SECS} s; try it by hand"]
        try:
            problems = json.loads(output)["problems"]
        except (ValueError, KeyError, TypeError):
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            return [f"{settings.worker.backend} can't be tried: {' '.join(last)[-300:]}"]
        return [str(problem) for problem in problems]

    return probe
