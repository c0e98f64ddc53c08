"""Options and operands of a program, in the manner of getopt_long(3). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coven.governance.bash_words import Fields


@dataclass(frozen=True, slots=True)
class Arguments:
    """Options and operands of a program."""

    operands: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...]

    def values(self, *names: str) -> list[str]:
        """The values of these options."""
        return [value for name, value in self.options if name in names and value is not None]

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)


def split(fields: Fields, valued: str = "", optional: str = "") -> Arguments:
    """Options with their values, and operands, in the manner of getopt_long(3).

    ``valued`` options take a value, ``optional`` ones only in the same field.
    """
    takes, may = frozenset(valued.split()), frozenset(optional.split())
    operands: list[str] = []
    options: list[tuple[str, str | None]] = []
    at, ended = 0, False
    while at < len(fields):
        field = fields[at]
        at += 1
        if ended or not field.startswith("-") or field == "-":
            operands.append(field)
        elif field == "--":
            ended = True
        elif field.startswith("--"):
            name, sign, value = field.partition("=")
            full = _completed(name, takes)
            if sign:
                options.append((full, value))
            elif full in takes and at < len(fields):
                options.append((full, fields[at]))
                at += 1
            else:
                options.append((full, None))
        else:
            letters = field[1:]
            while letters:
                name = "-" + letters[0]
                letters = letters[1:]
                if name in takes or name in may:
                    if letters:
                        options.append((name, letters))
                    elif name in takes and at < len(fields):
                        options.append((name, fields[at]))
                        at += 1
                    else:
                        options.append((name, None))
                    break
                options.append((name, None))
    return Arguments(tuple(operands), tuple(options))


def _completed(name: str, known: frozenset[str]) -> str:
    """GNU programs accept any unambiguous beginning of a long option."""
    if name in known:
        return name
    longer = [one for one in known if one.startswith(name) and len(name) > 3]
    return longer[0] if len(longer) == 1 else name
