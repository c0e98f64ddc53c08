"""The memory book: entries, decisions, revocations, activity"""

import sqlalchemy as sa
from alembic import op

from coven.store.tables import UtcDateTime

revision = "0002"
down_revision = "0001"
kind = "pre"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memory_activity",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=False),
        sa.Column("op", sa.String(length=20), nullable=False),
        sa.Column(
            "ordinal", sa.String(length=40), nullable=False, comment="once per task, op and ordinal"
        ),
        sa.Column("entry_id", sa.String(length=12), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("scope", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=60), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_memory_activity")),
        sa.UniqueConstraint(
            "installation_id",
            "task_id",
            "op",
            "ordinal",
            name=op.f("uq_memory_activity_installation_id_task_id_op_ordinal"),
        ),
    )
    with op.batch_alter_table("memory_activity", schema=None) as batch_op:
        batch_op.create_index("ix_memory_activity_at", ["at"], unique=False)
        batch_op.create_index(
            "ix_memory_activity_entry", ["installation_id", "entry_id", "seq"], unique=False
        )
        batch_op.create_index("ix_memory_activity_recent", ["installation_id", "seq"], unique=False)
        batch_op.create_index(
            "ix_memory_activity_repo", ["installation_id", "repo_id", "seq"], unique=False
        )

    op.create_table(
        "memory_decisions",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("act", sa.String(length=20), nullable=False),
        sa.Column("entry_id", sa.String(length=12), nullable=True),
        sa.Column("place", sa.String(length=200), nullable=False),
        sa.Column(
            "target", sa.String(length=420), nullable=False, comment="the key as it was called then"
        ),
        sa.Column("text_hash", sa.String(length=64), nullable=True),
        sa.Column("by_id", sa.BigInteger(), nullable=True),
        sa.Column("by_login", sa.String(length=120), nullable=True),
        sa.Column("task_id", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_memory_decisions")),
    )
    with op.batch_alter_table("memory_decisions", schema=None) as batch_op:
        batch_op.create_index(
            "ix_memory_decisions_entry", ["installation_id", "entry_id", "seq"], unique=False
        )
        batch_op.create_index(
            "ix_memory_decisions_place",
            ["installation_id", "repo_id", "place", "seq"],
            unique=False,
        )

    op.create_table(
        "memory_entries",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_owner", sa.String(length=120), nullable=True),
        sa.Column("repo_name", sa.String(length=120), nullable=True),
        sa.Column(
            "place",
            sa.String(length=200),
            nullable=False,
            comment="namespace and key below the owner",
        ),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("trust", sa.String(length=20), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("thread", sa.Integer(), nullable=True),
        sa.Column("familiar_id", sa.String(length=40), nullable=True),
        sa.Column("actor_id", sa.BigInteger(), nullable=True),
        sa.Column("actor_login", sa.String(length=120), nullable=True),
        sa.Column("author_id", sa.BigInteger(), nullable=True),
        sa.Column("author_login", sa.String(length=120), nullable=True),
        sa.Column("decided_by_id", sa.BigInteger(), nullable=True),
        sa.Column("decided_by_login", sa.String(length=120), nullable=True),
        sa.Column("decided_at", UtcDateTime(), nullable=True),
        sa.Column("replaced_by", sa.String(length=12), nullable=True),
        sa.Column("redacted_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("supplied", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cited", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_cited_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_memory_entries")),
        sa.UniqueConstraint("id", name=op.f("uq_memory_entries_id")),
    )
    with op.batch_alter_table("memory_entries", schema=None) as batch_op:
        batch_op.create_index("ix_memory_entries_ended", ["state", "updated_at"], unique=False)
        batch_op.create_index("ix_memory_entries_expiry", ["state", "expires_at"], unique=False)
        batch_op.create_index(
            "ix_memory_entries_place", ["installation_id", "repo_id", "place"], unique=False
        )
        batch_op.create_index("ix_memory_entries_recent", ["installation_id", "seq"], unique=False)
        batch_op.create_index(
            "ix_memory_entries_state", ["installation_id", "repo_id", "state", "seq"], unique=False
        )
        batch_op.create_index(
            "ix_memory_entries_task", ["installation_id", "task_id"], unique=False
        )
        batch_op.create_index(
            "uq_memory_entries_open",
            ["installation_id", "repo_id", "place", "state"],
            unique=True,
            sqlite_where=sa.text("state IN ('pending', 'approved')"),
            postgresql_where=sa.text("state IN ('pending', 'approved')"),
        )

    op.create_table(
        "memory_revocations",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_owner", sa.String(length=120), nullable=True),
        sa.Column("repo_name", sa.String(length=120), nullable=True),
        sa.Column(
            "below", sa.String(length=200), nullable=False, comment="empty for all of the owner"
        ),
        sa.Column("by_id", sa.BigInteger(), nullable=True),
        sa.Column("by_login", sa.String(length=120), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("lifted_by_id", sa.BigInteger(), nullable=True),
        sa.Column("lifted_by_login", sa.String(length=120), nullable=True),
        sa.Column("lifted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_memory_revocations")),
    )
    with op.batch_alter_table("memory_revocations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_memory_revocations_recent", ["installation_id", "seq"], unique=False
        )
        batch_op.create_index(
            "uq_memory_revocations_standing",
            ["installation_id", "repo_id", "below"],
            unique=True,
            sqlite_where=sa.text("lifted_at IS NULL"),
            postgresql_where=sa.text("lifted_at IS NULL"),
        )
