"""Running one session to its end: deadline, limits, cancellation, and nothing left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coven.clock import Clock
from coven.contract.exit_codes import ProcessEnd
from coven.errors import CovenError
from coven.governance.wire import Seam, governed_make_dir, governed_spawn, spawning
from coven.redaction import Redactor
from coven.values import new_token
from worker.runtime import launch
from worker.runtime.backend import SESSION, SUPERVISOR, Backend, Exit
from worker.runtime.cgroup import Cgroup
from worker.runtime.command import run_command
from worker.runtime.orphans import kill_session, supervisor_mark
from worker.runtime.output import Drain
from worker.runtime.session import SessionSpec
from worker.runtime.watch import DiskWatch, measure_tree, tree_breach

TREE_EVERY_SECS = 0.25
STOP_GRACE_SECS = 2.0
"""Grace after a stop reason: a cancelled session must be gone within five seconds, and the wish
takes up to a second and a half to get here."""
LAUNCHER_PATIENCE_SECS = 3.0
"""How long a launcher that was told to kill everybody may take before we do it ourselves."""
DRAIN_PATIENCE_SECS = 1.0

_LAUNCHER = Path(launch.__file__)


def run_session(
    spec: SessionSpec,
    backend: Backend,
    seam: Seam,
    clock: Clock,
    redactor: Redactor,
    pulse: Callable[[], str | None],
    pulse_every: float,
) -> ProcessEnd:
    """Run ``spec`` under ``backend`` and return when its whole process tree is gone.

    ``pulse`` is called every ``pulse_every`` seconds on the calling thread; a text that it returns
    stops the session and becomes ``stop_reason``. Whatever is raised here (by ``pulse``, the gate
    or a time limit of the queue) is raised after the tree was killed. A program that can't be
    started is no exception but ``ProcessEnd.spawn_error``.
    """
    session = new_token()
    # A secret that also stands in ``env`` is treated as the secret that it is.
    public = {name: value for name, value in spec.env.items() if name not in spec.secrets_env}
    marks = {SESSION: session, SUPERVISOR: supervisor_mark(spec.cwd)}
    spec = replace(spec, env={**public, **marks})
    masked = redactor.with_live(*spec.secrets_env.values())
    begun = clock.monotonic()
    try:
        prepared = backend.prepare(spec)
    except CovenError as error:
        return ProcessEnd(exit_code=None, signal=None, spawn_error=masked.text(str(error)))
    _make_temporary(seam, spec)
    with Cgroup.create(seam, session, spec.limits) as cgroup:
        run = _Run(spec, backend, seam, clock, cgroup)
        try:
            run.start(prepared.argv, prepared.env)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            return ProcessEnd(exit_code=None, signal=None, spawn_error=masked.text(str(error)))
        except BaseException:
            # The launcher may be running although its handle never reached us.
            kill_session(session)
            raise
        try:
            run.watch(pulse, pulse_every, begun + spec.timeout_secs)
        finally:
            run.end()
        return run.report(masked, clock.monotonic() - begun)


def _make_temporary(seam: Seam, spec: SessionSpec) -> None:
    """Create the guest's ``TMPDIR`` when it is one of the folders that it may write in."""
    folder = Path(spec.env.get("TMPDIR", "/"))
    if any(folder.is_relative_to(path) for path in spec.writable):
        governed_make_dir(seam, folder, point="session.tmp")


@dataclass
class _Ending:
    """Why a session was told to stop."""

    timed_out: bool = False
    stop_reason: str | None = None
    breach: str | None = None

    @property
    def due(self) -> bool:
        return self.timed_out or self.stop_reason is not None or self.breach is not None


