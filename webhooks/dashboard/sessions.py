"""What a browser keeps for us: one signed cookie, short-lived, that only we can write. Pure.

It holds who came and until when, never a secret: of a token its id and a keyed fingerprint, so
that every request can ask whether the token is still good.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
import zlib
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

ANONYMOUS = timedelta(hours=1)
BY_TOKEN = timedelta(hours=12)
BY_GITHUB = timedelta(hours=1)
"""Rights that GitHub takes away are gone here after so long at the latest."""
MAX_CHARS = 3_800
"""Browsers keep about 4,096, attributes included."""
_MAX_JSON = 65_536
_TAG_BYTES = 16


@dataclass(frozen=True, slots=True)
class ByToken:
    """Came with a token. ``id`` is None for one of the configuration."""

    name: str
    id: str | None
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What GitHub lets a person do in one installation; no repositories: in all of them."""

    installation: int
    scope: str
    repos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByGitHub:
    """Came through GitHub."""

    id: int
    login: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Away:
    """Is at GitHub at the moment, and where to go afterwards."""

    state: str
    verifier: str
    next: str


@dataclass(frozen=True, slots=True)
class Session:
    """One browser. ``until`` is in epoch seconds."""

    sid: str
    until: int
    token: ByToken | None = None
    github: ByGitHub | None = None
    away: Away | None = None
    flash: tuple[tuple[str, str], ...] = field(default=())

    def says(self, kind: str, text: str) -> Session:
        """With a message for the next page: ``good`` or ``bad``."""
        return replace(self, flash=(*self.flash[-2:], (kind, text[:300])))


_read = TypeAdapter(Session)


def begin(now: datetime, life: timedelta = ANONYMOUS, **who: Any) -> Session:
    """A fresh session; another id than any before it."""
    return Session(secrets.token_hex(16), int((now + life).timestamp()), **who)


class Cookies:
    """Writes and reads the cookie with a key of its own."""

    def __init__(self, secret_key: bytes) -> None:
        self._key = hmac.digest(secret_key, b"coven-github/ops-session/v1", "sha256")

    def write(self, session: Session) -> str:
        """The cookie's value."""
        plain = json.dumps(asdict(session), separators=(",", ":")).encode()
        packed = zlib.compress(plain, 9)
        return base64.urlsafe_b64encode(self._tag(packed) + packed).decode().rstrip("=")

    def read(self, value: str, now: datetime) -> Session | None:
        """The session; None when it is not ours, damaged, or over."""
        try:
            raw = base64.b64decode(
                value.encode("ascii") + b"=" * (-len(value) % 4), altchars=b"-_", validate=True
            )
            tag, packed = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
            if not hmac.compare_digest(tag, self._tag(packed)):
                return None
            plain = zlib.decompressobj().decompress(packed, _MAX_JSON)
            session = _read.validate_json(plain)
        except (binascii.Error, ValueError, zlib.error, ValidationError):
            return None
        return session if session.until > now.timestamp() else None

    def csrf(self, session: Session) -> str:
        """What a form of this session carries."""
        return hmac.new(self._key, f"csrf/{session.sid}".encode(), "sha256").hexdigest()

    def is_csrf(self, session: Session, token: str) -> bool:
        """Whether a form is one of this session."""
        return hmac.compare_digest(self.csrf(session).encode(), token.encode("utf-8", "replace"))

    def fingerprint(self, digest: str) -> str:
        """Stands for a token's digest; says nothing to whoever has no key."""
        return hmac.new(self._key, f"token/{digest}".encode(), "sha256").hexdigest()[:32]

    def _tag(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, b"session/" + packed, "sha256")[:_TAG_BYTES]
