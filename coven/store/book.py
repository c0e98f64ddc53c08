"""The memory book: what is proposed, remembered, decided and taken out.

Every change takes the book's lock of its tenant, is a compare-and-set, and leaves a line in the
log. Call it before anything that touches surfaces, so that locks are taken in one order.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, update

from coven.memory.book import (
    REDACTED,
    SUMMARY_CHARS,
    Act,
    Decided,
    Entry,
    EntryState,
    NewEntry,
    Person,
    Refusal,
    expired,
    may_decide,
    new_id,
    place_of,
    text_hash,
)
from coven.store.book_activity import activity, known, of_task, record, supplied, tasks_of
from coven.store.book_places import repo_named, resolve
from coven.store.book_reads import (
    Filters,
    entry,
    export,
    export_batch,
    exported,
    find,
    history,
    listed,
    usable,
    versions,
)
from coven.store.book_retention import purge
from coven.store.book_revocations import (
    denied,
    is_revoked,
    lift,
    revocations,
    revoke,
)
from coven.store.book_rows import ENTRY_FIELDS, e, entry_of, lock, note, room
from coven.store.engine import Tx
from coven.store.tables import clean_text
from coven.store.tables_memory import memory_entries, memory_revocations
from coven.values import InstallationId, RepoId, RepoName, TrustScope

__all__ = [
    "PROPOSALS_PER_TASK",
    "Filters",
    "activity",
    "decide",
    "denied",
    "entry",
    "export",
    "export_batch",
    "exported",
    "find",
    "follow",
    "history",
    "is_revoked",
    "known",
    "lift",
    "listed",
    "of_task",
    "propose",
    "purge",
    "record",
    "redact",
    "remember",
    "repo_named",
    "resolve",
    "revocations",
    "revoke",
    "supplied",
    "tasks_of",
    "usable",
    "versions",
]

PROPOSALS_PER_TASK = 100
"""More than that of one run nobody reads."""

_NEVER = frozenset({TrustScope.EXTERNAL, TrustScope.FORK_PR})


def propose(
    installation: InstallationId,
    tx: Tx,
    new: NewEntry,
    now: datetime,
    *,
    keep: timedelta | None = None,
    approved: bool = False,
) -> Decided:
    """Put a text before the maintainers, or into use when no approval is needed.

    The same text again changes nothing (``fresh`` is False): whether it waits, is approved, or
    was rejected before, that entry is the answer. Another text replaces one that still waits; an
    approved one stays in use until the new one is approved. Refused: ``untrusted``,
    ``other_owner``, ``revoked_key``, ``empty``, ``too_long``, ``too_many``.
    """
    lock(installation, tx)
    summary = clean_text(new.summary)
    refused = _refused(installation, tx, new, summary)
    if refused is not None:
        return Decided(None, refused, fresh=False)
    place = place_of(new.key)
    digest = text_hash(place, _scope(new), summary)
    for before in _at(installation, tx, new.repo_id, place):
        if before.text_hash == digest and (
            before.state in (EntryState.PENDING, EntryState.REJECTED) or before.usable(now)
        ):
            if approved and before.state is EntryState.PENDING:
                continue  # What waited is overtaken by the same text that need not wait.
            return Decided(before, fresh=False)
    if new.task_id is not None and _too_many(installation, tx, new):
        return Decided(None, Refusal.TOO_MANY, fresh=False)
    return Decided(_write(installation, tx, new, summary, now, keep, approved=approved, by=None))


def remember(
    installation: InstallationId,
    tx: Tx,
    new: NewEntry,
    by: Person,
    now: datetime,
    *,
    keep: timedelta | None = None,
) -> Decided:
    """A maintainer's own text: in use at once, in place of what stood there.

    Refused: ``untrusted`` (not a maintainer's), ``other_owner``, ``revoked_key``, ``empty``,
    ``too_long``.
    """
    lock(installation, tx)
    summary = clean_text(new.summary)
    refused = _refused(installation, tx, new, summary)
    if new.trust is not TrustScope.MAINTAINER:
        refused = Refusal.UNTRUSTED
    if refused is not None:
        return Decided(None, refused, fresh=False)
    place = place_of(new.key)
    digest = text_hash(place, _scope(new), summary)
    for before in _at(installation, tx, new.repo_id, place):
        if before.text_hash == digest and before.usable(now):
            return Decided(before, fresh=False)
    return Decided(_write(installation, tx, new, summary, now, keep, approved=True, by=by))


def decide(
    installation: InstallationId,
    tx: Tx,
    entry_id: str,
    approve: bool,
    by: Person,
    shown_hash: str,
    now: datetime,
    *,
    four_eyes: bool = False,
    repo_id: RepoId | None = None,
    keep: timedelta | None = None,
) -> Decided:
    """Approve or reject what waits. ``shown_hash`` is the text that the person saw.

    ``repo_id`` narrows it to that repository: its maintainers don't decide for all others. The
    same answer twice by anybody is no refusal (``fresh`` is False).
    """
    lock(installation, tx)
    found = entry(installation, tx, entry_id)
    if found is None or (repo_id is not None and found.repo_id != repo_id):
        return Decided(None, Refusal.UNKNOWN, fresh=False)
    refused = _undecidable(installation, tx, found, approve, by, shown_hash, now, four_eyes)
    if refused is Refusal.NOT_PENDING and found.text_hash == shown_hash:
        wanted = EntryState.APPROVED if approve else EntryState.REJECTED
        if found.state is wanted and (not approve or found.usable(now)):
            return Decided(found, fresh=False)
    if refused is not None:
        return Decided(found, refused, fresh=False)
    if approve:
        _replace(installation, tx, found.repo_id, found.place, EntryState.APPROVED, found.id, now)
    state = EntryState.APPROVED if approve else EntryState.REJECTED
    values: dict[str, Any] = {
        "state": state,
        "decided_by_id": by.id,
        "decided_by_login": by.login,
        "decided_at": now,
        "updated_at": now,
    }
    if approve:
        values["expires_at"] = now + keep if keep is not None else None
    row = tx.execute(
        update(memory_entries)
        .where(
            e.installation_id == installation,
            e.id == found.id,
            e.state == EntryState.PENDING,
            e.text_hash == shown_hash,
        )
        .values(**values)
        .returning(*ENTRY_FIELDS)
    ).one_or_none()
    if row is None:
        return Decided(entry(installation, tx, entry_id), Refusal.NOT_PENDING, fresh=False)
    decided = entry_of(row)
    _log(installation, tx, Act.APPROVED if approve else Act.REJECTED, decided, now, by)
    return Decided(decided)


def redact(
    installation: InstallationId, tx: Tx, entry_id: str, by: Person, now: datetime
) -> Decided:
    """Take the text out and keep its hash, so that it is known that it was there.

    What waits or is in use ends as revoked: nobody may use a text that nobody can read. The
    place stays open.
    """
    lock(installation, tx)
    found = entry(installation, tx, entry_id)
    if found is None:
        return Decided(None, Refusal.UNKNOWN, fresh=False)
    if found.redacted_at is not None:
        return Decided(found, fresh=False)
    values: dict[str, Any] = {"summary": REDACTED, "redacted_at": now, "updated_at": now}
    if found.state in (EntryState.PENDING, EntryState.APPROVED):
        values |= {
            "state": EntryState.REVOKED,
            "decided_by_id": by.id,
            "decided_by_login": by.login,
            "decided_at": now,
        }
    row = tx.execute(
        update(memory_entries)
        .where(e.installation_id == installation, e.id == found.id, e.redacted_at.is_(None))
        .values(**values)
        .returning(*ENTRY_FIELDS)
    ).one_or_none()
    if row is None:
        return Decided(found, fresh=False)
    redacted = entry_of(row)
    _log(installation, tx, Act.REDACTED, redacted, now, by)
    return Decided(redacted)


def follow(installation: InstallationId, tx: Tx, repo_id: RepoId, repo: RepoName) -> int:
    """Call the entries and revocations of a repository by its name of today; how many changed."""
    changed = 0
    for table in (memory_entries, memory_revocations):
        changed += tx.execute(
            update(table)
            .where(
                table.c.installation_id == installation,
                table.c.repo_id == repo_id,
                (table.c.repo_owner != repo.owner) | (table.c.repo_name != repo.name),
            )
            .values(repo_owner=repo.owner, repo_name=repo.name)
        ).rowcount
    return changed


def _refused(installation: InstallationId, tx: Tx, new: NewEntry, summary: str) -> Refusal | None:
    if new.trust in _NEVER:
        return Refusal.UNTRUSTED
    own = new.key.owner
    if own.repo != new.repo or (new.repo is None) != (new.repo_id is None):
        return Refusal.OTHER_OWNER
    if own.repo is None and own.installation_id != installation:
        return Refusal.OTHER_OWNER
    if not summary.strip():
        return Refusal.EMPTY
    if len(summary) > SUMMARY_CHARS:
        return Refusal.TOO_LONG
    if is_revoked(installation, tx, new.repo_id, place_of(new.key)):
        return Refusal.REVOKED_KEY
    return None


def _undecidable(
    installation: InstallationId,
    tx: Tx,
    found: Entry,
    approve: bool,
    by: Person,
    shown_hash: str,
    now: datetime,
    four_eyes: bool,
) -> Refusal | None:
    if found.replaced_by is not None:
        return Refusal.TEXT_CHANGED
    if found.state is EntryState.EXPIRED:
        return Refusal.EXPIRED
    if found.state is not EntryState.PENDING:
        return Refusal.NOT_PENDING
    if found.text_hash != shown_hash:
        return Refusal.TEXT_CHANGED
    if expired(found.expires_at, now):
        return Refusal.EXPIRED
    if approve and is_revoked(installation, tx, found.repo_id, found.place):
        return Refusal.REVOKED_KEY
    if not may_decide(found, by, approve=approve, four_eyes=four_eyes):
        return Refusal.OWN_CHANGE
    return None


def _too_many(installation: InstallationId, tx: Tx, new: NewEntry) -> bool:
    count: int = tx.execute(
        select(func.count())
        .select_from(memory_entries)
        .where(e.installation_id == installation, e.task_id == new.task_id)
    ).scalar_one()
    return count >= PROPOSALS_PER_TASK


def _at(installation: InstallationId, tx: Tx, repo_id: RepoId | None, place: str) -> list[Entry]:
    """The texts of a place, newest first."""
    rows = tx.execute(
        select(*ENTRY_FIELDS)
        .where(e.installation_id == installation, e.repo_id == room(repo_id), e.place == place)
        .order_by(e.seq.desc())
    )
    return [entry_of(row) for row in rows]


def _write(
    installation: InstallationId,
    tx: Tx,
    new: NewEntry,
    summary: str,
    now: datetime,
    keep: timedelta | None,
    *,
    approved: bool,
    by: Person | None,
) -> Entry:
    place, fresh_id = place_of(new.key), new_id()
    versions = [each.version for each in _at(installation, tx, new.repo_id, place)]
    state = EntryState.APPROVED if approved else EntryState.PENDING
    values = {
        "id": fresh_id,
        "installation_id": installation,
        "repo_id": room(new.repo_id),
        "repo_owner": new.repo.owner if new.repo else None,
        "repo_name": new.repo.name if new.repo else None,
        "place": place,
        "summary": summary,
        "text_hash": text_hash(place, _scope(new), summary),
        "state": state,
        "version": max(versions, default=0) + 1,
        "source": new.source,
        "trust": new.trust,
        "task_id": new.task_id,
        "head_sha": new.head_sha,
        "thread": new.thread,
        "familiar_id": new.familiar_id,
        "actor_id": new.actor_id,
        "actor_login": new.actor_login,
        "author_id": new.author_id,
        "author_login": new.author_login,
        "decided_by_id": by.id if by else None,
        "decided_by_login": by.login if by else None,
        "decided_at": now if approved else None,
        "created_at": now,
        "updated_at": now,
        "expires_at": now + keep if keep is not None else None,
    }
    _replace(installation, tx, new.repo_id, place, EntryState.PENDING, fresh_id, now)
    if approved:
        _replace(installation, tx, new.repo_id, place, EntryState.APPROVED, fresh_id, now)
    row = tx.execute(insert(memory_entries).values(**values).returning(*ENTRY_FIELDS)).one()
    entry = entry_of(row)
    _log(installation, tx, Act.REMEMBERED if by else Act.PROPOSED, entry, now, by)
    if approved and by is None:
        _log(installation, tx, Act.APPROVED, entry, now, None, "no approval is required here")
    return entry


def _replace(
    installation: InstallationId,
    tx: Tx,
    repo_id: RepoId | None,
    place: str,
    state: EntryState,
    by_id: str,
    now: datetime,
) -> None:
    """End what stands at a place in ``state``, because another text takes it."""
    row = tx.execute(
        update(memory_entries)
        .where(
            e.installation_id == installation,
            e.repo_id == room(repo_id),
            e.place == place,
            e.state == state,
            e.id != by_id,
        )
        .values(state=EntryState.EXPIRED, replaced_by=by_id, updated_at=now)
        .returning(*ENTRY_FIELDS)
    ).one_or_none()
    if row is not None:
        _log(installation, tx, Act.REPLACED, entry_of(row), now, None, f"by {by_id}")


def _log(
    installation: InstallationId,
    tx: Tx,
    act: Act,
    entry: Entry,
    now: datetime,
    by: Person | None,
    detail: str | None = None,
) -> None:
    note(
        installation,
        tx,
        act,
        now,
        repo_id=entry.repo_id,
        place=entry.place,
        target=entry.key,
        by=by,
        entry=entry,
        task_id=entry.task_id if act is Act.PROPOSED else None,
        detail=detail,
    )


def _scope(new: NewEntry) -> str:
    return "tenant_shared" if new.repo_id is None else "repo"
