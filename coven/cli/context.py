"""What commands start from: the configuration and the ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import make_url

from coven.errors import ConfigurationError
from coven.settings.loader import load_settings
from coven.settings.models import Settings
from coven.store import migrate
from coven.store.engine import Store, open_store

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="PATH",
        help="TOML file; else COVEN_GITHUB_CONFIG, else ./coven-github.toml, else defaults.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@contextmanager
def opened_store(config: Path | None) -> Iterator[Store]:
    """The ledgers of a configuration, at the schema of this release.

    Raises ``InvalidConfiguration``, ``ConfigurationError`` and ``StoreUnavailable``.
    """
    with stored(load_settings(config)) as store:
        migrate.require_usable(store)
        yield store


@contextmanager
def stored(settings: Settings) -> Iterator[Store]:
    """The database that is there, whatever its schema."""
    _require_file(settings)
    store = open_store(settings.database_url)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def upgraded_store(settings: Settings) -> Iterator[Store]:
    """The ledgers, brought to the schema of this release."""
    store = open_store(settings.database_url)
    try:
        migrate.upgrade(store)
        yield store
    finally:
        store.close()


def _require_file(settings: Settings) -> None:
    # Opening a missing SQLite file would make an empty one in a place that was perhaps not meant.
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
        raise ConfigurationError(
            f"storage: there is no database {url.database} yet; start `coven-github up`, run "
            "`coven-github db upgrade`, or name the right file with --config"
        )
