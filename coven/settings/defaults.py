"""Fixed points of the configuration: names, places, and values nobody may keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG_FILE = "coven-github.toml"
"""Looked for in the current folder when neither ``--config`` nor the environment names a file."""

ENV_CONFIG = "COVEN_GITHUB_CONFIG"
ENV_PREFIX = "COVEN_GITHUB__"

MAX_CONFIG_BYTES = 1_048_576
MAX_SECRET_BYTES = 65_536

WEB_GRACE_SECS = 15
"""How long the receiver may finish the requests at hand after it was told to stop."""

MIN_SECRET_CHARS = 16
"""Shorter secrets are a warning."""

PLACEHOLDERS = frozenset(
    {
        "change-me",
        "change_me",
        "changeme",
        "replace-me",
        "replace_me",
        "replace-with-a-random-webhook-secret",
        "secret",
        "your-secret",
        "your_secret",
        "your-webhook-secret",
        "example",
        "password",
        "todo",
        "xxx",
    }
)
"""What example files hold in place of a secret, case-folded."""

_VOLATILE = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - named to be avoided


def is_placeholder(secret: str) -> bool:
    """Whether a secret is one of the values that example files carry, or an ``<…>`` hint."""
    text = secret.strip().casefold()
    return text in PLACEHOLDERS or (text.startswith("<") and text.endswith(">"))


def is_volatile(path: Path) -> bool:
    """Whether a path lies in a place that machines empty by themselves."""
    return any(path == root or root in path.parents for root in _VOLATILE)


def default_state_dir(base: Path, environ: Mapping[str, str]) -> Path:
    """Where state lives when nobody says: beside the configuration, but never in a temp folder."""
    beside = base / "var" / "coven-github"
    if not is_volatile(beside):
        return beside
    for root in (environ.get("XDG_STATE_HOME"), _under(environ.get("HOME"), ".local/state")):
        if root and Path(root).is_absolute() and not is_volatile(Path(root)):
            return Path(root) / "coven-github"
    return Path("/var/lib/coven-github")


def _under(home: str | None, name: str) -> str | None:
    return f"{home}/{name}" if home else None
