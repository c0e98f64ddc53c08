"""The ledger of the audit chain: rows in order, and the one row that says where it ends.

Rows only; hashes and signatures are made and proven in :mod:`coven.governance.audit`. One chain for
all tenants: a gap could otherwise hide behind another tenant's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select, update

from coven.store.engine import Tx
from coven.store.tables_governance import chain_head, signed_events
from coven.values import InstallationId

Row = Mapping[str, Any]

GENESIS = bytes(32)
"""``prev_hash`` of the first row."""
_ONLY = 1
BATCH = 1_000


class ChainBroken(Exception):
    """The head row is missing while rows are there: somebody changed the tables by hand."""


def lock_head(tx: Tx) -> tuple[int, bytes]:
    """Sequence and hash of the last row; nobody else appends until this transaction ends.

    SQLite's write transactions queue by themselves. Raises ``ChainBroken``.
    """
    query = select(chain_head.c.sequence, chain_head.c.row_hash).where(chain_head.c.id == _ONLY)
    row = tx.execute(query.with_for_update()).one_or_none()
    if row is not None:
        return row.sequence, bytes(row.row_hash)
    if tx.dialect.name == "postgresql":
        # The first appenders of all may be several; the second waits here and sees the first's.
        tx.exec_driver_sql("LOCK TABLE chain_head IN EXCLUSIVE MODE")
        row = tx.execute(query).one_or_none()
        if row is not None:
            return row.sequence, bytes(row.row_hash)
    if tx.execute(select(func.count()).select_from(signed_events)).scalar_one():
        raise ChainBroken("the head of the audit chain is missing")
    tx.execute(insert(chain_head).values(id=_ONLY, sequence=0, row_hash=GENESIS))
    return 0, GENESIS


def append(tx: Tx, rows: Sequence[Row]) -> None:
    """Write rows that follow the locked head, and move it."""
    if not rows:
        return
    tx.execute(insert(signed_events), list(rows))
    last = rows[-1]
    tx.execute(
        update(chain_head)
        .where(chain_head.c.id == _ONLY)
        .values(sequence=last["sequence"], row_hash=last["row_hash"])
    )


def head(tx: Tx) -> tuple[int, bytes] | None:
    """Sequence and hash of the last row; None for a chain that never had one."""
    row = tx.execute(
        select(chain_head.c.sequence, chain_head.c.row_hash).where(chain_head.c.id == _ONLY)
    ).one_or_none()
    return (row.sequence, bytes(row.row_hash)) if row is not None else None


def rows(tx: Tx, after: int = 0, until: int | None = None) -> Iterator[Row]:
    """Rows with a sequence above ``after`` (and up to ``until``), in order, a batch at a time."""
    while True:
        query = (
            select(signed_events)
            .where(signed_events.c.sequence > after)
            .order_by(signed_events.c.sequence)
            .limit(BATCH)
        )
        if until is not None:
            query = query.where(signed_events.c.sequence <= until)
        batch = tx.execute(query).all()
        for row in batch:
            yield dict(row._mapping)
        if len(batch) < BATCH:
            return
        after = batch[-1].sequence


def of_task(installation: InstallationId, tx: Tx, task_id: str, limit: int = 100) -> list[Row]:
    """The newest rows of one task, newest first."""
    found = tx.execute(
        select(signed_events)
        .where(
            signed_events.c.task_id == task_id,
            signed_events.c.installation_id == installation,
        )
        .order_by(signed_events.c.sequence.desc())
        .limit(limit)
    )
    return [dict(row._mapping) for row in found]


def of_installation(
    installation: InstallationId, tx: Tx, after: int = 0, limit: int = 100
) -> list[Row]:
    """Rows of one installation with a sequence above ``after``, oldest first."""
    found = tx.execute(
        select(signed_events)
        .where(signed_events.c.installation_id == installation, signed_events.c.sequence > after)
        .order_by(signed_events.c.sequence)
        .limit(limit)
    )
    return [dict(row._mapping) for row in found]


def sequence_at(tx: Tx, moment: str) -> int:
    """The last sequence before a time (as in ``timestamp``); 0 when there is none."""
    return int(
        tx.execute(
            select(func.coalesce(func.max(signed_events.c.sequence), 0)).where(
                signed_events.c.timestamp < moment
            )
        ).scalar_one()
    )


def empty_payloads(
    tx: Tx,
    before: datetime,
    installation: InstallationId | None = None,
    *,
    limit: int | None = None,
) -> int:
    """Retention and purge: forget what was written, keep that it was. How many rows.

    ``installation`` None means all of them; ``limit`` is the most rows at once.
    """
    conditions = [
        signed_events.c.payload.is_not(None),
        signed_events.c.timestamp < before.astimezone(UTC).isoformat(timespec="milliseconds"),
    ]
    if installation is not None:
        conditions.append(signed_events.c.installation_id == installation)
    if limit is not None:
        some = select(signed_events.c.sequence).where(*conditions).limit(limit)
        conditions = [signed_events.c.sequence.in_(some)]
    return tx.execute(update(signed_events).where(*conditions).values(payload=None)).rowcount
