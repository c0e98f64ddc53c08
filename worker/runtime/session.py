"""What a session is made of: the program, its surroundings and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

TAIL_BYTES = 64 * 1024
"""How much of each output stream is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session may use; each breach ends it and is named on the attempt."""

    memory_bytes: int = 4 * 2**30
    """Resident memory of the whole process tree."""
    file_bytes: int = 2**30
    """Largest single file."""
    processes: int = 512
    """Processes alive at one time."""
    workspace_bytes: int = 8 * 2**30
    """Everything below the writable folders."""
    output_tail: int = TAIL_BYTES
    """Bytes kept of each of stdout and stderr; the rest is drained and dropped."""
    output_bytes: int | None = None
    """Most that both streams may carry; None drains without end."""
    address_bytes: int | None = None
    """Address space of each process (``RLIMIT_AS``); None sets no limit."""
    open_files: int = 4096


@dataclass(frozen=True)
class SessionSpec:
    """One session to run. Paths are absolute; the guest sees the same paths in every backend."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment of the guest, built by :mod:`worker.runtime.environment`."""
    cwd: Path
    writable: tuple[Path, ...]
    readable: tuple[Path, ...]
    timeout_secs: float
    grace_secs: float
    limits: Limits = field(default_factory=Limits)
    network: bool = True
    entrypoint: str | None = None
    """What a container starts with instead of the runtime; ``argv[0]`` elsewhere."""
    secrets_env: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables whose values are masked everywhere and never put into an argument list."""
