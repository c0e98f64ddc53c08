"""Retention of memory, over all tenants at once: upkeep calls it, nobody else."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select, update

from coven.memory.book import Act, Entry, EntryState
from coven.store.book_rows import ENTRY_FIELDS, e, entry_of, note
from coven.store.engine import Tx
from coven.store.tables_memory import memory_activity, memory_entries

_OPEN = (EntryState.PENDING, EntryState.APPROVED)
_ENDED = (EntryState.REJECTED, EntryState.REVOKED, EntryState.EXPIRED)


def expire(tx: Tx, now: datetime, limit: int = 100) -> list[Entry]:
    """End entries whose time is over, oldest first; which. Revocations never end."""
    due = select(e.seq).where(e.state.in_(_OPEN), e.expires_at <= now).order_by(e.seq).limit(limit)
    rows = tx.execute(
        update(memory_entries)
        .where(e.seq.in_(due), e.state.in_(_OPEN), e.expires_at <= now)
        .values(state=EntryState.EXPIRED, updated_at=now)
        .returning(*ENTRY_FIELDS)
    ).all()
    ended = [entry_of(row) for row in rows]
    for entry in ended:
        note(
            entry.installation_id,
            tx,
            Act.EXPIRED,
            now,
            repo_id=entry.repo_id,
            place=entry.place,
            target=entry.key,
            entry=entry,
        )
    return ended


def drop(tx: Tx, before: datetime, limit: int = 5_000) -> dict[str, int]:
    """Delete activity, and texts that ended, from before ``before``; how many of each.

    What was decided stays in the log, without the text.
    """
    old_lines = select(memory_activity.c.seq).where(memory_activity.c.at < before).limit(limit)
    old_texts = select(e.seq).where(e.state.in_(_ENDED), e.updated_at < before).limit(limit)
    return {
        "memory_activity": tx.execute(
            delete(memory_activity).where(memory_activity.c.seq.in_(old_lines))
        ).rowcount,
        "memory_entries": tx.execute(delete(memory_entries).where(e.seq.in_(old_texts))).rowcount,
    }
