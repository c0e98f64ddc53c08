"""API tokens as values: what one looks like, and what its scope lets it do.

``cvn_<id>_<secret>``: twelve hex digits that name the row, then 256 random bits. Shown once.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

_SHAPE = re.compile(r"cvn_([0-9a-f]{12})_[0-9a-f]{64}\Z", re.ASCII)


class TokenScope(StrEnum):
    """What a token may do. Each scope includes those before it, and nothing else."""

    READ = "read"
    """Look at tasks, deliveries, memory, usage and the audit."""
    MEMORY_WRITE = "memory:write"
    """Also approve, deny and revoke memory."""
    ADMIN = "admin"
    """Also cancel and retry tasks."""

    def includes(self, other: TokenScope) -> bool:
        """Whether a token of this scope may do what ``other`` is needed for."""
        order = list(TokenScope)
        return order.index(other) <= order.index(self)


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token. ``secret`` is the whole text, to be shown once and never kept."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Minted(id={self.id!r})"


def mint() -> Minted:
    """A fresh token."""
    token_id = secrets.token_hex(6)
    return Minted(token_id, f"cvn_{token_id}_{secrets.token_hex(32)}")


def id_of(secret: str) -> str | None:
    """The row that a token names; None when it is no token of ours."""
    match = _SHAPE.match(secret)
    return match[1] if match else None


def digest_of(secret: str) -> str:
    """What is kept of a token, or of one from the configuration."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
