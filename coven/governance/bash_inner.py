"""What a command runs further: the result of peeling. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coven.governance.bash_options import split
from coven.governance.bash_words import SPLIT, Fields


@dataclass(frozen=True, slots=True)
class Inner:
    """Something that a command runs: one of the members is set."""

    argv: Fields | None = None
    code: str | None = None
    """Shell code."""
    same_shell: bool = False
    """Whether it runs in the calling shell, so that it may move it and set its variables."""
    opaque: str | None = None
    """Code of another language, or of a place we do not see."""
    trouble: str | None = None
    """Why it can't be judged."""
    moved: str | None = None
    """A folder that the inner command starts in."""


def after_options(fields: Fields, valued: frozenset[str], name: str) -> tuple[Fields, str | None]:
    """The operands of a wrapper, and the folder that it moves to."""
    moved = None
    at = 0
    while at < len(fields):
        field = fields[at]
        if field == "--":
            at += 1
            break
        if field == SPLIT:
            return fields[at:], moved
        if not field.startswith("-") or (field == "-" and name != "env"):
            break
        option, _, value = field.partition("=")
        takes = field in valued or (field[:2] in valued and not field.startswith("--"))
        if option in ("-C", "-D", "--chdir"):
            moved = value or (fields[at + 1] if at + 1 < len(fields) else None)
        elif field[:2] in ("-C", "-D") and takes and len(field) > 2 and name in ("env", "sudo"):
            moved = field[2:]
        at += 2 if field in valued else 1
    return fields[at:], moved


def option_values(argv: Fields, *names: str) -> list[str]:
    """The values of one option, in whatever way they are given."""
    return split(argv[1:], " ".join(names)).values(*names)
