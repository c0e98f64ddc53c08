"""The command line, as the real program takes it: an unknown or conflicting flag is exit 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VERSION = "coven-code 0.7.0 (reference runtime)"

_SWITCHES = ("--headless", "--hosted-repair", "--hosted-review", "--no-claude-md", "--verbose")
_VALUES = (
    "--context",
    "--output",
    "--max-turns",
    "--max-budget-usd",
    "--model",
    "--agent",
    "--system-prompt",
    "--append-system-prompt",
    "--fallback-model",
    "--provider",
    "--session-id",
    "--output-format",
    "--permission-mode",
)


class BadFlags(Exception):
    """The argument parser's complaint; the program exits 2 without a result."""


@dataclass(frozen=True)
class Flags:
    """What was asked for."""

    context: Path
    output: Path | None
    headless: bool = False
    hosted_repair: bool = False
    hosted_review: bool = False
    model: str | None = None
    max_turns: int = 10
    show_version: bool = False


def parse(args: Sequence[str], environ: Mapping[str, str]) -> Flags:
    """Read the command line. Raises :class:`BadFlags`."""
    if "--version" in args or "-V" in args:
        return Flags(Path(), None, show_version=True)
    switches: set[str] = set()
    values: dict[str, str] = {}
    rest = list(args)
    while rest:
        name, equals, inline = rest.pop(0).partition("=")
        name = {"-m": "--model"}.get(name, name)
        if name in _SWITCHES and not equals:
            switches.add(name)
        elif name in _VALUES:
            if not equals and not rest:
                raise BadFlags(f"a value is required for '{name}'")
            values[name] = inline if equals else rest.pop(0)
        else:
            raise BadFlags(f"unexpected argument '{name}' found")
    for variable, switch in (
        ("COVEN_CODE_HOSTED_REVIEW", "--hosted-review"),
        ("COVEN_CODE_HOSTED_REPAIR", "--hosted-repair"),
    ):
        if variable in environ:
            if environ[variable] not in {"true", "false"}:
                raise BadFlags(f"invalid value for '{variable}': possible values: true, false")
            if environ[variable] == "true":
                switches.add(switch)
    return _checked(switches, values)


def _checked(switches: set[str], values: dict[str, str]) -> Flags:
    if "--context" not in values:
        raise BadFlags("this stand-in runs headless only: --context FILE is required")
    repair = "--hosted-repair" in switches
    if repair and "--hosted-review" in switches:
        raise BadFlags("'--hosted-repair' cannot be used with '--hosted-review'")
    if repair and ("--headless" not in switches or "--output" not in values):
        raise BadFlags("'--hosted-repair' requires --headless, --context and --output")
    turns = values.get("--max-turns", "10")
    if not turns.isdigit():
        raise BadFlags(f"invalid value '{turns}' for '--max-turns'")
    budget = values.get("--max-budget-usd", "1")
    try:
        float(budget)
    except ValueError:
        raise BadFlags(f"invalid value '{budget}' for '--max-budget-usd'") from None
    return Flags(
        context=Path(values["--context"]),
        output=Path(values["--output"]) if "--output" in values else None,
        headless="--headless" in switches,
        hosted_repair=repair,
        hosted_review="--hosted-review" in switches,
        model=values.get("--model"),
        max_turns=int(turns),
    )
