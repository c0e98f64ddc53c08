"""What is wrong with a configuration, said so that a person can put it right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coven.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to put right. ``str()`` is one line: key, problem, next step; never a secret."""

    key: str
    problem: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; {self.next_step}"


class InvalidConfiguration(ConfigurationError):
    """The configuration can't be used. ``problems`` has all of them, ``str()`` one per line.

    ``unreadable`` is True when the file itself could not be read or parsed.
    """

    def __init__(self, problems: Sequence[Problem], *, unreadable: bool = False) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.unreadable = unreadable
