"""The ledgers as SQLAlchemy tables: one source for SQLite and PostgreSQL.

The Alembic migrations must produce exactly this; a test compares them.
"""

from __future__ import annotations

import math
import re
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


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class CleanString(TypeDecorator[str]):
    """Text that both databases can hold: no NUL, no half of a surrogate pair.

    Titles, comments and program output come from outside; PostgreSQL refuses the first, both
    refuse the second, and neither may lose the row that they stand in.
    """

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean_text(value)


class CleanText(CleanString):
    """:class:`CleanString` without a length."""

    impl = Text
    cache_ok = True


class CleanJson(TypeDecorator[Any]):
    """JSON whose texts are clean and whose numbers are finite; ``jsonb`` on PostgreSQL."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        kind = postgresql.JSONB() if dialect.name == "postgresql" else JSON()
        return dialect.type_descriptor(kind)

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self.impl_instance.coerce_compared_value(op, value)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _clean_json(value)


def clean_text(value: str) -> str:
    """``value`` with U+FFFD for what no database can hold."""
    if value.isascii() and "\x00" not in value:
        return value
    return _UNSTORABLE.sub("\ufffd", value)


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_Json = CleanJson()
_BigId = BigInteger().with_variant(Integer(), "sqlite")
_LIVE = text("state IN ('queued', 'running', 'waiting')")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", CleanString(100), primary_key=True, comment="X-GitHub-Delivery"),
    Column("event", CleanString(80), nullable=False),
    Column("action", CleanString(80)),
    Column("installation_id", BigInteger),
    Column("repo_id", BigInteger),
    Column("repo_name", CleanString(260)),
    Column("sender_id", BigInteger),
    Column("sender_login", CleanString(120)),
    Column("body_sha256", CleanString(64), nullable=False),
    Column("body", LargeBinary, comment="zlib; dropped after storage.delivery_body_days"),
    Column("routing", CleanString(200), nullable=False),
    Column("task_id", CleanString(32)),
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
    Column("id", CleanString(32), nullable=False, unique=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("account_id", BigInteger),
    Column("account_login", CleanString(120)),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", CleanString(120), nullable=False),
    Column("repo_name", CleanString(120), nullable=False),
    Column("repo_private", Boolean),
    Column("repo_visibility", CleanString(20), comment="public, private or internal"),
    Column("delivery_id", CleanString(100)),
    Column("thread", Integer, nullable=False),
    Column("is_pull", Boolean, nullable=False),
    Column("title", CleanText, nullable=False),
    Column("lane", CleanString(20), nullable=False),
    Column("verb", CleanString(20), nullable=False),
    Column("reason", CleanString(200), nullable=False),
    Column("automatic", Boolean, nullable=False),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("familiar_id", CleanString(40), nullable=False),
    Column("actor_id", BigInteger),
    Column("actor_login", CleanString(120)),
    Column("author_id", BigInteger),
    Column("author_login", CleanString(120)),
    Column("trust_scope", CleanString(20), nullable=False),
    Column("content_trust", CleanString(20), nullable=False),
    Column("trust_evidence", _Json, nullable=False),
    Column("comment_id", BigInteger),
    Column("comment_kind", CleanString(20)),
    Column("head_sha", CleanString(64)),
    Column("head_ref", CleanString(260)),
    Column("head_repo_id", BigInteger),
    Column("base_sha", CleanString(64)),
    Column("base_ref", CleanString(260)),
    Column("default_branch", CleanString(260)),
    Column("source_at", UtcDateTime, nullable=False, comment="when it happened, by the payload"),
    Column("payload", _Json, nullable=False, comment="bounded texts of the delivery"),
    Column("semantic_key", CleanString(200), nullable=False),
    Column("state", CleanString(20), nullable=False),
    Column("round", Integer, nullable=False, server_default="1"),
    Column("attempts_used", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False),
    Column("lease_token", CleanString(32)),
    Column("lease_expires_at", UtcDateTime),
    Column("not_before", UtcDateTime),
    Column("dispatched_at", UtcDateTime),
    Column("cancel_requested_at", UtcDateTime),
    Column("cancel_reason", CleanString(200)),
    Column("expires_at", UtcDateTime),
    Column("waiting_for", CleanString(40)),
    Column("superseded_by", CleanString(32)),
    Column("parent_task_id", CleanString(32)),
    Column("result_status", CleanString(20)),
    Column("outcome", CleanString(40)),
    Column("summary", CleanText),
    Column("detail", CleanText),
    Column("branch", CleanString(260)),
    Column("pr_number", Integer),
    Column("result", _Json),
    Column("traceparent", CleanString(60)),
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
    Index("ix_tasks_page", "installation_id", "seq"),
    Index("ix_tasks_running", "installation_id", "state"),
    Index("ix_tasks_queue", "state", "installation_id", "priority", "seq"),
    Index("ix_tasks_delivery", "delivery_id"),
    Index("ix_tasks_comment", "installation_id", "repo_id", "comment_id"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column(
        "task_id",
        CleanString(32),
        ForeignKey("tasks.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("number", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("lease_token", CleanString(32), nullable=False),
    Column("worker", CleanString(120), nullable=False),
    Column("phase", CleanString(40), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("pid", Integer),
    Column("start_sha", CleanString(64)),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("outcome", CleanString(40)),
    Column("detail", CleanText),
    Column("tolerated", _Json),
    Column("timings", _Json),
    Column("stdout_tail", CleanText),
    Column("stderr_tail", CleanText),
    UniqueConstraint("task_id", "number"),
    Index("ix_attempts_open", "finished_at", "heartbeat_at"),
)

surfaces = Table(
    "surfaces",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("repo_owner", CleanString(120), nullable=False),
    Column("repo_name", CleanString(120), nullable=False),
    Column("kind", CleanString(20), nullable=False),
    Column("subject", CleanString(300), nullable=False),
    Column("task_id", CleanString(32), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("desired", _Json, nullable=False),
    Column("desired_hash", CleanString(64), nullable=False),
    Column("published_hash", CleanString(64)),
    Column("object_id", BigInteger),
    Column("object_url", CleanText),
    Column("state", CleanString(20), nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_at", UtcDateTime, nullable=False),
    Column("lease_token", CleanString(32)),
    Column("lease_expires_at", UtcDateTime),
    Column("error", CleanText),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("published_at", UtcDateTime),
    Column("pending_since", UtcDateTime),
    UniqueConstraint("installation_id", "repo_id", "kind", "subject"),
    Index("ix_surfaces_due", "state", "next_at"),
    Index("ix_surfaces_task", "task_id"),
)

beats = Table(
    "beats",
    metadata,
    Column("name", CleanString(80), primary_key=True, comment="periodic job, or queue:<name>"),
    Column("held_until", UtcDateTime, nullable=False),
    Column("ran_at", UtcDateTime),
)
