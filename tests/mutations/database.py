"""The database of the corpus. Not imported anew, so that what it has compiled is kept."""

from __future__ import annotations

from functools import cache

from sqlalchemy import delete

from coven.store.engine import Store, Tx, open_store
from coven.store.tables import tasks
from coven.store.tables_memory import (
    memory_activity,
    memory_decisions,
    memory_entries,
    memory_revocations,
)
from coven.store.tables_tenancy import installation_repositories

_TABLES = (
    tasks,
    installation_repositories,
    memory_entries,
    memory_decisions,
    memory_revocations,
    memory_activity,
)


@cache
def store() -> Store:
    """One database in memory."""
    opened = open_store("sqlite://")
    with opened.write() as tx:
        for table in _TABLES:
            table.create(tx)
    return opened


def empty(tx: Tx) -> None:
    """Take all rows out."""
    for table in _TABLES:
        tx.execute(delete(table))


def close() -> None:
    """Give the database back."""
    store().close()
    store.cache_clear()
