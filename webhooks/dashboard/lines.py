"""CSV that spreadsheets can open without being tricked. Pure.

A cell that begins like a formula is prefixed with an apostrophe:
https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Lines of a CSV file, made while they are sent."""
    yield _line(head)
    for row in rows:
        yield _line([cell(value) for value in row])


def cell(value: object) -> str:
    """One value as a harmless cell; numbers stay numbers."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    text = text.replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_STARTS) else text


def _line(values: Sequence[str]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().encode("utf-8", "replace")
