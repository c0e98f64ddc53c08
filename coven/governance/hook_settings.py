"""How the hook is installed for a session: its command, and settings of both harnesses. Pure."""

from __future__ import annotations

import json
import shlex
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
        return self.settings(self.command, "coven-code")

    @property
    def claude_code(self) -> bytes:
        """``settings.json`` of Claude Code's ``.claude`` folder."""
        return self.settings(self.command, "claude-code")

    @property
    def canary(self) -> str:
        """A shell command that ends with 2 exactly when the hook is at work."""
        return self.canary_of(self.command)

    @staticmethod
    def settings(command: str, harness: Literal["coven-code", "claude-code"]) -> bytes:
        """The settings file that installs ``command`` for every tool."""
        if harness == "coven-code":
            return _json(
                {"config": {"hooks": {"PreToolUse": [{"command": command, "blocking": True}]}}}
            )
        hook = {
            "type": "command",
            "command": command,
            "timeout": TIMEOUT_SECS,
            "onFailure": "block",
        }
        return _json({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})

    @staticmethod
    def canary_of(command: str) -> str:
        """Asks a hook about a harmless tool, which must pass, and about one that must not."""

        def asked(tool: str) -> str:
            event = {"event": "PreToolUse", "tool_name": tool, "tool_input": {}, "session_id": "-"}
            return f"printf %s {shlex.quote(json.dumps(event))} | {{ {command}; }}"

        return f"( {asked('Read')} ) || exit 1\n{asked(CANARY_TOOL)}"


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
