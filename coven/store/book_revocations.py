"""Places of the memory book that are closed, until somebody lifts it by name."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import insert, select, update

from coven.memory.book import (
    Act,
    EntryState,
    Person,
    Refusal,
    Revocation,
    Revoked,
)
from coven.memory.denied import DENIED_MAX, folded
from coven.memory.keys import KeyPrefix
from coven.store.book_places import resolve
from coven.store.book_rows import (
    ENTRY_FIELDS,
    REVOCATION_FIELDS,
    SHARED,
    at_or_below,
    e,
    entry_of,
    lock,
    note,
    revocation_of,
    room,
)
from coven.store.engine import Tx
from coven.store.tables_memory import memory_entries, memory_revocations
from coven.values import InstallationId, RepoId, RepoName

_r = memory_revocations.c
_OPEN = (EntryState.PENDING, EntryState.APPROVED)


def revoke(
    installation: InstallationId,
    tx: Tx,
    target: str,
    by: Person,
    now: datetime,
    *,
    repo_id: RepoId | None = None,
    why: str | None = None,
) -> Revoked:
    """Close a place: an entry's by its id, a key, or everything below a prefix.

    Effective for every later claim and for what runs now: their proposals are refused when they
    end. ``repo_id`` narrows it to one repository and says who a name is; without it the name is
    looked up among what this installation has shown us.
    """
    lock(installation, tx)
    place = resolve(installation, tx, target, repo_id)
    if isinstance(place, Refusal):
        return Revoked(None, refused=place)
    standing = tx.execute(
        select(_r.seq).where(
            _r.installation_id == installation,
            _r.repo_id == room(place.repo_id),
            _r.below == place.below,
            _r.lifted_at.is_(None),
        )
    ).scalar_one_or_none()
    if standing is None:
        tx.execute(
            insert(memory_revocations).values(
                installation_id=installation,
                repo_id=room(place.repo_id),
                repo_owner=place.repo.owner if place.repo else None,
                repo_name=place.repo.name if place.repo else None,
                below=place.below,
                by_id=by.id,
                by_login=by.login,
                at=now,
            )
        )
    rows = tx.execute(
        update(memory_entries)
        .where(
            e.installation_id == installation,
            e.repo_id == room(place.repo_id),
            at_or_below(e.place, place.below),
            e.state.in_(_OPEN),
        )
        .values(
            state=EntryState.REVOKED,
            decided_by_id=by.id,
            decided_by_login=by.login,
            decided_at=now,
            updated_at=now,
        )
        .returning(*ENTRY_FIELDS)
    ).all()
    ended = sorted((entry_of(row) for row in rows), key=lambda entry: entry.seq)
    for entry in ended:
        note(
            installation,
            tx,
            Act.REVOKED,
            now,
            repo_id=entry.repo_id,
            place=entry.place,
            target=entry.key,
            by=by,
            entry=entry,
            detail=f"with {place.target}",
        )
    if standing is None:
        note(
            installation,
            tx,
            Act.REVOKED,
            now,
            repo_id=place.repo_id,
            place=place.below,
            target=place.target,
            by=by,
            detail=why,
        )
    return Revoked(place.target, tuple(entry.id for entry in ended), fresh=standing is None)


def lift(
    installation: InstallationId,
    tx: Tx,
    target: str,
    by: Person,
    now: datetime,
    *,
    repo_id: RepoId | None = None,
    why: str | None = None,
) -> Revoked:
    """Open a place again that was revoked as exactly this target. Entries stay revoked.

    Refused as ``unknown`` when no such revocation stands.
    """
    lock(installation, tx)
    place = resolve(installation, tx, target, repo_id)
    if isinstance(place, Refusal):
        return Revoked(None, refused=place)
    changed = tx.execute(
        update(memory_revocations)
        .where(
            _r.installation_id == installation,
            _r.repo_id == room(place.repo_id),
            _r.below == place.below,
            _r.lifted_at.is_(None),
        )
        .values(lifted_by_id=by.id, lifted_by_login=by.login, lifted_at=now)
    ).rowcount
    if not changed:
        return Revoked(place.target, refused=Refusal.UNKNOWN)
    note(
        installation,
        tx,
        Act.LIFTED,
        now,
        repo_id=place.repo_id,
        place=place.below,
        target=place.target,
        by=by,
        detail=why,
    )
    return Revoked(place.target)


def denied(
    installation: InstallationId,
    tx: Tx,
    repo_id: RepoId,
    repo: RepoName,
    most: int = DENIED_MAX,
) -> tuple[str, ...]:
    """What a run in this repository must not touch, under the name of today; for ``denied``.

    What a broader prefix covers is left out. More than ``most`` are folded into broader ones:
    that may deny too much, and never too little.
    """
    rows = tx.execute(
        select(_r.repo_id, _r.below)
        .where(
            _r.installation_id == installation,
            _r.repo_id.in_((SHARED, repo_id)),
            _r.lifted_at.is_(None),
        )
        .order_by(_r.repo_id, _r.below)
    )
    mine = {SHARED: f"tenant/{installation}", int(repo_id): f"repo/{repo.key}"}
    prefixes = [KeyPrefix.parse(f"{mine[owner]}/{below}".rstrip("/")) for owner, below in rows]
    return folded(prefixes, most)


def is_revoked(installation: InstallationId, tx: Tx, repo_id: RepoId | None, place: str) -> bool:
    """Whether a place is closed. Decide under the lock of the book, or it may change."""
    segments = place.split("/")
    above = ["", *("/".join(segments[:n]) for n in range(1, len(segments) + 1))]
    found = tx.execute(
        select(_r.seq)
        .where(
            _r.installation_id == installation,
            _r.repo_id == room(repo_id),
            _r.below.in_(above),
            _r.lifted_at.is_(None),
        )
        .limit(1)
    ).scalar_one_or_none()
    return found is not None


def revocations(
    installation: InstallationId,
    tx: Tx,
    *,
    repo_id: RepoId | None = None,
    standing: bool = True,
    after: int | None = None,
    limit: int = 100,
) -> list[Revocation]:
    """Newest first; with ``repo_id`` that repository's and the shared ones."""
    query = select(*REVOCATION_FIELDS).where(_r.installation_id == installation)
    if repo_id is not None:
        query = query.where(_r.repo_id.in_((SHARED, repo_id)))
    if standing:
        query = query.where(_r.lifted_at.is_(None))
    if after is not None:
        query = query.where(_r.seq < after)
    rows = tx.execute(query.order_by(_r.seq.desc()).limit(limit))
    return [revocation_of(row) for row in rows]
