"""The words that people may write after the familiar's name: one table for grammar, help and docs.

``docs/commands.md`` and the answer to ``help`` are made from it, so neither can say anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType


class Surface(Enum):
    """Where a command means something."""

    ANY = "issue or pull request"
    PULL = "pull request"


class Trust(Enum):
    """Who may give a command; looked up at GitHub when it arrives, and once more when it runs."""

    WRITE = "write access"
    COLLABORATOR = "collaborator"


class Argument(Enum):
    """What may follow the verb."""

    NONE = "nothing is read"
    COMMIT = "a full commit id (40 or 64 hexadecimal digits), optional"
    WORDS = "free text, optional"
    TEXT = "free text, needed"
    IDS = "one or more ids"


@dataclass(frozen=True, slots=True)
class Verb:
    """``session``: starts a session; else it is answered at once, on the control lane.

    ``shown``: how the person sees that it was taken. ``available``: whether this release does it.
    """

    name: str
    usage: str
    summary: str
    session: bool
    available: bool
    surface: Surface
    trust: Trust
    argument: Argument
    shown: str


_WORK = "eyes, then a Check Run or the status comment"
_REPLY = "a reply"


def _work(
    name: str, usage: str, summary: str, argument: Argument, surface: Surface = Surface.ANY
) -> Verb:
    return Verb(name, usage, summary, True, True, surface, Trust.WRITE, argument, _WORK)


def _said(
    name: str,
    usage: str,
    summary: str,
    trust: Trust = Trust.COLLABORATOR,
    argument: Argument = Argument.NONE,
    shown: str = _REPLY,
) -> Verb:
    return Verb(name, usage, summary, False, True, Surface.ANY, trust, argument, shown)


_TABLE = (
    _work(
        "review",
        "review [commit]",
        "review this pull request",
        Argument.COMMIT,
        Surface.PULL,
    ),
    _work("fix", "fix [what]", "work on this and open a draft pull request", Argument.WORDS),
    _work(
        "deepen",
        "deepen [commit]",
        "review more thoroughly, with files around the change",
        Argument.COMMIT,
        Surface.PULL,
    ),
    _work("retry", "retry [what else]", "do the last work on this thread again", Argument.WORDS),
    _said(
        "cancel",
        "cancel",
        "stop what was asked for before",
        Trust.WRITE,
        shown="a reply that lists what was stopped, or a reaction when there was nothing",
    ),
    _said(
        "resume",
        "resume",
        "go on after a pause for too many requests",
        Trust.WRITE,
    ),
    _said("status", "status", "what is going on in this thread"),
    _said("help", "help", "this list"),
    _said(
        "remember",
        "remember <text>",
        "keep this in mind for the repository",
        Trust.WRITE,
        Argument.TEXT,
    ),
    _said(
        "forget",
        "forget <key, text or id>",
        "take a memory back",
        Trust.WRITE,
        Argument.TEXT,
    ),
    _said(
        "approve",
        "approve <id>",
        "approve a proposal or an escalation",
        Trust.WRITE,
        Argument.IDS,
    ),
    _said("deny", "deny <id>", "deny a proposal or an escalation", Trust.WRITE, Argument.IDS),
    _said("memory", "memory", "what is remembered here", Trust.WRITE, Argument.WORDS),
    Verb(
        "garden",
        "garden",
        "tidy up branches",
        session=True,
        available=False,
        surface=Surface.ANY,
        trust=Trust.WRITE,
        argument=Argument.NONE,
        shown="a reply that this release can't do it yet",
    ),
)

MEMORY_VERBS = frozenset({"remember", "forget", "approve", "deny", "memory"})
"""What maintainers say about memory and escalations; the worker looks at their rights."""

VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _TABLE})
"""Every known verb by name, in the order in which people are told of them."""

HELP: tuple[tuple[str, str], ...] = tuple(
    (verb.usage, verb.summary) for verb in _TABLE if verb.available
)
"""(usage, summary) of what works today."""

_NEAR = 0.7
"""Below this similarity (0 to 1) a word is no slip of the fingers but another word."""


def nearest(word: str) -> str | None:
    """The verb that somebody who wrote ``word`` most likely meant, or None."""
    known = [verb.name for verb in _TABLE if verb.available]
    found = get_close_matches(word.casefold()[:40], known, n=1, cutoff=_NEAR)
    return found[0] if found else None
