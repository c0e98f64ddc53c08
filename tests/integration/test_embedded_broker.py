from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery
from redis import Redis

from coven.embedded import (
    EmbeddedBroker,
    answers,
    broker_dir,
    broker_url,
    find_server,
    socket_path,
)
from coven.errors import ConfigurationError
from coven.settings.models import Queue, Server, Settings
from tests.services import missing

pytestmark = pytest.mark.broker
Start = Callable[[], EmbeddedBroker]


def _wait(condition: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_answers_as_soon_as_start_returns(broker_factory: Start) -> None:
    broker = broker_factory()
    assert answers(broker.socket)
    assert broker.pid is not None


def test_celery_publishes_through_the_socket_url(broker_factory: Start) -> None:
    broker = broker_factory()
    app = Celery("probe", broker=broker.url, set_as_current=False)
    with app.connection_for_write() as connection:
        app.send_task("probe", args=["x"], queue="q", connection=connection, ignore_result=True)
    with Redis(unix_socket_path=str(broker.socket)) as redis:
        assert redis.llen("q") == 1


def test_keeps_messages_over_a_restart(broker_factory: Start) -> None:
    broker = broker_factory()
    with Redis(unix_socket_path=str(broker.socket)) as redis:
        redis.set("kept", "yes")
    broker.stop()
    assert not broker.alive()
    broker.start()
    with Redis(unix_socket_path=str(broker.socket)) as redis:
        assert redis.get("kept") == b"yes"


def test_evicts_nothing_and_is_closed_to_others(broker_factory: Start) -> None:
    broker = broker_factory()
    with Redis(unix_socket_path=str(broker.socket)) as redis:
        assert redis.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert redis.config_get("appendonly") == {"appendonly": "yes"}
        assert redis.config_get("port") == {"port": "0"}
    assert stat.S_IMODE(broker.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(broker.socket.parent.stat().st_mode) == 0o700


def test_a_second_server_on_the_same_folder_is_refused(broker_factory: Start) -> None:
    broker = broker_factory()
    with pytest.raises(ConfigurationError, match="already runs"):
        EmbeddedBroker(broker.socket.parent).start()
    assert answers(broker.socket)


def test_a_stale_socket_of_a_killed_server_is_no_obstacle(broker_factory: Start) -> None:
    broker = broker_factory()
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert _wait(lambda: not broker.alive())
    assert broker.socket.exists()
    broker.start()
    assert answers(broker.socket)


def test_a_state_dir_with_a_very_long_path_still_works(tmp_path: Path) -> None:
    if find_server() is None:
        missing("broker", "no server program")
    directory = tmp_path / ("long-" * 30) / "broker"
    broker = EmbeddedBroker(directory)
    broker.start()
    try:
        assert answers(broker.socket)
        assert len(str(broker.socket)) < 108
    finally:
        broker.stop()
    broker.socket.parent.rmdir()


def test_ends_with_the_process_that_started_it(tmp_path: Path, broker_factory: Start) -> None:
    broker_factory()  # a visible skip where no server can be had
    script = (
        "import sys, pathlib, time\n"
        "from coven.embedded import EmbeddedBroker\n"
        "b = EmbeddedBroker(pathlib.Path(sys.argv[1])); b.start(); print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    directory = tmp_path / "b"
    owner = subprocess.Popen(  # noqa: TID251 - a process of this test
        [sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == b"up\n"
    path = socket_path(directory)
    assert answers(path)
    owner.kill()
    owner.wait()
    assert _wait(lambda: not answers(path))


def test_url_is_the_same_for_every_process_of_a_state_dir(tmp_path: Path) -> None:
    settings = Settings(server=Server(state_dir=tmp_path))
    assert broker_url(settings) == f"redis+socket://{tmp_path}/broker/broker.sock"
    assert EmbeddedBroker(broker_dir(settings)).url == broker_url(settings)


def test_a_configured_broker_wins(tmp_path: Path) -> None:
    queue = Queue.model_validate({"broker_url": "redis://broker.example:6379/0"})
    settings = Settings(server=Server(state_dir=tmp_path), queue=queue)
    assert broker_url(settings) == "redis://broker.example:6379/0"


def test_missing_program_names_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coven.embedded.find_server", lambda: None)
    with pytest.raises(ConfigurationError, match=r"queue\.broker_url"):
        EmbeddedBroker(tmp_path).start()


def test_a_folder_that_cannot_be_made_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"server\.state_dir"):
        EmbeddedBroker(tmp_path / "file" / "broker").start()
