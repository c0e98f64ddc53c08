"""What processes counted, since when a surface differs, and which releases fit"""

import sqlalchemy as sa
from alembic import op

from coven.store.tables import UtcDateTime

revision = "0006"
down_revision = "0005"
kind = "pre"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "metric_counts",
        sa.Column("metric", sa.String(length=80), nullable=False),
        sa.Column("labels", sa.String(length=200), nullable=False, comment="values, joined by |"),
        sa.Column(
            "part",
            sa.String(length=20),
            nullable=False,
            comment="empty, sum, or a bucket's bound",
        ),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False, comment="when it last changed"),
        sa.PrimaryKeyConstraint("metric", "labels", "part", name=op.f("pk_metric_counts")),
    )
    op.create_index("ix_metric_counts_at", "metric_counts", ["metric", "at"])
    floor = op.create_table(
        "schema_floor",
        sa.Column(
            "revision",
            sa.String(length=32),
            nullable=False,
            comment="one row; see coven.store.migrate",
        ),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_schema_floor")),
    )
    op.bulk_insert(floor, [{"revision": revision}])
    op.add_column("surfaces", sa.Column("pending_since", UtcDateTime(), nullable=True))
