"""Supervision on real process trees, on the host and under bubblewrap."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from coven.clock import SystemClock
from coven.errors import GovernanceRefused
from coven.governance.actions import Action, MalformedAction, ProcessSpawn
from coven.governance.faults import InjectedFault, ScriptedFaults
from coven.governance.wire import Seam
from coven.redaction import Redactor
from tests.integration.runtime_kit import (
    backend_named,
    processes_with,
    python,
    run,
    shell,
    spec_for,
)
from worker.runtime import launch
from worker.runtime.backend import Backend
from worker.runtime.host import Host
from worker.runtime.orphans import marks
from worker.runtime.supervise import run_session


@pytest.fixture(params=["host", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return backend_named(request.param)


@pytest.fixture
def mark() -> str:
    """A word in the command line of a test's processes."""
    return f"mark-{uuid.uuid4().hex}"


@pytest.mark.parametrize("code", [0, 1, 2, 3, 101])
def test_exit_codes_come_through(backend: Backend, tmp_path: Path, code: int) -> None:
    end = run(backend, tmp_path, shell(f"exit {code}"))
    assert (end.exit_code, end.signal, end.timed_out, end.breach) == (code, None, False, None)


@pytest.mark.parametrize("number", [9, 11, 15])
def test_a_signal_is_reported_as_a_signal(backend: Backend, tmp_path: Path, number: int) -> None:
    end = run(backend, tmp_path, shell(f"kill -{number} $$"))
    assert (end.exit_code, end.signal) == (None, number)


def test_a_program_that_is_not_there_is_a_spawn_error(backend: Backend, tmp_path: Path) -> None:
    end = run(backend, tmp_path, ("no-such-program",))
    assert end.spawn_error is not None
    assert "worker.coven_code_bin" in end.spawn_error
    assert end.exit_code is None


def test_a_checkout_that_is_not_there_is_a_spawn_error(tmp_path: Path) -> None:
    end = run(Host(), tmp_path / "gone", shell("exit 0"))
    assert end.spawn_error is not None


def test_a_script_without_interpreter_is_a_spawn_error_on_the_host(tmp_path: Path) -> None:
    script = tmp_path / "runtime"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    end = run(Host(), tmp_path, (str(script),))
    assert end.spawn_error is not None
    assert "No such file" in end.spawn_error


def test_daemonised_grandchildren_do_not_outlive_a_clean_end(
    backend: Backend, tmp_path: Path, mark: str
) -> None:
    code = f"""
import os, time
for kind in ("child", "double fork"):
    if os.fork() == 0:
        if kind == "double fork":
            os.setsid()
            if os.fork():
                os._exit(0)
        word = {mark!r}
        time.sleep(300)
time.sleep(0.2)
print("left two behind")
"""
    end = run(backend, tmp_path, python(code))
    assert end.exit_code == 0
    assert "left two behind" in end.stdout_tail
    assert processes_with(mark) == []


def test_a_guest_that_cleaned_its_environment_is_still_found(tmp_path: Path, mark: str) -> None:
    script = f"setsid env -i sh -c 'sleep 300; echo {mark}' & sleep 0.2; exit 0"
    end = run(Host(), tmp_path, shell(script))
    assert end.exit_code == 0
    assert processes_with(mark) == []


def test_a_child_on_its_own_terminal_is_killed_too(
    backend: Backend, tmp_path: Path, mark: str
) -> None:
    code = f"""
import os, pty, time
pid, fd = pty.fork()
if pid == 0:
    word = {mark!r}
    time.sleep(300)
time.sleep(0.2)
"""
    end = run(backend, tmp_path, python(code))
    assert end.exit_code == 0
    assert processes_with(mark) == []


def test_the_deadline_ends_the_whole_tree(backend: Backend, tmp_path: Path, mark: str) -> None:
    script = f"setsid sh -c 'sleep 300; : {mark}' & sleep 300"
    end = run(backend, tmp_path, shell(script), timeout_secs=0.5)
    assert end.timed_out
    assert end.stop_reason is None
    assert end.duration_secs < 4
    assert processes_with(mark) == []


