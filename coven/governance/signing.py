"""Canonical bytes and Ed25519: what is signed, with which tag, and who may have signed it. Pure.

Every message is ``<domain> NUL <RFC 8785 JSON>`` so that a signature made for one purpose is worth
nothing for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from coven.governance.strict_json import canonical, loads

RULE_DOMAIN = "coven-github/governance-rule/v1"
POLICY_DOMAIN = "coven-github/governance-policy/v1"
KEY_DOMAIN = "coven-github/governance-key/v1"
AUDIT_DOMAIN = "coven-github/audit/v1"
ANCHOR_DOMAIN = "coven-github/audit-anchor/v1"
SIGNATURE_BYTES = 64
KEY_BYTES = 32


def key_id(public: bytes) -> str:
    """The name of a key: the first 16 hex digits of the SHA-256 of its public half."""
    return hashlib.sha256(public).hexdigest()[:16]


def message(domain: str, value: Any) -> bytes:
    """The bytes that a signature of this purpose covers. Raises ``JsonRefused``."""
    return domain.encode("ascii") + b"\0" + canonical(value)


@dataclass(frozen=True)
class Signer:
    """A private key in use. Its representation shows no key material."""

    _private: Ed25519PrivateKey = field(repr=False)
    public: bytes = field(repr=False)
    key_id: str

    @classmethod
    def from_seed(cls, seed: bytes) -> Signer:
        """From 32 raw bytes. Raises ``ValueError`` for any other length."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = private.public_key().public_bytes_raw()
        return cls(private, public, key_id(public))

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""
        return self._private.sign(data)


class PublicKeys:
    """The public keys that are trusted for one role; used by every verifier."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._raw = {key_id(public): public for public in keys}
        self._keys = {
            name: Ed25519PublicKey.from_public_bytes(public) for name, public in self._raw.items()
        }

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def raw(self) -> Mapping[str, bytes]:
        """Public bytes by key id."""
        return self._raw

    def verify(self, name: str | None, signature: bytes | None, data: bytes) -> bool:
        """Whether the key ``name`` is trusted and made this signature."""
        key = self._keys.get(name or "")
        if key is None or signature is None or len(signature) != SIGNATURE_BYTES:
            return False
        try:
            key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


def rule_value(row: Mapping[str, Any]) -> dict[str, Any]:
    """The signed members of a rule's row. Raises ``JsonRefused`` for an unreadable matcher."""
    value: dict[str, Any] = {
        "v": 1,
        "id": row["id"],
        "kind": row["kind"],
        "matcher": loads(row["matcher"]),
        "severity": row["severity"],
        "reason": row["reason"],
        "namespace": row["namespace"],
        "created_by": row["created_by"],
        "enabled": bool(row["enabled"]),
        "revision": row["revision"],
    }
    return value


def rule_message(row: Mapping[str, Any]) -> bytes:
    """What the operator signs for one rule. Raises ``JsonRefused``."""
    return message(RULE_DOMAIN, rule_value(row))


def policy_digest(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """SHA-256 over all rules, also disabled and removed ones, in the order of their ids.

    Covers what a row's own signature leaves out (examples, tombstone, key), so that nothing of a
    row can change under a valid head. Raises ``JsonRefused``.
    """
    listed = [
        rule_value(row)
        | {
            "examples": loads(row["examples"]) if row["examples"] else None,
            "removed_at": row["removed_at"],
            "created_at": row["created_at"],
            "key_id": row["key_id"],
            "attest_level": row["attest_level"],
        }
        for row in sorted(rows, key=lambda row: str(row["id"]))
    ]
    return hashlib.sha256(canonical(listed)).digest()


def head_message(epoch: int, digest: bytes, rule_count: int, signed_at: int) -> bytes:
    """What the operator signs for the whole policy."""
    value = {
        "v": 1,
        "epoch": epoch,
        "digest": digest.hex(),
        "rule_count": rule_count,
        "signed_at": signed_at,
    }
    return message(POLICY_DOMAIN, value)


def key_message(role: str, public: bytes, created_at: int) -> bytes:
    """What an operator key signs to vouch for another key."""
    return message(
        KEY_DOMAIN, {"v": 1, "role": role, "public_key": public.hex(), "created_at": created_at}
    )
