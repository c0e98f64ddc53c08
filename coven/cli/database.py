"""``db``: the schema of the ledgers, and a copy of them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import make_url

from coven.cli import exits
from coven.cli.context import ConfigOption, JsonOption, stored
from coven.cli.output import complain, show_json, show_pairs
from coven.errors import StoreUnavailable
from coven.settings.loader import load_settings
from coven.store import migrate
from coven.store.engine import open_store

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


@app.command()
def upgrade(
    config: ConfigOption = None,
    finish: Annotated[
        bool,
        typer.Option(
            "--finish", help="Also take away what only older releases need; they must be gone."
        ),
    ] = False,
) -> None:
    """Bring the database to the schema of this release; safe to repeat, also while others run."""
    store = open_store(load_settings(config).database_url)
    try:
        migrate.upgrade(store, finish=finish)
        left = migrate.status(store).pending
    finally:
        store.close()
    print(f"The {store.dialect} database is at the schema of this release.")
    if left:
        print("When no older release runs any more: coven-github db upgrade --finish")


@app.command()
def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show where the schema is; exit code 1 when this release can't use it."""
    with stored(load_settings(config)) as store:
        where = migrate.status(store)
    pending = [f"{step.revision} ({step.kind}): {step.title}" for step in where.pending]
    if as_json:
        show_json(
            {
                "found": where.found,
                "needed": where.needed,
                "floor": where.floor,
                "usable": where.usable,
                "pending": [step.revision for step in where.pending],
            }
        )
    else:
        show_pairs(
            [
                ("schema", where.found or "none"),
                ("this release needs", where.needed),
                ("usable by releases from", where.floor),
                ("usable by this one", "yes" if where.usable else "no"),
                ("not yet done", "\n".join(pending) or None),
            ]
        )
    raise typer.Exit(exits.DONE if where.usable else exits.FAILED)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    config: ConfigOption = None,
) -> None:
    """Copy a SQLite database while everything runs, and check the copy."""
    url = make_url(load_settings(config).database_url)
    if url.get_backend_name() != "sqlite":
        shown = shlex.quote(url.set(drivername="postgresql", password=None).render_as_string())
        complain(f"this database is PostgreSQL's; use: pg_dump --format=custom --file=FILE {shown}")
        raise typer.Exit(exits.UNUSABLE)
    source = Path(url.database or "")
    if not source.is_file():
        complain(f"there is no database {source}")
        raise typer.Exit(exits.NOT_FOUND)
    try:
        # Made here first: SQLite would let everybody read it, and write over another one.
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        complain(f"{file}: {error.strerror}; name a new file in a folder that can be written")
        raise typer.Exit(exits.UNUSABLE) from None
    try:
        pages = _copy(source, file)
    except (sqlite3.Error, StoreUnavailable) as error:
        file.unlink()
        complain(f"not copied: {error}")
        raise typer.Exit(exits.UNAVAILABLE) from None
    print(f"{file}: {pages} pages, checked. Keep the state dir's secret_key with it.")


def _copy(source: Path, target: Path) -> int:
    """Number of pages. Raises ``sqlite3.Error``, ``StoreUnavailable`` for a copy that is broken."""
    with (
        contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as a,
        contextlib.closing(sqlite3.connect(target)) as b,
    ):
        a.execute("PRAGMA busy_timeout=5000")
        a.backup(b)
        b.execute("PRAGMA journal_mode=DELETE")
        (verdict,) = b.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise StoreUnavailable(f"store: the copy is broken: {verdict}")
        return int(b.execute("PRAGMA page_count").fetchone()[0])
