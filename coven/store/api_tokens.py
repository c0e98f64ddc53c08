"""The tokens that the operator made for the HTTP API.

A token comes before a tenant: looking one up is how the tenant of a request becomes known. So
these functions, which only the operator and the check of a token call, take no installation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, insert, or_, select, update

from coven.api_tokens import TokenScope
from coven.store.engine import Tx
from coven.store.tables_api import api_tokens
from coven.values import InstallationId

USED_EVERY = timedelta(minutes=1)
"""How exact ``last_used_at`` is: not every request may cost a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A row. ``installation_id`` None: a service token, for all installations."""

    id: str
    name: str
    digest: str
    installation_id: InstallationId | None
    scope: TokenScope
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    replaces: str | None = None

    def is_good(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_FIELDS = tuple(api_tokens.c[name] for name in Token.__dataclass_fields__)


def add(tx: Tx, token: Token) -> None:
    """Write a new token."""
    tx.execute(insert(api_tokens).values(**asdict(token)))


def find(tx: Tx, token_id: str) -> Token | None:
    """The token with this id."""
    row = tx.execute(select(*_FIELDS).where(api_tokens.c.id == token_id)).one_or_none()
    return _token(row) if row is not None else None


def listed(tx: Tx, limit: int = 1_000) -> list[Token]:
    """All tokens, newest first, revoked and expired ones too."""
    rows = tx.execute(
        select(*_FIELDS).order_by(api_tokens.c.created_at.desc(), api_tokens.c.id).limit(limit)
    )
    return [_token(row) for row in rows]


def revoke(tx: Tx, token_id: str, now: datetime) -> bool:
    """Make a token worthless at once. False when it was revoked before, or is unknown."""
    return (
        tx.execute(
            update(api_tokens)
            .where(api_tokens.c.id == token_id, api_tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        ).rowcount
        == 1
    )


def revoke_all(installation: InstallationId, tx: Tx, now: datetime) -> int:
    """Make every token of an installation worthless; how many were not yet."""
    return tx.execute(
        update(api_tokens)
        .where(api_tokens.c.installation_id == installation, api_tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    ).rowcount


def end_by(tx: Tx, token_id: str, until: datetime) -> None:
    """Let a token work until then, and no longer than before."""
    tx.execute(
        update(api_tokens)
        .where(
            api_tokens.c.id == token_id,
            or_(api_tokens.c.expires_at.is_(None), api_tokens.c.expires_at > until),
        )
        .values(expires_at=until)
    )


def used(tx: Tx, token_id: str, now: datetime) -> None:
    """Note that a token was used, at most once a minute."""
    tx.execute(
        update(api_tokens)
        .where(
            api_tokens.c.id == token_id,
            or_(
                api_tokens.c.last_used_at.is_(None),
                api_tokens.c.last_used_at <= now - USED_EVERY,
            ),
        )
        .values(last_used_at=now)
    )


def _token(row: Row[Any]) -> Token:
    values = dict(row._mapping)
    values["scope"] = TokenScope(values["scope"])
    return Token(**values)
