"""Installations, plans, turns, usage and purges: tables on the shared metadata.

``usage`` is append-only: triggers of the migration refuse to change or delete a row, so neither
retention nor a reinstallation can give back what was used.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, UniqueConstraint, text

from coven.store.tables import (
    CleanJson,
    CleanString,
    CleanText,
    UtcDateTime,
    metadata,
)

_BigId = BigInteger().with_variant(Integer(), "sqlite")
_Json = CleanJson()
_PENDING = text("state = 'pending'")

installations = Table(
    "installations",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("account_id", BigInteger),
    Column("account_login", CleanString(120)),
    Column("account_type", CleanString(40)),
    Column("state", CleanString(20), nullable=False, comment="active, suspended or deleted"),
    Column("permissions", _Json),
    Column("events", _Json),
    Column("selection", CleanString(20)),
    Column("state_at", UtcDateTime, comment="payload time of what the state rests on"),
    Column("grant_at", UtcDateTime, comment="same, for permissions, events and selection"),
    Column("account_at", UtcDateTime, comment="same, for the account"),
    Column("first_at", UtcDateTime, nullable=False, comment="since when it is known"),
    Column("learned_at", UtcDateTime, nullable=False),
    Column("reconciled_at", UtcDateTime),
    Column("listed_at", UtcDateTime, comment="when its repositories were listed"),
    Index("ix_installations_account", "account_id"),
)

installation_repositories = Table(
    "installation_repositories",
    metadata,
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("repo_id", BigInteger, primary_key=True, autoincrement=False),
    Column("owner", CleanString(120)),
    Column("name", CleanString(120)),
    Column("private", Boolean),
    Column("archived", Boolean),
    Column("state", CleanString(20), nullable=False, comment="present, removed or deleted"),
    Column("state_at", UtcDateTime),
    Column("facts_at", UtcDateTime, comment="payload time of name, privacy and archival"),
    Column("learned_at", UtcDateTime, nullable=False),
    Column("swept_at", UtcDateTime, comment="when its open threads were looked at"),
    Index("ix_installation_repositories_repo", "repo_id"),
)

account_plans = Table(
    "account_plans",
    metadata,
    Column("account_id", BigInteger, primary_key=True, autoincrement=False),
    Column("account_login", CleanString(120)),
    Column("account_type", CleanString(40)),
    Column("state", CleanString(20), nullable=False, comment="active, trial or cancelled"),
    Column("plan_id", BigInteger),
    Column("plan_name", CleanString(120)),
    Column("unit_count", Integer),
    Column("trial_ends_at", UtcDateTime),
    Column("next_billing_at", UtcDateTime),
    Column("pending", _Json, comment="a change that takes effect later"),
    Column("pending_at", UtcDateTime),
    Column("effective_at", UtcDateTime, nullable=False, comment="what the state rests on"),
    Column("learned_at", UtcDateTime, nullable=False),
    Column("reconciled_at", UtcDateTime),
)

turns = Table(
    "turns",
    metadata,
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("started", BigInteger, nullable=False, comment="virtual time of the last turn"),
    Column("finished", BigInteger, nullable=False, comment="virtual time of the next one"),
    Column("served_at", UtcDateTime, nullable=False),
    Index("ix_turns_started", "started"),
)

usage = Table(
    "usage",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("kind", CleanString(20), nullable=False, comment="task or attempt"),
    Column("day", CleanString(10), nullable=False, comment="UTC, YYYY-MM-DD"),
    Column("amount", BigInteger, nullable=False, comment="1 for a task, seconds for an attempt"),
    Column("repo_id", BigInteger, nullable=False),
    Column("familiar_id", CleanString(40), nullable=False),
    Column("task_id", CleanString(32), nullable=False),
    Column("number", Integer, nullable=False, comment="of the attempt; 0 for a task"),
    Column("at", UtcDateTime, nullable=False),
    UniqueConstraint("kind", "task_id", "number"),
    Index("ix_usage_day", "installation_id", "kind", "day", "amount"),
)

purges = Table(
    "purges",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("repo_id", BigInteger, nullable=False, server_default="0", comment="0: all of them"),
    Column("reason", CleanString(200), nullable=False),
    Column("state", CleanString(20), nullable=False, comment="pending, done or withdrawn"),
    Column("steps", _Json, nullable=False, comment="step -> rows removed, for finished steps"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_at", UtcDateTime, nullable=False),
    Column("error", CleanText),
    Column("requested_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Index("ix_purges_due", "state", "next_at"),
    Index(
        "uq_purges_pending",
        "installation_id",
        "repo_id",
        unique=True,
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    ),
)

recoveries = Table(
    "recoveries",
    metadata,
    Column("id", _BigId, primary_key=True, autoincrement=True),
    Column("kind", CleanString(20), nullable=False, comment="deliveries or state"),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("watermark", UtcDateTime, comment="everything before was looked at"),
    Column("seen", Integer, nullable=False, server_default="0"),
    Column("asked", Integer, nullable=False, server_default="0"),
    Column("given_up", Integer, nullable=False, server_default="0"),
    Column("error", CleanText),
    Index("ix_recoveries_kind", "kind", "id"),
)
