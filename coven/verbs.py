"""The words that people may write after the familiar's name: one table for grammar and help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Verb:
    """``available``: whether this release does it. ``session``: whether it starts a session."""

    name: str
    usage: str
    summary: str
    session: bool
    available: bool


_TABLE = (
    Verb("review", "review [commit]", "review this pull request", True, True),
    Verb("fix", "fix [what]", "work on this and open a draft pull request", True, True),
    Verb("status", "status", "what is going on in this thread", False, True),
    Verb("help", "help", "this list", False, True),
    Verb(
        "deepen",
        "deepen [commit]",
        "review more thoroughly, with files around the change",
        True,
        True,
    ),
    Verb("retry", "retry", "do the last work on this thread again", True, True),
    Verb("cancel", "cancel", "stop what was asked for before", False, True),
    Verb("remember", "remember <text>", "keep this in mind for the repository", False, True),
    Verb("forget", "forget <key, text or id>", "take a memory back", False, True),
    Verb("approve", "approve <id>", "approve a proposal or an escalation", False, True),
    Verb("deny", "deny <id>", "deny a proposal or an escalation", False, True),
    Verb("memory", "memory", "what is remembered here", False, True),
    Verb("garden", "garden", "tidy up branches", False, False),
)

MEMORY_VERBS = frozenset({"remember", "forget", "approve", "deny", "memory"})
"""What maintainers say about memory and escalations; the worker looks at their rights."""

VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _TABLE})
"""Every known verb by name."""

HELP: tuple[tuple[str, str], ...] = tuple(
    (verb.usage, verb.summary) for verb in _TABLE if verb.available
)
"""(usage, summary) of what works today."""
