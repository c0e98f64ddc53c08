"""Sharing: what one repository knows becomes what all of its installation know.

An act of people with a name, never of a run: no policy lets one write shared entries. The shared
text is an entry of its own, so it outlives the one that it was made from.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select

from coven.memory.book import (
    Act,
    Decided,
    EntryState,
    NewEntry,
    Person,
    Refusal,
    Revoked,
    Source,
)
from coven.memory.keys import MemoryKey, Owner
from coven.store import book
from coven.store.book_rows import e, lock, note, room
from coven.store.engine import Tx
from coven.values import InstallationId, TrustScope


def share(
    installation: InstallationId,
    tx: Tx,
    entry_id: str,
    by: Person,
    shown_hash: str,
    source: Source,
    now: datetime,
    *,
    keep: timedelta | None = None,
) -> Decided:
    """Give the text of an entry in use to all repositories; the answer is the shared entry.

    ``shown_hash`` is the text that the person saw. The same again changes nothing. Refused:
    ``unknown``, ``not_approved``, ``text_changed``, ``revoked_key``.
    """
    lock(installation, tx)
    found = book.entry(installation, tx, entry_id)
    if found is None:
        return Decided(None, Refusal.UNKNOWN, fresh=False)
    if found.text_hash != shown_hash:
        return Decided(found, Refusal.TEXT_CHANGED, fresh=False)
    if not found.usable(now):
        return Decided(found, Refusal.NOT_APPROVED, fresh=False)
    if found.repo_id is None:
        return Decided(found, fresh=False)
    namespace, *path = found.place.split("/")
    new = NewEntry(
        repo_id=None,
        repo=None,
        key=MemoryKey(Owner(installation_id=installation), namespace, tuple(path)),
        summary=found.summary,
        source=source,
        trust=TrustScope.MAINTAINER,  # of whoever shares it, who answers for it from now on
        familiar_id=found.familiar_id,
        author_id=found.author_id,
        author_login=found.author_login,
    )
    done = book.remember(installation, tx, new, by, now, keep=keep)
    if done.entry is not None and done.fresh:
        for each, detail in ((found, f"as {done.entry.id}"), (done.entry, f"from {found.id}")):
            note(
                installation,
                tx,
                Act.SHARED,
                now,
                repo_id=each.repo_id,
                place=each.place,
                target=each.key,
                by=by,
                entry=each,
                detail=detail,
            )
    return done


def unshare(
    installation: InstallationId, tx: Tx, entry_id: str, by: Person, now: datetime
) -> Revoked:
    """Close the place of a shared entry, named by its id or by the one that it was made from.

    The repository keeps its own. Refused: ``unknown``, ``not_shared``.
    """
    lock(installation, tx)
    found = book.entry(installation, tx, entry_id)
    if found is None:
        return Revoked(None, refused=Refusal.UNKNOWN, fresh=False)
    shared = found.id if found.repo_id is None else None
    if shared is None:
        shared = tx.execute(
            select(e.id).where(
                e.installation_id == installation,
                e.repo_id == room(None),
                e.place == found.place,
                e.state == EntryState.APPROVED,
            )
        ).scalar_one_or_none()
    if shared is None:
        return Revoked(None, refused=Refusal.NOT_SHARED, fresh=False)
    return book.revoke(installation, tx, shared, by, now)
