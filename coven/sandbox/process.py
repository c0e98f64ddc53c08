"""Starting a sandbox: as its own process, or inside this one for tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coven.sandbox.client import SandboxAdmin
from coven.sandbox.server import APP_ID, SLUG, SandboxGitHub


class SandboxFailed(Exception):
    """The sandbox did not come up; the message says why."""


@dataclass
class SandboxHandle:
    """A running sandbox."""

    base_url: str
    app_id: int
    client_id: str
    slug: str
    bot_login: str
    bot_id: int
    private_key_path: Path
    admin: SandboxAdmin
    process: subprocess.Popen[bytes] | None = None  # noqa: TID251 - a type
    server: SandboxGitHub | None = None

    @property
    def private_key(self) -> str:
        """The App's key as PEM text."""
        return self.private_key_path.read_text(encoding="ascii")

    @property
    def pid(self) -> int | None:
        """Process id; None inside this process."""
        return None if self.process is None else self.process.pid

    def stop(self) -> None:
        """Stop it and wait. Safe to call twice."""
        if self.server is not None:
            server, self.server = self.server, None
            server.close()
        if self.process is not None:
            process, self.process = self.process, None
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _handle(described: dict[str, Any], **more: Any) -> SandboxHandle:
    return SandboxHandle(
        base_url=described["base_url"],
        app_id=described["app_id"],
        client_id=described["client_id"],
        slug=described["slug"],
        bot_login=described["bot_login"],
        bot_id=described["bot_id"],
        private_key_path=Path(described["private_key_path"]),
        admin=SandboxAdmin(described["base_url"]),
        **more,
    )


def launch_sandbox(
    state_dir: Path,
    *,
    port: int = 0,
    app_id: int = APP_ID,
    slug: str = SLUG,
    in_process: bool = False,
    ready_secs: float = 20.0,
) -> SandboxHandle:
    """Start a sandbox and wait until it answers; the caller stops it.

    The process ends by itself when this one dies. Raises SandboxFailed.
    """
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    if in_process:
        server = SandboxGitHub(state_dir, port=port, app_id=app_id, slug=slug)
        server.start()
        return _handle(server.describe(), server=server)
    described = state_dir / "sandbox.json"
    described.unlink(missing_ok=True)
    command = [sys.executable, "-m", "coven.sandbox", "--exit-with-stdin"]
    command += ["--state", str(state_dir), "--port", str(port)]
    command += ["--app-id", str(app_id), "--slug", slug]
    with (state_dir / "sandbox.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: TID251 - the sandbox is outside the seam
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + ready_secs
    while not described.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
            said = (state_dir / "sandbox.log").read_text(errors="replace")[-2000:]
            raise SandboxFailed(f"the sandbox did not come up: {said or 'no output'}")
        time.sleep(0.02)
    return _handle(json.loads(described.read_text(encoding="utf-8")), process=process)


@contextlib.contextmanager
def start_sandbox(state_dir: Path, **options: Any) -> Iterator[SandboxHandle]:
    """:func:`launch_sandbox` as a context manager."""
    handle = launch_sandbox(state_dir, **options)
    try:
        yield handle
    finally:
        handle.stop()
