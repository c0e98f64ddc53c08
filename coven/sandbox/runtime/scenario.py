"""Which way the runtime shall behave: ``familiar.model = "sandbox:<scenario>[,<arg>]"``.

Several scenarios may stand together (``sandbox:contract-v2,slow:2``); a part that is no scenario
is the argument of the one before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PREFIX = "sandbox:"

NAMES = frozenset(
    {
        "contract-v2",
        "hang",
        "crash",
        "signal",
        "malformed",
        "missing",
        "wrong-version",
        "grandchildren",
        "huge-output",
        "slow",
        "needs-input",
        "partial",
        "failure",
        "turn-limit",
        "auth-error",
        "memory-honest",
        "memory-malicious",
        "ignore-sigterm",
        "leak-env",
        "leak-path",
        "other-branch",
        "leak-proc",
        "big-result",
        "symlink-result",
        "fifo-result",
        "directory-result",
        "flaky",
        "hog-memory",
        "hog-disk",
        "fork-bomb",
    }
)
_EXIT = re.compile(r"exit-(\d{1,3})\Z")


class UnknownScenario(Exception):
    """The model names a scenario that does not exist."""


@dataclass(frozen=True)
class Scenario:
    """The chosen behaviours; empty means honest work in the real dialect."""

    chosen: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None

    def has(self, *names: str) -> bool:
        """Whether any of these was asked for."""
        return any(name in self.chosen for name in names)

    def number(self, name: str, default: float) -> float:
        """The argument of a scenario as a number."""
        try:
            return float(self.chosen.get(name) or default)
        except ValueError:
            raise UnknownScenario(f"{name}: {self.chosen[name]!r} is not a number") from None


def parse_scenario(model: str | None) -> Scenario:
    """Read a model name. Raises :class:`UnknownScenario`; any other model is honest work."""
    if not model or not model.startswith(PREFIX):
        return Scenario()
    chosen: dict[str, str] = {}
    exit_code: int | None = None
    last: str | None = None
    for part in model.removeprefix(PREFIX).split(","):
        name, _, argument = part.strip().partition(":")
        code = _EXIT.match(name)
        if code:
            exit_code, last = int(code.group(1)), None
        elif name in NAMES:
            chosen[name], last = argument, name
        elif last is not None and not chosen[last]:
            chosen[last] = part.strip()
        else:
            raise UnknownScenario(f"unknown scenario {name!r} in model {model[:80]!r}")
    return Scenario(chosen, exit_code)