def test_sigterm_comes_before_sigkill(backend: Backend, tmp_path: Path) -> None:
    script = "trap 'echo tidy; exit 7' TERM; while :; do sleep 0.05; done"
    end = run(backend, tmp_path, shell(script), timeout_secs=0.4, grace_secs=5.0)
    assert (end.timed_out, end.exit_code) == (True, 7)
    assert "tidy" in end.stdout_tail
    assert end.duration_secs < 4


def test_a_guest_that_ignores_sigterm_is_killed_after_the_grace(
    backend: Backend, tmp_path: Path, mark: str
) -> None:
    script = f"trap '' TERM; sh -c 'sleep 300; : {mark}' & while :; do sleep 0.05; done"
    end = run(backend, tmp_path, shell(script), timeout_secs=0.3, grace_secs=0.3)
    assert (end.timed_out, end.signal) == (True, 9)
    assert end.duration_secs < 4
    assert processes_with(mark) == []


def test_a_pulse_with_a_reason_stops_the_session_within_five_seconds(
    backend: Backend, tmp_path: Path, mark: str
) -> None:
    calls: list[float] = []

    def pulse() -> str | None:
        calls.append(time.monotonic())
        return "cancelled: a maintainer said stop" if len(calls) == 3 else None

    script = f"trap '' TERM; while :; do sleep 0.05; done; : {mark}"
    end = run(backend, tmp_path, shell(script), pulse=pulse, pulse_every=0.1, grace_secs=60.0)
    assert end.stop_reason == "cancelled: a maintainer said stop"
    assert not end.timed_out
    assert time.monotonic() - calls[2] < 5
    assert processes_with(mark) == []


def test_the_pulse_goes_on_during_the_grace(tmp_path: Path) -> None:
    beats: list[float] = []

    def pulse() -> None:
        beats.append(time.monotonic())

    script = "trap '' TERM; while :; do sleep 0.05; done"
    begun = time.monotonic()
    run(
        Host(), tmp_path, shell(script), pulse=pulse, pulse_every=0.1,
        timeout_secs=0.2, grace_secs=0.5,
    )  # fmt: skip
    assert any(beat - begun > 0.4 for beat in beats)


def test_an_error_in_the_pulse_kills_the_tree_before_it_is_raised(
    tmp_path: Path, mark: str
) -> None:
    def pulse() -> str | None:
        raise ZeroDivisionError("the pulse broke")

    with pytest.raises(ZeroDivisionError):
        run(Host(), tmp_path, shell(f"sleep 300; : {mark}"), pulse=pulse, pulse_every=0.1)
    assert processes_with(mark) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the lost handle
def test_a_fault_right_after_the_spawn_leaves_nothing(tmp_path: Path, mark: str) -> None:
    seam = Seam(faults=ScriptedFaults("session.spawn.after=raise"))
    spec = spec_for(tmp_path, shell(f"sleep 300; : {mark}"))
    with pytest.raises(InjectedFault):
        run_session(spec, Host(), seam, SystemClock(), Redactor(), lambda: None, 1)
    assert processes_with(mark) == []


def test_the_gate_sees_the_guest_program_and_can_refuse_it(tmp_path: Path, mark: str) -> None:
    seen: list[Action] = []

    class Refuse:
        def check(self, action: Action, point: str) -> Action:
            seen.append(action)
            if isinstance(action, ProcessSpawn):
                raise GovernanceRefused("no programs today")
            return action

        def malformed(self, problem: MalformedAction, point: str) -> None:
            raise problem

    spec = spec_for(tmp_path, shell(f"sleep 300; : {mark}"))
    with pytest.raises(GovernanceRefused):
        run_session(spec, Host(), Seam(gate=Refuse()), SystemClock(), Redactor(), lambda: None, 1)
    spawn = next(action for action in seen if isinstance(action, ProcessSpawn))
    assert any(item.endswith("/sh") for item in spawn.argv)
    assert processes_with(mark) == []


