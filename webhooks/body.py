"""From the bytes of a delivery to one JSON object, strictly.

GitHub sends ``application/json``, or a form with the JSON in the single field ``payload``. What
two JSON readers could understand differently (a key twice, NaN, an overflowing number) is refused,
as is whatever is not an object.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn
from urllib.parse import parse_qsl

Json = dict[str, Any]

MAX_FORM_FIELDS = 16
MAX_DEPTH = 100
"""GitHub's own payloads are about ten levels deep."""


class BadBody(Exception):
    """The body can't be used; ``reason`` is one word for ledger and answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(raw: bytes, media_type: str | None) -> Json:
    """The payload. Raises ``BadBody``, and nothing else, for any bytes."""
    text = _from_form(raw) if media_type == "application/x-www-form-urlencoded" else _utf8(raw)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise BadBody("too_deep") from error
    except ValueError as error:
        raise BadBody("bad_json") from error
    if not isinstance(value, dict):
        raise BadBody("not_an_object")
    if _deeper_than(value, MAX_DEPTH):
        raise BadBody("too_deep")
    return value


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody("bad_encoding") from error


def _from_form(raw: bytes) -> str:
    try:
        fields = parse_qsl(
            _utf8(raw), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS
        )
    except ValueError as error:
        raise BadBody("bad_form") from error
    found = [value for name, value in fields if name == "payload"]
    if len(found) != 1:
        raise BadBody("no_payload_field" if not found else "bad_form")
    return found[0]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadBody("duplicate_key")
    return value


def _no_constant(_: str) -> NoReturn:
    raise BadBody("not_finite")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadBody("not_finite")
    return value


def _deeper_than(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            for child in (
                item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
            )
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
