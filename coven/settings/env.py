"""Configuration keys from environment variables: ``COVEN_GITHUB__SECTION__KEY``.

Scalars are written plainly, lists of texts with commas or as JSON, lists of secrets one per line
or as JSON, tables and array tables as JSON. A variable that is set but empty counts as missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coven.settings.defaults import ENV_PREFIX
from coven.settings.models import Section, Settings
from coven.settings.problems import Problem
from coven.settings.schema import FILE_SUFFIX, Kind, Shape, keys_of, nearest, secret_of, shape_of

_TABLES = (Kind.SECTION, Kind.SECTION_LIST, Kind.SECTION_MAP)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def overlay(
    raw: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[Problem]]:
    """``raw`` with the variables laid over it, and what is wrong with them.

    A variable replaces the key of the file, in whichever form (plain or ``*_file``) that is.
    """
    merged = _copy_tables(raw)
    problems: list[Problem] = []
    seen: dict[tuple[str, ...], str] = {}
    for variable in sorted(environ):
        value = environ[variable]
        if not variable.startswith(ENV_PREFIX) or not value.strip():
            continue
        steps = tuple(step.lower() for step in variable.removeprefix(ENV_PREFIX).split("__"))
        problem = _place(merged, steps, variable, value, seen)
        if problem is not None:
            problems.append(problem)
    return merged, problems


def variable_of(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENV_PREFIX + key.replace(".", "__").upper()


def _place(
    merged: dict[str, Any],
    steps: tuple[str, ...],
    variable: str,
    value: str,
    seen: dict[tuple[str, ...], str],
) -> Problem | None:
    section: type[Section] = Settings
    table = merged
    for step in steps[:-1]:
        shape = shape_of(section, step) if step in section.model_fields else None
        if shape is None or shape.kind is not Kind.SECTION or shape.section is None:
            return _unknown(variable, steps, section, step)
        section = shape.section
        below = table.setdefault(step, {})
        if not isinstance(below, dict):
            return None  # the file has something else here; its own problem says so
        table = below
    name = steps[-1]
    bare = secret_of(section, name)
    if name not in section.model_fields and bare is None:
        return _unknown(variable, steps, section, name)
    slot = (*steps[:-1], bare or name)
    if slot in seen:
        return Problem(
            variable,
            f"is set together with {seen[slot]}",
            "keep one of the two and unset the other",
        )
    seen[slot] = variable
    table.pop(bare or name, None)
    table.pop(f"{bare or name}{FILE_SUFFIX}", None)
    try:
        table[name] = value if bare else _read(shape_of(section, name), value)
    except ValueError as error:
        return Problem(variable, str(error), "correct the variable, or unset it")
    return None


def _unknown(variable: str, steps: tuple[str, ...], section: type[Section], step: str) -> Problem:
    position = steps.index(step)
    guess = nearest(step, keys_of(section))
    if guess is None:
        return Problem(variable, "is no known setting", "see docs/configuration.md, or unset it")
    meant = ENV_PREFIX + "__".join((*steps[:position], guess, *steps[position + 1 :])).upper()
    return Problem(variable, "is no known setting", f"did you mean {meant}?")


def _read(shape: Shape, text: str) -> Any:
    """The value of a variable as TOML would have given it. Raises ``ValueError``."""
    kind = shape.kind
    if kind in _TABLES:
        return _json(text, list if kind is Kind.SECTION_LIST else dict, kind)
    if kind in (Kind.TEXT_LIST, Kind.PATH_LIST, Kind.SECRET_LIST):
        if text.lstrip().startswith("["):
            return _json(text, list, kind)
        parts = text.split("\n" if kind is Kind.SECRET_LIST else ",")
        return [part.strip() for part in parts if part.strip()]
    if kind is Kind.BOOL:
        word = text.strip().casefold()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise ValueError("must be true or false")
    if kind in (Kind.INT, Kind.FLOAT):
        return _number(kind, text.strip())
    return text.strip() if kind is not Kind.SECRET else text.strip("\r\n")


def _number(kind: Kind, text: str) -> int | float:
    try:
        # int() would also take "1_0" and other scripts' digits; a person did not mean that here.
        if not text.isascii() or "_" in text:
            raise ValueError
        return int(text) if kind is Kind.INT else float(text)
    except ValueError:
        raise ValueError(f"must be {kind.value}, without a unit") from None


def _json(text: str, wanted: type, kind: Kind) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"must be {kind.value}, written as JSON") from None
    if not isinstance(value, wanted):
        raise ValueError(f"must be {kind.value}, written as JSON")
    return value


def _copy_tables(raw: dict[str, Any]) -> dict[str, Any]:
    return {k: _copy_tables(v) if isinstance(v, dict) else v for k, v in raw.items()}
