# ruff: noqa: PT012 - the error comes out of the transaction, not of one statement in it
"""A store that can't answer says so at once, in our words, and keeps what it promised."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import event, insert, select, text
from sqlalchemy.exc import IntegrityError

from coven.errors import Retry, StoreUnavailable
from coven.governance.faults import InjectedFault, ScriptedFaults
from coven.store import deliveries, migrate, tasks
from coven.store.engine import Store, _use_wal, open_store
from coven.store.tables import tasks as table
from tests.ledger import TENANT, look, new_task, put, received


def test_a_locked_database_is_unavailable_in_time(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coven.store.engine.BUSY_TIMEOUT_MS", 200)
    store = open_store(store_url)
    other = open_store(store_url)
    task_id = put(store)
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with other.write() as tx:
            tasks.claim(TENANT, tx, task_id, "h" * 32, new_task().created_at, 60)
            holding.set()
            release.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert holding.wait(10)
        started = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught, store.write() as tx:
            tasks.claim(TENANT, tx, task_id, "t" * 32, new_task().created_at, 60)
        assert time.monotonic() - started < 3
        assert caught.value.retry is Retry.BACKOFF
        # Readers are not held up by a writer.
        assert look(store, task_id).lease_token is None
    finally:
        release.set()
        holder.join()
    assert look(store, task_id).lease_token == "h" * 32
    store.close()
    other.close()


def test_a_full_disk_is_unavailable_and_loses_nothing(sqlite_store: Store) -> None:
    kept = put(sqlite_store)

    def no_growth(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")

    sqlite_store.engine.dispose()
    event.listen(sqlite_store.engine, "connect", no_growth)
    with pytest.raises(StoreUnavailable, match="full"), sqlite_store.write() as tx:
        for _ in range(50):
            assert tasks.insert_new(TENANT, tx, new_task(title="x" * 10_000))
    with sqlite_store.read() as tx:
        assert [task.id for task in tasks.recent(TENANT, tx)] == [kept]


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "coven.db").write_bytes(b"this is not a database" * 100)
    store = open_store(f"sqlite:///{tmp_path}/coven.db")
    with pytest.raises(StoreUnavailable, match="not a database"), store.read() as tx:
        tx.execute(select(table.c.id))
    store.close()


def test_a_folder_that_can_not_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "coven.db").mkdir()
    store = open_store(f"sqlite:///{tmp_path}/coven.db")
    with pytest.raises(StoreUnavailable), store.write():
        pass
    store.close()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = open_store("postgresql+psycopg://nobody:hunter2@127.0.0.1:1/none")
    with pytest.raises(StoreUnavailable) as caught, store.read():
        pass
    assert "hunter2" not in str(caught.value)
    store.close()


@pytest.mark.postgres
def test_connections_that_the_server_cut_are_replaced(postgres_url: str) -> None:
    store, other = open_store(postgres_url), open_store(postgres_url)
    put(store)
    with other.write() as tx:
        tx.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    put(store)
    store.close()
    other.close()


@pytest.mark.postgres
def test_a_connection_cut_within_a_transaction_is_unavailable_and_rolled_back(
    postgres_url: str,
) -> None:
    store, other = open_store(postgres_url), open_store(postgres_url)
    with pytest.raises(StoreUnavailable), store.write() as tx:
        tasks.insert_new(TENANT, tx, new_task())
        pid = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with other.write() as killer:
            killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        tasks.insert_new(TENANT, tx, new_task())
    with store.read() as tx:
        assert tasks.recent(TENANT, tx) == []
    store.close()
    other.close()


def test_the_text_of_an_error_holds_no_row(store: Store) -> None:
    with pytest.raises(StoreUnavailable) as caught, store.write() as tx:
        secret = {"a": "parameter-secret"}
        tx.execute(text("SELECT :a FROM no_such_table"), secret)
    assert "parameter-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_that_fits_no_column_is_not_an_outage(store: Store) -> None:
    too_large = 2**70
    with pytest.raises((ValueError, OverflowError)), store.write() as tx:
        tasks.insert_new(TENANT, tx, new_task(actor_id=too_large))
    with pytest.raises((ValueError, TypeError)), store.write() as tx:
        tasks.insert_new(TENANT, tx, new_task(payload={"a": object()}))
    with store.read() as tx:
        assert tasks.recent(TENANT, tx) == []


def test_a_broken_constraint_is_told_apart_from_an_outage(store: Store) -> None:
    task_id = put(store)
    twice = look(store, task_id)
    with pytest.raises(IntegrityError), store.write() as tx:
        tx.execute(insert(table).values({"id": twice.id, "installation_id": 1}))


@pytest.mark.parametrize(("plan", "kept"), [("w.before=raise", False), ("w.after=raise", True)])
def test_a_fault_before_the_commit_undoes_and_after_it_keeps(
    sqlite_url: str, plan: str, kept: bool
) -> None:
    store = open_store(sqlite_url, ScriptedFaults(plan))
    with pytest.raises(InjectedFault), store.write("w") as tx:
        assert deliveries.record(tx, received())
    with store.read() as tx:
        assert (deliveries.find(tx, received().id) is not None) is kept
    store.close()


def test_an_exception_of_the_caller_undoes_the_transaction_and_passes(store: Store) -> None:
    with pytest.raises(KeyError), store.write() as tx:
        tasks.insert_new(TENANT, tx, new_task())
        raise KeyError("mine")
    with store.read() as tx:
        assert tasks.recent(TENANT, tx) == []


def test_sqlite_keeps_a_promise_over_a_power_cut(sqlite_store: Store) -> None:
    with sqlite_store.read() as tx:
        assert tx.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert tx.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert tx.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


class _Refusing:
    """A connection that SQLite refuses the change of mode, at once and some times."""

    def __init__(self, times: int, words: str = "database is locked") -> None:
        self.left = times
        self.words = words

    def execute(self, statement: str) -> _Refusing:
        assert statement == "PRAGMA journal_mode=WAL"
        if self.left:
            self.left -= 1
            raise sqlite3.OperationalError(self.words)
        return self

    def close(self) -> None:
        return None


def test_the_mode_of_a_new_file_is_asked_for_until_the_other_process_is_through() -> None:
    connection = _Refusing(3)
    _use_wal(connection)
    assert connection.left == 0


def test_the_mode_of_a_new_file_is_not_asked_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coven.store.engine.BUSY_TIMEOUT_MS", 50)
    with pytest.raises(sqlite3.OperationalError):
        _use_wal(_Refusing(10_000))
    other = _Refusing(2, "disk I/O error")
    with pytest.raises(sqlite3.OperationalError):
        _use_wal(other)
    assert other.left == 1


def test_a_new_sqlite_file_is_private_whatever_the_folder_allows(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    store = open_store(f"sqlite:///{tmp_path}/coven.db")
    migrate.upgrade(store)
    with store.write() as tx:
        tx.exec_driver_sql("SELECT 1")
    modes = {entry.name: entry.stat().st_mode & 0o077 for entry in tmp_path.iterdir()}
    store.close()
    assert modes
    assert set(modes.values()) == {0}
