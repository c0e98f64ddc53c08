"""``coven-github up`` for real: everything starts, answers, heals and stops."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coven.embedded import answers, find_server
from tests.services import missing

pytestmark = pytest.mark.broker

CONFIG = """
[server]
bind = "127.0.0.1:{port}"
state_dir = "state"
web_workers = 1
[github]
app_id = 1
private_key_path = "app.pem"
webhook_secret = "0123456789abcdef0123456789abcdef"
api_base_url = "http://127.0.0.1:9"
[worker]
coven_code_bin = "./coven-code"
{backend}
[[familiars]]
id = "cody"
display_name = "Cody"
bot_username = "cody[bot]"
trigger_labels = ["cody:fix"]
[api]
service_token = "fedcba9876543210fedcba9876543210"
"""


class Up:
    """A running ``coven-github up`` with what it printed so far."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.socket = folder / "state" / "broker" / "broker.sock"
        self.lines: list[str] = []
        env = {k: v for k, v in os.environ.items() if not k.startswith("COVEN_GITHUB")}
        self.process = subprocess.Popen(  # noqa: TID251 - a process of this test
            [sys.executable, "-c", "from coven.cli.main import main; main()", "up"],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            self.lines.extend(pipe)

    def said(self, text: str) -> bool:
        return any(text in line for line in list(self.lines))

    def until(self, condition: Callable[[], bool], seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, "".join(self.lines)
            assert time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.05)

    def ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    if find_server() is None:
        missing("broker", "no server program")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "app.pem").write_bytes(pem)
    (tmp_path / "app.pem").chmod(0o600)
    (tmp_path / "coven-code").write_text("#!/bin/sh\necho coven-code 1.0.0\n")
    (tmp_path / "coven-code").chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    backend = 'backend = "bubblewrap"'
    if shutil.which("bwrap") is None:
        if os.geteuid() == 0:
            missing("bubblewrap", "bwrap is not installed, and root may not use the host backend")
        backend = 'backend = "host"\nallow_host_backend = true'
    (tmp_path / "coven-github.toml").write_text(CONFIG.format(port=port, backend=backend))
    running = Up(tmp_path, port)
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


def test_everything_starts_heals_and_stops_in_good_order(up: Up) -> None:
    up.until(up.ready)
    assert up.said("ready: http://127.0.0.1")
    assert requests.post(f"{up.url}/webhook", data=b"{}", timeout=5).status_code == 401
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 5

    beat = next(p for p in children if p.cmdline()[-2:] == ["worker", "beat"])
    beat.kill()
    up.until(lambda: up.said("beat ended (SIGKILL); again in 1 s"))
    broker = next(p for p in children if "valkey" in p.name() or "redis" in p.name())
    broker.kill()
    up.until(lambda: up.said("the embedded broker ended; starting it again"))
    up.until(lambda: answers(up.socket))
    up.until(up.ready)

    children = psutil.Process(up.process.pid).children(recursive=True)
    assert up.end(signal.SIGINT) == 0, "".join(up.lines)
    assert up.lines[-1].strip().endswith("| stopped")
    assert [p for p in children if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    assert not answers(up.socket)
    assert not up.said("Traceback")


def test_nothing_is_left_when_up_itself_is_killed(up: Up) -> None:
    up.until(up.ready)
    children = psutil.Process(up.process.pid).children(recursive=True)
    up.end(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=40)
    assert alive == []
