"""Authenticated markers: how we know a comment as ours when its id was never stored.

The marker is the first thing in a body: ``<!-- coven-github:v1:<kind>:<familiar>:<repo_id>:<n>:
<hmac16> -->``. The signature makes it unforgeable, its place keeps a quotation from counting, and
its content ties it to one thread or comment of one repository, so that a copy elsewhere is
nobody's. Only a marker in a body that our App wrote may be trusted; the caller checks the author.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from coven.values import RepoId

PREFIX = "coven-github:v1"
MAX_LENGTH = 160
"""Bytes of the longest marker, for budgets."""

_KIND = r"[a-z][a-z_]{0,29}"
_FAMILIAR = r"[a-z0-9][a-z0-9-]{0,38}"
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_SHAPE = re.compile(
    rf"\A[\s\ufeff]{{0,8}}<!-- {PREFIX}:({_KIND}):({_FAMILIAR}):({_NUMBER}):({_NUMBER}):"
    r"([0-9a-f]{16}) -->",
    re.ASCII,
)
_FIELDS = re.compile(rf"{_KIND}:{_FAMILIAR}:{_NUMBER}:{_NUMBER}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Marker:
    """What an authenticated marker says."""

    kind: str
    familiar_id: str
    repo_id: RepoId
    n: int
    """Number of the thread, or id of the comment that is answered."""


def make_marker(kind: str, familiar_id: str, repo_id: int, n: int, secret_key: bytes) -> str:
    """The marker of one object. Raises ``ValueError`` when a part can't stand in a marker."""
    fields = f"{kind}:{familiar_id}:{repo_id}:{n}"
    if not _FIELDS.fullmatch(fields):
        raise ValueError(f"can't stand in a marker: {fields[:120]!r}")
    return f"<!-- {PREFIX}:{fields}:{_signature(fields, secret_key)} -->"


def find_marker(body: str, secret_key: bytes) -> Marker | None:
    """The marker at the start of ``body`` when we signed it, else None."""
    match = _SHAPE.match(body)
    if match is None:
        return None
    kind, familiar_id, repo_id, n, signature = match.groups()
    expected = _signature(f"{kind}:{familiar_id}:{repo_id}:{n}", secret_key)
    if not hmac.compare_digest(signature, expected):
        return None
    return Marker(kind, familiar_id, RepoId(int(repo_id)), int(n))


def _signature(fields: str, secret_key: bytes) -> str:
    return hmac.new(secret_key, f"{PREFIX}:{fields}".encode(), hashlib.sha256).hexdigest()[:16]
