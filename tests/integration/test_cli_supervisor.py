from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from coven.cli import exits
from coven.cli.processes import Program
from coven.cli.supervisor import Printer, Supervisor

SLEEPER = "import time; print('ready', flush=True); time.sleep(60)"
WHO = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print('grandchild', p.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def program(name: str, code: str, patience: float = 5) -> Program:
    return Program(name, (sys.executable, "-c", code), patience)


def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Running:
    """A supervisor in a thread of its own, as a stand-in for the main thread of ``up``."""

    def __init__(self, *programs: Program) -> None:
        self.out = io.StringIO()
        names = ["up", *(p.name for p in programs)]
        printer = Printer(self.out, names, colours=False)
        self.supervisor = Supervisor(programs, dict(os.environ), printer)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.supervisor.run()

    @property
    def text(self) -> str:
        return self.out.getvalue()

    def stop(self) -> int | None:
        self.supervisor.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.code

    def wait(self) -> int | None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.code


def test_lines_of_all_children_come_with_their_names_and_a_stop_ends_them() -> None:
    running = Running(program("web", SLEEPER), program("worker", SLEEPER))
    until(lambda: running.text.count("| ready") == 2)
    started = time.monotonic()
    assert running.stop() == exits.DONE
    assert time.monotonic() - started < 4
    assert "web    | ready" in running.text
    assert "worker | ready" in running.text
    assert "stopping web, worker" in running.text


def test_a_child_that_crashes_is_started_again_and_that_is_said(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = (
        f"import pathlib, sys, time; p = pathlib.Path({str(mark)!r})\n"
        "first = not p.exists(); p.touch()\n"
        "print('first' if first else 'again', flush=True)\n"
        "sys.exit(3) if first else time.sleep(60)\n"
    )
    running = Running(program("worker", code))
    until(lambda: "| again" in running.text)
    running.stop()
    assert "worker ended (exit code 3); again in 1 s" in running.text


def test_a_killed_child_is_named_by_its_signal() -> None:
    running = Running(program("web", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    until(lambda: "web ended (SIGKILL)" in running.text)
    running.stop()


def test_an_unusable_configuration_stops_everything_instead_of_restarting() -> None:
    running = Running(program("web", SLEEPER), program("worker", "import sys; sys.exit(2)"))
    assert running.wait() == exits.UNUSABLE
    assert "worker can't use the configuration" in running.text
    assert "again in" not in running.text


def test_a_child_that_ignores_the_stop_is_killed_with_all_below_it() -> None:
    running = Running(program("worker", STUBBORN, patience=0.3))
    until(lambda: "grandchild" in running.text)
    grandchild = int(running.text.split("grandchild ")[1].split()[0])
    running.stop()
    assert "killing worker" in running.text
    until(lambda: not psutil.pid_exists(grandchild) or _is_zombie(grandchild))


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_asked_twice_it_does_not_wait() -> None:
    running = Running(program("worker", STUBBORN, patience=60))
    until(lambda: "grandchild" in running.text)
    running.supervisor.stop()
    started = time.monotonic()
    running.stop()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_the_supervisor_however_it_ends(number: signal.Signals) -> None:
    script = (
        "import os, signal, sys\n"
        "from coven.cli.processes import Program\n"
        "from coven.cli.supervisor import Printer, Supervisor\n"
        f"code = {WHO!r}\n"
        "s = Supervisor([Program('a', (sys.executable, '-c', code), 5)], dict(os.environ),\n"
        "               Printer(sys.stdout, ['a'], colours=False))\n"
        "signal.signal(signal.SIGTERM, s.stop)\n"
        "sys.exit(s.run())\n"
    )
    owner = subprocess.Popen(  # noqa: TID251 - a process of this test
        [sys.executable, "-c", script], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    with owner.stdout:
        child = int(owner.stdout.readline().split(b"|")[1])
        assert psutil.pid_exists(child)
        owner.send_signal(number)
        owner.wait(15)
    until(lambda: not psutil.pid_exists(child) or _is_zombie(child))
