"""The ledger of tenants: what GitHub told us about an installation and its repositories.

Deliveries arrive late, twice and out of order. Each group of columns has the payload time that it
rests on, and a fact changes a group only when nothing newer is known. A removal is final: GitHub
never uses the id of an installation again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Table, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from coven.store import purges
from coven.store.engine import Tx
from coven.store.tables_tenancy import installation_repositories, installations
from coven.tenancy.facts import (
    Account,
    AccountRenamed,
    AccountSeen,
    InstallationFact,
    InstallationRemoved,
    InstallationSeen,
    InstallationSuspended,
    Repo,
    RepositoriesSelected,
    RepositoryChanged,
    RepositoryDeleted,
)
from coven.values import InstallationId, RepoId

ACTIVE, SUSPENDED, DELETED = "active", "suspended", "deleted"
PRESENT, REMOVED = "present", "removed"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a fact whose payload has none: it fills gaps and overwrites nothing."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A tenant. ``state``: ``active``, ``suspended`` or ``deleted``."""

    id: InstallationId
    account_id: int | None
    account_login: str | None
    account_type: str | None
    state: str
    permissions: dict[str, str] | None
    events: list[str] | None
    selection: str | None
    state_at: datetime | None
    first_at: datetime
    """Since when it is known here."""
    learned_at: datetime
    reconciled_at: datetime | None


@dataclass(frozen=True, slots=True)
class KnownRepository:
    """A repository of a tenant. ``state``: ``present``, ``removed`` or ``deleted``."""

    installation_id: InstallationId
    repo_id: RepoId
    owner: str | None
    name: str | None
    private: bool | None
    archived: bool | None
    state: str


FIELDS = tuple(installations.c[name] for name in Installation.__dataclass_fields__)
REPO_FIELDS = tuple(
    installation_repositories.c[name] for name in KnownRepository.__dataclass_fields__
)


def get(installation: InstallationId, tx: Tx) -> Installation | None:
    """What is known of a tenant; None when nothing is."""
    row = tx.execute(select(*FIELDS).where(installations.c.id == installation)).one_or_none()
    return from_row(row) if row is not None else None


def repositories(installation: InstallationId, tx: Tx) -> list[KnownRepository]:
    """The repositories that are known of a tenant, gone ones too."""
    rows = tx.execute(
        select(*REPO_FIELDS)
        .where(installation_repositories.c.installation_id == installation)
        .order_by(installation_repositories.c.repo_id)
    )
    return [KnownRepository(**row._mapping) for row in rows]


def repository(installation: InstallationId, tx: Tx, repo: RepoId) -> KnownRepository | None:
    """One repository of a tenant; None when it is not known."""
    row = tx.execute(
        select(*REPO_FIELDS).where(
            installation_repositories.c.installation_id == installation,
            installation_repositories.c.repo_id == repo,
        )
    ).one_or_none()
    return KnownRepository(**row._mapping) if row is not None else None


def learn(installation: InstallationId, tx: Tx, fact: InstallationFact, now: datetime) -> None:
    """Take in what an event tells. What is older than the known changes nothing.

    A removal, of the installation or of a repository, leaves its purge in the same transaction.
    """
    _begin(installation, tx, now)
    match fact:
        case InstallationSeen():
            _account(installation, tx, fact.account, fact.at, now)
            _grant(installation, tx, fact, now)
            if fact.created:
                _state(installation, tx, ACTIVE, fact.at, now)
            for repo in fact.repos:
                _repository(installation, tx, repo, fact.at, now, state=PRESENT)
        case InstallationRemoved():
            _account(installation, tx, fact.account, fact.at, now)
            gone(installation, tx, "the App was uninstalled", fact.at, now)
        case InstallationSuspended():
            _account(installation, tx, fact.account, fact.at, now)
            state = SUSPENDED if fact.suspended else ACTIVE
            _state(installation, tx, state, fact.at, now)
        case RepositoriesSelected():
            _account(installation, tx, fact.account, fact.at, now)
            if fact.selection is not None:
                condition = _older("grant_at", fact.at)
                values = {"selection": fact.selection}
                _set(installation, tx, condition, "grant_at", fact.at, values, now)
            for repo in fact.added:
                _repository(installation, tx, repo, fact.at, now, state=PRESENT)
            for repo in fact.removed:
                _removed(installation, tx, repo, fact.at, now, REMOVED)
        case AccountRenamed():
            _account(installation, tx, fact.account, fact.at, now)
        case AccountSeen():
            _account(installation, tx, fact.account, fact.at, now)
            _repository(installation, tx, fact.repo, fact.at, now)
        case RepositoryChanged():
            _changed(installation, tx, fact, now)
        case RepositoryDeleted():
            _removed(installation, tx, fact.repo, fact.at, now, DELETED)


