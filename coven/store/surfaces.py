"""The surface ledger: what GitHub should show, what it shows now, and the id of the object there.

A surface belongs to its subject. A newer task takes the row over with a higher generation; a
lower generation never changes it. The publisher leases a row, makes GitHub equal to ``desired``,
and writes back what it published; if ``desired`` changed meanwhile, the row stays pending.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables import surfaces
from coven.store.tasks import Task
from coven.values import InstallationId, RepoId, RepoName, SurfaceKind, SurfaceState, TaskId


@dataclass(frozen=True, slots=True)
class Surface:
    """A row of the surface ledger. ``object_id`` is GitHub's id once an object is known."""

    id: int
    installation_id: InstallationId
    repo_id: RepoId
    repo_owner: str
    repo_name: str
    kind: SurfaceKind
    subject: str
    task_id: TaskId
    generation: int
    desired: dict[str, Any]
    desired_hash: str
    published_hash: str | None
    object_id: int | None
    object_url: str | None
    state: SurfaceState
    tries: int
    next_at: datetime
    lease_token: str | None
    lease_expires_at: datetime | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    published_at: datetime | None

    @property
    def repo(self) -> RepoName:
        """The repository as last seen by name."""
        return RepoName(self.repo_owner, self.repo_name)


FIELDS = tuple(surfaces.c[name] for name in Surface.__dataclass_fields__)


