"""API tokens and the record of what they read: tables on the shared metadata.

A token's secret is never stored, only its SHA-256: it is 256 random bits, so nothing can be tried.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table

from coven.store.tables import CleanString, UtcDateTime, metadata

_BigId = BigInteger().with_variant(Integer(), "sqlite")

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", CleanString(12), primary_key=True, comment="the part of the token that is public"),
    Column("name", CleanString(80), nullable=False),
    Column("digest", CleanString(64), nullable=False, comment="SHA-256 of the whole token"),
    Column("installation_id", BigInteger, comment="none: a service token"),
    Column("scope", CleanString(20), nullable=False, comment="read, memory:write or admin"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("replaces", CleanString(12), comment="the token that this one was rotated from"),
    Index(None, "installation_id"),
)

api_audit = Table(
    "api_audit",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("installation_id", BigInteger, comment="whose data was asked for; none: of all"),
    Column("caller", CleanString(120), nullable=False),
    Column("action", CleanString(60), nullable=False),
    Column("target", CleanString(300)),
    Column("result", CleanString(80), nullable=False, comment="ok, or the code of the refusal"),
    Column("rows", Integer, comment="how many were read"),
    Column("times", Integer, nullable=False, server_default="1"),
    Column("sample", CleanString(200), unique=True, comment="equal refusals of one minute"),
    Index("ix_api_audit_page", "installation_id", "id"),
    Index("ix_api_audit_caller", "installation_id", "caller", "id"),
    Index(None, "at"),
)
