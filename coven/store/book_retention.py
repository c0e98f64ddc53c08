"""Taking the memory of a tenant away."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, delete, select

from coven.store.book_rows import lock
from coven.store.engine import Tx
from coven.store.tables_memory import memory_activity, memory_decisions, memory_entries
from coven.values import InstallationId, RepoId

BATCH = 1_000


def purge(
    installation: InstallationId,
    tx: Tx,
    *,
    repo_id: RepoId | None = None,
    batch: int = BATCH,
) -> int:
    """Delete a batch of what is kept about an installation, or one of its repositories.

    Call it in transactions of its own until it answers 0. What stays: revocations, standing or
    lifted, and the log lines about them, so that what was forbidden is forbidden after a new
    installation too.
    """
    lock(installation, tx)
    gone = 0
    for table in (memory_entries, memory_activity, memory_decisions):
        if gone < batch:
            gone += _delete(installation, tx, table, repo_id, batch - gone)
    return gone


def _delete(
    installation: InstallationId, tx: Tx, table: Table, repo_id: RepoId | None, most: int
) -> int:
    where: list[Any] = [table.c.installation_id == installation]
    if repo_id is not None:
        where.append(table.c.repo_id == repo_id)
    if table is memory_decisions:
        # Lines without an entry are about revocations.
        where.append(table.c.entry_id.is_not(None))
    some = select(table.c.seq).where(*where).limit(most)
    return tx.execute(delete(table).where(table.c.seq.in_(some))).rowcount
