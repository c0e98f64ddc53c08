"""JSON read so that nothing is ambiguous: what two parsers could read differently is refused."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from coven.contract.base import key_name

MAX_DEPTH = 50
_MAX_INT = 2**63
_BRACKETS_OR_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadJson(ValueError):
    """The document can't be read safely; the message is short and holds no value of it."""


def parse_object(raw: bytes) -> dict[str, Any]:
    """One JSON object.

    Raises ``BadJson`` for a BOM, invalid UTF-8, duplicate keys, NaN or infinite numbers, integers
    beyond 64 bits, lone surrogates, NUL, nesting deeper than ``MAX_DEPTH``, or trailing text.
    """
    if not raw.strip():
        raise BadJson("the file is empty")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise BadJson("the file starts with a byte order mark")
    if _too_deep(raw):
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadJson("not valid UTF-8") from None
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_int,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise BadJson(f"not valid JSON at line {error.lineno}, column {error.colno}") from None
    except RecursionError:  # the depth check comes first; this is for odd interpreters
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels") from None
    if not isinstance(document, dict):
        raise BadJson("not a JSON object")
    _check_strings(document)
    return document


def _too_deep(raw: bytes) -> bool:
    depth = 0
    for token in _BRACKETS_OR_STRING.finditer(raw):
        first = raw[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif first in b"]}":
            depth -= 1
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJson(f"the key '{key_name(key)}' occurs twice")
            seen.add(key)
    return result


def _int(digits: str) -> int:
    # Long digit strings are refused before they cost time to convert.
    if len(digits) > 20 or not -_MAX_INT <= (value := int(digits)) < _MAX_INT:
        raise BadJson("an integer is beyond 64 bits")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BadJson("a number is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not JSON")


def _check_strings(document: dict[str, Any]) -> None:
    pending: list[Any] = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            if "\0" in value:
                raise BadJson("a string holds a NUL character")
            if _SURROGATE.search(value):
                raise BadJson("a string holds half of a surrogate pair")
