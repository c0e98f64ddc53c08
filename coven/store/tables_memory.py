"""The memory book: tables on the shared metadata.

``repo_id`` is 0 for what all repositories of an installation share, so that unique indexes hold
for it too. Names of repositories are labels of the time of writing.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, UniqueConstraint, text

from coven.store.tables import CleanString, CleanText, UtcDateTime, metadata

_BigId = BigInteger().with_variant(Integer(), "sqlite")
_OPEN = text("state IN ('pending', 'approved')")
_STANDING = text("lifted_at IS NULL")

memory_entries = Table(
    "memory_entries",
    metadata,
    Column("seq", _BigId, primary_key=True, autoincrement=True),
    Column("id", CleanString(12), nullable=False, unique=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", CleanString(120)),
    Column("repo_name", CleanString(120)),
    Column("place", CleanString(200), nullable=False, comment="namespace and key below the owner"),
    Column("summary", CleanText, nullable=False),
    Column("text_hash", CleanString(64), nullable=False),
    Column("state", CleanString(20), nullable=False),
    Column("version", Integer, nullable=False),
    Column("source", CleanString(20), nullable=False),
    Column("trust", CleanString(20), nullable=False),
    Column("task_id", CleanString(32)),
    Column("head_sha", CleanString(64)),
    Column("thread", Integer),
    Column("familiar_id", CleanString(40)),
    Column("actor_id", BigInteger),
    Column("actor_login", CleanString(120)),
    Column("author_id", BigInteger),
    Column("author_login", CleanString(120)),
    Column("decided_by_id", BigInteger),
    Column("decided_by_login", CleanString(120)),
    Column("decided_at", UtcDateTime),
    Column("replaced_by", CleanString(12)),
    Column("redacted_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("supplied", Integer, nullable=False, server_default="0"),
    Column("cited", Integer, nullable=False, server_default="0"),
    Column("last_cited_at", UtcDateTime),
    Index(
        "uq_memory_entries_open",
        "installation_id",
        "repo_id",
        "place",
        "state",
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    ),
    Index("ix_memory_entries_place", "installation_id", "repo_id", "place"),
    Index("ix_memory_entries_state", "installation_id", "repo_id", "state", "seq"),
    Index("ix_memory_entries_recent", "installation_id", "seq"),
    Index("ix_memory_entries_task", "installation_id", "task_id"),
    Index("ix_memory_entries_expiry", "state", "expires_at"),
    Index("ix_memory_entries_ended", "state", "updated_at"),
)

memory_decisions = Table(
    "memory_decisions",
    metadata,
    Column("seq", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("act", CleanString(20), nullable=False),
    Column("entry_id", CleanString(12)),
    Column("place", CleanString(200), nullable=False),
    Column("target", CleanString(420), nullable=False, comment="the key as it was called then"),
    Column("text_hash", CleanString(64)),
    Column("by_id", BigInteger),
    Column("by_login", CleanString(120)),
    Column("task_id", CleanString(32)),
    Column("detail", CleanText),
    Column("at", UtcDateTime, nullable=False),
    Index("ix_memory_decisions_place", "installation_id", "repo_id", "place", "seq"),
    Index("ix_memory_decisions_entry", "installation_id", "entry_id", "seq"),
)

memory_revocations = Table(
    "memory_revocations",
    metadata,
    Column("seq", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", CleanString(120)),
    Column("repo_name", CleanString(120)),
    Column("below", CleanString(200), nullable=False, comment="empty for all of the owner"),
    Column("by_id", BigInteger),
    Column("by_login", CleanString(120), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("lifted_by_id", BigInteger),
    Column("lifted_by_login", CleanString(120)),
    Column("lifted_at", UtcDateTime),
    Index(
        "uq_memory_revocations_standing",
        "installation_id",
        "repo_id",
        "below",
        unique=True,
        sqlite_where=_STANDING,
        postgresql_where=_STANDING,
    ),
    Index("ix_memory_revocations_recent", "installation_id", "seq"),
)

memory_activity = Table(
    "memory_activity",
    metadata,
    Column("seq", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("task_id", CleanString(32), nullable=False),
    Column("op", CleanString(20), nullable=False),
    Column("ordinal", CleanString(40), nullable=False, comment="once per task, op and ordinal"),
    Column("entry_id", CleanString(12)),
    Column("target", CleanText),
    Column("scope", CleanString(20), nullable=False),
    Column("outcome", CleanString(60), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    UniqueConstraint("installation_id", "task_id", "op", "ordinal"),
    Index("ix_memory_activity_entry", "installation_id", "entry_id", "seq"),
    Index("ix_memory_activity_repo", "installation_id", "repo_id", "seq"),
    Index("ix_memory_activity_recent", "installation_id", "seq"),
    Index("ix_memory_activity_at", "at"),
)
