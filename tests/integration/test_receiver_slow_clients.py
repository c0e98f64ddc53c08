"""Clients that send slowly, badly or not at all, against the real server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

THREADS = 2
APP = """
import webhooks.slow_clients as slow
from coven.store import migrate
from coven.store.engine import open_store
from tests.integration.receiver_kit import Bench

slow.HEAD_SECS = slow.BODY_SECS = 0.5


def make():
    store = open_store("sqlite:///{path}")
    migrate.upgrade(store)
    return Bench(store).app
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A receiver with two threads, under gunicorn with our configuration."""
    tmp_path = tmp_path_factory.mktemp("slow")
    (tmp_path / "slow_app.py").write_text(APP.format(path=tmp_path / "coven.db"))
    listener = socket.create_server(("127.0.0.1", 0))
    number = int(listener.getsockname()[1])
    root = Path(__file__).parents[2]
    server = subprocess.Popen(  # noqa: TID251 - the real server
        [
            *(sys.executable, "-m", "gunicorn", "slow_app:make()"),
            *(f"--bind=fd://{listener.fileno()}", f"--threads={THREADS}", "--workers=1"),
            "--config=python:webhooks.gunicorn_conf",
        ],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"},
        cwd=tmp_path,
        pass_fds=(listener.fileno(),),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert b"200" in ask(
            number, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        yield number
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)
        listener.close()


def ask(port: int, data: bytes) -> bytes:
    """Send ``data`` and read to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        answer = b""
        while chunk := client.recv(65536):
            answer += chunk
        return answer


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nx",
    ],
    ids=["nothing", "half a head", "half a body", "half a chunk"],
)
def test_slow_clients_on_all_threads_are_hung_up_on(port: int, beginning: bytes) -> None:
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * THREADS)]
    try:
        for client in slow:
            client.sendall(beginning)
        began = time.monotonic()
        answer = ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert time.monotonic() - began < 10
    finally:
        for client in slow:
            client.close()


def test_a_broken_chunk_is_the_senders_fault(port: int) -> None:
    head = b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    answer = ask(port, head + b"Connection: close\r\n\r\nZZ\r\n{}")
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.endswith(b'{"error":"bad_request","ok":false}\n')
