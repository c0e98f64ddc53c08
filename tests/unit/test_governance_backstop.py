# ruff: noqa: E501, TID251 - code of a child process
"""The backstop stops what did not come through the seam. It can't be removed, so in a child."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coven.governance.backstop import Backstop, Ungoverned, addresses_of
from coven.governance.wire import governed

PRELUDE = """
import os, socket, subprocess, sys
from coven.governance import backstop
from coven.governance.wire import Seam, governed_spawn, governed_request
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
other = socket.socket(); other.bind(("127.0.0.1", 0)); other.listen()
backstop.install([server.getsockname()[1], "/run/broker.sock"])
"""


def child(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_w20_programs_and_connections_outside_the_seam_are_stopped() -> None:
    code = """
def tried(name, act):
    try:
        act()
    except PermissionError as error:
        print(name, "stopped", type(error).__name__)
    else:
        print(name, "ran")
tried("popen", lambda: subprocess.run(["true"]))
tried("system", lambda: os.system("true"))
tried("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
tried("exec", lambda: os.execv("/bin/true", ["true"]))
tried("connect", lambda: socket.create_connection(other.getsockname(), 5).close())
tried("broker", lambda: socket.create_connection(server.getsockname(), 5).close())
tried("seam", lambda: governed_spawn(Seam(), ["true"], point="p", env={"PATH": "/bin:/usr/bin"}).wait())
def fetch():
    governed_request(Seam(), "GET", "http://127.0.0.1/", lambda: socket.create_connection(other.getsockname(), 5).close(), point="p")
tried("request", fetch)
pid = os.fork()
if pid == 0:
    tried("fork", lambda: subprocess.run(["true"]))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
"""
    assert sorted(set(child(code).splitlines())) == sorted(
        [
            "popen stopped Ungoverned",
            "system stopped Ungoverned",
            "spawn stopped Ungoverned",
            "exec stopped Ungoverned",
            "connect stopped Ungoverned",
            "broker ran",
            "seam ran",
            "request ran",
            "fork stopped Ungoverned",
        ]
    )


def test_a_thread_beside_an_effect_is_not_covered_by_it() -> None:
    code = """
import threading
from coven.governance.wire import governed
def beside():
    try:
        subprocess.run(["true"])
    except PermissionError:
        print("stopped")
with governed():
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
"""
    assert child(code) == "stopped\n"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("redis://user:pw@cache.example:6400/0", (6400,)),
        ("redis://cache.example", (6379,)),
        ("redis+socket:///var/lib/broker.sock?virtual_host=0", ("/var/lib/broker.sock",)),
    ],
)
def test_the_broker_is_known_by_its_url(url: str, found: tuple[str | int, ...]) -> None:
    assert addresses_of(url) == found


@pytest.mark.parametrize("address", ["/run/other.sock", b"/run/other.sock", ("::1", 1, 0, 0)])
def test_another_address_is_stopped(address: object) -> None:
    hook = Backstop(["/run/broker.sock", 6379])
    with pytest.raises(Ungoverned):
        hook("socket.connect", (None, address))
    with governed():
        hook("socket.connect", (None, address))
    hook("socket.connect", (None, "/run/broker.sock"))
    hook("open", ("/etc/passwd", "r", 0))
