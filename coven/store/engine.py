"""Opening the ledgers, and the two kinds of transaction.

SQLite runs in WAL mode with ``synchronous=FULL`` (a 202 is a promise), a busy time-out, and
immediate write transactions, so that two writers queue instead of failing half way.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
    StatementError,
)

from coven.errors import ConfigurationError, StoreUnavailable
from coven.governance.faults import Faults, NoFaults

Tx = Connection
"""An open transaction, as the ledger functions take it."""

BUSY_TIMEOUT_MS = 5_000
_WRITE = "coven_write"

_STEPS = {
    "file is not a database": "restore a backup, or name another file in storage.path",
    "malformed": "restore a backup",
    "unable to open database file": "check the path, and that this user may write there",
    "readonly database": "let this user write the database file and its folder",
    "database is locked": "another process holds it; it is tried again",
    "disk is full": "free space on the disk of the database",
}
"""What to do about the driver's words, where one knows."""


class Store:
    """One database with the ledgers in it."""

    def __init__(self, engine: Engine, faults: Faults | None = None) -> None:
        self.engine = engine
        self._faults = faults or NoFaults()

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """A read transaction. Raises ``StoreUnavailable``."""
        with self._transaction(write=False) as tx:
            yield tx

    @contextmanager
    def write(self, point: str = "store.commit") -> Iterator[Tx]:
        """A write transaction, committed at the end, rolled back on any error.

        ``point`` names the fault points ``<point>.before`` and ``<point>.after`` around the
        commit. Raises ``StoreUnavailable``; constraint errors pass as ``IntegrityError``, and a
        value that no column can hold is a ``ValueError``: waiting would not help.
        """
        with self._transaction(write=True) as tx:
            yield tx
            self._faults.hit(f"{point}.before")
        self._faults.hit(f"{point}.after")

    @property
    def folder(self) -> Path | None:
        """Where the database file is; none for a server and for a database in memory."""
        name = self.engine.url.database
        if self.dialect != "sqlite" or not name or name == ":memory:":
            return None
        return Path(name).parent

    def check_writable(self) -> None:
        """Take the right to write and give it back, nothing written. Raises ``StoreUnavailable``.

        SQLite needs no space for that: a full disk is not found this way.
        """
        with self._transaction(write=True) as tx:
            if (
                self.dialect == "postgresql"
                and tx.exec_driver_sql(
                    "SELECT current_setting('transaction_read_only')"
                ).scalar_one()
                != "off"
            ):
                raise StoreUnavailable("store: the server takes no writes; name its primary")

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Tx]:
        try:
            with self.engine.connect() as connection:
                tx = connection.execution_options(**{_WRITE: write})
                with tx.begin():
                    yield tx
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            first = _first(error)
            cause = _cause(first)
            step = next((f"; {step}" for words, step in _STEPS.items() if words in cause), "")
            text = f"store: {type(first).__name__}: {cause}{step}"
            if _is_bad_value(first):
                raise ValueError(text) from error
            raise StoreUnavailable(text) from error

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()


def open_store(url: str, faults: Faults | None = None) -> Store:
    """Open the database at a SQLAlchemy ``url``; makes the folder of a SQLite file.

    Raises ``ConfigurationError`` for an unusable address and for a folder that can't be made.
    """
    try:
        engine = _engine(url)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError):
        # Without the cause: its text repeats the address, and with it a password.
        raise ConfigurationError(
            "storage.database_url: is no address of a database that can be used; "
            "write it like postgresql+psycopg://USER:PASSWORD@HOST/NAME, or leave it out"
        ) from None
    return Store(engine, faults)


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            _make_folder(Path(parsed.database).parent)
            _make_private(Path(parsed.database))
        engine = create_engine(parsed, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        engine = create_engine(
            parsed,
            pool_pre_ping=True,
            pool_timeout=5,
            # A server that vanished must be noticed within seconds, not by the kernel's hours.
            connect_args={"connect_timeout": 5, "tcp_user_timeout": 10_000},
        )
        event.listen(engine, "begin", _begin_postgresql)
    return engine


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(
            f"storage: can't make the folder {str(folder)!r} ({why}); "
            "correct server.state_dir or storage.path, or its permissions"
        ) from error


def _make_private(file: Path) -> None:
    # SQLite gives its side files the mode of the database; an umask would leave it readable.
    with contextlib.suppress(OSError):  # SQLite says better why it can't use the file.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # Our own BEGIN below decides; the driver must not begin by itself.
    connection.isolation_level = None
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()
    _use_wal(connection)


def _use_wal(connection: Any) -> None:
    # Changing the mode of a new file does not heed the busy time-out, so two processes that start
    # together would refuse each other.
    give_up_at = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= give_up_at:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE, True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    # As SQLite's busy time-out: a lock that is not given is an outage, never a hang.
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {BUSY_TIMEOUT_MS}")


def _first(error: SQLAlchemyError) -> SQLAlchemyError:
    # What broke first: after a full disk SQLite has rolled back by itself, and the roll-back of
    # a savepoint then fails for a reason that says nothing.
    first, seen, context = error, 0, error.__context__
    while context is not None and seen < 20:
        if isinstance(context, SQLAlchemyError) and not isinstance(context, IntegrityError):
            first = context
        context, seen = context.__context__, seen + 1
    return first


def _is_bad_value(error: SQLAlchemyError) -> bool:
    if isinstance(error, DataError):
        return True
    # Raised while binding: a naive datetime, a type that is not JSON.
    return isinstance(error, StatementError) and not isinstance(error, DBAPIError)


def _cause(error: SQLAlchemyError) -> str:
    # The driver's own words only: SQLAlchemy's text repeats the statement and its parameters.
    original = getattr(error, "orig", None)
    return str(original or error).splitlines()[0][:200] if str(original or error) else ""