class _Run:
    """One session while it lives."""

    def __init__(
        self, spec: SessionSpec, backend: Backend, seam: Seam, clock: Clock, cgroup: Cgroup
    ) -> None:
        self._spec = spec
        self._backend = backend
        self._seam = seam
        self._clock = clock
        self._cgroup = cgroup
        self._ending = _Ending()
        self._told: dict[str, Any] = {}
        self._status = b""
        self._peak = 0
        self._oom = False

    def start(self, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        """Start the launcher with the guest below it. Raises ``OSError`` when even that fails."""
        # The launcher is ours; what a rule is about is the program that it becomes.
        self._seam.perform(spawning(argv, self._spec.cwd, env), "session.program", lambda: None)
        config = {
            "parent": os.getpid(),
            "rlimits": self._rlimits(),
            "no_new_privs": not self._backend.sets_no_new_privs,
            "spare": self._backend.spare,
            "processes": self._spec.limits.processes,
            "cgroup": str(self._cgroup.path) if self._cgroup.path else None,
        }
        read_end, write_end = os.pipe()
        try:
            self._process = governed_spawn(
                self._seam,
                [
                    *(sys.executable, "-I", "-S", str(_LAUNCHER)),
                    *(str(write_end), json.dumps(config), "--", *argv),
                ],
                point="session.spawn",
                env=env,
                cwd=self._spec.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(write_end,),
                umask=0o077,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self._status_fd = read_end
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._drain = Drain(
            self._process.stdout, self._process.stderr, self._spec.limits.output_tail
        )
        self._disk = DiskWatch(self._spec.writable, self._spec.limits)

    def watch(self, pulse: Callable[[], str | None], pulse_every: float, deadline: float) -> None:
        """Return when the launcher has reported the end, by itself or because we asked."""
        now = self._clock.monotonic()
        next_pulse, next_tree = now + pulse_every, now
        kill_at: float | None = None
        while not self._ended:
            due = min(next_pulse, next_tree, deadline if kill_at is None else kill_at)
            self._read_status(max(0.0, min(due - now, TREE_EVERY_SECS)))
            now = self._clock.monotonic()
            if self._ended:
                return
            if now >= next_tree:
                self._look()
                # At most a twentieth of one core, however many processes this machine has.
                cost = self._clock.monotonic() - now
                next_tree = now + max(TREE_EVERY_SECS, 20 * cost)
            if now >= next_pulse:
                next_pulse = now + pulse_every
                reason = pulse()
                if not self._ending.due:
                    self._ending.stop_reason = reason
                now = self._clock.monotonic()
            if not self._ending.due and now >= deadline:
                self._ending.timed_out = True
            if self._ending.due and kill_at is None:
                kill_at = now + self._ask_to_stop()
            if kill_at is not None and now >= kill_at:
                return

    def end(self) -> None:
        """Kill what is left. Returns when no process of the session exists any more."""
        if not self._ended:
            self._run_backend(self._backend.kill(self._spec))
            self._tell_launcher(signal.SIGTERM)
            patience = self._clock.monotonic() + LAUNCHER_PATIENCE_SECS
            while not self._ended and self._clock.monotonic() < patience:
                if not self._read_status(0.05):
                    break
        self._leave()
        self._oom = self._run_backend(self._backend.inspect(self._spec)).strip() == "true"
        self._run_backend(self._backend.finish(self._spec))
        self._cgroup.kill()
        kill_session(self._spec.env[SESSION])
        self._drain.close(DRAIN_PATIENCE_SECS)
        self._disk.close()
        os.close(self._status_fd)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def report(self, redactor: Redactor, seconds: float) -> ProcessEnd:
        """What happened, with masked output."""
        stdout = self._drain.stdout.tail(redactor)
        stderr = self._drain.stderr.tail(redactor)
        told, ending = self._told, self._ending
        if told.get("event") == "spawn_error":
            text = f"{self._spec.argv[0]}: {told.get('text')}"
            end = Exit(None, None, spawn_error=text)
        elif told.get("event") == "ended":
            end = self._backend.read_exit(told.get("exit_code"), told.get("signal"), stderr)
        else:
            # The launcher died without a word: somebody killed it, or the machine is out of memory.
            end = Exit(None, int(signal.SIGKILL))
        breach = ending.breach or self._named_breach(end)
        return ProcessEnd(
            exit_code=end.exit_code,
            signal=end.signal,
            timed_out=ending.timed_out,
            stop_reason=ending.stop_reason,
            breach=breach if not (ending.timed_out or ending.stop_reason) else ending.breach,
            spawn_error=redactor.text(end.spawn_error) if end.spawn_error else None,
            stdout_tail=stdout,
            stderr_tail=stderr,
            duration_secs=seconds,
            peak_rss_bytes=max(self._peak, int(told.get("peak_rss_bytes") or 0)) or None,
        )

    @property
    def _ended(self) -> bool:
        return self._told.get("event") in {"ended", "spawn_error", "silent"}

    def _rlimits(self) -> dict[str, int]:
        limits = self._spec.limits
        found = {"CORE": 0, "FSIZE": limits.file_bytes, "NOFILE": limits.open_files}
        if limits.address_bytes is not None:
            found["AS"] = limits.address_bytes
        return found

    def _read_status(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for news; False when the launcher's end of the channel is shut."""
        ready, _, _ = select.select([self._status_fd], [], [], seconds)
        if not ready:
            return True
        chunk = os.read(self._status_fd, 65536)
        if not chunk:
            if not self._ended:
                self._told = {"event": "silent"}
            return False
        self._status += chunk
        *lines, self._status = self._status.split(b"\n")
        for line in lines:
            self._told = json.loads(line)
        return True

    def _look(self) -> None:
        """Compare what the tree uses with the limits."""
        if self._ending.due:
            return
        limits = self._spec.limits
        if limits.output_bytes is not None and self._drain.total > limits.output_bytes:
            self._ending.breach = "output"
        elif self._disk.breach:
            self._ending.breach = self._disk.breach
        elif not self._backend.own_limits:
            use = measure_tree(self._process.pid, limits.memory_bytes)
            self._peak = max(self._peak, use.rss_bytes)
            self._ending.breach = tree_breach(use, limits)

    def _ask_to_stop(self) -> float:
        """SIGTERM to everybody; the seconds that they get to obey."""
        if self._ending.breach:
            return 0.0
        self._tell_launcher(signal.SIGUSR1)
        if self._ending.stop_reason:
            return min(self._spec.grace_secs, STOP_GRACE_SECS)
        return self._spec.grace_secs

    def _tell_launcher(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _leave(self) -> None:
        """The launcher ends by itself after its report; one that can't is killed with its tree."""
        try:
            self._process.wait(LAUNCHER_PATIENCE_SECS if self._ended else 0.0)
        except subprocess.TimeoutExpired:
            for pid in launch.descendants(self._process.pid):
                launch.send(pid, signal.SIGSTOP)
            for pid in launch.descendants(self._process.pid):
                launch.send(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def _named_breach(self, end: Exit) -> str | None:
        """A limit that ended the session from inside, where the kernel tells us."""
        if end.signal == signal.SIGXFSZ:
            return "file size"
        if self._cgroup.out_of_memory() or self._oom:
            return "memory"
        return self._disk.last_look()

    def _run_backend(self, command: tuple[str, ...] | None) -> str:
        """Run a short command of the backend; its output, empty when it failed."""
        if command is None:
            return ""
        return run_command(self._seam, command, self._backend.cli_env)
