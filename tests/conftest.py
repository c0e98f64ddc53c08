"""Shared fixtures: ledgers on SQLite and PostgreSQL, a broker, and the rule about skips.

A service that can't be had is a visible, counted skip; with ``COVEN_REQUIRE_SERVICES=1`` it is a
failure. ``COVEN_TEST_POSTGRES_URL`` and ``COVEN_TEST_BROKER_URL`` name running servers to use
instead of the embedded ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from coven.clock import ManualClock
from coven.embedded import EmbeddedBroker
from coven.settings.models import Server, Settings
from coven.store import migrate
from coven.store.engine import Store, open_store
from tests import leaks
from tests.services import (
    ENV_SESSION,
    PostgresServer,
    ServiceUnavailable,
    close_session,
    flush_broker,
    missing,
    open_session,
    sqlite_template,
)

_SESSION = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """The first process of a test session opens what all of its processes share."""
    if ENV_SESSION not in os.environ:
        config.stash[_SESSION] = open_session()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the shared servers."""
    folder = config.stash.get(_SESSION, None)
    if folder is not None:
        close_session(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """No output of any test holds a secret."""
    report = yield
    leaks.check(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the tests that had to be skipped for want of a service."""
    skipped = terminalreporter.stats.get("skipped", [])
    missing = [r for r in skipped if "service missing:" in str(r.longrepr)]
    if missing:
        terminalreporter.write_line(
            f"{len(missing)} tests skipped because a service could not be had", yellow=True
        )


@pytest.fixture(autouse=True)
def _no_outside_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own settings never reach a test."""
    for name in list(os.environ):
        if name == "COVEN_GITHUB_CONFIG" or name.startswith("COVEN_GITHUB__"):
            monkeypatch.delenv(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Defaults, with the state in the test's own folder."""
    return Settings(server=Server(state_dir=tmp_path / "state"))


@pytest.fixture(scope="session")
def _sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sqlite_template(tmp_path_factory.mktemp("sqlite") / "template.db")


@pytest.fixture(scope="session")
def _postgres() -> PostgresServer | ServiceUnavailable:
    try:
        return PostgresServer.for_session()
    except ServiceUnavailable as error:
        return error


@pytest.fixture
def sqlite_url(_sqlite_file: Path, tmp_path: Path) -> str:
    """A migrated SQLite file of this test."""
    path = tmp_path / "coven.db"
    shutil.copyfile(_sqlite_file, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated PostgreSQL database of this test; a visible skip when there is no server."""
    server = request.getfixturevalue("_postgres")
    if not isinstance(server, PostgresServer):
        missing("postgres", server)
    with server.database() as url:
        yield url


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)],
)
def store_url(request: pytest.FixtureRequest) -> str:
    """A migrated database, once on SQLite and once on PostgreSQL."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """The ledgers, once on SQLite and once on PostgreSQL."""
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[Store]:
    """The ledgers on SQLite only, for tests whose point is not the database."""
    opened = open_store(sqlite_url)
    migrate.require_usable(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def broker_factory(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], EmbeddedBroker]]:
    """Starts brokers of one's own (to stop, flush or restart); stops what is left at the end."""
    started: list[EmbeddedBroker] = []

    def start() -> EmbeddedBroker:
        broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"))
        try:
            broker.start()
        except Exception as error:
            missing("broker", error)
        started.append(broker)
        return broker

    yield start
    for broker in started:
        broker.stop()


@pytest.fixture(scope="session")
def _broker(broker_factory: Callable[[], EmbeddedBroker]) -> str:
    return os.environ.get("COVEN_TEST_BROKER_URL") or broker_factory().url


@pytest.fixture
def broker_url(_broker: str) -> Iterator[str]:
    """A running broker with nothing in it, shared by the tests of one process."""
    flush_broker(_broker)
    yield _broker
    flush_broker(_broker)
