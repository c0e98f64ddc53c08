"""Bringing a database to the schema of this release, and refusing one that it can't use.

Migrations go forward only, and each module says its ``kind``. ``pre`` ones add, so that the release
before works on; ``upgrade`` runs them. ``post`` ones take away what only older releases needed;
those at the end of the line are left to ``finish``. A ``post`` one moves the floor: the oldest
revision whose release can use the database. So a release that meets a revision it doesn't know
looks at the floor, and goes on when it knows that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select, text

from coven.errors import ConfigurationError
from coven.store.engine import Store, Tx
from coven.store.tables_floor import schema_floor

_LOCK_KEY = 7_223_519_004_211


@dataclass(frozen=True, slots=True)
class Step:
    """One migration of this release."""

    revision: str
    kind: Literal["pre", "post"]
    title: str


@dataclass(frozen=True, slots=True)
class Status:
    """Where a database is, and what this release makes of it."""

    found: str | None
    floor: str | None
    needed: str
    usable: bool
    pending: tuple[Step, ...]


def steps() -> tuple[Step, ...]:
    """The migrations of this release, first to last."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return tuple(
        Step(script.revision, script.module.kind, script.doc.splitlines()[0])
        for script in reversed([*scripts])
    )


def needed_of(line: tuple[Step, ...]) -> str:
    """The last ``pre`` revision of a line: what its release can't do without. Pure."""
    return next(step.revision for step in reversed(line) if step.kind == "pre")


def status(store: Store) -> Status:
    """Where the database is. Raises ``StoreUnavailable``."""
    with store.read() as tx:
        return _status(tx, steps())


def upgrade(store: Store, *, finish: bool = False) -> None:
    """Run all missing migrations; one process at a time. ``finish``: the last ``post`` ones too.

    On a later schema that this release can use there is nothing to do. Raises
    ``ConfigurationError`` for one that it can't use, ``StoreUnavailable``.
    """
    config = _config()
    with store.write("store.migrate") as tx:
        if store.dialect == "postgresql":
            # Another process may be migrating; that takes as long as it takes.
            tx.execute(text("SET LOCAL lock_timeout = 0"))
            tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        line = steps()
        where = _status(tx, line)
        if where.found is not None and where.found not in {step.revision for step in line}:
            if where.usable:
                return
            raise ConfigurationError(
                f"storage: the database is at schema {where.found}, which this release does not "
                "know; install the release that wrote it, or restore a backup"
            )
        target = "head" if finish else where.needed
        if where.usable and not finish:
            return
        config.attributes["connection"] = tx
        command.upgrade(config, target)


def require_usable(store: Store) -> None:
    """Raises ``ConfigurationError`` unless this release can use the database as it is."""
    where = status(store)
    if not where.usable:
        raise ConfigurationError(
            f"storage: the database is at schema {where.found or 'none'}, this release needs "
            f"{where.needed}; run `coven-github db upgrade` (or install the matching release)"
        )


def _status(tx: Tx, line: tuple[Step, ...]) -> Status:
    found = MigrationContext.configure(tx).get_current_revision()
    floor = None
    if found is not None and inspect(tx).has_table(schema_floor.name):
        floor = tx.execute(select(schema_floor.c.revision)).scalars().first()
    order = [step.revision for step in line]
    needed = needed_of(line)
    if found in order:
        usable = order.index(found) >= order.index(needed)
        pending = line[order.index(found) + 1 :]
    else:
        usable, pending = floor in order, line if found is None else ()
    return Status(found, floor, needed, usable, pending)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "coven.store:migrations")
    config.set_main_option("path_separator", "os")
    return config
