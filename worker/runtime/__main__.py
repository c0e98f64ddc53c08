"""``python -m worker.runtime``: try the configured backend out and report as JSON (the doctor).

The report has ``backend``, ``problems``, ``notices`` (what may surprise a session), ``describe``
(what is enforced and what is not), ``version`` (of the runtime, or null) and ``contract``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from shutil import which

from coven.contract.brief import CONTRACT_VERSION
from coven.errors import ConfigurationError
from coven.settings.loader import load
from coven.settings.models import Settings
from worker.runtime.backend import Backend
from worker.runtime.choose import choose
from worker.runtime.environment import DEFAULT_PATH
from worker.runtime.host import Host
from worker.runtime.probe import runtime_version
from worker.workspace.checkout import agent_files_above


def report(settings: Settings) -> dict[str, object]:
    """What the doctor wants to know about the backend of ``settings``."""
    try:
        backend = choose(settings)
    except ConfigurationError as error:
        return {
            "backend": settings.worker.backend,
            "problems": [str(error)],
            "notices": [],
            "describe": [],
            "version": None,
            "contract": CONTRACT_VERSION,
        }
    problems = backend.probe()
    version = None
    program = settings.worker.coven_code_bin
    if not problems and not backend.own_limits and which(program, path=DEFAULT_PATH):
        version, problem = runtime_version(backend, program)
        if problem:
            problems = [
                f"worker.coven_code_bin does not start under {backend.name} ({problem}): "
                "name the folders that it needs in worker.readable"
            ]
    return {
        "backend": backend.name,
        "problems": problems,
        "notices": [*_agent_files(settings, backend)],
        "describe": backend.describe(),
        "version": version,
        "contract": CONTRACT_VERSION,
    }


def _agent_files(settings: Settings, backend: Backend) -> Iterator[str]:
    # The other backends show a session nothing above its own folders.
    if isinstance(backend, Host):
        for path in agent_files_above(settings.workspace_root):
            yield (
                f"{path} would be read by every session: move it, or set worker.workspace_root "
                "to a folder that has no such file above it"
            )


def main() -> int:
    """Print the report; 1 when there is no usable configuration at all."""
    settings = load(None, os.environ).settings
    if settings is None:
        sys.stderr.write("the configuration can't be read: run coven-github doctor\n")
        return 1
    sys.stdout.write(json.dumps(report(settings)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
