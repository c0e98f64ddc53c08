"""Looking into the memory book. Every question names its tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, or_, select

from coven.memory.book import Decision, Entry, EntryState, Refusal, Scope, parse_id
from coven.store.book_places import resolve
from coven.store.book_rows import (
    DECISION_FIELDS,
    ENTRY_FIELDS,
    SHARED,
    at_or_below,
    decision_of,
    e,
    entry_of,
    room,
)
from coven.store.engine import Tx
from coven.store.tables_memory import memory_decisions
from coven.values import InstallationId, RepoId, TaskId

_OPEN = (EntryState.PENDING, EntryState.APPROVED)
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which entries are meant; everything that is given must fit."""

    repo_id: RepoId | None = None
    scope: Scope | None = None
    states: Sequence[EntryState] = ()
    prefix: str | None = None
    """A key or what it begins with, by whole segments; one that names nothing finds nothing."""
    text: str | None = None
    """Somewhere in text or place, in any case of letters."""
    task_id: TaskId | None = None


def entry(installation: InstallationId, tx: Tx, entry_id: str) -> Entry | None:
    """The entry, when it belongs to this installation."""
    found = parse_id(entry_id)
    if found is None:
        return None
    row = tx.execute(
        select(*ENTRY_FIELDS).where(e.installation_id == installation, e.id == found)
    ).one_or_none()
    return entry_of(row) if row is not None else None


def listed(
    installation: InstallationId,
    tx: Tx,
    filters: Filters | None = None,
    *,
    after: int | None = None,
    limit: int = 100,
) -> list[Entry]:
    """Newest first. ``after`` is the ``seq`` of the last entry that was seen."""
    where = _where(installation, tx, filters or Filters())
    if where is None:
        return []
    query = select(*ENTRY_FIELDS).where(*where)
    if after is not None:
        query = query.where(e.seq < after)
    return [entry_of(row) for row in tx.execute(query.order_by(e.seq.desc()).limit(limit))]


def find(
    installation: InstallationId,
    tx: Tx,
    repo_id: RepoId,
    text: str,
    *,
    states: Sequence[EntryState] = _OPEN,
    shared: bool = False,
    limit: int = 10,
) -> list[Entry]:
    """What somebody may mean by an id, a key, a place below the repository, or a piece of text.

    The first of these that fits counts; several entries mean that it is ambiguous. ``shared``
    looks at what the installation shares too.
    """
    text = text.strip()
    if not text:
        return []
    rooms = (SHARED, repo_id) if shared else (repo_id,)
    base = (e.installation_id == installation, e.repo_id.in_(rooms), e.state.in_(states))
    questions: list[ColumnElement[bool]] = []
    entry_id = parse_id(text)
    if entry_id is not None:
        questions = [e.id == entry_id]
    else:
        place = resolve(installation, tx, text, None)
        if not isinstance(place, Refusal):
            here = e.repo_id == room(place.repo_id)
            questions.append(here & at_or_below(e.place, place.below))
        if text.isascii() and text.strip("/"):
            questions.append(at_or_below(e.place, text.strip("/")))
        questions.append(_holds(text))
    for question in questions:
        rows = tx.execute(
            select(*ENTRY_FIELDS).where(*base, question).order_by(e.seq.desc()).limit(limit)
        ).all()
        if rows:
            return [entry_of(row) for row in rows]
    return []


def usable(
    installation: InstallationId,
    tx: Tx,
    repo_id: RepoId,
    now: datetime,
    *,
    shared: bool,
    limit: int = 2_000,
) -> list[Entry]:
    """Approved entries that are not too old, newest first: this repository's, then the shared."""
    found: list[Entry] = []
    for each in (repo_id, SHARED) if shared else (repo_id,):
        rows = tx.execute(
            select(*ENTRY_FIELDS)
            .where(
                e.installation_id == installation,
                e.repo_id == each,
                e.state == EntryState.APPROVED,
                or_(e.expires_at.is_(None), e.expires_at > now),
            )
            .order_by(e.seq.desc())
            .limit(limit)
        )
        found += [entry_of(row) for row in rows]
    return found


