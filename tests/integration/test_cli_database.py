"""``db``: where the schema is, and a copy that can be used, on real files."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from coven.cli import exits
from coven.cli.main import main
from coven.store import migrate, tasks
from coven.store.engine import Store, open_store
from tests.ledger import TENANT, put

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The console entry in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coven-github", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str) -> str:
    path = tmp_path / "c.toml"
    path.write_text(f'[storage]\npath = "{sqlite_url.removeprefix("sqlite:///")}"\n')
    return str(path)


def test_status_for_people_and_programs(run: Run, config: str) -> None:
    code, out, _ = run("db", "status", "--config", config)
    assert (code, "usable by this one" in out) == (exits.DONE, True)
    code, out, _ = run("db", "status", "--json", "--config", config)
    last = migrate.steps()[-1].revision
    expected = {"found": last, "needed": last, "floor": last, "usable": True, "pending": []}
    assert json.loads(out) == expected


def test_an_unusable_schema_is_a_bad_answer(run: Run, config: str, sqlite_store: Store) -> None:
    with sqlite_store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '0002'"))
        tx.execute(text("DROP TABLE schema_floor"))
    code, out, _ = run("db", "status", "--json", "--config", config)
    assert code == exits.FAILED
    assert json.loads(out)["pending"][0] == "0003"


def test_a_backup_made_while_others_write_is_whole_and_private(
    run: Run, config: str, sqlite_store: Store, tmp_path: Path
) -> None:
    first = put(sqlite_store)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            put(sqlite_store)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        code, out, err = run("db", "backup", "copy.db", "--config", config)
    finally:
        stop.set()
        writer.join()
    assert (code, err) == (exits.DONE, "")
    assert "checked" in out
    copy = tmp_path / "copy.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not copy.with_name("copy.db-wal").exists()
    restored = open_store(f"sqlite:///{copy}")
    migrate.require_usable(restored)
    with restored.read() as tx:
        assert tasks.get(TENANT, tx, first) is not None
    restored.close()


def test_a_backup_overwrites_nothing(run: Run, config: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    code, _, err = run("db", "backup", "copy.db", "--config", config)
    assert (code, "new file" in err) == (exits.UNUSABLE, True)
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_backup_of_nothing_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[storage]\npath = "none.db"\n')
    code, _, _ = run("db", "backup", "copy.db", "--config", "c.toml")
    assert code == exits.NOT_FOUND
    assert not (tmp_path / "copy.db").exists()


def test_a_broken_database_gives_no_backup(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[storage]\npath = "bad.db"\n')
    (tmp_path / "bad.db").write_bytes(b"no database" * 100)
    code, _, err = run("db", "backup", "copy.db", "--config", "c.toml")
    assert (code, "not copied" in err) == (exits.UNAVAILABLE, True)
    assert not (tmp_path / "copy.db").exists()


def test_a_server_is_copied_by_its_own_tool_and_no_password_is_shown(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(
        '[storage]\ndatabase_url = "postgresql+psycopg://coven:hunter2hunter2@db/coven"\n'
    )
    code, _, err = run("db", "backup", "copy.db", "--config", "c.toml")
    assert code == exits.UNUSABLE
    assert "pg_dump" in err
    assert "hunter2" not in err
