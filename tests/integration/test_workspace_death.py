"""Git calls of a worker that was killed are ended by the next sweep, their helpers included."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import psutil

from tests.integration.runtime_kit import wait_for
from worker.runtime.orphans import sweep_orphans

WORKER = """
import sys
from pathlib import Path
from coven.clock import SystemClock
from coven.governance.wire import Seam
from coven.redaction import Redactor
from worker.workspace.git import Git
root, url = Path(sys.argv[1]), sys.argv[2]
git = Git(Seam(), root, ("http",), clock=SystemClock(), redactor=Redactor(), swept_below=root)
git.run(["ls-remote", "--end-of-options", url], cwd=root, timeout=100, host_url=url)
"""


def test_a_fetch_whose_worker_was_killed_is_swept(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/acme/shop.git"
        worker = subprocess.Popen(  # noqa: TID251 - the test plays the operating system
            [sys.executable, "-c", WORKER, str(tmp_path), url], cwd=Path(__file__).parents[2]
        )
        try:
            # git, and the helper of git that talks to the server.
            wait_for(lambda: len(git_processes(url)) >= 2, 20)
            assert sweep_orphans(tmp_path) == 0
        finally:
            worker.kill()
            worker.wait()
        assert sweep_orphans(tmp_path / "elsewhere") == 0
        assert sweep_orphans(tmp_path) >= 1
        wait_for(lambda: not git_processes(url), 5)


def git_processes(url: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if url in words and Path(words[0]).name.startswith("git") and process.is_running():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
