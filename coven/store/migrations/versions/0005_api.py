"""API tokens and the record of what they read"""

import sqlalchemy as sa
from alembic import op

from coven.store.tables import UtcDateTime

revision = "0005"
down_revision = "0004"
kind = "pre"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_tokens",
        sa.Column(
            "id",
            sa.String(length=12),
            nullable=False,
            comment="the part of the token that is public",
        ),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column(
            "digest", sa.String(length=64), nullable=False, comment="SHA-256 of the whole token"
        ),
        sa.Column(
            "installation_id", sa.BigInteger(), nullable=True, comment="none: a service token"
        ),
        sa.Column(
            "scope", sa.String(length=20), nullable=False, comment="read, memory:write or admin"
        ),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column(
            "replaces",
            sa.String(length=12),
            nullable=True,
            comment="the token that this one was rotated from",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
    )
    op.create_index(op.f("ix_api_tokens_installation_id"), "api_tokens", ["installation_id"])
    op.create_table(
        "api_audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column(
            "installation_id",
            sa.BigInteger(),
            nullable=True,
            comment="whose data was asked for; none: of all",
        ),
        sa.Column("caller", sa.String(length=120), nullable=False),
        sa.Column("action", sa.String(length=60), nullable=False),
        sa.Column("target", sa.String(length=300), nullable=True),
        sa.Column(
            "result", sa.String(length=80), nullable=False, comment="ok, or the code of the refusal"
        ),
        sa.Column("rows", sa.Integer(), nullable=True, comment="how many were read"),
        sa.Column("times", sa.Integer(), server_default="1", nullable=False),
        sa.Column(
            "sample",
            sa.String(length=200),
            nullable=True,
            comment="equal refusals of one minute",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_audit")),
        sa.UniqueConstraint("sample", name=op.f("uq_api_audit_sample")),
    )
    op.create_index("ix_api_audit_page", "api_audit", ["installation_id", "id"])
    op.create_index("ix_api_audit_caller", "api_audit", ["installation_id", "caller", "id"])
    op.create_index(op.f("ix_api_audit_at"), "api_audit", ["at"])
    # Lists walk the ledger newest first, one installation at a time.
    op.create_index("ix_tasks_page", "tasks", ["installation_id", "seq"])
