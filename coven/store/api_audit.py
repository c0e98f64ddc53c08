"""The record of the HTTP API: who read or changed what, and who was refused.

Refusals are counted per minute in one row each, so that a flood of them fills no disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables_api import api_audit
from coven.values import InstallationId


@dataclass(frozen=True, slots=True)
class Entry:
    """A row. ``times`` is more than one for refusals that were counted together."""

    id: int
    at: datetime
    installation_id: InstallationId | None
    caller: str
    action: str
    target: str | None
    result: str
    rows: int | None
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows; None: any."""

    caller: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


_FIELDS = tuple(api_audit.c[name] for name in Entry.__dataclass_fields__)


def record(
    installation: InstallationId | None,
    tx: Tx,
    *,
    at: datetime,
    caller: str,
    action: str,
    result: str,
    target: str | None = None,
    rows: int | None = None,
) -> None:
    """Write what a caller did; in the transaction of the change when there is one."""
    tx.execute(
        insert(api_audit).values(
            installation_id=installation,
            **_texts(at, caller, action, result),
            target=target[:300] if target else None,
            rows=rows,
        )
    )


def count_refusals(
    installation: InstallationId | None,
    tx: Tx,
    *,
    at: datetime,
    caller: str,
    action: str,
    result: str,
    times: int,
) -> None:
    """Add refusals to the row of their caller, code and minute; ``action`` is the first one's."""
    minute = at.strftime("%Y-%m-%dT%H:%M")
    sample = f"{minute}/{installation or 0}/{result[:40]}/{caller}"[:200]
    more = (
        update(api_audit)
        .where(api_audit.c.sample == sample)
        .values(times=api_audit.c.times + times)
    )
    if tx.execute(more).rowcount:
        return
    try:
        with tx.begin_nested():
            tx.execute(
                insert(api_audit).values(
                    installation_id=installation,
                    **_texts(at, caller, action, result),
                    times=times,
                    sample=sample,
                )
            )
    except IntegrityError:
        tx.execute(more)  # another process was faster


def page(
    installation: InstallationId, tx: Tx, want: Wanted, limit: int, before: int | None = None
) -> list[Entry]:
    """The newest rows of one installation, those before the id ``before``."""
    found = tx.execute(
        page_query(want, limit, before).where(api_audit.c.installation_id == installation)
    )
    return [Entry(**row._mapping) for row in found]


def page_query(want: Wanted, limit: int, before: int | None) -> Select[Any]:
    """The rows of a page, of no installation in particular."""
    query = select(*_FIELDS).order_by(api_audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(api_audit.c.id < before)
    if want.caller is not None:
        query = query.where(api_audit.c.caller == want.caller)
    if want.action is not None:
        query = query.where(api_audit.c.action == want.action)
    if want.since is not None:
        query = query.where(api_audit.c.at >= want.since)
    if want.until is not None:
        query = query.where(api_audit.c.at < want.until)
    return query


def _texts(at: datetime, caller: str, action: str, result: str) -> dict[str, object]:
    return {"at": at, "caller": caller[:120], "action": action[:60], "result": result[:80]}
