"""Rules about ``bash``: words of its commands, and what can't be known about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coven.governance import argv
from coven.governance.actions import Bash
from coven.governance.matchers import BashFacts, Condition, Finding, Word, yes
from coven.governance.shapes import InvalidMatcher, Members

KEYS = (
    "command_substring", "command_regex", "argv_prefix", "argv_contains_all", "unanalyzable",
    "opaque_code",
)  # fmt: skip
NEEDED = KEYS

_NEVER_LITERAL = frozenset("*+?[](){}^$|\\")


@dataclass(frozen=True, slots=True)
class ShellFacts:
    """One command and what its analysis says."""

    action: Bash
    known: BashFacts
    guess: bool
    """Whether what could not be analysed counts as a possible match of everything."""

    programs: tuple[tuple[tuple[Word, ...], tuple[str, ...]], ...]
    """The words of each command, and the names of its program."""

    @classmethod
    def of(cls, action: Bash, known: BashFacts, *, guess: bool) -> ShellFacts:
        """The facts of one command."""
        named = (
            (words, argv.program_names(words[0] if words else None))
            for words in (command.argv for command in known.commands)
        )
        return cls(action, known, guess and known.unanalysable is not None, tuple(named))


def conditions(members: Members) -> tuple[Condition[ShellFacts], ...]:
    """The parts of one matcher. Raises ``InvalidMatcher``."""
    found: list[Condition[ShellFacts]] = []
    if "command_regex" in members:
        literal = members.text("command_regex")
        if _NEVER_LITERAL & set(literal):
            raise InvalidMatcher(
                "`command_regex` is a literal text for historical reasons, so this would not match "
                "what it says; use `command_substring` or `argv_prefix`"
            )
        if "command_substring" not in members:
            found.append(_holding(literal))
    if "command_substring" in members:
        found.append(_holding(members.text("command_substring")))
    if "argv_prefix" in members or "argv_contains_all" in members:
        prefix = members.words("argv_prefix") if "argv_prefix" in members else ()
        wanted = members.words("argv_contains_all") if "argv_contains_all" in members else ()
        found.append(_some_command(prefix, wanted))
    if "unanalyzable" in members:
        members.true("unanalyzable")
        found.append(lambda facts: yes(facts.known.unanalysable is not None))
    if "opaque_code" in members:
        members.true("opaque_code")
        found.append(lambda facts: yes(facts.known.opaque_code is not None))
    return tuple(found)


def _holding(needle: str) -> Condition[ShellFacts]:
    spaced = " ".join(needle.split())

    def condition(facts: ShellFacts) -> Finding:
        texts = (facts.action.command, facts.known.decoded)
        return yes(needle in texts[0] or bool(spaced and spaced in texts[1]))

    return condition


def _some_command(prefix: argv.Choices, wanted: argv.Choices) -> Condition[ShellFacts]:
    def condition(facts: ShellFacts) -> Finding:
        found = Finding.POSSIBLE if facts.guess else Finding.NO
        for words, names in facts.programs:
            one = argv.prefix(words, names, prefix) if prefix else Finding.YES
            if one is not Finding.NO and wanted:
                one = min(one, argv.contains_all(words, wanted))
            if one is Finding.YES:
                return one
            found = max(found, one)
        return found

    return condition
