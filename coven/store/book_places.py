"""From a target as people write it to a place whose owner is known by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select

from coven.memory.book import Refusal, parse_id
from coven.memory.keys import KeyPrefix
from coven.store.book_rows import ENTRY_FIELDS, e, entry_of
from coven.store.engine import Tx
from coven.store.installations import PRESENT
from coven.store.tables import tasks
from coven.store.tables_memory import memory_entries
from coven.store.tables_tenancy import installation_repositories
from coven.values import InstallationId, RepoId, RepoName


@dataclass(frozen=True, slots=True)
class Place:
    """A place and everything below it."""

    repo_id: RepoId | None
    """None for what the installation shares."""
    repo: RepoName | None
    below: str
    """Empty for all of the owner."""
    target: str
    """The same as a prefix, under the name that was used."""


def resolve(
    installation: InstallationId, tx: Tx, target: str, repo_id: RepoId | None
) -> Place | Refusal:
    """The place of an entry id, a key or a prefix. ``repo_id`` refuses what is elsewhere.

    Without it a name is looked up among what this installation has shown us.
    """
    entry_id = parse_id(target)
    if entry_id is not None:
        row = tx.execute(
            select(*ENTRY_FIELDS).where(e.installation_id == installation, e.id == entry_id)
        ).one_or_none()
        if row is None:
            return Refusal.UNKNOWN
        entry = entry_of(row)
        if repo_id is not None and entry.repo_id != repo_id:
            return Refusal.UNKNOWN
        return _place(entry.repo_id, entry.repo, KeyPrefix.parse(entry.key))
    try:
        prefix = KeyPrefix.parse(target)
    except ValueError:
        return Refusal.BAD_KEY
    if prefix.owner.repo is None:
        if prefix.owner.installation_id != installation or repo_id is not None:
            return Refusal.OTHER_OWNER
        return _place(None, None, prefix)
    known = repo_named(installation, tx, prefix.owner.repo)
    if known is None:
        return Refusal.UNKNOWN
    if repo_id is not None and known != repo_id:
        return Refusal.OTHER_OWNER
    return _place(known, prefix.owner.repo, prefix)


def repo_named(installation: InstallationId, tx: Tx, repo: RepoName) -> RepoId | None:
    """Who a name is in this installation today, else who it was last; None if nobody ever."""
    r = installation_repositories.c
    today = tx.execute(
        select(r.repo_id)
        .where(
            r.installation_id == installation,
            r.state == PRESENT,
            _same(r.owner, repo.owner),
            _same(r.name, repo.name),
        )
        .order_by(r.facts_at.desc())
        .limit(1)
    ).scalar_one_or_none()
    if today is not None:
        return RepoId(today)
    for table, order in ((tasks, tasks.c.seq), (memory_entries, e.seq)):
        found = tx.execute(
            select(table.c.repo_id)
            .where(
                table.c.installation_id == installation,
                _same(table.c.repo_owner, repo.owner),
                _same(table.c.repo_name, repo.name),
            )
            .order_by(order.desc())
            .limit(1)
        ).scalar_one_or_none()
        if found is not None:
            return RepoId(found)
    return None


def _same(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    return func.lower(column) == name.lower()


def _place(repo_id: RepoId | None, repo: RepoName | None, prefix: KeyPrefix) -> Place:
    return Place(repo_id, repo, "/".join(prefix.below), str(prefix))
