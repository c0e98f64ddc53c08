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
from tests.integration.receiver_kit import Bench, payload
from worker.claim import claim

UPGRADE = (
    "import sys; from coven.store import migrate; from coven.store.engine import open_store; "
    "store = open_store(sys.stdin.readline().strip()); print('ready', flush=True); "
    "sys.stdin.readline(); migrate.upgrade(store); migrate.require_usable(store); "
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
    migrate.require_usable(store)
    with store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).all() == before


def test_an_empty_database_is_refused_and_then_upgraded(store: Store) -> None:
    emptied(store)
    with pytest.raises(ConfigurationError, match="db upgrade"):
        migrate.require_usable(store)
    migrate.upgrade(store)
    migrate.require_usable(store)


def at_later_schema(store: Store, floor: str | None) -> None:
    """As a later release would leave it: with what it added, and its floor."""
    with store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        tx.execute(text("DELETE FROM schema_floor"))
        if floor is not None:
            tx.execute(text("INSERT INTO schema_floor VALUES (:floor)"), {"floor": floor})
        tx.execute(text("ALTER TABLE tasks ADD COLUMN later_text VARCHAR(20)"))
        tx.execute(text("ALTER TABLE surfaces ADD COLUMN later_count INTEGER NOT NULL DEFAULT 0"))
        tx.execute(text("CREATE TABLE later (id INTEGER PRIMARY KEY)"))


@pytest.mark.parametrize("floor", [None, "9998"])
def test_a_schema_that_a_later_release_closed_is_refused_and_left_alone(
    store: Store, floor: str | None
) -> None:
    at_later_schema(store, floor)
    with pytest.raises(ConfigurationError, match="9999"):
        migrate.require_usable(store)
    with pytest.raises(ConfigurationError, match="does not know"):
        migrate.upgrade(store)
    with store.read() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"


def test_this_release_works_on_what_a_later_one_added(store: Store) -> None:
    at_later_schema(store, migrate.steps()[-1].revision)
    migrate.require_usable(store)
    migrate.upgrade(store)
    migrate.upgrade(store, finish=True)
    bench = Bench(store)
    task = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    assert task.state == "queued"
    assert bench.surfaces(task)
    assert claim(bench.services, task.id, "w") is not None
    assert bench.client.get("/metrics").status_code == 200
    assert bench.client.get("/readyz").status_code == 200


def test_the_line_of_migrations_is_described() -> None:
    line = migrate.steps()
    assert [step.revision for step in line] == sorted(step.revision for step in line)
    assert line[0].kind == "pre"
    assert {step.kind for step in line} <= {"pre", "post"}
    assert all(step.title for step in line)


@pytest.mark.parametrize(
    ("kinds", "needed"),
    [("a", "0"), ("aa", "1"), ("aaz", "1"), ("azz", "0"), ("aza", "2"), ("azaz", "2")],
)
def test_what_is_left_to_the_end_is_not_needed(kinds: str, needed: str) -> None:
    line = tuple(
        migrate.Step(str(n), "pre" if kind == "a" else "post", "x") for n, kind in enumerate(kinds)
    )
    assert migrate.needed_of(line) == needed


def test_the_status_says_what_is_missing(store: Store) -> None:
    now = migrate.status(store)
    assert (now.usable, now.pending, now.found) == (True, (), migrate.steps()[-1].revision)
    emptied(store)
    before = migrate.status(store)
    assert (before.usable, before.found, before.pending) == (False, None, migrate.steps())


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
    migrate.require_usable(store)


def test_a_new_sqlite_file_is_made_in_a_private_folder(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/state/deep/coven.db")
    migrate.upgrade(store)
    store.close()
    assert (tmp_path / "state" / "deep").stat().st_mode & 0o077 == 0
