"""What a rule's matcher is asked, and what the analysis of a shell command must answer. Pure types.

A condition answers with a ``Finding``. ``POSSIBLE`` means that the value can't be known: a rule
that blocks then fires, a rule that only notes does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, TypeVar

from coven.governance.actions import Action

Word: TypeAlias = "str | None"
"""One decoded word of a shell command; ``None`` when only the running shell knows its value."""


class Finding(IntEnum):
    """Whether a condition holds: ``min`` over a rule's conditions, ``max`` over a list."""

    NO = 0
    POSSIBLE = 1
    YES = 2


def yes(holds: bool) -> Finding:
    """``YES`` or ``NO``."""
    return Finding.YES if holds else Finding.NO


F = TypeVar("F")
Condition: TypeAlias = Callable[[F], Finding]
"""One part of a matcher, asked about the facts of an action."""


def all_of(conditions: Iterable[Condition[F]], facts: F) -> Finding:
    """Whether all conditions hold."""
    certain = True
    for condition in conditions:
        found = condition(facts)
        if found is Finding.NO:
            return found
        certain = certain and found is Finding.YES
    return Finding.YES if certain else Finding.POSSIBLE


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program of a shell command with its words, wrappers peeled away or not."""

    argv: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """An action that a shell command would cause.

    ``unknown`` names the members whose value only the running shell knows: ``path``, ``host``,
    ``port``, ``method``, ``binary``, ``args.0``, ``args.1`` … The member itself then holds the
    source text, for the record.
    """

    action: Action
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BashFacts:
    """What a shell command is known to do."""

    decoded: str
    """The words of all commands with quoting folded away, single-spaced."""

    commands: tuple[SimpleCommand, ...] = ()
    """Every simple command, also those inside wrappers, ``sh -c`` and substitutions."""

    derived: tuple[Derived, ...] = ()
    """Writes, spawns and requests of these commands."""

    unanalysable: str | None = None
    """Why the command can't be judged; ``None`` when it can."""

    opaque_code: str | None = None
    """Which code of another language runs unseen (``python -c``, a pipe into a shell)."""


Analyse: TypeAlias = Callable[[str], BashFacts]
"""``coven.governance.bash.analyse``: the facts of one command text."""


def nothing_known(command: str) -> BashFacts:
    """The facts where no analysis is available: the command can't be judged."""
    return BashFacts(decoded=command, unanalysable="no analysis of shell commands is available")
