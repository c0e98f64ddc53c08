"""Counts of all processes, added up in one table: they outlive every process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from coven.metrics import RATE_LEFT, Part
from coven.store.engine import Tx
from coven.store.tables_metrics import metric_counts

_SEPARATOR = "|"


def add(tx: Tx, grown: Mapping[Part, float], now: datetime) -> None:
    """Add to counters and histograms."""
    _write(tx, grown, now, growing=True)


def set_levels(tx: Tx, levels: Mapping[Part, float], now: datetime) -> None:
    """Keep the newest value of gauges."""
    _write(tx, levels, now, growing=False)


def read(tx: Tx, levels_since: datetime) -> dict[Part, float]:
    """Every number; gauges only when they changed since then."""
    c = metric_counts.c
    rows = tx.execute(
        select(c.metric, c.labels, c.part, c.value).where(
            or_(c.metric != RATE_LEFT.name, c.at >= levels_since)
        )
    )
    return {
        Part(
            row.metric, tuple(row.labels.split(_SEPARATOR)) if row.labels else (), row.part
        ): float(row.value)
        for row in rows
    }


def drop_levels(tx: Tx, before: datetime) -> int:
    """Forget gauges that nobody has set since then."""
    c = metric_counts.c
    stale = and_(c.metric == RATE_LEFT.name, c.at < before)
    return tx.execute(delete(metric_counts).where(stale)).rowcount


def _write(tx: Tx, numbers: Mapping[Part, float], now: datetime, *, growing: bool) -> None:
    if not numbers:
        return
    # In one order everywhere, so that two processes never wait for each other in a circle.
    rows: list[dict[str, Any]] = sorted(
        (
            {
                "metric": part.metric,
                "labels": _SEPARATOR.join(part.labels),
                "part": part.part,
                "value": value,
                "at": now,
            }
            for part, value in numbers.items()
        ),
        key=lambda row: (row["metric"], row["labels"], row["part"]),
    )
    make = sqlite.insert if tx.dialect.name == "sqlite" else postgresql.insert
    statement = make(metric_counts)
    new = statement.excluded
    value = metric_counts.c.value + new.value if growing else new.value
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["metric", "labels", "part"], set_={"value": value, "at": new.at}
        ),
        rows,
    )
