# ruff: noqa: TID251 - the processes of a test are no effects of the product
"""The migrations make exactly the tables that the code uses, once, whoever starts first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from coven.errors import ConfigurationError
from coven.store import migrate
from coven.store.engine import Store, open_store
from coven.store.schema import metadata

UPGRADE = (
    "import sys; from coven.store import migrate; from coven.store.engine import open_store; "
    "store = open_store(sys.stdin.readline().strip()); print('ready', flush=True); "
    "sys.stdin.readline(); migrate.upgrade(store); migrate.require_current(store); "
    "store.close()"
)


def emptied(store: Store) -> Store:
    """The same database without any table."""
    with store.write() as tx:
        metadata.drop_all(tx)
        tx.execute(text("DROP TABLE alembic_version"))
    return store


def test_the_migrated_schema_is_the_one_in_the_code(store: Store) -> None:
    with store.read() as tx:
        context = MigrationContext.configure(
            tx, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_indexes_and_their_conditions_are_there(store: Store) -> None:
    found = {
        index["name"]: index
        for table in metadata.tables
        for index in inspect(store.engine).get_indexes(table)
    }
    wanted = {index.name for table in metadata.tables.values() for index in table.indexes}
    assert wanted <= set(found)
    assert found["uq_tasks_semantic_key_live"]["unique"]
    options = found["uq_tasks_semantic_key_live"]["dialect_options"]
    assert "waiting" in " ".join(str(value) for value in options.values())


def test_a_second_upgrade_changes_nothing(store: Store) -> None:
    with store.read() as tx:
        before = tx.execute(text("SELECT version_num FROM alembic_version")).all()
    migrate.upgrade(store)
    migrate.upgrade(store)
    migrate.require_current(store)
    with store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).all() == before


def test_an_empty_database_is_refused_and_then_upgraded(store: Store) -> None:
    emptied(store)
    with pytest.raises(ConfigurationError, match="db upgrade"):
        migrate.require_current(store)
    migrate.upgrade(store)
    migrate.require_current(store)


def test_the_schema_of_a_later_release_is_refused_and_left_alone(store: Store) -> None:
    with store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="9999"):
        migrate.require_current(store)
    with pytest.raises(ConfigurationError, match="does not know"):
        migrate.upgrade(store)
    with store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"


def test_a_migration_that_breaks_leaves_nothing_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(store)

    def broken(config: object, revision: str) -> None:
        connection = config.attributes["connection"]  # type: ignore[attr-defined]
        connection.execute(text("CREATE TABLE half (n INTEGER)"))
        raise RuntimeError("power cut")

    monkeypatch.setattr("coven.store.migrate.command.upgrade", broken)
    with pytest.raises(RuntimeError):
        migrate.upgrade(store)
    assert inspect(store.engine).get_table_names() == []


def test_processes_that_upgrade_together_all_succeed(store: Store, store_url: str) -> None:
    emptied(store)
    if store.dialect == "sqlite":
        # The hardest case: none of them finds a file.
        store.close()
        database = make_url(store_url).database
        assert database is not None
        for leftover in Path(database).parent.glob("coven.db*"):
            leftover.unlink()
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", UPGRADE],
            cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{store_url}\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == "ready"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")
    migrate.require_current(store)


def test_a_new_sqlite_file_is_made_in_a_private_folder(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/state/deep/coven.db")
    migrate.upgrade(store)
    store.close()
    assert (tmp_path / "state" / "deep").stat().st_mode & 0o077 == 0
