"""What the doctor finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from coven.settings.problems import Problem


class Level(StrEnum):
    """``error``: nothing starts; ``warning``: it starts, but look at it; ``ok``: said for calm."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; ``next_step`` is empty when there is nothing to do."""

    level: Level
    key: str
    problem: str
    next_step: str = ""


def error(key: str, problem: str, next_step: str) -> Finding:
    return Finding(Level.ERROR, key, problem, next_step)


def warning(key: str, problem: str, next_step: str) -> Finding:
    return Finding(Level.WARNING, key, problem, next_step)


def ok(key: str, text: str) -> Finding:
    return Finding(Level.OK, key, text)


def from_problems(problems: Iterable[Problem]) -> list[Finding]:
    """The loader's problems as errors."""
    return [error(p.key, p.problem, p.next_step) for p in problems]
