"""The ledger of rules, policy heads, keys and nonces. Rows only; trust is decided above.

One policy for all tenants: these functions take no installation, and only the operator's tools and
the engine call them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables_governance import (
    governance_keys,
    governance_rules,
    nonces,
    policy_head,
)

Row = Mapping[str, Any]


def all_rules(tx: Tx) -> list[Row]:
    """Every row, also disabled and removed ones, by id."""
    return [
        dict(row._mapping)
        for row in tx.execute(select(governance_rules).order_by(governance_rules.c.id))
    ]


_COLUMNS = tuple(column.name for column in governance_rules.columns)
_RAW = f"SELECT {', '.join(_COLUMNS)} FROM governance_rules ORDER BY id"  # noqa: S608 - names


def raw_rules(tx: Tx) -> tuple[tuple[Any, ...], ...]:
    """Every row as the driver gives it: quick to read at every check, and to compare."""
    return tuple(tuple(row) for row in tx.exec_driver_sql(_RAW))


def named(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row of :func:`raw_rules` with its column names. Pure."""
    return dict(zip(_COLUMNS, row, strict=True))


def find_rule(tx: Tx, rule_id: str) -> Row | None:
    """One row, also a removed one."""
    row = tx.execute(select(governance_rules).where(governance_rules.c.id == rule_id)).one_or_none()
    return dict(row._mapping) if row is not None else None


def insert_rule(tx: Tx, row: Row) -> bool:
    """Write a new row; False when its id was ever used."""
    try:
        with tx.begin_nested():
            tx.execute(insert(governance_rules).values(**row))
    except IntegrityError:
        return False
    return True


def change_rule(tx: Tx, rule_id: str, revision: int, values: Mapping[str, Any]) -> bool:
    """Compare-and-set on the revision."""
    return bool(
        tx.execute(
            update(governance_rules)
            .where(governance_rules.c.id == rule_id, governance_rules.c.revision == revision)
            .values(**values)
        ).rowcount
    )


def newest_head(tx: Tx) -> Row | None:
    """The head with the highest epoch."""
    row = tx.execute(
        select(policy_head).order_by(policy_head.c.epoch.desc()).limit(1)
    ).one_or_none()
    return dict(row._mapping) if row is not None else None


def newest_epoch(tx: Tx) -> int:
    """The highest epoch; 0 when nothing was ever signed."""
    return int(tx.execute(select(func.coalesce(func.max(policy_head.c.epoch), 0))).scalar_one())


def insert_head(tx: Tx, row: Row) -> bool:
    """Write the next head; False when somebody else wrote this epoch."""
    try:
        with tx.begin_nested():
            tx.execute(insert(policy_head).values(**row))
    except IntegrityError:
        return False
    return True


def keys(tx: Tx) -> Sequence[Row]:
    """Keys that an operator key vouches for."""
    return [dict(row._mapping) for row in tx.execute(select(governance_keys))]


def put_key(tx: Tx, row: Row) -> None:
    """Write the voucher of a key; a newer one replaces it."""
    tx.execute(delete(governance_keys).where(governance_keys.c.key_id == row["key_id"]))
    tx.execute(insert(governance_keys).values(**row))


def use_nonce(tx: Tx, key: str, nonce: str, now: datetime) -> bool:
    """Remember a nonce; False when it was used before."""
    try:
        with tx.begin_nested():
            tx.execute(insert(nonces).values(key_id=key, nonce=nonce, seen_at=now))
    except IntegrityError:
        return False
    return True


def forget_nonces(tx: Tx, before: datetime) -> int:
    """Remove nonces that are too old for any request to be accepted with."""
    return tx.execute(delete(nonces).where(nonces.c.seen_at < before)).rowcount
