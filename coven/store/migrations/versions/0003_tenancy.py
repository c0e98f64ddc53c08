"""Installations, plans, turns, usage, purges, recoveries; and the order of the queue"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from coven.store.tables import UtcDateTime

revision = "0003"
down_revision = "0002"
kind = "pre"
branch_labels = None
depends_on = None

_SQLITE = """
CREATE TRIGGER usage_no_{what} BEFORE {what} ON "usage"
BEGIN SELECT RAISE(ABORT, 'usage is append-only'); END
"""
_POSTGRESQL = (
    """
CREATE OR REPLACE FUNCTION usage_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'usage is append-only'; END $$
""",
    """
CREATE TRIGGER usage_append_only BEFORE UPDATE OR DELETE ON "usage"
FOR EACH ROW EXECUTE FUNCTION usage_is_append_only()
""",
)


def upgrade() -> None:
    op.create_table(
        "account_plans",
        sa.Column("account_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_login", sa.String(length=120), nullable=True),
        sa.Column("account_type", sa.String(length=40), nullable=True),
        sa.Column(
            "state", sa.String(length=20), nullable=False, comment="active, trial or cancelled"
        ),
        sa.Column("plan_id", sa.BigInteger(), nullable=True),
        sa.Column("plan_name", sa.String(length=120), nullable=True),
        sa.Column("unit_count", sa.Integer(), nullable=True),
        sa.Column("trial_ends_at", UtcDateTime(), nullable=True),
        sa.Column("next_billing_at", UtcDateTime(), nullable=True),
        sa.Column(
            "pending",
            sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
            nullable=True,
            comment="a change that takes effect later",
        ),
        sa.Column("pending_at", UtcDateTime(), nullable=True),
        sa.Column("effective_at", UtcDateTime(), nullable=False, comment="what the state rests on"),
        sa.Column("learned_at", UtcDateTime(), nullable=False),
        sa.Column("reconciled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_account_plans")),
    )
    op.create_table(
        "installation_repositories",
        sa.Column("installation_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("repo_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=120), nullable=True),
        sa.Column("name", sa.String(length=120), nullable=True),
        sa.Column("private", sa.Boolean(), nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=True),
        sa.Column(
            "state", sa.String(length=20), nullable=False, comment="present, removed or deleted"
        ),
        sa.Column("state_at", UtcDateTime(), nullable=True),
        sa.Column(
            "facts_at",
            UtcDateTime(),
            nullable=True,
            comment="payload time of name, privacy and archival",
        ),
        sa.Column("learned_at", UtcDateTime(), nullable=False),
        sa.Column(
            "swept_at", UtcDateTime(), nullable=True, comment="when its open threads were looked at"
        ),
        sa.PrimaryKeyConstraint(
            "installation_id", "repo_id", name=op.f("pk_installation_repositories")
        ),
    )
    op.create_index(
        "ix_installation_repositories_repo", "installation_repositories", ["repo_id"], unique=False
    )
    op.create_table(
        "installations",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=True),
        sa.Column("account_login", sa.String(length=120), nullable=True),
        sa.Column("account_type", sa.String(length=40), nullable=True),
        sa.Column(
            "state", sa.String(length=20), nullable=False, comment="active, suspended or deleted"
        ),
        sa.Column(
            "permissions", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
        ),
        sa.Column(
            "events", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True
        ),
        sa.Column("selection", sa.String(length=20), nullable=True),
        sa.Column(
            "state_at",
            UtcDateTime(),
            nullable=True,
            comment="payload time of what the state rests on",
        ),
        sa.Column(
            "grant_at",
            UtcDateTime(),
            nullable=True,
            comment="same, for permissions, events and selection",
        ),
        sa.Column("account_at", UtcDateTime(), nullable=True, comment="same, for the account"),
        sa.Column("first_at", UtcDateTime(), nullable=False, comment="since when it is known"),
        sa.Column("learned_at", UtcDateTime(), nullable=False),
        sa.Column("reconciled_at", UtcDateTime(), nullable=True),
        sa.Column(
            "listed_at", UtcDateTime(), nullable=True, comment="when its repositories were listed"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installations")),
    )
    op.create_index("ix_installations_account", "installations", ["account_id"], unique=False)
    op.create_table(
        "purges",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "repo_id", sa.BigInteger(), server_default="0", nullable=False, comment="0: all of them"
        ),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column(
            "state", sa.String(length=20), nullable=False, comment="pending, done or withdrawn"
        ),
        sa.Column(
            "steps",
            sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
            nullable=False,
            comment="step -> rows removed, for finished steps",
        ),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", UtcDateTime(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_purges")),
    )
    op.create_index("ix_purges_due", "purges", ["state", "next_at"], unique=False)
    op.create_index(
        "uq_purges_pending",
        "purges",
        ["installation_id", "repo_id"],
        unique=True,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_table(
        "recoveries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("kind", sa.String(length=20), nullable=False, comment="deliveries or state"),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column(
            "watermark", UtcDateTime(), nullable=True, comment="everything before was looked at"
        ),
        sa.Column("seen", sa.Integer(), server_default="0", nullable=False),
        sa.Column("asked", sa.Integer(), server_default="0", nullable=False),
        sa.Column("given_up", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recoveries")),
    )
    op.create_index("ix_recoveries_kind", "recoveries", ["kind", "id"], unique=False)
    op.create_table(
        "turns",
        sa.Column("installation_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "started", sa.BigInteger(), nullable=False, comment="virtual time of the last turn"
        ),
        sa.Column(
            "finished", sa.BigInteger(), nullable=False, comment="virtual time of the next one"
        ),
        sa.Column("served_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("installation_id", name=op.f("pk_turns")),
    )
    op.create_index("ix_turns_started", "turns", ["started"], unique=False)
    op.create_table(
        "usage",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False, comment="task or attempt"),
        sa.Column("day", sa.String(length=10), nullable=False, comment="UTC, YYYY-MM-DD"),
        sa.Column(
            "amount",
            sa.BigInteger(),
            nullable=False,
            comment="1 for a task, seconds for an attempt",
        ),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("familiar_id", sa.String(length=40), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="of the attempt; 0 for a task"),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sa.UniqueConstraint("kind", "task_id", "number", name=op.f("uq_usage_kind_task_id_number")),
    )
    op.create_index(
        "ix_usage_day", "usage", ["installation_id", "kind", "day", "amount"], unique=False
    )
    op.create_index("ix_tasks_queue", "tasks", ["state", "installation_id", "priority", "seq"])
    if op.get_bind().dialect.name == "sqlite":
        for what in ("UPDATE", "DELETE"):
            op.execute(_SQLITE.format(what=what))
    else:
        for statement in _POSTGRESQL:
            op.execute(statement)
