"""Rules about ``process_spawn``: which program really runs, with which words, on how full a disk.

A program has many names: as written, by its last part, as the search path finds it, and as its
links resolve. Wrappers are peeled first. Pure; the machine's answers are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coven.governance import argv
from coven.governance.actions import ProcessSpawn
from coven.governance.argv import basename
from coven.governance.bash_peel import peel
from coven.governance.bash_words import UNKNOWN, Fields, is_known
from coven.governance.matchers import Condition, Finding, Word, yes
from coven.governance.paths import PathUnclear, join, lexical, text_of
from coven.governance.shapes import InvalidMatcher, Members
from coven.governance.world import Scope, World

KEYS = (
    "binary", "binary_any", "binary_not_in", "argv_prefix", "paths", "args_contain",
    "disk_free_min_gib", "disk_path",
)  # fmt: skip
NEEDED = (
    "binary", "binary_any", "binary_not_in", "argv_prefix", "paths", "args_contain",
    "disk_free_min_gib",
)  # fmt: skip

GIB = 2**30

DEPTH = 4
"""How many wrappers may stand in each other before nothing is known any more."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program that a vector starts, itself or through a wrapper."""

    argv: tuple[Word, ...]
    names: frozenset[str]
    """Last parts: as written, as found, as resolved."""

    files: frozenset[str]
    """Absolute paths: as written, as found, as resolved. Empty when it is not found."""

    @property
    def known_as(self) -> tuple[str, ...]:
        """All names and files."""
        return (*self.names, *self.files)


@dataclass(frozen=True, slots=True)
class SpawnFacts:
    """What is known of one spawn."""

    programs: tuple[Program, ...]
    unclear: bool
    """What stands inside can't be read: any program may run."""

    volumes: tuple[str, ...]
    free_bytes: Callable[[str], int]


def facts(action: ProcessSpawn, unknown: frozenset[str], scope: Scope, world: World) -> SpawnFacts:
    """The facts of one spawn."""
    members = ("binary", *(f"args.{n}" for n in range(len(action.args))))
    words = tuple(
        UNKNOWN if member in unknown else word
        for member, word in zip(members, action.argv, strict=True)
    )
    base = action.cwd or scope.base
    vectors, _, unclear = _peeled(words)
    programs = [
        _program(vector, action.resolved if n == 0 else None, base, world)
        for n, vector in enumerate(vectors)
    ]
    volumes = tuple(dict.fromkeys(place for place in (scope.workspace, action.cwd) if place))
    return SpawnFacts(tuple(programs), unclear, volumes or ("/",), world.free_bytes)


def conditions(members: Members) -> tuple[Condition[SpawnFacts], ...]:
    """The parts of one matcher. Raises ``InvalidMatcher``."""
    about: list[Condition[Program]] = []
    if "binary" in members:
        about.append(_named(_values("binary", members.expanded("binary"))))
    if "binary_any" in members:
        about.append(_named(_values("binary_any", members.texts("binary_any"))))
    if "binary_not_in" in members:
        about.append(_not_named(_values("binary_not_in", members.texts("binary_not_in"))))
    if "argv_prefix" in members:
        pattern = members.words("argv_prefix")
        about.append(lambda program: argv.prefix(program.argv, program.known_as, pattern))
    if "paths" in members:
        about.append(_elsewhere(_values("paths", members.texts("paths"))))
    if "args_contain" in members:
        about.append(_holding(members.text("args_contain")))
    found: list[Condition[SpawnFacts]] = [_some_program(tuple(about))] if about else []
    if "disk_free_min_gib" in members:
        places = members.expanded("disk_path") if "disk_path" in members else ()
        found.append(_low_disk(members.count("disk_free_min_gib", 1) * GIB, places))
    elif "disk_path" in members:
        raise InvalidMatcher("`disk_path` means nothing alone; add `disk_free_min_gib`")
    return tuple(found)


def shell_codes(action: ProcessSpawn) -> list[str]:
    """The shell commands that the spawned program is given, as in ``sh -c``."""
    return _peeled(action.argv)[1]