def gone(
    installation: InstallationId, tx: Tx, reason: str, at: datetime | None, now: datetime
) -> None:
    """The tenant is gone for good: the state says so, and its purge is due."""
    _begin(installation, tx, now)
    tx.execute(
        update(installations)
        .where(installations.c.id == installation, installations.c.state != DELETED)
        .values(state=DELETED, state_at=at or now, learned_at=now)
    )
    purges.request(installation, tx, reason, now)


def swept(installation: InstallationId, tx: Tx, repo: RepoId, now: datetime) -> None:
    """The open threads of a repository were looked at."""
    table = installation_repositories
    tx.execute(
        update(table)
        .where(table.c.installation_id == installation, table.c.repo_id == repo)
        .values(swept_at=now)
    )


def reconciled(
    installation: InstallationId, tx: Tx, seen: InstallationSeen, suspended: bool, now: datetime
) -> None:
    """What the API says about an installation, as of ``seen.at``."""
    learn(installation, tx, seen, now)
    _state(installation, tx, SUSPENDED if suspended else ACTIVE, seen.at, now)
    tx.execute(
        update(installations).where(installations.c.id == installation).values(reconciled_at=now)
    )


def listed(
    installation: InstallationId,
    tx: Tx,
    repos: Sequence[Repo],
    complete: bool,
    at: datetime,
    now: datetime,
) -> int:
    """What the API lists as repositories of an installation, as of ``at``; how many changed.

    ``complete``: what is not in the list is gone, unless it was learned of since ``at``.
    """
    table = installation_repositories
    known = {repo.repo_id: repo for repo in repositories(installation, tx)}
    changed = 0
    for repo in repos:
        before = known.get(RepoId(repo.id))
        if before is None or before.state != PRESENT or not _says(before, repo):
            _repository(installation, tx, repo, at, now, state=PRESENT)
            changed += 1
    if complete:
        there = {repo.id for repo in repos}
        older = select(table.c.repo_id).where(
            table.c.installation_id == installation,
            table.c.state == PRESENT,
            table.c.learned_at < at,
        )
        for missing in set(tx.execute(older).scalars()) - there:
            _removed(installation, tx, Repo(missing), at, now, REMOVED)
            changed += 1
    tx.execute(
        update(installations).where(installations.c.id == installation).values(listed_at=now)
    )
    return changed


def _says(known: KnownRepository, repo: Repo) -> bool:
    shown = (f"{known.owner}/{known.name}", known.private, known.archived)
    return shown == (repo.full_name, repo.private, repo.archived)


def from_row(row: Row[Any]) -> Installation:
    """An installation from a row with its columns. Pure."""
    values = {name: row._mapping[name] for name in Installation.__dataclass_fields__}
    return Installation(**values)


def _begin(installation: InstallationId, tx: Tx, now: datetime) -> None:
    known = tx.execute(
        select(installations.c.id).where(installations.c.id == installation)
    ).one_or_none()
    if known is None:
        _insert(
            tx,
            installations,
            {"id": installation, "state": ACTIVE, "first_at": now, "learned_at": now},
        )


def _insert(tx: Tx, table: Table, values: dict[str, Any]) -> None:
    try:
        with tx.begin_nested():
            tx.execute(insert(table).values(**values))
    except IntegrityError:
        return  # another delivery told us at the same moment


def _state(
    installation: InstallationId, tx: Tx, state: str, at: datetime | None, now: datetime
) -> None:
    condition = (_older("state_at", at)) & (installations.c.state != DELETED)
    _set(installation, tx, condition, "state_at", at, {"state": state}, now)


