"""Redaction of bytes that arrive in pieces, with secrets cut anywhere.

A tail is held back that is longer than any secret but a private key; what is let go ends at a line
end (else at a space, else anywhere) that no secret spans. A private key or a run of token
characters that fills the whole buffer is masked once and swallowed to its end, so memory stays
bounded whatever a child prints.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from coven.redaction.spans import MASK, Span

if TYPE_CHECKING:
    from coven.redaction.redactor import Redactor

HOLD = 65_536
"""Characters held back; a secret in one piece is shorter."""

_KEY_END = re.compile(r"END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{0,5}|Private-MAC: ?[0-9a-f]*")
_KEY_END_LENGTH = 128
_RUN_END = re.compile(r"[\s\"'`<>]")


class StreamRedactor:
    """Feed bytes, get redacted bytes; ``close`` gives the rest. Not for several threads.

    Invalid UTF-8 becomes U+FFFD. The output does not depend on how the input was cut.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""
        self._swallow: re.Pattern[str] | None = None

    def feed(self, data: bytes) -> bytes:
        """Take ``data``; returns what is certain to be free of secrets."""
        out: list[str] = []
        # Blocks of a fixed size, so that the same cuts are made for any chunking.
        text = self._decoder.decode(data)
        while text:
            room = 2 * HOLD - len(self._buffer)
            self._buffer, text = self._buffer + text[:room], text[room:]
            if len(self._buffer) >= 2 * HOLD:
                out.append(self._release())
        return _encode("".join(out))

    def close(self) -> bytes:
        """The rest. Feeding after that is a mistake."""
        self._buffer += self._decoder.decode(b"", final=True)
        rest = self._after_swallowing()
        self._buffer = ""
        return _encode(self._redactor.text(rest))

    def _release(self) -> str:
        self._buffer = self._after_swallowing()
        if len(self._buffer) < 2 * HOLD:
            return ""
        text = self._buffer
        spans = self._redactor.spans(text)
        cut = _cut(text, spans, len(text) - HOLD)
        if cut:
            self._buffer = text[cut:]
            return self._redactor.text(text[:cut])
        # One secret from the first character to beyond the limit: mask it and drop the rest of it.
        end = spans[0][1]
        if end < len(text):
            self._buffer = text[end:]
            return MASK
        self._swallow = (
            _KEY_END if "PRIVATE KEY" in text[:256] or "PuTTY" in text[:64] else _RUN_END
        )
        self._buffer = text[-_KEY_END_LENGTH:] if self._swallow is _KEY_END else ""
        return MASK

    def _after_swallowing(self) -> str:
        if self._swallow is None:
            return self._buffer
        end = self._swallow.search(self._buffer)
        if end is None:
            return self._buffer[-_KEY_END_LENGTH:] if self._swallow is _KEY_END else ""
        keep = end.end() if self._swallow is _KEY_END else end.start()
        self._swallow = None
        return self._buffer[keep:]


def _cut(text: str, spans: list[Span], limit: int) -> int:
    """The best place at or before ``limit`` that is in no span; 0 when there is none."""
    for separator in ("\n", " "):
        at = text.rfind(separator, 0, limit)
        while at >= 0:
            inside = next((start for start, end in spans if start < at + 1 < end), None)
            if inside is None:
                return at + 1
            at = text.rfind(separator, 0, inside)
    return next((start for start, end in spans if start < limit < end), limit)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
