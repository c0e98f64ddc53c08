"""Strict JSON for rules and actions: one reading of every text, or none. Pure.

Duplicate keys, ``NaN``, lone surrogates, integers that other readers would round, deep nesting and
oversized texts are refused, because two programs that read them differently judge differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import rfc8785

JsonValue: TypeAlias = (
    bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
)

MAX_BYTES = 4 * 2**20
"""The longest text that is read, in bytes of UTF-8."""

MAX_DEPTH = 64
"""How deep arrays and objects may nest."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps."""


class JsonRefused(ValueError):
    """The text or value can't be read in one way only; the message says what to change."""


def loads(text: str | bytes) -> JsonValue:
    """The value of one JSON text. Raises ``JsonRefused``."""
    try:
        data = text.encode("utf-8") if isinstance(text, str) else text
        words = data.decode("utf-8")
    except UnicodeError:
        raise JsonRefused("the JSON is not UTF-8; send UTF-8") from None
    if len(data) > MAX_BYTES:
        raise JsonRefused(f"the JSON has {len(data)} bytes; send at most {MAX_BYTES}")
    try:
        value: JsonValue = json.loads(
            words, object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_integer
        )
    except JsonRefused:
        raise
    except RecursionError:
        raise JsonRefused(f"the JSON nests too deeply; use at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise JsonRefused(f"this is not JSON ({error}); send one JSON value") from None
    require(value)
    return value


def require(value: JsonValue, *, floats: bool = True) -> None:
    """Raise ``JsonRefused`` unless ``value`` has one canonical form. ``floats=False`` bans them."""
    for place, item, depth in _walk(value):
        if depth > MAX_DEPTH:
            raise JsonRefused(f"the JSON nests too deeply; use at most {MAX_DEPTH} levels")
        if isinstance(item, str):
            require_text(item, place)
        elif isinstance(item, float):
            if not floats:
                raise JsonRefused(f"`{place}` is a fraction; use a whole number")
            if item != item or item in (float("inf"), float("-inf")):
                raise JsonRefused(f"`{place}` is not a finite number; use a finite one")
        if isinstance(item, int | float) and abs(item) > MAX_INTEGER:
            raise JsonRefused(f"`{place}` is too large; use at most 2^53-1, or a string")


def require_text(text: str, place: str) -> None:
    """Raise ``JsonRefused`` when ``text`` can't be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused(f"`{place}` is not UTF-8; use a UTF-8 text") from None


def canonical(value: JsonValue) -> bytes:
    """RFC 8785 bytes: equal values, equal bytes. Raises ``JsonRefused``."""
    try:
        return rfc8785.dumps(_plain(value))
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise JsonRefused(f"the value has no canonical JSON form: {error}") from None


def _plain(value: JsonValue) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _walk(value: JsonValue) -> Iterator[tuple[str, JsonValue, int]]:
    pending: list[tuple[str, JsonValue, int]] = [("$", value, 0)]
    while pending:
        place, item, depth = pending.pop()
        yield place, item, depth
        if depth > MAX_DEPTH:
            continue
        if isinstance(item, Mapping):
            for key, inner in item.items():
                yield f"{place}.<key>", key, depth
                pending.append((f"{place}.{key}"[:200], inner, depth + 1))
        elif isinstance(item, list | tuple):
            pending.extend((f"{place}[{n}]", inner, depth + 1) for n, inner in enumerate(item))


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonRefused(f"the key `{twice[:80]}` stands twice; write it once")
    return found


def _no_constant(name: str) -> NoReturn:
    raise JsonRefused(f"`{name}` is not JSON; use a finite number")


def _integer(digits: str) -> int:
    if len(digits) > 17:
        raise JsonRefused(f"the number {digits[:20]}… is too large; use at most 2^53-1")
    return int(digits)