def test_a_guest_that_stops_its_launcher_does_not_get_away(tmp_path: Path, mark: str) -> None:
    script = f"kill -STOP $PPID; sleep 300; : {mark}"
    end = run(Host(), tmp_path, shell(script), timeout_secs=0.3, grace_secs=0.1)
    assert end.timed_out
    assert processes_with(mark) == []


def test_a_guest_that_kills_its_launcher_does_not_get_away(tmp_path: Path, mark: str) -> None:
    script = f"setsid sh -c 'sleep 300; : {mark}' & kill -KILL $PPID; sleep 300"
    end = run(Host(), tmp_path, shell(script))
    assert end.signal == 9
    assert processes_with(mark) == []


def test_the_guest_starts_with_nothing_of_ours_open(backend: Backend, tmp_path: Path) -> None:
    code = """
import os, stat
print("fds", sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3], end=" ")
print("more", [n for n in os.listdir("/proc/self/fd") if int(n) > 3])
print("stdin", os.readlink("/proc/self/fd/0"))
old = os.umask(0); print("umask", oct(old))
print("cwd", os.getcwd())
print("group", os.getpgid(0) not in (0, os.getpgid(os.getppid())) or os.getppid() == 1)
print([line for line in open("/proc/self/status") if line.startswith("NoNewPrivs")])
"""
    end = run(backend, tmp_path, python(code))
    text = end.stdout_tail
    assert "fds [0, 1, 2] more []" in text
    assert "stdin /dev/null" in text
    assert "umask 0o77" in text
    assert f"cwd {tmp_path}" in text
    assert "group True" in text
    assert "NoNewPrivs:\\t1" in text


def test_the_environment_is_exactly_what_was_given(backend: Backend, tmp_path: Path) -> None:
    os.environ["COVEN_TEST_BROKER_URL"] = "redis://:hidden@localhost"
    try:
        end = run(backend, tmp_path, shell("env"), secrets_env={"COVEN_GIT_TOKEN": "tok-123456789"})
    finally:
        del os.environ["COVEN_TEST_BROKER_URL"]
    names = {line.partition("=")[0] for line in end.stdout_tail.splitlines()}
    allowed = {"PATH", "HOME", "LC_ALL", "COVEN_GIT_TOKEN", "COVEN_SESSION", "COVEN_SUPERVISOR"}
    assert names - {"PWD", "OLDPWD", "_", "SHLVL"} == allowed
    assert "tok-123456789" not in end.stdout_tail


def test_secrets_are_never_in_an_argument_list(backend: Backend, tmp_path: Path) -> None:
    seen: list[list[int]] = []
    secret = f"tok-{uuid.uuid4().hex}"

    def pulse() -> str | None:
        seen.append(processes_with(secret))
        return "enough" if len(seen) >= 3 else None

    run(
        backend, tmp_path, shell("sleep 300"), pulse=pulse, pulse_every=0.1,
        secrets_env={"COVEN_GIT_TOKEN": secret},
    )  # fmt: skip
    assert len(seen) >= 3
    assert not any(seen)


def _zombies() -> set[int]:
    fields = {pid: launch.stat_fields(pid) for pid in launch.process_ids()}
    mine = {pid for pid, stat in fields.items() if stat and int(stat[1]) == os.getpid()}
    return {pid for pid in mine if fields[pid][0] == "Z"}


def test_nothing_with_our_marks_is_left_and_no_zombie(backend: Backend, tmp_path: Path) -> None:
    before = _zombies()
    run(backend, tmp_path, shell("sleep 300 & setsid sleep 300 & exit 0"))
    mine = [found for _, found in marks() if str(tmp_path) in found.get("COVEN_SUPERVISOR", "")]
    assert mine == []
    assert _zombies() <= before


def test_peak_memory_and_duration_are_measured(tmp_path: Path) -> None:
    code = "import time; x = b'x' * 60_000_000; time.sleep(0.6)"
    end = run(Host(), tmp_path, python(code))
    assert end.peak_rss_bytes is not None
    assert end.peak_rss_bytes > 60_000_000
    assert 0.6 <= end.duration_secs < 5
