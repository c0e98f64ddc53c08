"""From an action to what rules are asked about: the facts, and the actions it would cause. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coven.governance import file_rules, request_rules, spawn
from coven.governance.actions import (
    Action,
    Bash,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
)
from coven.governance.matchers import BashFacts, Derived
from coven.governance.paths import Segments, lexical
from coven.governance.rules import Facts
from coven.governance.shell_rules import ShellFacts
from coven.governance.world import Scope, World

CAUSED = 5000
"""The most actions that one action may cause; beyond that it can't be judged."""

_ANYTHING = (
    Derived(FilesystemWrite("unknown"), frozenset({"path"})),
    Derived(ProcessSpawn("unknown"), frozenset({"binary"})),
    Derived(NetworkRequest("unknown"), frozenset({"host", "port", "scheme", "method", "path"})),
)
"""What a command may do of which nothing is known."""


def all_facts(
    action: Action, scope: Scope, world: World, *, guess: bool
) -> Iterator[tuple[Action, Facts]]:
    """The action and every action it causes, each with its facts.

    ``guess``: no rule says what happens to commands that can't be analysed, so they may do
    anything. Raises ``MalformedAction`` when there is no end to it.
    """
    pending = [Derived(action)]
    count = 0
    while pending:
        derived = pending.pop(0)
        count += 1
        if count > CAUSED:
            raise MalformedAction("command", f"does more than {CAUSED} things; split it up")
        one = derived.action
        if isinstance(one, Bash):
            known = world.analyse(one.command)
            yield one, ShellFacts.of(one, known, guess=guess)
            pending += _caused(known, one.cwd, guess=guess)
        elif isinstance(one, FilesystemWrite):
            yield one, file_rules.facts(one, derived.unknown, scope, world)
        elif isinstance(one, NetworkRequest):
            yield one, request_rules.facts(one, derived.unknown, world)
        elif isinstance(one, ProcessSpawn):
            yield one, spawn.facts(one, derived.unknown, scope, world)
            if one is action:  # the analysis of a command follows its own shells
                pending += [Derived(Bash(code, one.cwd)) for code in spawn.shell_codes(one)]
        else:
            yield one, one


def _caused(known: BashFacts, cwd: str | None, *, guess: bool) -> Iterator[Derived]:
    links = _links(known)
    for derived in known.derived:
        action, unknown = derived.action, derived.unknown
        if isinstance(action, FilesystemWrite):
            if links and action.op is not Op.SYMLINK and _behind(action.path, links):
                unknown |= {"path"}
            if cwd is not None and action.dir_fd_root is None:
                action = FilesystemWrite(action.path, action.op, action.byte_estimate, cwd)
        elif cwd is not None and isinstance(action, ProcessSpawn) and action.cwd is None:
            action = ProcessSpawn(action.binary, action.args, cwd, action.resolved)
        yield Derived(action, unknown)
    if guess and known.unanalysable is not None:
        yield from _ANYTHING


def _links(known: BashFacts) -> list[Segments]:
    """The links that a command makes: what it writes through them can't be known beforehand."""
    return [
        lexical(derived.action.path)
        for derived in known.derived
        if isinstance(derived.action, FilesystemWrite) and derived.action.op is Op.SYMLINK
    ]


def _behind(path: str, links: Sequence[Segments]) -> bool:
    segments = lexical(path)
    return any(segments[: len(link)] == link for link in links)
