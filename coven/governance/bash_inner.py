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
    url: str | None = None
    """A server that what runs further is sent to."""
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
        option, sign, value = field.partition("=")
        step = 1
        if not field.startswith("--"):
            # Letters may stand together; the first that takes a value takes the rest, or the next.
            place = next((n for n in range(1, len(field)) if f"-{field[n]}" in valued), None)
            if place is not None:
                option, value = f"-{field[place]}", field[place + 1 :]
                step = 1 if value else 2
        elif option in valued and not sign:
            step = 2
        if step == 2 and at + 1 < len(fields):
            value = fields[at + 1]
        if option in ("-C", "-D", "--chdir") and value:
            moved = value
        at += step
    return fields[at:], moved


def option_values(argv: Fields, *names: str) -> list[str]:
    """The values of one option, in whatever way they are given."""
    return split(argv[1:], " ".join(names)).values(*names)
