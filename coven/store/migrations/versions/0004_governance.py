"""Rules, their signed head, escalations and the audit chain"""

import sqlalchemy as sa
from alembic import op

from coven.governance.seeds import SEEDS
from coven.store.tables import UtcDateTime
from coven.store.tables_governance import create_triggers, governance_rules

revision = "0004"
down_revision = "0003"
kind = "pre"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chain_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False, comment="always 1"),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("row_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_head")),
    )
    op.create_table(
        "escalations",
        sa.Column("id", sa.String(length=12), nullable=False, comment="E-<8>"),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.String(length=32), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.String(length=400), nullable=False),
        sa.Column("rule_id", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("action_digest", sa.String(length=64), nullable=False, comment="hex"),
        sa.Column("action_redacted", sa.Text(), nullable=False),
        sa.Column("policy_epoch", sa.BigInteger(), nullable=False),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("decided_by", sa.String(length=200), nullable=True),
        sa.Column("decided_at", UtcDateTime(), nullable=True),
        sa.Column("consumed_at", UtcDateTime(), nullable=True),
        sa.Column(
            "origin",
            sa.String(length=20),
            server_default="adapter",
            nullable=False,
            comment="adapter, or tool: a call of a session",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_escalations")),
    )
    op.create_index("ix_escalations_due", "escalations", ["status", "expires_at"], unique=False)
    op.create_index(
        "ix_escalations_tenant",
        "escalations",
        ["installation_id", "status", "requested_at"],
        unique=False,
    )
    op.create_index(
        "uq_escalations_pending",
        "escalations",
        ["task_id", "action_digest"],
        unique=True,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_table(
        "governance_keys",
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False, comment="operator or service"),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "signed_by",
            sa.String(length=16),
            nullable=False,
            comment="the operator key that vouches",
        ),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_governance_keys")),
    )
    op.create_table(
        "governance_rules",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("matcher", sa.Text(), nullable=False, comment="JSON object, by kind"),
        sa.Column("severity", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("namespace", sa.String(length=400), server_default="_global", nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column(
            "created_at", sa.BigInteger(), nullable=False, comment="epoch seconds; 0 for seeds"
        ),
        sa.Column("enabled", sa.Integer(), server_default="1", nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=True, comment="Ed25519, 64 bytes"),
        sa.Column("attest_level", sa.String(length=20), server_default="unsigned", nullable=False),
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
        sa.Column(
            "key_id",
            sa.String(length=16),
            nullable=True,
            comment="first 16 hex of SHA-256 of the signer's public key",
        ),
        sa.Column(
            "removed_at",
            sa.BigInteger(),
            nullable=True,
            comment="epoch seconds; rows are never deleted",
        ),
        sa.Column(
            "examples",
            sa.Text(),
            nullable=True,
            comment="JSON: actions that must match and must not",
        ),
        sa.CheckConstraint(
            "severity IN ('refuse','warn','log','escalate')", name="ck_governance_rules_severity"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_governance_rules")),
    )
    op.create_index(
        "ix_governance_rules_kind_enabled", "governance_rules", ["kind", "enabled"], unique=False
    )
    op.create_index(
        "ix_governance_rules_namespace", "governance_rules", ["namespace"], unique=False
    )
    op.create_table(
        "nonces",
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("nonce", sa.String(length=100), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("key_id", "nonce", name=op.f("uq_nonces_key_id_nonce")),
    )
    op.create_index("ix_nonces_seen", "nonces", ["seen_at"], unique=False)
    op.create_table(
        "policy_head",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 over all rules"),
        sa.Column("rule_count", sa.Integer(), nullable=False),
        sa.Column("signed_at", sa.BigInteger(), nullable=False, comment="epoch seconds"),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", name=op.f("pk_policy_head")),
    )
    op.create_table(
        "signed_events",
        sa.Column(
            "sequence",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("agent_id", sa.String(length=200), nullable=False),
        sa.Column("event_type", sa.String(length=60), nullable=False),
        sa.Column(
            "payload",
            sa.Text(),
            nullable=True,
            comment="redacted RFC 8785 JSON; may be emptied by retention",
        ),
        sa.Column("payload_hash", sa.LargeBinary(), nullable=False),
        sa.Column("attest_level", sa.String(length=20), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column(
            "timestamp", sa.String(length=40), nullable=False, comment="RFC 3339, UTC, as hashed"
        ),
        sa.Column("task_id", sa.String(length=40), nullable=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("decision_id", sa.String(length=40), nullable=True),
        sa.Column("prev_hash", sa.LargeBinary(), nullable=False),
        sa.Column("row_hash", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_signed_events")),
        sa.UniqueConstraint("id", name=op.f("uq_signed_events_id")),
    )
    op.create_index("ix_signed_events_agent", "signed_events", ["agent_id"], unique=False)
    op.create_index(
        "ix_signed_events_installation",
        "signed_events",
        ["installation_id", "sequence"],
        unique=False,
    )
    op.create_index("ix_signed_events_task", "signed_events", ["task_id"], unique=False)
    op.create_index("ix_signed_events_time", "signed_events", ["timestamp"], unique=False)
    op.create_index("ix_signed_events_type", "signed_events", ["event_type"], unique=False)
    op.bulk_insert(governance_rules, [seed.row() for seed in SEEDS])
    create_triggers(op.get_bind())
