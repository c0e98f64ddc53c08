"""``X-Hub-Signature-256``: HMAC-SHA256 over the raw body, as GitHub sends it.

https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

_HEADER = re.compile(r"sha256=([0-9a-fA-F]{64})")


def verified(body: bytes, header: str | None, secrets: Sequence[bytes]) -> bool:
    """Whether any active secret made this signature over exactly these bytes.

    Everything is compared as bytes, and every secret is tried whatever the others said, so the
    time taken says nothing about which secret matched. A header that is absent, of another
    algorithm or not plain hexadecimal never verifies; neither does an empty secret.
    """
    match = _HEADER.fullmatch(header or "")
    if match is None:
        return False
    claimed = bytes.fromhex(match.group(1))
    good = False
    for secret in secrets:
        expected = hmac.new(secret, body, hashlib.sha256).digest()
        good |= hmac.compare_digest(claimed, expected) and bool(secret)
    return good


def sign(body: bytes, secret: bytes) -> str:
    """The header that GitHub would send for this body."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
