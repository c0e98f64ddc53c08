"""The ledgers as SQLAlchemy tables: one source for SQLite and PostgreSQL.

The Alembic migrations must produce exactly this; a test compares them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes on both databases; naive ones are refused."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(DateTime(timezone=dialect.name != "sqlite"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive datetime")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_Json = JSON().with_variant(postgresql.JSONB(), "postgresql")
_BigId = BigInteger().with_variant(Integer(), "sqlite")
_LIVE = text("state IN ('queued', 'running', 'waiting')")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(100), primary_key=True, comment="X-GitHub-Delivery"),
    Column("event", String(80), nullable=False),
    Column("action", String(80)),
    Column("installation_id", BigInteger),
    Column("repo_id", BigInteger),
    Column("repo_name", String(260)),
    Column("sender_id", BigInteger),
    Column("sender_login", String(120)),
    Column("body_sha256", String(64), nullable=False),
    Column("body", LargeBinary, comment="zlib; dropped after storage.delivery_body_days"),
    Column("routing", String(200), nullable=False),
    Column("task_id", String(32)),
    Column("seen", Integer, nullable=False, server_default="1"),
    Column("received_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "installation_id", "received_at"),
    Index(None, "received_at"),
    Index(None, "body_sha256"),
    Index(None, "task_id"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("seq", _BigId, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("account_id", BigInteger),
    Column("account_login", String(120)),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", String(120), nullable=False),
    Column("repo_name", String(120), nullable=False),
    Column("repo_private", Boolean),
    Column("delivery_id", String(100)),
    Column("thread", Integer, nullable=False),
    Column("is_pull", Boolean, nullable=False),
    Column("title", Text, nullable=False),
    Column("lane", String(20), nullable=False),
    Column("verb", String(20), nullable=False),
    Column("reason", String(200), nullable=False),
    Column("automatic", Boolean, nullable=False),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("familiar_id", String(40), nullable=False),
    Column("actor_id", BigInteger),
    Column("actor_login", String(120)),
    Column("author_id", BigInteger),
    Column("author_login", String(120)),
    Column("trust_scope", String(20), nullable=False),
    Column("content_trust", String(20), nullable=False),
    Column("trust_evidence", _Json, nullable=False),
    Column("comment_id", BigInteger),
    Column("comment_kind", String(20)),
    Column("head_sha", String(64)),
    Column("head_ref", String(260)),
    Column("head_repo_id", BigInteger),
    Column("base_sha", String(64)),
    Column("base_ref", String(260)),
    Column("default_branch", String(260)),
    Column("source_at", UtcDateTime, nullable=False, comment="when it happened, by the payload"),
    Column("payload", _Json, nullable=False, comment="bounded texts of the delivery"),
    Column("semantic_key", String(200), nullable=False),
    Column("state", String(20), nullable=False),
    Column("round", Integer, nullable=False, server_default="1"),
    Column("attempts_used", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False),
    Column("lease_token", String(32)),
    Column("lease_expires_at", UtcDateTime),
    Column("not_before", UtcDateTime),
    Column("dispatched_at", UtcDateTime),
    Column("cancel_requested_at", UtcDateTime),
    Column("cancel_reason", String(200)),
    Column("expires_at", UtcDateTime),
    Column("waiting_for", String(40)),
    Column("superseded_by", String(32)),
    Column("parent_task_id", String(32)),
    Column("result_status", String(20)),
    Column("outcome", String(40)),
    Column("summary", Text),
    Column("detail", Text),
    Column("branch", String(260)),
    Column("pr_number", Integer),
    Column("result", _Json),
    Column("traceparent", String(60)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Index(
        "uq_tasks_semantic_key_live",
        "semantic_key",
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    ),
    Index("ix_tasks_semantic_key_head", "semantic_key", "state"),
    Index("ix_tasks_dispatch", "state", "not_before", "dispatched_at"),
    Index("ix_tasks_lease", "state", "lease_expires_at"),
    Index("ix_tasks_thread", "installation_id", "repo_id", "thread", "seq"),
    Index("ix_tasks_recent", "installation_id", "created_at"),
    Index("ix_tasks_running", "installation_id", "state"),
    Index("ix_tasks_delivery", "delivery_id"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column(
        "task_id",
        String(32),
        ForeignKey("tasks.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("number", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("lease_token", String(32), nullable=False),
    Column("worker", String(120), nullable=False),
    Column("phase", String(40), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("pid", Integer),
    Column("start_sha", String(64)),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("outcome", String(40)),
    Column("detail", Text),
    Column("tolerated", _Json),
    Column("timings", _Json),
    Column("stdout_tail", Text),
    Column("stderr_tail", Text),
    UniqueConstraint("task_id", "number"),
    Index("ix_attempts_open", "finished_at", "heartbeat_at"),
)

surfaces = Table(
    "surfaces",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", String(120), nullable=False),
    Column("repo_name", String(120), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("task_id", String(32), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("desired", _Json, nullable=False),
    Column("desired_hash", String(64), nullable=False),
    Column("published_hash", String(64)),
    Column("object_id", BigInteger),
    Column("object_url", Text),
    Column("state", String(20), nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_at", UtcDateTime, nullable=False),
    Column("lease_token", String(32)),
    Column("lease_expires_at", UtcDateTime),
    Column("error", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("published_at", UtcDateTime),
    UniqueConstraint("installation_id", "repo_id", "kind", "subject"),
    Index("ix_surfaces_due", "state", "next_at"),
    Index("ix_surfaces_task", "task_id"),
)

beats = Table(
    "beats",
    metadata,
    Column("name", String(80), primary_key=True, comment="periodic job, or queue:<name>"),
    Column("held_until", UtcDateTime, nullable=False),
    Column("ran_at", UtcDateTime),
)
