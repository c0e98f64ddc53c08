"""Bringing a database to the schema of this release, and refusing any other one."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from coven.errors import ConfigurationError
from coven.store.engine import Store

_LOCK_KEY = 7_223_519_004_211


def upgrade(store: Store) -> None:
    """Run all missing migrations; one process at a time.

    Raises ``ConfigurationError`` for the schema of a later release, ``StoreUnavailable``.
    """
    config = _config()
    with store.write("store.migrate") as tx:
        if store.dialect == "postgresql":
            # Another process may be migrating; that takes as long as it takes.
            tx.execute(text("SET LOCAL lock_timeout = 0"))
            tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        found = MigrationContext.configure(tx).get_current_revision()
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if found is not None and found not in known:
            raise ConfigurationError(
                f"storage: the database is at schema {found}, which this release does not know; "
                "install the release that wrote it, or restore a backup"
            )
        config.attributes["connection"] = tx
        command.upgrade(config, "head")


def require_current(store: Store) -> None:
    """Raises ``ConfigurationError`` unless the database has exactly this release's schema."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    with store.read() as tx:
        found = MigrationContext.configure(tx).get_current_revision()
    if found != head:
        raise ConfigurationError(
            f"storage: the database is at schema {found or 'none'}, this release needs {head}; "
            "run `coven-github db upgrade` (or install the matching release)"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "coven.store:migrations")
    config.set_main_option("path_separator", "os")
    return config