def content_hash(desired: dict[str, Any]) -> str:
    """Hash of a desired state; equal content gives an equal hash."""
    return hashlib.sha256(
        json.dumps(desired, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    ).hexdigest()


def desire(
    installation: InstallationId,
    tx: Tx,
    task: Task,
    kind: SurfaceKind,
    subject: str,
    desired: dict[str, Any],
    now: datetime,
) -> bool:
    """State what GitHub should show. False when a newer generation owns the subject."""
    digest = content_hash(desired)
    key = _key(installation, task.repo_id, kind, subject)
    values = {
        "task_id": task.id,
        "generation": task.generation,
        "repo_owner": task.repo_owner,
        "repo_name": task.repo_name,
        "desired": desired,
        "desired_hash": digest,
        "updated_at": now,
    }
    # While pending or failed, a write of other content may have reached GitHub without an answer,
    # so only a row at rest is known to show its published content.
    at_rest = and_(surfaces.c.state == SurfaceState.PUBLISHED, surfaces.c.published_hash == digest)
    renewed = {
        "state": case((at_rest, SurfaceState.PUBLISHED), else_=SurfaceState.PENDING),
        # A back-off that is running belongs to GitHub's limits, not to the content: keep it.
        "next_at": case((surfaces.c.state == SurfaceState.PENDING, surfaces.c.next_at), else_=now),
        "tries": case((surfaces.c.state == SurfaceState.PENDING, surfaces.c.tries), else_=0),
        "pending_since": case(
            (surfaces.c.state == SurfaceState.PENDING, surfaces.c.pending_since), else_=now
        ),
    }
    change = (
        update(surfaces)
        .where(key, surfaces.c.generation <= task.generation)
        .values(**values, **renewed)
    )
    if tx.execute(change).rowcount:
        return True
    try:
        with tx.begin_nested():
            tx.execute(
                insert(surfaces).values(
                    installation_id=installation,
                    repo_id=task.repo_id,
                    kind=kind,
                    subject=subject,
                    state=SurfaceState.PENDING,
                    next_at=now,
                    pending_since=now,
                    created_at=now,
                    **values,
                )
            )
    except IntegrityError:
        # Written meanwhile, or owned by a newer generation: the row decides once more.
        return tx.execute(change).rowcount == 1
    return True


def find(
    installation: InstallationId, tx: Tx, repo: RepoId, kind: SurfaceKind, subject: str
) -> Surface | None:
    """The surface of one subject."""
    row = tx.execute(select(*FIELDS).where(_key(installation, repo, kind, subject))).one_or_none()
    return from_row(row) if row is not None else None


def get(installation: InstallationId, tx: Tx, surface_id: int) -> Surface | None:
    """The surface with this row id, when it belongs to this installation."""
    row = tx.execute(
        select(*FIELDS).where(
            surfaces.c.installation_id == installation, surfaces.c.id == surface_id
        )
    ).one_or_none()
    return from_row(row) if row is not None else None


def of_task(installation: InstallationId, tx: Tx, task_id: TaskId) -> list[Surface]:
    """All surfaces that a task owns now."""
    rows = tx.execute(
        select(*FIELDS)
        .where(surfaces.c.installation_id == installation, surfaces.c.task_id == task_id)
        .order_by(surfaces.c.id)
    )
    return [from_row(row) for row in rows]


def next_due_of_task(tx: Tx, task_id: TaskId, now: datetime) -> Surface | None:
    """Publisher entry: a queue message names a task and nothing else."""
    row = tx.execute(
        select(*FIELDS)
        .where(surfaces.c.task_id == task_id, is_due(now))
        # The status comment links to the others, so it comes after those that are due with it.
        .order_by(
            case((surfaces.c.kind == SurfaceKind.STATUS_COMMENT, 1), else_=0),
            surfaces.c.next_at,
            surfaces.c.id,
        )
        .limit(1)
    ).one_or_none()
    return from_row(row) if row is not None else None


def lease(
    installation: InstallationId,
    tx: Tx,
    surface_id: int,
    token: str,
    now: datetime,
    lease_secs: float,
) -> Surface | None:
    """Become the only publisher of a due surface; counts a try. None when somebody else is."""
    row = tx.execute(
        update(surfaces)
        .where(
            surfaces.c.installation_id == installation,
            surfaces.c.id == surface_id,
            is_due(now),
        )
        .values(
            lease_token=token,
            lease_expires_at=now + timedelta(seconds=lease_secs),
            tries=surfaces.c.tries + 1,
        )
        .returning(*FIELDS)
    ).one_or_none()
    return from_row(row) if row is not None else None


def renew(
    installation: InstallationId,
    tx: Tx,
    surface_id: int,
    token: str,
    now: datetime,
    lease_secs: float,
) -> bool:
    """Stay the only publisher for ``lease_secs`` from now. False: lease lost."""
    expires_at = now + timedelta(seconds=lease_secs)
    return (
        tx.execute(
            update(surfaces)
            .where(_held(installation, surface_id, token))
            .values(lease_expires_at=expires_at)
        ).rowcount
        == 1
    )


def remember_object(
    installation: InstallationId,
    tx: Tx,
    surface_id: int,
    token: str,
    object_id: int,
    object_url: str | None,
) -> bool:
    """Store which GitHub object this is, as soon as it is known. False: lease lost."""
    return (
        tx.execute(
            update(surfaces)
            .where(_held(installation, surface_id, token))
            .values(object_id=object_id, object_url=object_url)
        ).rowcount
        == 1
    )


def published(
    installation: InstallationId,
    tx: Tx,
    surface_id: int,
    token: str,
    now: datetime,
    digest: str,
    object_id: int,
    object_url: str | None,
) -> Surface | None:
    """GitHub shows the content with hash ``digest``. None: lease lost.

    The row is published when that is still what is desired, else pending and due at once.
    """
    row = tx.execute(
        update(surfaces)
        .where(_held(installation, surface_id, token))
        .values(
            published_hash=digest,
            object_id=object_id,
            object_url=object_url,
            state=case(
                (surfaces.c.desired_hash == digest, SurfaceState.PUBLISHED),
                else_=SurfaceState.PENDING,
            ),
            next_at=now,
            published_at=now,
            tries=0,
            error=None,
            lease_token=None,
            lease_expires_at=None,
            updated_at=now,
        )
        .returning(*FIELDS)
    ).one_or_none()
    return from_row(row) if row is not None else None


def postpone(
    installation: InstallationId,
    tx: Tx,
    surface_id: int,
    token: str,
    now: datetime,
    next_at: datetime,
    error: str,
) -> bool:
    """Try again at ``next_at``. False: lease lost."""
    values = {"next_at": next_at, "error": error[:2000], "updated_at": now}
    return _let_go(installation, tx, surface_id, token, values)


def give_up(
    installation: InstallationId, tx: Tx, surface_id: int, token: str, now: datetime, error: str
) -> bool:
    """This can't be published; the row says why until ``desired`` changes. False: lease lost."""
    values = {"state": SurfaceState.FAILED, "error": error[:2000], "updated_at": now}
    return _let_go(installation, tx, surface_id, token, values)


def try_again(installation: InstallationId, tx: Tx, error: str, now: datetime) -> int:
    """Make due whatever was given up with an error of this name; how many."""
    values = {
        "state": SurfaceState.PENDING,
        "tries": 0,
        "next_at": now,
        "pending_since": now,
        "updated_at": now,
    }
    return tx.execute(
        update(surfaces)
        .where(
            surfaces.c.installation_id == installation,
            surfaces.c.state == SurfaceState.FAILED,
            surfaces.c.error.startswith(f"{error}:", autoescape=True),
        )
        .values(values)
    ).rowcount


def _let_go(
    installation: InstallationId, tx: Tx, surface_id: int, token: str, values: dict[str, Any]
) -> bool:
    release = {"lease_token": None, "lease_expires_at": None}
    return (
        tx.execute(
            update(surfaces)
            .where(_held(installation, surface_id, token))
            .values(**values, **release)
        ).rowcount
        == 1
    )


def _key(
    installation: InstallationId, repo: RepoId, kind: SurfaceKind, subject: str
) -> ColumnElement[bool]:
    return and_(
        surfaces.c.installation_id == installation,
        surfaces.c.repo_id == repo,
        surfaces.c.kind == kind,
        surfaces.c.subject == subject,
    )


def is_due(now: datetime) -> ColumnElement[bool]:
    """Pending, its time has come, and nobody is publishing it."""
    return and_(
        surfaces.c.state == SurfaceState.PENDING,
        surfaces.c.next_at <= now,
        or_(surfaces.c.lease_expires_at.is_(None), surfaces.c.lease_expires_at < now),
    )


def _held(installation: InstallationId, surface_id: int, token: str) -> ColumnElement[bool]:
    return and_(
        surfaces.c.installation_id == installation,
        surfaces.c.id == surface_id,
        surfaces.c.lease_token == token,
    )


def from_row(row: Row[Any]) -> Surface:
    """A row of :data:`FIELDS` as a value."""
    values = dict(row._mapping)
    values["kind"] = SurfaceKind(values["kind"])
    values["state"] = SurfaceState(values["state"])
    return Surface(**values)
