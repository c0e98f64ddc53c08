"""The whole product on this machine, against the sandbox: for the demo and the end-to-end tests.

The same programs that an operator runs, each a process of its own with its log in a file, so that
a test may kill any of them at any time.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import requests

from coven.cli import processes
from coven.embedded import EmbeddedBroker, die_with_parent
from coven.sandbox.runtime import install_wrapper, readable_folders
from coven.settings.loader import load_settings
from coven.settings.models import Settings
from coven.store import migrate
from coven.store.engine import Store, open_store

START_SECS = 45.0
ROLES = ("web", "worker", "control", "beat")


class StackFailed(RuntimeError):
    """A part did not start or did not stop; the message names it and the end of its log."""


@dataclass(frozen=True)
class Sandbox:
    """Where the sandbox GitHub is, and which App it knows."""

    base_url: str
    app_id: int
    slug: str
    private_key_path: str


@dataclass(frozen=True)
class DemoFamiliar:
    """A familiar of the stack, with the label ``<id>:fix``."""

    id: str
    handle: str
    model: str | None = None

    def toml(self) -> str:
        """Its ``[[familiars]]`` table."""
        rows = {
            "id": _quote(self.id),
            "display_name": _quote(self.id.capitalize()),
            "bot_username": _quote(f"{self.handle}[bot]"),
            "trigger_labels": f'["{self.id}:fix"]',
        }
        if self.model:
            rows["model"] = _quote(self.model)
        return "\n".join(["[[familiars]]", *(f"{key} = {value}" for key, value in rows.items())])


@dataclass
class Stack:
    """Broker, receiver, session worker, control worker and beat over one state folder.

    ``keys`` are configuration lines by section, laid over what the stack sets itself.
    """

    state_dir: Path
    sandbox: Sandbox
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    backend: str = "host"
    familiars: tuple[DemoFamiliar, ...] = ()
    """Further familiars beside Cody; each speaks for one scenario of the reference runtime."""
    environ: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # noqa: TID251
    webhook_secret: str = field(default_factory=lambda: secrets.token_hex(24))

    def __post_init__(self) -> None:
        self.port = _free_port()
        self.config_path = self.state_dir / "coven-github.toml"
        self.broker: EmbeddedBroker | None = None

    @property
    def webhook_url(self) -> str:
        """Where deliveries go."""
        return f"http://127.0.0.1:{self.port}/webhook"

    @property
    def settings(self) -> Settings:
        """The configuration, as the processes read it."""
        return load_settings(self.config_path, {})

    def open_store(self) -> Store:
        """The ledgers, to look at."""
        return open_store(self.settings.database_url)

    def prepare(self) -> None:
        """Write the configuration and bring the database up."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        runtime = install_wrapper(self.state_dir / "bin")
        self.config_path.write_text(self._toml(runtime), encoding="utf-8")
        self.config_path.chmod(0o600)
        store = self.open_store()
        migrate.upgrade(store)
        store.close()

    def start(self, *roles: str) -> None:
        """Start the broker and the named roles (all of them by default); wait until they answer."""
        if self.broker is None:
            self.broker = EmbeddedBroker(self.settings.server.state_dir / "broker")
            self.broker.start()
        for role in roles or ROLES:
            self.spawn(role)
        if "web" in (roles or ROLES):
            self.wait_ready()

    def spawn(self, role: str, extra: Mapping[str, str] | None = None) -> None:
        """Start one role, with further environment variables if given."""
        settings = self.settings
        make: dict[str, Callable[[Settings], processes.Program]] = {
            "web": processes.web,
            "worker": processes.worker,
            "control": processes.control,
            "beat": processes.beat,
        }
        program = make[role](settings)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("COVEN_")}
        env = processes.environment(
            self.config_path, {**inherited, **self.environ, **(extra or {})}
        )
        log = self.log_path(role).open("ab")
        self.processes[role] = subprocess.Popen(  # noqa: TID251 - a tool, not receiver or worker
            program.argv,
            env=env,
            cwd=self.state_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        log.close()

    def wait_ready(self) -> None:
        """Wait until the receiver says that store and broker answer. Raises ``StackFailed``."""
        deadline = time.monotonic() + START_SECS
        while time.monotonic() < deadline:
            for role, process in self.processes.items():
                if process.poll() is not None:
                    raise StackFailed(f"{role} ended at once: {self.log_tail(role)}")
            try:
                answer = requests.get(f"http://127.0.0.1:{self.port}/readyz", timeout=2)
                if answer.status_code == 200:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.1)
        raise StackFailed(f"the receiver did not get ready: {self.log_tail('web')}")

    def kill(self, role: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to one role's main process; after SIGKILL its whole group goes."""
        process = self.processes.pop(role)
        if number == signal.SIGKILL:
            _kill_group(process.pid)
        else:
            process.send_signal(number)
        process.wait(timeout=60)

    def stop(self) -> None:
        """End everything: SIGTERM, then SIGKILL after a while."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + 15
        for process in self.processes.values():
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill_group(process.pid)
                process.wait(timeout=10)
        self.processes.clear()
        if self.broker is not None:
            self.broker.stop()
            self.broker = None

    def log_path(self, role: str) -> Path:
        """The log file of one role."""
        folder = self.state_dir / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{role}.log"

    def log_tail(self, role: str, lines: int = 15) -> str:
        """The last lines of one role's log."""
        path = self.log_path(role)
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:]) or "(no output)"

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _toml(self, runtime: Path) -> str:
        sections: dict[str, dict[str, str]] = {
            "server": {
                "bind": _quote(f"127.0.0.1:{self.port}"),
                "state_dir": _quote(str(self.state_dir / "state")),
                "web_workers": "1",
                "web_threads": "8",
            },
            "github": {
                "app_id": str(self.sandbox.app_id),
                "private_key_path": _quote(self.sandbox.private_key_path),
                "webhook_secret": _quote(self.webhook_secret),
                "api_base_url": _quote(self.sandbox.base_url),
                "html_base_url": _quote(self.sandbox.base_url),
            },
            "worker": {
                "coven_code_bin": _quote(str(runtime)),
                "backend": _quote(self.backend),
                "allow_host_backend": "true",
                "readable": json.dumps([str(path) for path in readable_folders(runtime.parent)]),
                "drain_secs": "2",
                "grace_secs": "2",
            },
            "review": {"familiar": _quote("cody"), "pull_request": "true"},
            "logging": {"format": _quote("json"), "level": _quote("info")},
        }
        for name, lines in self.keys.items():
            sections.setdefault(name, {}).update(lines)
        parts = [
            "\n".join([f"[{name}]", *(f"{key} = {value}" for key, value in lines.items())])
            for name, lines in sections.items()
        ]
        cody = DemoFamiliar("cody", self.sandbox.slug)
        parts += [familiar.toml() for familiar in (cody, *self.familiars)]
        return "\n\n".join(parts) + "\n"


def wait_for(what: str, probe: Callable[[], Any], timeout: float, every: float = 0.1) -> Any:
    """Poll until ``probe`` gives something true; that. Raises ``StackFailed`` naming ``what``."""
    deadline = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise StackFailed(f"{what} did not happen within {timeout:.0f} s")
        time.sleep(every)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
