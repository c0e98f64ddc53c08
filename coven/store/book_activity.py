"""What runs had to do with memory: supplied, read, proposed, rejected. Append-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, insert, select, update

from coven.memory.book import Activity, Entry, EntryState, parse_id, place_of
from coven.memory.keys import MemoryKey
from coven.memory.validation import Decision, Kind
from coven.store.book_rows import (
    ACTIVITY_FIELDS,
    ENTRY_FIELDS,
    SHARED,
    activity_of,
    e,
    entry_from,
    entry_of,
    room,
)
from coven.store.engine import Tx
from coven.store.tables_memory import memory_activity, memory_entries
from coven.values import InstallationId, RepoId, RepoName, TaskId

_a = memory_activity.c
_BATCH = 500
_PREFIX = "of_entry_"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the activity ledger with the entry it is about, when the book has it."""

    activity: Activity
    entry: Entry | None


def supplied(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    repo_id: RepoId,
    entries: Sequence[Entry],
    now: datetime,
) -> None:
    """Note what a run was handed; a later attempt of the task counts once."""
    before = set(_entries_of(installation, tx, task_id, "supplied"))
    fresh = [each for each in entries if each.id not in before]
    _insert(
        tx,
        [
            {
                "installation_id": installation,
                "repo_id": room(repo_id),
                "task_id": task_id,
                "op": "supplied",
                "ordinal": each.id,
                "entry_id": each.id,
                "target": each.key,
                "scope": each.scope,
                "outcome": "accepted",
                "at": now,
            }
            for each in fresh
        ],
    )
    for ids in _batches([each.id for each in fresh]):
        tx.execute(
            update(memory_entries)
            .where(e.installation_id == installation, e.id.in_(ids))
            .values(supplied=e.supplied + 1)
        )


def record(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    repo_id: RepoId,
    attempt: int,
    decisions: Sequence[Decision],
    now: datetime,
) -> None:
    """Note what a run reported and what was decided, each with the entry it is about.

    Accepted reads of entries that are there count as citations, once per task.
    """
    before = set(_entries_of(installation, tx, task_id, "read"))
    read = {
        each.entry for each in decisions if each.entry and each.kind is Kind.READ and each.accepted
    }
    _insert(
        tx,
        [
            {
                "installation_id": installation,
                "repo_id": room(repo_id),
                "task_id": task_id,
                "op": each.kind.value,
                "ordinal": f"{attempt}:{each.index}",
                "entry_id": each.entry,
                "target": each.target,
                "scope": each.scope,
                "outcome": _outcome(each),
                "at": now,
            }
            for each in decisions
        ],
    )
    for ids in _batches(sorted(read - before)):
        tx.execute(
            update(memory_entries)
            .where(e.installation_id == installation, e.id.in_(ids))
            .values(cited=e.cited + 1, last_cited_at=now)
        )


def known(
    installation: InstallationId,
    tx: Tx,
    repo_id: RepoId,
    repo: RepoName,
    targets: Iterable[str],
    now: datetime,
) -> dict[str, Entry]:
    """The usable entries that a run's words stand for: keys of today, or ids.

    What is not in the answer is not in the book, or not for this run.
    """
    places: dict[tuple[int, str], list[str]] = {}
    ids: dict[str, list[str]] = {}
    for target in set(targets):
        entry_id = parse_id(target)
        if entry_id is not None:
            ids.setdefault(entry_id, []).append(target)
            continue
        try:
            key = MemoryKey.parse(target)
        except ValueError:
            continue
        if key.owner.repo == repo:
            places.setdefault((int(repo_id), place_of(key)), []).append(target)
        elif key.owner.installation_id == installation:
            places.setdefault((SHARED, place_of(key)), []).append(target)
    base = (
        e.installation_id == installation,
        e.repo_id.in_((SHARED, repo_id)),
        e.state == EntryState.APPROVED,
    )
    found: dict[str, Entry] = {}
    for some in _batches(sorted(ids)):
        for row in tx.execute(select(*ENTRY_FIELDS).where(*base, e.id.in_(some))):
            each = entry_of(row)
            found |= dict.fromkeys(ids[each.id], each)
    for some in _batches(sorted({place for _, place in places})):
        for row in tx.execute(select(*ENTRY_FIELDS).where(*base, e.place.in_(some))):
            each = entry_of(row)
            found |= dict.fromkeys(places.get((room(each.repo_id), each.place), ()), each)
    return {target: each for target, each in found.items() if each.usable(now)}


