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
    """Run all missing migrations; one process at a time. Raises ``StoreUnavailable``."""
    config = _config()
    with store.write("store.migrate") as tx:
        if store.dialect == "postgresql":
            tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
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
