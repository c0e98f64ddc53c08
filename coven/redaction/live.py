"""Secrets that we hold ourselves, in every spelling in which they may come back."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from coven.redaction.spans import MASK, Span

MIN_LENGTH = 8
"""A shorter value is never masked: it would hit innocent words."""

_HALF = 16
_HEX_PAIR = re.compile("%[0-9A-F]{2}")
_BASE64_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


class LiveValues:
    """Finds exact values and their encodings; time is linear in the text per spelling."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = frozenset(value for value in values if len(value) >= MIN_LENGTH)
        self._forms: dict[str, tuple[int, int]] = {}
        for value in sorted(self.values):
            for form, edges in _spellings(value):
                if len(form) >= MIN_LENGTH and form not in MASK:
                    known = self._forms.get(form, (0, 0))
                    self._forms[form] = (max(known[0], edges[0]), max(known[1], edges[1]))
        self._long = {
            form: edges
            for form, edges in self._forms.items()
            if len(form) >= _HALF and not any(char.isspace() for char in form)
        }

    def __bool__(self) -> bool:
        return bool(self._forms)

    def find(self, text: str, *, wrapped: bool = False) -> Iterator[Span]:
        """Where a value stands.

        ``wrapped``: lines have been joined, so only spellings too long to meet by chance count,
        and the next character is no neighbour.
        """
        for form, (left, right) in (self._long if wrapped else self._forms).items():
            at = text.find(form)
            while at >= 0:
                end = at + len(form)
                yield (
                    _widen(text, at, end, left, right)
                    if (left or right) and not wrapped
                    else (at, end)
                )
                at = text.find(form, end)


def _spellings(value: str) -> Iterator[tuple[str, tuple[int, int]]]:
    plain = (0, 0)
    pieces = {value, *(line.strip() for line in value.splitlines())}
    if len(value) >= 2 * _HALF:
        # A value that something else has cut in two is still half a secret.
        pieces |= {value[: len(value) // 2], value[len(value) // 2 :]}
    for piece in sorted(pieces):
        if not piece.startswith("-----"):
            for form in _escaped(piece):
                yield form, plain
    raw = value.encode("utf-8", "surrogatepass")
    yield raw.hex(), plain
    yield raw.hex().upper(), plain
    for case in ("%%%02X", "%%%02x"):
        yield "".join(case % byte for byte in raw), plain
    for form, edges in _base64(raw):
        yield form, edges
        encoded = quote(form, safe="")
        if encoded != form:
            yield encoded, plain
            yield _lower_hex(encoded), plain


def _escaped(value: str) -> set[str]:
    as_json = json.dumps(value)[1:-1]
    forms = {
        value,
        as_json,
        as_json.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    # A log line of a JSON document inside a JSON document.
    forms.add(json.dumps(as_json)[1:-1])
    forms.add(html.escape(value))
    encodable = value.encode("utf-8", "surrogatepass")
    for encoded in (quote(encodable, safe=""), quote(encodable, safe="/"), quote_plus(encodable)):
        forms |= {encoded, _lower_hex(encoded), encoded.replace("%", "%25")}
    return forms


def _lower_hex(encoded: str) -> str:
    return _HEX_PAIR.sub(lambda match: match[0].lower(), encoded)


def _base64(raw: bytes) -> Iterator[tuple[str, tuple[int, int]]]:
    """The characters that depend on ``raw`` alone, for each of the three alignments.

    The neighbours at either edge carry a few bits of the value too: they come as the number of
    characters by which a hit is widened.
    """
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode("ascii")
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(raw)) // 6
        core = encoded[first:last]
        edges = (1 if offset else 0, 1)
        yield core, edges
        yield core.replace("+", "-").replace("/", "_"), edges


def _widen(text: str, start: int, end: int, left: int, right: int) -> Span:
    while left and start and text[start - 1] in _BASE64_CHARS:
        start, left = start - 1, left - 1
    while right and end < len(text) and text[end] in _BASE64_CHARS:
        end, right = end + 1, right - 1
    padding = 2
    while padding and end < len(text) and text[end] == "=":
        end, padding = end + 1, padding - 1
    return start, end
