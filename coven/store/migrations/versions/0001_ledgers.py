"""The ledgers: deliveries, tasks, attempts, surfaces, beats"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from coven.store.tables import UtcDateTime

revision = "0001"
down_revision = None
kind = "pre"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "beats",
        sa.Column(
            "name", sa.String(length=80), nullable=False, comment="periodic job, or queue:<name>"
        ),
        sa.Column("held_until", UtcDateTime(), nullable=False),
        sa.Column("ran_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_beats")),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=100), nullable=False, comment="X-GitHub-Delivery"),
        sa.Column("event", sa.String(length=80), nullable=False),
        sa.Column("action", sa.String(length=80), nullable=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("repo_id", sa.BigInteger(), nullable=True),
        sa.Column("repo_name", sa.String(length=260), nullable=True),
        sa.Column("sender_id", sa.BigInteger(), nullable=True),
        sa.Column("sender_login", sa.String(length=120), nullable=True),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "body",
            sa.LargeBinary(),
            nullable=True,
            comment="zlib; dropped after storage.delivery_body_days",
        ),
        sa.Column("routing", sa.String(length=200), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=True),
        sa.Column("seen", sa.Integer(), server_default="1", nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_deliveries_body_sha256"), ["body_sha256"], unique=False
        )
        batch_op.create_index(
            batch_op.f("ix_deliveries_installation_id_received_at"),
            ["installation_id", "received_at"],
            unique=False,
        )
        batch_op.create_index(
            batch_op.f("ix_deliveries_received_at"), ["received_at"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_deliveries_task_id"), ["task_id"], unique=False)

    op.create_table(
        "surfaces",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_owner", sa.String(length=120), nullable=False),
        sa.Column("repo_name", sa.String(length=120), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column(
            "desired",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("desired_hash", sa.String(length=64), nullable=False),
        sa.Column("published_hash", sa.String(length=64), nullable=True),
        sa.Column("object_id", sa.BigInteger(), nullable=True),
        sa.Column("object_url", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", UtcDateTime(), nullable=False),
        sa.Column("lease_token", sa.String(length=32), nullable=True),
        sa.Column("lease_expires_at", UtcDateTime(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_surfaces")),
        sa.UniqueConstraint(
            "installation_id",
            "repo_id",
            "kind",
            "subject",
            name=op.f("uq_surfaces_installation_id_repo_id_kind_subject"),
        ),
    )
    with op.batch_alter_table("surfaces", schema=None) as batch_op:
        batch_op.create_index("ix_surfaces_due", ["state", "next_at"], unique=False)
        batch_op.create_index("ix_surfaces_task", ["task_id"], unique=False)

    op.create_table(
        "tasks",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.BigInteger(), nullable=True),
        sa.Column("account_login", sa.String(length=120), nullable=True),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("repo_owner", sa.String(length=120), nullable=False),
        sa.Column("repo_name", sa.String(length=120), nullable=False),
        sa.Column("repo_private", sa.Boolean(), nullable=True),
        sa.Column(
            "repo_visibility",
            sa.String(length=20),
            nullable=True,
            comment="public, private or internal",
        ),
        sa.Column("delivery_id", sa.String(length=100), nullable=True),
        sa.Column("thread", sa.Integer(), nullable=False),
        sa.Column("is_pull", sa.Boolean(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("lane", sa.String(length=20), nullable=False),
        sa.Column("verb", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("automatic", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("familiar_id", sa.String(length=40), nullable=False),
        sa.Column("actor_id", sa.BigInteger(), nullable=True),
        sa.Column("actor_login", sa.String(length=120), nullable=True),
        sa.Column("author_id", sa.BigInteger(), nullable=True),
        sa.Column("author_login", sa.String(length=120), nullable=True),
        sa.Column("trust_scope", sa.String(length=20), nullable=False),
        sa.Column("content_trust", sa.String(length=20), nullable=False),
        sa.Column(
            "trust_evidence",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("comment_id", sa.BigInteger(), nullable=True),
        sa.Column("comment_kind", sa.String(length=20), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("head_ref", sa.String(length=260), nullable=True),
        sa.Column("head_repo_id", sa.BigInteger(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("base_ref", sa.String(length=260), nullable=True),
        sa.Column("default_branch", sa.String(length=260), nullable=True),
        sa.Column(
            "source_at", UtcDateTime(), nullable=False, comment="when it happened, by the payload"
        ),
        sa.Column(
            "payload",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=False,
            comment="bounded texts of the delivery",
        ),
        sa.Column("semantic_key", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("round", sa.Integer(), server_default="1", nullable=False),
        sa.Column("attempts_used", sa.Integer(), server_default="0", nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("lease_token", sa.String(length=32), nullable=True),
        sa.Column("lease_expires_at", UtcDateTime(), nullable=True),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.Column("dispatched_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_requested_at", UtcDateTime(), nullable=True),
        sa.Column("cancel_reason", sa.String(length=200), nullable=True),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("waiting_for", sa.String(length=40), nullable=True),
        sa.Column("superseded_by", sa.String(length=32), nullable=True),
        sa.Column("parent_task_id", sa.String(length=32), nullable=True),
        sa.Column("result_status", sa.String(length=20), nullable=True),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("branch", sa.String(length=260), nullable=True),
        sa.Column("pr_number", sa.Integer(), nullable=True),
        sa.Column(
            "result",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=True,
        ),
        sa.Column("traceparent", sa.String(length=60), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_tasks")),
        sa.UniqueConstraint("id", name=op.f("uq_tasks_id")),
    )
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.create_index(
            "ix_tasks_comment", ["installation_id", "repo_id", "comment_id"], unique=False
        )
        batch_op.create_index("ix_tasks_delivery", ["delivery_id"], unique=False)
        batch_op.create_index(
            "ix_tasks_dispatch", ["state", "not_before", "dispatched_at"], unique=False
        )
        batch_op.create_index("ix_tasks_lease", ["state", "lease_expires_at"], unique=False)
        batch_op.create_index("ix_tasks_recent", ["installation_id", "created_at"], unique=False)
        batch_op.create_index("ix_tasks_running", ["installation_id", "state"], unique=False)
        batch_op.create_index("ix_tasks_semantic_key_head", ["semantic_key", "state"], unique=False)
        batch_op.create_index(
            "ix_tasks_thread", ["installation_id", "repo_id", "thread", "seq"], unique=False
        )
        batch_op.create_index(
            "uq_tasks_semantic_key_live",
            ["semantic_key"],
            unique=True,
            sqlite_where=sa.text("state IN ('queued', 'running', 'waiting')"),
            postgresql_where=sa.text("state IN ('queued', 'running', 'waiting')"),
        )

    op.create_table(
        "attempts",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("lease_token", sa.String(length=32), nullable=False),
        sa.Column("worker", sa.String(length=120), nullable=False),
        sa.Column("phase", sa.String(length=40), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("start_sha", sa.String(length=64), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column(
            "tolerated",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=True,
        ),
        sa.Column(
            "timings",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql"),
            nullable=True,
        ),
        sa.Column("stdout_tail", sa.Text(), nullable=True),
        sa.Column("stderr_tail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["task_id"], ["tasks.id"], name=op.f("fk_attempts_task_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("task_id", "number", name=op.f("uq_attempts_task_id_number")),
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.create_index("ix_attempts_open", ["finished_at", "heartbeat_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_attempts_task_id"), ["task_id"], unique=False)
