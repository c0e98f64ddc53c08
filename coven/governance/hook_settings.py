"""How the hook is installed for a session: its command, and settings of both harnesses. Pure."""

from __future__ import annotations

import json
import shlex
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import coven
from coven.governance.snapshot import CANARY_TOOL

TIMEOUT_SECS = 10
"""What the harness is told; the hook answers within 5 s by itself."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One installed hook."""

    snapshot: Path
    journal: Path
    key: bytes
    """The public key of the service that signed the snapshot."""
    python: str = sys.executable

    @property
    def command(self) -> str:
        """For ``sh -c``. What can't even start must block as well: hence ``|| exit 2``."""
        words = [
            *(self.python, "-I", "-m", "coven.governance.hook"),
            *("--snapshot", str(self.snapshot)),
            *("--journal", str(self.journal)),
            *("--key", self.key.hex()),
        ]
        return f"{shlex.join(words)} || exit 2"

    @property
    def coven_code(self) -> bytes:
        """``settings.json`` of coven-code's home."""
        hook = {"command": self.command, "blocking": True}
        return _json({"config": {"hooks": {"PreToolUse": [hook]}}})

    @property
    def claude_code(self) -> bytes:
        """``settings.json`` of Claude Code's ``.claude`` folder."""
        hook = {
            "type": "command",
            "command": self.command,
            "timeout": TIMEOUT_SECS,
            "onFailure": "block",
        }
        return _json({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})

    @property
    def canary(self) -> str:
        """A shell command that ends with 2 exactly when the hook is at work."""
        event = json.dumps(
            {"event": "PreToolUse", "tool_name": CANARY_TOOL, "tool_input": {}, "session_id": "-"}
        )
        asked = f"printf %s {shlex.quote(event)} | {{ {self.command}; }}"
        allowed = json.dumps({"event": "PreToolUse", "tool_name": "Read", "tool_input": {}})
        harmless = f"printf %s {shlex.quote(allowed)} | {{ {self.command}; }}"
        return f"( {harmless} ) || exit 1\n{asked}"


def code_folders() -> tuple[Path, ...]:
    """What a confined session must be able to read so that the hook can start."""
    folders = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sysconfig.get_path("stdlib")),
        Path(coven.__file__).parent,
    ]
    return tuple(dict.fromkeys(folder.absolute() for folder in folders))


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode("utf-8") + b"\n"
