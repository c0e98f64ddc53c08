"""The delivery ledger: GitHub told us this, and here is what we decided."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables import deliveries
from coven.values import DeliveryId, InstallationId, TaskId


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery; routing is ``task:<id>``, ``ignored:<reason>`` or ``rejected:<reason>``."""

    id: DeliveryId
    event: str
    action: str | None
    installation_id: InstallationId | None
    repo_id: int | None
    repo_name: str | None
    sender_id: int | None
    sender_login: str | None
    body_sha256: str
    routing: str
    task_id: TaskId | None
    seen: int
    received_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Received:
    """What is known of a delivery when it is recorded; ids are None where the body has none."""

    id: DeliveryId
    event: str
    body: bytes
    routing: str
    received_at: datetime
    action: str | None = None
    installation_id: InstallationId | None = None
    repo_id: int | None = None
    repo_name: str | None = None
    sender_id: int | None = None
    sender_login: str | None = None
    task_id: TaskId | None = None


_FIELDS = tuple(deliveries.c[name] for name in Delivery.__dataclass_fields__)


def find(tx: Tx, delivery_id: DeliveryId) -> Delivery | None:
    """The row of a delivery id. Comes before the body is parsed, so no tenant is known yet."""
    row = tx.execute(select(*_FIELDS).where(deliveries.c.id == delivery_id)).one_or_none()
    return _delivery(row) if row is not None else None


def record(tx: Tx, received: Received) -> bool:
    """Write a delivery seen for the first time. False when the id is known by now."""
    values = _values(received)
    try:
        with tx.begin_nested():
            tx.execute(insert(deliveries).values(received_at=received.received_at, **values))
    except IntegrityError:
        return False
    return True


def reroute(tx: Tx, received: Received, expected: str) -> bool:
    """Replace the routing ``expected`` of a known delivery. False when somebody was faster."""
    changed = tx.execute(
        update(deliveries)
        .where(deliveries.c.id == received.id, deliveries.c.routing == expected)
        .values(seen=deliveries.c.seen + 1, **_values(received))
    )
    return changed.rowcount == 1


def count_duplicate(tx: Tx, delivery_id: DeliveryId, now: datetime) -> None:
    """Note that a settled delivery came again."""
    tx.execute(
        update(deliveries)
        .where(deliveries.c.id == delivery_id)
        .values(seen=deliveries.c.seen + 1, updated_at=now)
    )


def body_of(installation: InstallationId | None, tx: Tx, delivery_id: DeliveryId) -> bytes | None:
    """The raw body while it is kept, else None."""
    packed = tx.execute(
        select(deliveries.c.body).where(
            deliveries.c.id == delivery_id, deliveries.c.installation_id == installation
        )
    ).scalar_one_or_none()
    return zlib.decompress(packed) if packed is not None else None


def recent(installation: InstallationId, tx: Tx, limit: int = 50) -> list[Delivery]:
    """The newest deliveries of one installation."""
    rows = tx.execute(
        select(*_FIELDS)
        .where(deliveries.c.installation_id == installation)
        .order_by(deliveries.c.received_at.desc())
        .limit(limit)
    )
    return [_delivery(row) for row in rows]


def _values(received: Received) -> dict[str, object]:
    return {
        "id": received.id,
        "event": received.event[:80],
        "action": received.action[:80] if received.action else None,
        "installation_id": received.installation_id,
        "repo_id": received.repo_id,
        "repo_name": received.repo_name[:260] if received.repo_name else None,
        "sender_id": received.sender_id,
        "sender_login": received.sender_login[:120] if received.sender_login else None,
        "body_sha256": hashlib.sha256(received.body).hexdigest(),
        "body": zlib.compress(received.body, 6),
        "routing": received.routing[:200],
        "task_id": received.task_id,
        "updated_at": received.received_at,
    }


def _delivery(row: Row[tuple[object, ...]]) -> Delivery:
    return Delivery(**row._mapping)
