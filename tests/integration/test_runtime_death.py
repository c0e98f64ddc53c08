"""A worker that dies leaves nothing running, or it is swept at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.runtime_kit import backend_named, processes_with, wait_for
from worker.runtime import launch
from worker.runtime.orphans import sweep_orphans

WORKER = """
import sys
from pathlib import Path
from tests.integration.runtime_kit import backend_named, run, shell
name, folder, mark = sys.argv[1:]
script = f"setsid sh -c 'sleep 300; : {mark}' & sleep 300; : {mark}"
run(backend_named(name), Path(folder), shell(script), timeout_secs=120.0)
"""


class DyingWorker:
    """A process of its own that supervises one session."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.mark = f"mark-{uuid.uuid4().hex}"
        self.process = subprocess.Popen(  # noqa: TID251 - the test plays the operating system
            [sys.executable, "-c", WORKER, backend, str(folder), self.mark],
            cwd=Path(__file__).parents[2],
        )

    @property
    def guests(self) -> list[int]:
        """Processes of the session, the launcher and the worker left out."""
        mine = {self.process.pid, *self.launchers}
        return [pid for pid in processes_with(self.mark) if pid not in mine]

    @property
    def launchers(self) -> list[int]:
        return [pid for pid in processes_with(self.mark) if pid in processes_with("launch.py")]

    def wait_until_running(self) -> None:
        wait_for(lambda: len(self.guests) >= 2, 20)

    def die(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=["host", "bubblewrap"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DyingWorker]:
    backend_named(request.param)
    worker = DyingWorker(request.param, tmp_path)
    worker.wait_until_running()
    yield worker
    worker.die()
    for pid in processes_with(worker.mark):
        launch.send(pid, signal.SIGKILL)


def test_a_killed_worker_takes_its_session_along(worker: DyingWorker) -> None:
    worker.die()
    wait_for(lambda: not processes_with(worker.mark))


def test_a_worker_that_is_stopped_politely_takes_its_session_along(worker: DyingWorker) -> None:
    worker.process.send_signal(signal.SIGINT)
    worker.process.wait(20)
    assert processes_with(worker.mark) == []


@pytest.mark.parametrize("worker", ["host"], indirect=True)
def test_what_survives_worker_and_launcher_is_swept(worker: DyingWorker, tmp_path: Path) -> None:
    for pid in worker.launchers:
        os.kill(pid, signal.SIGSTOP)
    worker.process.send_signal(signal.SIGSTOP)
    for pid in worker.launchers:
        os.kill(pid, signal.SIGKILL)
    worker.die()
    assert worker.guests, "a double-forked guest outlives both"
    assert sweep_orphans(tmp_path) >= 1
    assert processes_with(worker.mark) == []


def test_sessions_of_living_workers_are_not_swept(worker: DyingWorker, tmp_path: Path) -> None:
    assert sweep_orphans(tmp_path) == 0
    assert worker.guests


@pytest.mark.parametrize("worker", ["host"], indirect=True)
def test_sessions_of_other_servers_are_not_swept(worker: DyingWorker, tmp_path: Path) -> None:
    for pid in worker.launchers:
        os.kill(pid, signal.SIGKILL)
    worker.process.send_signal(signal.SIGSTOP)
    worker.die()
    elsewhere = tmp_path.parent / "another-server"
    assert sweep_orphans(elsewhere) == 0
