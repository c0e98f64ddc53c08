"""Rules, their signed head, keys, escalations, nonces and the audit chain, on the shared metadata.

Rows of the audit chain are never changed or removed: triggers refuse it on both databases. Only
the payload may be emptied, once its time is over; its hash stays.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from coven.store.tables import CleanString, CleanText, UtcDateTime, metadata

_BigId = BigInteger().with_variant(Integer(), "sqlite")
_PENDING = text("status = 'pending'")

# Plain String and Text where bytes are signed: nothing may be cleaned on the way.
governance_rules = Table(
    "governance_rules",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(40), nullable=False),
    Column("matcher", Text, nullable=False, comment="JSON object, by kind"),
    Column("severity", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("namespace", String(400), nullable=False, server_default="_global"),
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False, comment="epoch seconds; 0 for seeds"),
    Column("enabled", Integer, nullable=False, server_default="1"),
    Column("signature", LargeBinary, comment="Ed25519, 64 bytes"),
    Column("attest_level", String(20), nullable=False, server_default="unsigned"),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("key_id", String(16), comment="first 16 hex of SHA-256 of the signer's public key"),
    Column("removed_at", BigInteger, comment="epoch seconds; rows are never deleted"),
    Column("examples", Text, comment="JSON: actions that must match and must not"),
    CheckConstraint(
        "severity IN ('refuse','warn','log','escalate')", name="ck_governance_rules_severity"
    ),
    Index("ix_governance_rules_kind_enabled", "kind", "enabled"),
    Index("ix_governance_rules_namespace", "namespace"),
)

policy_head = Table(
    "policy_head",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False, comment="SHA-256 over all rules"),
    Column("rule_count", Integer, nullable=False),
    Column("signed_at", BigInteger, nullable=False, comment="epoch seconds"),
    Column("key_id", String(16), nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

governance_keys = Table(
    "governance_keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("role", String(20), nullable=False, comment="operator or service"),
    Column("public_key", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("retired_at", BigInteger),
    Column("signed_by", String(16), nullable=False, comment="the operator key that vouches"),
    Column("signature", LargeBinary, nullable=False),
)

signed_events = Table(
    "signed_events",
    metadata,
    Column("sequence", _BigId, primary_key=True, autoincrement=False),
    Column("id", String(40), nullable=False, unique=True),
    Column("agent_id", String(200), nullable=False),
    Column("event_type", String(60), nullable=False),
    Column("payload", Text, comment="redacted RFC 8785 JSON; may be emptied by retention"),
    Column("payload_hash", LargeBinary, nullable=False),
    Column("attest_level", String(20), nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("timestamp", String(40), nullable=False, comment="RFC 3339, UTC, as hashed"),
    Column("task_id", String(40)),
    Column("installation_id", BigInteger),
    Column("decision_id", String(40)),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("row_hash", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Index("ix_signed_events_task", "task_id"),
    Index("ix_signed_events_type", "event_type"),
    Index("ix_signed_events_time", "timestamp"),
    Index("ix_signed_events_agent", "agent_id"),
    Index("ix_signed_events_installation", "installation_id", "sequence"),
)

chain_head = Table(
    "chain_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="always 1"),
    Column("sequence", BigInteger, nullable=False),
    Column("row_hash", LargeBinary, nullable=False),
)

escalations = Table(
    "escalations",
    metadata,
    Column("id", CleanString(12), primary_key=True, comment="E-<8>"),
    Column("installation_id", BigInteger, nullable=False),
    Column("task_id", CleanString(32), nullable=False),
    Column("repo_id", BigInteger, nullable=False),
    Column("namespace", CleanString(400), nullable=False),
    Column("rule_id", CleanString(64), nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("kind", CleanString(40), nullable=False),
    Column("action_digest", CleanString(64), nullable=False, comment="hex"),
    Column("action_redacted", CleanText, nullable=False),
    Column("policy_epoch", BigInteger, nullable=False),
    Column("head_sha", CleanString(64)),
    Column("status", CleanString(20), nullable=False),
    Column("requested_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("decided_by", CleanString(200)),
    Column("decided_at", UtcDateTime),
    Column("consumed_at", UtcDateTime),
    Column(
        "origin",
        CleanString(20),
        nullable=False,
        server_default="adapter",
        comment="adapter, or tool: a call of a session",
    ),
    Index(
        "uq_escalations_pending",
        "task_id",
        "action_digest",
        unique=True,
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    ),
    Index("ix_escalations_tenant", "installation_id", "status", "requested_at"),
    Index("ix_escalations_due", "status", "expires_at"),
)

nonces = Table(
    "nonces",
    metadata,
    Column("key_id", String(16), nullable=False),
    Column("nonce", String(100), nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    UniqueConstraint("key_id", "nonce"),
    Index("ix_nonces_seen", "seen_at"),
)

TABLES = (
    governance_rules,
    policy_head,
    governance_keys,
    signed_events,
    chain_head,
    escalations,
    nonces,
)

_SQLITE = (
    """
    CREATE TRIGGER signed_events_no_delete BEFORE DELETE ON signed_events
    BEGIN SELECT RAISE(ABORT, 'signed_events is append-only'); END
    """,
    """
    CREATE TRIGGER signed_events_no_update BEFORE UPDATE ON signed_events
    WHEN NEW.payload IS NOT NULL {changed}
    BEGIN SELECT RAISE(ABORT, 'signed_events is append-only'); END
    """,
    """
    CREATE TRIGGER governance_rules_no_delete BEFORE DELETE ON governance_rules
    BEGIN SELECT RAISE(ABORT, 'governance_rules keeps its rows: set removed_at'); END
    """,
)
_POSTGRESQL = (
    """
    CREATE OR REPLACE FUNCTION coven_refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''this table keeps its rows''; END'
    """,
    """
    CREATE TRIGGER signed_events_no_delete BEFORE DELETE ON signed_events
    FOR EACH ROW EXECUTE FUNCTION coven_refuse_change()
    """,
    """
    CREATE TRIGGER signed_events_no_update BEFORE UPDATE ON signed_events FOR EACH ROW
    WHEN (NEW.payload IS NOT NULL {changed})
    EXECUTE FUNCTION coven_refuse_change()
    """,
    """
    CREATE TRIGGER signed_events_no_truncate BEFORE TRUNCATE ON signed_events
    FOR EACH STATEMENT EXECUTE FUNCTION coven_refuse_change()
    """,
    """
    CREATE TRIGGER governance_rules_no_delete BEFORE DELETE ON governance_rules
    FOR EACH ROW EXECUTE FUNCTION coven_refuse_change()
    """,
)


def create_triggers(tx: Connection) -> None:
    """What keeps the chain append-only and rules in their table, on either database."""
    sqlite = tx.dialect.name == "sqlite"
    differs = "IS NOT" if sqlite else "IS DISTINCT FROM"
    changed = " ".join(
        f"OR NEW.{column.name} {differs} OLD.{column.name}"
        for column in signed_events.columns
        if column.name != "payload"
    )
    for statement in _SQLITE if sqlite else _POSTGRESQL:
        tx.exec_driver_sql(statement.replace("{changed}", changed))
