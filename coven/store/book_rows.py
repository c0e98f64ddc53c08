"""The rows of the memory book as values, and what its modules share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, text, true

from coven.memory.book import (
    Act,
    Activity,
    Decision,
    Entry,
    EntryState,
    Person,
    Revocation,
    Source,
)
from coven.memory.keys import Owner
from coven.store.engine import Tx
from coven.store.tables_memory import (
    memory_activity,
    memory_decisions,
    memory_entries,
    memory_revocations,
)
from coven.values import InstallationId, RepoId, RepoName, TaskId, TrustScope

SHARED = 0
"""Stands in ``repo_id`` for what all repositories of an installation share."""

e = memory_entries.c


def room(repo_id: RepoId | None) -> int:
    """A repository as the tables have it."""
    return SHARED if repo_id is None else repo_id


def lock(installation: InstallationId, tx: Tx) -> None:
    """Let only one transaction at a time change the book of a tenant, until it ends.

    Approvals and revocations then see each other whole. SQLite has one writer anyway.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended(:book, 0))"),
            {"book": f"memory/{installation}"},
        )


def at_or_below(column: ColumnElement[str], below: str) -> ColumnElement[bool]:
    """Whether a place is covered: by whole segments, with no wildcard.

    By equality alone: ``<`` follows the database's language, which may pass over ``/`` and ``-``.
    """
    if not below:
        return true()
    return (column == below) | (func.substr(column, 1, len(below) + 1) == f"{below}/")


def note(
    installation: InstallationId,
    tx: Tx,
    act: Act,
    now: datetime,
    *,
    repo_id: RepoId | None,
    place: str,
    target: str,
    by: Person | None = None,
    entry: Entry | None = None,
    task_id: TaskId | None = None,
    detail: str | None = None,
) -> None:
    """Append a line to the log."""
    tx.execute(
        insert(memory_decisions).values(
            installation_id=installation,
            repo_id=room(repo_id),
            act=act,
            entry_id=entry.id if entry else None,
            place=place,
            target=target,
            text_hash=entry.text_hash if entry else None,
            by_id=by.id if by else None,
            by_login=by.login if by else None,
            task_id=task_id,
            detail=detail,
            at=now,
        )
    )


def entry_of(row: Row[Any]) -> Entry:
    """A row of ``memory_entries``."""
    return entry_from(dict(row._mapping))


def entry_from(values: dict[str, Any]) -> Entry:
    """The columns of ``memory_entries`` by name; ``values`` is used up."""
    owner, name = values.pop("repo_owner"), values.pop("repo_name")
    shared = values["repo_id"] == SHARED
    values |= {
        "repo_id": None if shared else RepoId(values["repo_id"]),
        "repo": None if shared else RepoName(owner, name),
        "state": EntryState(values["state"]),
        "source": Source(values["source"]),
        "trust": TrustScope(values["trust"]),
    }
    return Entry(**values)


def revocation_of(row: Row[Any]) -> Revocation:
    """A row of ``memory_revocations``."""
    values = dict(row._mapping)
    installation = values.pop("installation_id")
    owner, name = values.pop("repo_owner"), values.pop("repo_name")
    shared = values["repo_id"] == SHARED
    repo = None if shared else RepoName(owner, name)
    whose = Owner(installation_id=installation) if repo is None else Owner(repo=repo)
    values |= {
        "repo_id": None if shared else RepoId(values["repo_id"]),
        "repo": repo,
        "target": f"{whose}/{values['below']}".rstrip("/"),
    }
    return Revocation(**values)


def decision_of(row: Row[Any]) -> Decision:
    """A row of :data:`DECISION_FIELDS`."""
    values = dict(row._mapping)
    return Decision(**(values | {"act": Act(values["act"])}))


def activity_of(row: Row[Any]) -> Activity:
    """A row of :data:`ACTIVITY_FIELDS`."""
    return Activity(**row._mapping)


ENTRY_FIELDS = tuple(memory_entries.c)
REVOCATION_FIELDS = tuple(memory_revocations.c)
DECISION_FIELDS = tuple(memory_decisions.c[name] for name in Decision.__dataclass_fields__)
ACTIVITY_FIELDS = tuple(memory_activity.c[name] for name in Activity.__dataclass_fields__)