def versions(installation: InstallationId, tx: Tx, of: Entry, limit: int = 100) -> list[Entry]:
    """All texts that stood at the place of an entry, newest first."""
    rows = tx.execute(
        select(*ENTRY_FIELDS)
        .where(
            e.installation_id == installation,
            e.repo_id == room(of.repo_id),
            e.place == of.place,
        )
        .order_by(e.seq.desc())
        .limit(limit)
    )
    return [entry_of(row) for row in rows]


def history(installation: InstallationId, tx: Tx, of: Entry, limit: int = 200) -> list[Decision]:
    """What was decided at the place of an entry, newest first."""
    d = memory_decisions.c
    rows = tx.execute(
        select(*DECISION_FIELDS)
        .where(
            d.installation_id == installation,
            d.repo_id == room(of.repo_id),
            d.place == of.place,
        )
        .order_by(d.seq.desc())
        .limit(limit)
    )
    return [decision_of(row) for row in rows]


def export(
    installation: InstallationId, tx: Tx, filters: Filters | None = None
) -> Iterator[dict[str, Any]]:
    """Entries with where they come from and what was decided, oldest first, a batch at a time."""
    seen: int | None = 0
    while seen is not None:
        batch, seen = export_batch(installation, tx, filters, after=seen)
        yield from batch


def export_batch(
    installation: InstallationId, tx: Tx, filters: Filters | None = None, *, after: int = 0
) -> tuple[list[dict[str, Any]], int | None]:
    """One batch of :func:`export`, and after which entry the next begins; None after the last."""
    where = _where(installation, tx, filters or Filters())
    if where is None:
        return [], None
    rows = tx.execute(
        select(*ENTRY_FIELDS).where(*where, e.seq > after).order_by(e.seq).limit(_BATCH)
    ).all()
    batch = [entry_of(row) for row in rows]
    logs = _logs(installation, tx, [each.id for each in batch])
    plain = [exported(each) | {"decisions": logs.get(each.id, [])} for each in batch]
    return plain, batch[-1].seq if len(batch) == _BATCH else None


def exported(each: Entry) -> dict[str, Any]:
    """An entry in plain data, as programs get it."""
    values = asdict(each)
    values.pop("seq")
    values["repo"] = str(each.repo) if each.repo else None
    return values | {"key": each.key, "scope": each.scope}


def _logs(
    installation: InstallationId, tx: Tx, ids: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    if not ids:
        return {}
    d = memory_decisions.c
    found: dict[str, list[dict[str, Any]]] = {}
    rows = tx.execute(
        select(*DECISION_FIELDS)
        .where(d.installation_id == installation, d.entry_id.in_(ids))
        .order_by(d.seq)
    )
    for line in map(decision_of, rows):
        values = asdict(line)
        found.setdefault(values.pop("entry_id"), []).append(values)
    return found


def _where(
    installation: InstallationId, tx: Tx, filters: Filters
) -> list[ColumnElement[bool]] | None:
    """The conditions; None when nothing can fit."""
    where: list[ColumnElement[bool]] = [e.installation_id == installation]
    if filters.repo_id is not None:
        where.append(e.repo_id == filters.repo_id)
    if filters.scope is not None:
        where.append(e.repo_id == SHARED if filters.scope == "tenant_shared" else e.repo_id > 0)
    if filters.states:
        where.append(e.state.in_(tuple(filters.states)))
    if filters.prefix is not None:
        place = resolve(installation, tx, filters.prefix, None)
        if isinstance(place, Refusal):
            return None
        where += [e.repo_id == room(place.repo_id), at_or_below(e.place, place.below)]
    if filters.text:
        where.append(_holds(filters.text))
    if filters.task_id is not None:
        where.append(e.task_id == filters.task_id)
    return where


def _holds(text: str) -> ColumnElement[bool]:
    return or_(e.summary.icontains(text, autoescape=True), e.place.icontains(text, autoescape=True))