def _peeled(words: Fields) -> tuple[list[tuple[Word, ...]], list[str], bool]:
    """The vector and every one inside it, shell code inside it, and whether that is not all."""
    vectors: list[tuple[Word, ...]] = []
    codes: list[str] = []
    unclear = False
    pending = [(words, 0)]
    while pending:
        fields, depth = pending.pop(0)
        vectors.append(tuple(field if is_known(field) else None for field in fields))
        for inner in peel(fields, ""):
            unclear = unclear or inner.trouble is not None or bool(inner.argv and depth >= DEPTH)
            if inner.code:
                codes.append(inner.code)
            if inner.argv and depth < DEPTH:
                pending.append((inner.argv, depth + 1))
    return vectors, codes, unclear


def _program(
    vector: tuple[Word, ...], resolved: str | None, base: str | None, world: World
) -> Program:
    word = vector[0]
    if word is None:
        return Program(vector, frozenset(), frozenset())
    found = resolved or _find(word, base, world)
    files = set()
    if found is not None:
        files = {found, text_of(lexical(found)), _real(found, world)}
    names = {basename(word), *(basename(file) for file in files)}
    if found is not None and world.folds_case(found):
        names |= {name.casefold() for name in names}
    return Program(vector, frozenset(names), frozenset(files))


def _find(word: str, base: str | None, world: World) -> str | None:
    if "/" not in word:
        return world.which(word)
    try:
        return join(word, base)
    except PathUnclear:
        return None


def _real(path: str, world: World) -> str:
    try:
        return world.physical(path)
    except (OSError, ValueError):
        return path


def _some_program(about: tuple[Condition[Program], ...]) -> Condition[SpawnFacts]:
    def condition(facts: SpawnFacts) -> Finding:
        found = Finding.POSSIBLE if facts.unclear else Finding.NO
        for program in facts.programs:
            found = max(found, min(part(program) for part in about))
        return found

    return condition


def _named(values: Sequence[str]) -> Condition[Program]:
    names = (value.casefold() for value in values if "/" not in value)
    wanted = frozenset((*values, *names))

    def condition(program: Program) -> Finding:
        if program.argv[0] is None:
            return Finding.POSSIBLE
        return yes(not wanted.isdisjoint(program.names | program.files | {program.argv[0]}))

    return condition


def _not_named(values: Sequence[str]) -> Condition[Program]:
    names = frozenset(value for value in values if "/" not in value)
    files = frozenset(value for value in values if "/" in value)

    def condition(program: Program) -> Finding:
        if program.argv[0] is None:
            return Finding.POSSIBLE
        return yes(program.files.isdisjoint(files) and not program.names <= names)

    return condition


def _elsewhere(values: Sequence[str]) -> Condition[Program]:
    allowed = frozenset(values)

    def condition(program: Program) -> Finding:
        if not program.files:
            return Finding.POSSIBLE
        return yes(program.files.isdisjoint(allowed))

    return condition


def _holding(needle: str) -> Condition[Program]:
    def condition(program: Program) -> Finding:
        if needle in argv.joined(program.argv[1:]):
            return Finding.YES
        return Finding.POSSIBLE if None in program.argv else Finding.NO

    return condition


def _low_disk(least: int, places: Sequence[str]) -> Condition[SpawnFacts]:
    def condition(facts: SpawnFacts) -> Finding:
        found = Finding.NO
        for place in dict.fromkeys((*places, *facts.volumes)):
            try:
                found = max(found, yes(facts.free_bytes(place) < least))
            except OSError:
                found = max(found, Finding.POSSIBLE)
        return found

    return condition


def _values(key: str, values: Sequence[str]) -> tuple[str, ...]:
    for value in values:
        if "/" in value and not value.startswith("/"):
            raise InvalidMatcher(
                f"`{key}` has `{value[:80]}`, which can never match; "
                "write a bare name or an absolute path"
            )
        if value.endswith("/"):
            raise InvalidMatcher(f"`{key}` has `{value[:80]}`, which is a folder; name the file")
        if key == "paths" and "/" not in value:
            raise InvalidMatcher(f"`paths` has `{value[:80]}`; write an absolute path")
    return tuple(values)
