"""The ledger of escalations: an action that waits for a person, and what the person said.

``pending -> approved -> consumed``, ``pending -> denied | expired | cancelled``; an approved one
that is not used in time expires too. Every change is a compare-and-set, so an approval is given
once and used once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Literal

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables_governance import escalations
from coven.values import InstallationId, RepoId, TaskId

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's: nothing that people mistake for something else."""


_ID = re.compile(r"E-([0-9A-Z]{8})", re.IGNORECASE | re.ASCII)


class Status(StrEnum):
    """Where an escalation stands."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    CONSUMED = "consumed"


OPEN = frozenset({Status.PENDING, Status.APPROVED})
Decision = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Escalation:
    """One row. ``action_digest`` is hex; ``action_redacted`` is JSON for people."""

    id: str
    installation_id: InstallationId
    task_id: TaskId
    repo_id: RepoId
    namespace: str
    rule_id: str
    reason: str
    kind: str
    action_digest: str
    action_redacted: str
    policy_epoch: int
    head_sha: str | None
    status: Status
    requested_at: datetime
    expires_at: datetime
    decided_by: str | None = None
    decided_at: datetime | None = None
    consumed_at: datetime | None = None
    origin: str = "adapter"
    """``tool``: a call of a session, whose approval goes to the next session."""


FIELDS = tuple(escalations.c[field.name] for field in fields(Escalation))


def new_id() -> str:
    """``E-`` and eight letters and digits."""
    return "E-" + "".join(secrets.choice(_ALPHABET) for _ in range(8))


def parse_id(text: str) -> str | None:
    """The id in a text, in whatever case people write it; None when it is none. Pure."""
    match = _ID.fullmatch(text.strip())
    return f"E-{match[1].lower()}" if match else None


def request(installation: InstallationId, tx: Tx, wanted: Escalation) -> Escalation:
    """Write a pending escalation; the one that is there already when the same action waits."""
    if wanted.installation_id != installation:
        raise ValueError("an escalation belongs to the installation of its task")
    try:
        with tx.begin_nested():
            tx.execute(
                insert(escalations).values(
                    **{field.name: getattr(wanted, field.name) for field in fields(Escalation)}
                )
            )
    except IntegrityError:
        found = _one(
            tx,
            installation,
            escalations.c.task_id == wanted.task_id,
            escalations.c.action_digest == wanted.action_digest,
            escalations.c.status == Status.PENDING,
        )
        if found is None:
            raise
        return found
    return wanted


def get(installation: InstallationId, tx: Tx, escalation_id: str) -> Escalation | None:
    """One escalation of this installation."""
    return _one(tx, installation, escalations.c.id == escalation_id)


def lock(installation: InstallationId, tx: Tx, escalation_id: str) -> Escalation | None:
    """As :func:`get`; nobody else changes it before this transaction ends."""
    row = tx.execute(
        select(*FIELDS)
        .where(escalations.c.installation_id == installation, escalations.c.id == escalation_id)
        .with_for_update()
    ).one_or_none()
    return from_row(row) if row is not None else None


def of_task(
    installation: InstallationId, tx: Tx, task_id: TaskId, status: Collection[Status] = OPEN
) -> list[Escalation]:
    """Escalations of a task in these states, newest first."""
    return _many(
        tx,
        installation,
        escalations.c.task_id == task_id,
        escalations.c.status.in_(list(status)),
    )


def listed(
    installation: InstallationId,
    tx: Tx,
    status: Collection[Status] = frozenset({Status.PENDING}),
    limit: int = 100,
    *,
    after: tuple[datetime, str] | None = None,
) -> list[Escalation]:
    """Escalations of an installation in these states, newest first.

    ``after``: time and id of the last one of the page before.
    """
    conditions: list[ColumnElement[bool]] = [escalations.c.status.in_(list(status))]
    if after is not None:
        at, last = after
        same = and_(escalations.c.requested_at == at, escalations.c.id > last)
        conditions.append(or_(escalations.c.requested_at < at, same))
    return _many(tx, installation, *conditions, limit=limit)


def approved_for(
    installation: InstallationId,
    tx: Tx,
    task_id: TaskId,
    action_digest: str,
    rule_id: str,
    policy_epoch: int,
    now: datetime,
) -> Escalation | None:
    """The unused approval of exactly this action under exactly this policy."""
    return _one(
        tx,
        installation,
        escalations.c.task_id == task_id,
        escalations.c.action_digest == action_digest,
        escalations.c.rule_id == rule_id,
        escalations.c.policy_epoch == policy_epoch,
        escalations.c.status == Status.APPROVED,
        escalations.c.expires_at > now,
    )


def consume(installation: InstallationId, tx: Tx, escalation_id: str, now: datetime) -> bool:
    """Approved -> consumed. False when somebody else used it."""
    return _move(tx, installation, escalation_id, Status.APPROVED, Status.CONSUMED, consumed_at=now)


def decide(
    installation: InstallationId,
    tx: Tx,
    escalation_id: str,
    decision: Decision,
    by: str,
    now: datetime,
) -> Escalation | None:
    """Pending -> approved or denied. None when it was decided already, is over, or unknown.

    ``by`` names the person for the record. Call it through :mod:`coven.escalating`, which checks,
    records and shows.
    """
    status = Status.APPROVED if decision == "approve" else Status.DENIED
    row = tx.execute(
        update(escalations)
        .where(
            escalations.c.installation_id == installation,
            escalations.c.id == escalation_id,
            escalations.c.status == Status.PENDING,
            escalations.c.expires_at > now,
        )
        .values(status=status, decided_by=by, decided_at=now)
        .returning(*FIELDS)
    ).one_or_none()
    return from_row(row) if row is not None else None


def end(
    installation: InstallationId, tx: Tx, escalation_id: str, status: Status, now: datetime
) -> bool:
    """Pending or approved -> expired or cancelled. False when it is over."""
    if status not in (Status.EXPIRED, Status.CANCELLED):
        raise ValueError(f"{status} is decided by a person, or by the use of an approval")
    return bool(
        tx.execute(
            update(escalations)
            .where(
                escalations.c.installation_id == installation,
                escalations.c.id == escalation_id,
                escalations.c.status.in_(list(OPEN)),
            )
            .values(status=status, decided_at=now)
        ).rowcount
    )


def purge(installation: InstallationId, tx: Tx, repo: RepoId | None = None) -> int:
    """Remove all rows of an installation, or of one of its repositories; how many."""
    conditions = [escalations.c.installation_id == installation]
    if repo is not None:
        conditions.append(escalations.c.repo_id == repo)
    return tx.execute(delete(escalations).where(*conditions)).rowcount


def _move(
    tx: Tx,
    installation: InstallationId,
    escalation_id: str,
    old: Status,
    new: Status,
    **values: object,
) -> bool:
    return bool(
        tx.execute(
            update(escalations)
            .where(
                escalations.c.installation_id == installation,
                escalations.c.id == escalation_id,
                escalations.c.status == old,
            )
            .values(status=new, **values)
        ).rowcount
    )


def _one(tx: Tx, installation: InstallationId, *conditions: object) -> Escalation | None:
    found = _many(tx, installation, *conditions, limit=1)
    return found[0] if found else None


def _many(
    tx: Tx, installation: InstallationId, *conditions: object, limit: int = 100
) -> list[Escalation]:
    rows = tx.execute(
        select(*FIELDS)
        .where(escalations.c.installation_id == installation, *conditions)  # type: ignore[arg-type]
        .order_by(escalations.c.requested_at.desc(), escalations.c.id)
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def from_row(row: object) -> Escalation:
    """From a row of :data:`FIELDS`. Pure."""
    values = dict(row._mapping)  # type: ignore[attr-defined]
    values["status"] = Status(values["status"])
    return Escalation(**values)
