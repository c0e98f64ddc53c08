"""Short commands of a backend, such as removing a container."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from coven.governance.wire import Seam, governed_spawn

COMMAND_SECS = 20.0


def run_command(seam: Seam, command: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Run a command for at most 20 s; what it printed, empty when it could not be run."""
    try:
        process = governed_spawn(
            seam,
            command,
            point="session.backend",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return ""
    with process:
        try:
            out, _ = process.communicate(timeout=COMMAND_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            return ""
    return out.decode("utf-8", "replace")
