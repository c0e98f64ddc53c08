"""An operator's HTTP request: signed as a whole, so it can't be changed or sent twice.

Signed is ``coven-github/operator-request/v1`` NUL, then on a line each: method, path with query,
host, timestamp (epoch seconds), nonce, SHA-256 of the body in hex, and the policy epoch that the
operator saw (``If-Match``). Pure: clock and keys are handed in; the nonce ledger is the caller's.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from coven.governance.signing import PublicKeys, Signer

REQUEST_DOMAIN = "coven-github/operator-request/v1"
KEY = "X-Coven-Operator-Key"
TIMESTAMP = "X-Coven-Operator-Timestamp"
NONCE = "X-Coven-Operator-Nonce"
SIGNATURE = "X-Coven-Operator-Signature"
ALIAS = "X-AI-Memory-Operator-Signature"
"""The name of the signature header in the design that this follows; the same meaning."""
EPOCH = "If-Match"
HEADERS = (KEY, TIMESTAMP, NONCE, SIGNATURE, ALIAS, EPOCH)
MAX_AGE_SECS = 300
MAX_AHEAD_SECS = 60

_NONCE = re.compile(r"[A-Za-z0-9_-]{22,64}")
_DIGITS = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """Who signed, with which nonce, and which epoch they saw."""

    key_id: str
    nonce: str
    epoch: int


def request_message(
    method: str, target: str, host: str, timestamp: str, nonce: str, body: bytes, epoch: str
) -> bytes:
    """What is signed. ``target`` is the path with its query, as sent."""
    digest = hashlib.sha256(body).hexdigest()
    lines = "\n".join((method, target, host.casefold(), timestamp, nonce, digest, epoch))
    return REQUEST_DOMAIN.encode("ascii") + b"\0" + lines.encode("utf-8")


def sign_request(
    signer: Signer, method: str, target: str, host: str, body: bytes, epoch: int, now: float
) -> dict[str, str]:
    """The headers of a signed request, with a fresh nonce."""
    timestamp, nonce = str(int(now)), secrets.token_urlsafe(24)
    words = request_message(method, target, host, timestamp, nonce, body, str(epoch))
    signature = base64.urlsafe_b64encode(signer.sign(words)).decode("ascii").rstrip("=")
    return {
        KEY: signer.key_id,
        TIMESTAMP: timestamp,
        NONCE: nonce,
        SIGNATURE: signature,
        EPOCH: str(epoch),
    }


def check_request(
    headers: Mapping[str, str],
    method: str,
    target: str,
    host: str,
    body: bytes,
    keys: PublicKeys,
    now: float,
) -> SignedRequest | None:
    """Who signed exactly this, lately; None for anything else. The nonce is not looked at."""
    key, timestamp, nonce = (headers.get(name, "") for name in (KEY, TIMESTAMP, NONCE))
    epoch = headers.get(EPOCH, "").strip('"')
    if not (_DIGITS.fullmatch(timestamp) and _DIGITS.fullmatch(epoch) and _NONCE.fullmatch(nonce)):
        return None
    if not -MAX_AHEAD_SECS <= now - int(timestamp) <= MAX_AGE_SECS:
        return None
    words = request_message(method, target, host, timestamp, nonce, body, epoch)
    signature = _decoded(headers.get(SIGNATURE) or headers.get(ALIAS) or "")
    if not keys.verify(key, signature, words):
        return None
    return SignedRequest(key, nonce, int(epoch))


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
