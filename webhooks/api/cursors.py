"""Where a list goes on, as text that only we can write.

A cursor is signed together with the question that it belongs to: caller's view, operation and
filters. So one that was made up, changed, or taken from another tenant's list is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

MAX_CHARS = 400
_TAG_BYTES = 12


class BadCursor(Exception):
    """Not ours, or of another list."""


class Cursors:
    """Writes and reads cursors with a key of their own."""

    def __init__(self, secret_key: bytes) -> None:
        self._key = hmac.digest(secret_key, b"coven-github/api-cursor/v1", "sha256")

    def write(self, question: str, place: list[object]) -> str:
        """The cursor after ``place``."""
        content = json.dumps(place, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._tag(question, content) + content).decode().rstrip("=")

    def read(self, question: str, cursor: str) -> list[object]:
        """The place. Raises ``BadCursor``."""
        try:
            raw = base64.b64decode(
                cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
            )
        except (binascii.Error, ValueError) as error:
            raise BadCursor from error
        tag, content = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(question, content)):
            raise BadCursor
        place: list[object] = json.loads(content)
        return place

    def _tag(self, question: str, content: bytes) -> bytes:
        # The hash gives the question a fixed length, so that it can't run into the content.
        message = hashlib.sha256(question.encode("utf-8", "replace")).digest() + content
        return hmac.digest(self._key, message, "sha256")[:_TAG_BYTES]