def of_task(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    *,
    after: int | None = None,
    limit: int = 500,
    ops: Sequence[str] = (),
    outcome: str | None = None,
) -> list[Line]:
    """Which memory shaped a run, in the order in which it was written down.

    ``ops`` and ``outcome`` narrow it: a report may hold thousands of lines of another kind.
    """
    query = _lines().where(_a.installation_id == installation, _a.task_id == task_id)
    if ops:
        query = query.where(_a.op.in_(ops))
    if outcome is not None:
        query = query.where(_a.outcome == outcome)
    if after is not None:
        query = query.where(_a.seq > after)
    return [_line(row) for row in tx.execute(query.order_by(_a.seq).limit(limit))]


def tasks_of(
    installation: InstallationId,
    tx: Tx,
    entry_id: str,
    *,
    after: int | None = None,
    limit: int = 100,
    ops: Sequence[str] = (),
) -> list[Activity]:
    """Which runs an entry was handed to, used by, or proposed by; newest first."""
    query = select(*ACTIVITY_FIELDS).where(
        _a.installation_id == installation, _a.entry_id == entry_id
    )
    if ops:
        query = query.where(_a.op.in_(ops))
    if after is not None:
        query = query.where(_a.seq < after)
    return [activity_of(row) for row in tx.execute(query.order_by(_a.seq.desc()).limit(limit))]


def activity(
    installation: InstallationId,
    tx: Tx,
    *,
    repo_id: RepoId | None = None,
    after: int | None = None,
    limit: int = 100,
) -> list[Activity]:
    """The ledger of an installation, newest first."""
    query = select(*ACTIVITY_FIELDS).where(_a.installation_id == installation)
    if repo_id is not None:
        query = query.where(_a.repo_id == repo_id)
    if after is not None:
        query = query.where(_a.seq < after)
    return [activity_of(row) for row in tx.execute(query.order_by(_a.seq.desc()).limit(limit))]


def _outcome(decision: Decision) -> str:
    if decision.reason is not None:
        return f"rejected:{decision.reason}"
    if decision.entry is None:
        return "unknown" if decision.kind is Kind.READ else "not_kept"
    return "accepted"


def _entries_of(installation: InstallationId, tx: Tx, task_id: TaskId, op: str) -> Iterable[str]:
    return tx.execute(
        select(_a.entry_id).where(
            _a.installation_id == installation,
            _a.task_id == task_id,
            _a.op == op,
            _a.outcome == "accepted",
            _a.entry_id.is_not(None),
        )
    ).scalars()


def _insert(tx: Tx, rows: list[dict[str, Any]]) -> None:
    if rows:
        tx.execute(insert(memory_activity), rows)


def _lines() -> Select[Any]:
    return (
        select(
            *ACTIVITY_FIELDS,
            *(column.label(f"{_PREFIX}{column.name}") for column in ENTRY_FIELDS),
        )
        .select_from(memory_activity)
        .outerjoin(
            memory_entries,
            (e.id == _a.entry_id) & (e.installation_id == _a.installation_id),
        )
    )


def _line(row: Row[Any]) -> Line:
    values = row._mapping
    about = None
    if values[f"{_PREFIX}id"] is not None:
        about = entry_from({c.name: values[f"{_PREFIX}{c.name}"] for c in ENTRY_FIELDS})
    return Line(Activity(**{name: values[name] for name in Activity.__dataclass_fields__}), about)


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
