"""What the runtime prints: prose on stdout while it works, tool calls on stderr."""

from __future__ import annotations

import sys


class Voice:
    """Streams narration and keeps it, since the real runtime puts all of it into ``pr_body``."""

    def __init__(self) -> None:
        self.said = ""

    def say(self, text: str) -> None:
        """One piece of the familiar's text."""
        self.said += text
        sys.stdout.write(text)
        sys.stdout.flush()

    @staticmethod
    def tool(name: str, target: str) -> None:
        """One tool call."""
        sys.stderr.write(f"[Tool {name}] {target}\n")
        sys.stderr.flush()

    @staticmethod
    def error(text: str) -> None:
        sys.stderr.write(f"Error: {text}\n")
        sys.stderr.flush()
