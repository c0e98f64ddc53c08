"""``db``: the schema of the ledgers."""

from __future__ import annotations

import typer

from coven.cli.context import ConfigOption, upgraded_store
from coven.settings.loader import load_settings

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps ``upgrade`` a sub-command while it is the only one."""


@app.command()
def upgrade(config: ConfigOption = None) -> None:
    """Bring the database to the schema of this release; safe to repeat."""
    with upgraded_store(load_settings(config)) as store:
        print(f"The {store.dialect} database is at the schema of this release.")
