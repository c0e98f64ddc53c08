"""What all processes counted, added up: one row per number."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Table

from coven.store.tables import CleanString, UtcDateTime, metadata

metric_counts = Table(
    "metric_counts",
    metadata,
    Column("metric", CleanString(80), primary_key=True),
    Column("labels", CleanString(200), primary_key=True, comment="values, joined by |"),
    Column("part", CleanString(20), primary_key=True, comment="empty, sum, or a bucket's bound"),
    Column("value", Float, nullable=False),
    Column("at", UtcDateTime, nullable=False, comment="when it last changed"),
    Index("ix_metric_counts_at", "metric", "at"),
)