def _grant(installation: InstallationId, tx: Tx, fact: InstallationSeen, now: datetime) -> None:
    said: dict[str, Any] = {
        "selection": fact.selection,
        "permissions": dict(fact.permissions) if fact.permissions is not None else None,
        "events": list(fact.events) if fact.events is not None else None,
    }
    values = {name: value for name, value in said.items() if value is not None}
    if values:
        condition = _older("grant_at", fact.at)
        _set(installation, tx, condition, "grant_at", fact.at, values, now)


def _account(
    installation: InstallationId,
    tx: Tx,
    account: Account | None,
    at: datetime | None,
    now: datetime,
) -> None:
    if account is None:
        return
    values: dict[str, Any] = {"account_id": account.id}
    if account.login:
        values["account_login"] = account.login[:120]
    if account.kind:
        values["account_type"] = account.kind[:40]
    _set(installation, tx, _older("account_at", at), "account_at", at, values, now)


def _older(column: str, at: datetime | None) -> Any:
    known = installations.c[column]
    return or_(known.is_(None), known <= (at or _LONG_AGO))


def _set(
    installation: InstallationId,
    tx: Tx,
    condition: Any,
    column: str,
    at: datetime | None,
    values: dict[str, Any],
    now: datetime,
) -> None:
    tx.execute(
        update(installations)
        .where(installations.c.id == installation, condition)
        .values({**values, column: at or _LONG_AGO, "learned_at": now})
    )


def _changed(installation: InstallationId, tx: Tx, fact: RepositoryChanged, now: datetime) -> None:
    known = get(installation, tx)
    moved = (
        fact.change == "transferred"
        and fact.owner is not None
        and known is not None
        and known.account_id is not None
        and known.account_id != fact.owner.id
    )
    if moved:
        # It belongs to somebody else now; if they have the App, it is theirs under another id.
        _removed(installation, tx, fact.repo, fact.at, now, REMOVED)
    else:
        _repository(installation, tx, fact.repo, fact.at, now)


def _repository(
    installation: InstallationId,
    tx: Tx,
    repo: Repo,
    at: datetime | None,
    now: datetime,
    *,
    state: str | None = None,
) -> None:
    """Facts about a repository; ``state`` where the fact says that it is there again."""
    table, then = installation_repositories, at or _LONG_AGO
    owner, _, name = (repo.full_name or "").partition("/")
    said: dict[str, Any] = {
        "owner": owner[:120] or None,
        "name": name[:120] or None,
        "private": repo.private,
        "archived": repo.archived,
    }
    facts = {key: value for key, value in said.items() if value is not None}
    key = {"installation_id": installation, "repo_id": repo.id}
    if repository(installation, tx, RepoId(repo.id)) is None:
        _insert(tx, table, key | {"state": PRESENT, "learned_at": now})
    here = (table.c.installation_id == installation, table.c.repo_id == repo.id)
    tx.execute(
        update(table)
        .where(*here, or_(table.c.facts_at.is_(None), table.c.facts_at <= then))
        .values(facts_at=then, learned_at=now, **facts)
    )
    if state is None:
        return
    changed = tx.execute(
        update(table)
        .where(
            *here,
            table.c.state != DELETED,
            or_(table.c.state_at.is_(None), table.c.state_at <= then),
        )
        .values(state=state, state_at=then, learned_at=now)
    ).rowcount
    if changed and state == PRESENT:
        purges.withdraw(installation, tx, RepoId(repo.id), now)


def _removed(
    installation: InstallationId,
    tx: Tx,
    repo: Repo,
    at: datetime | None,
    now: datetime,
    state: str,
) -> None:
    table, then = installation_repositories, at or _LONG_AGO
    _repository(installation, tx, repo, at, now)
    order = or_(table.c.state_at.is_(None), table.c.state_at <= then)
    changed = tx.execute(
        update(table)
        .where(
            table.c.installation_id == installation,
            table.c.repo_id == repo.id,
            table.c.state != DELETED,
            order if state != DELETED else table.c.repo_id == repo.id,
        )
        .values(state=state, state_at=then, learned_at=now)
    ).rowcount
    if changed:
        reason = "the repository was deleted" if state == DELETED else "the repository was removed"
        purges.request(installation, tx, reason, now, RepoId(repo.id), whole=state == DELETED)
