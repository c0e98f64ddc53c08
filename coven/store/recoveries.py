"""What each search for missed work did, and how far it has come. Of all tenants at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from coven.store.engine import Tx
from coven.store.tables import deliveries
from coven.store.tables_tenancy import recoveries

DELIVERIES, STATE = "deliveries", "state"
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Recovery:
    """One search. ``watermark``: everything before it was looked at."""

    id: int
    kind: str
    started_at: datetime
    finished_at: datetime | None
    watermark: datetime | None
    seen: int
    asked: int
    given_up: int
    error: str | None


_FIELDS = tuple(recoveries.c[name] for name in Recovery.__dataclass_fields__)


def begin(tx: Tx, kind: str, now: datetime) -> int:
    """Note that a search begins; its id."""
    row = tx.execute(
        insert(recoveries).values(kind=kind, started_at=now).returning(recoveries.c.id)
    )
    return int(row.scalar_one())


def finish(
    tx: Tx,
    recovery: int,
    now: datetime,
    *,
    seen: int,
    asked: int,
    given_up: int = 0,
    watermark: datetime | None = None,
    error: str | None = None,
) -> None:
    """Note what a search did. Without ``watermark`` the next one looks at the same again."""
    tx.execute(
        update(recoveries)
        .where(recoveries.c.id == recovery, recoveries.c.finished_at.is_(None))
        .values(
            finished_at=now,
            seen=seen,
            asked=asked,
            given_up=given_up,
            watermark=watermark,
            error=error[:500] if error else None,
        )
    )


def watermark(tx: Tx, kind: str) -> datetime | None:
    """How far the searches of this kind have come."""
    value: datetime | None = tx.execute(
        select(recoveries.c.watermark)
        .where(recoveries.c.kind == kind, recoveries.c.watermark.is_not(None))
        .order_by(recoveries.c.id.desc())
        .limit(1)
    ).scalar_one_or_none()
    return value


def recent(tx: Tx, limit: int = 20) -> list[Recovery]:
    """The newest searches."""
    rows = tx.execute(select(*_FIELDS).order_by(recoveries.c.id.desc()).limit(limit))
    return [Recovery(**row._mapping) for row in rows]


def known_deliveries(tx: Tx, guids: Collection[str]) -> set[str]:
    """Which of these deliveries stand in the ledger."""
    listed: Sequence[str] = list(guids)
    found: set[str] = set()
    for first in range(0, len(listed), _CHUNK):
        part = listed[first : first + _CHUNK]
        found |= set(tx.execute(select(deliveries.c.id).where(deliveries.c.id.in_(part))).scalars())
    return found


def forget(tx: Tx, before: datetime) -> int:
    """Drop searches that ended before ``before``, except the last with a watermark."""
    newest = (
        select(recoveries.c.id)
        .where(recoveries.c.watermark.is_not(None))
        .order_by(recoveries.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    gone = delete(recoveries).where(
        recoveries.c.finished_at < before, recoveries.c.id.is_distinct_from(newest)
    )
    return tx.execute(gone).rowcount
