"""Keeping several processes running in one terminal.

Each child's lines get its name in front. A child that ends by itself is started again after a
growing pause, and that is said. A stop goes to the children in order, gives each its time, and
then kills what is left with everything below it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from coven.cli import exits
from coven.cli.processes import Program
from coven.embedded import die_with_parent
from coven.governance.wire import Seam, governed_spawn

FIRST_PAUSE_SECS = 1.0
LONGEST_PAUSE_SECS = 30.0
STABLE_SECS = 60.0
"""A child that ran this long starts with the first pause again."""
_POLL_SECS = 0.1
_COLOURS = (36, 32, 33, 35, 34, 31)


class Printer:
    """Writes whole lines of many children to one stream, each with its child's name."""

    def __init__(self, stream: TextIO, names: Sequence[str], *, colours: bool) -> None:
        self._stream = stream
        self._width = max((len(name) for name in names), default=0)
        self._colours = {
            name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names) if colours
        }
        self._lock = threading.Lock()

    def line(self, name: str, text: str) -> None:
        """One line of ``name``."""
        label = f"{name:<{self._width}} |"
        if name in self._colours:
            label = f"\x1b[{self._colours[name]}m{label}\x1b[0m"
        with self._lock:
            self._stream.write(f"{label} {text}\n")
            self._stream.flush()


@dataclass
class _Child:
    program: Program
    process: subprocess.Popen[bytes] | None = None  # noqa: TID251 - a type
    reader: threading.Thread | None = None
    started_at: float = 0.0
    restart_at: float = 0.0
    pause: float = FIRST_PAUSE_SECS
    restarts: int = 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Supervisor:
    """Runs ``programs`` until told to stop. ``also`` is called all the time (the broker)."""

    programs: Sequence[Program]
    env: Mapping[str, str]
    printer: Printer
    also: Callable[[], None] = lambda: None
    seam: Seam = field(default_factory=Seam)
    _stop: threading.Event = field(default_factory=threading.Event)
    _hurry: threading.Event = field(default_factory=threading.Event)

    def run(self) -> int:
        """Start all, watch them, stop them. Answers an exit code."""
        children = [_Child(program) for program in self.programs]
        code = exits.DONE
        try:
            for child in children:
                self._start(child)
            while not self._stop.wait(_POLL_SECS):
                self.also()
                for child in children:
                    if self._look_after(child) == exits.UNUSABLE:
                        code = exits.UNUSABLE
                        self._stop.set()
        finally:
            self._stop_all(children)
        return code

    def stop(self, *_: object) -> None:
        """Stop in good order; asked twice: at once. Works as a signal handler."""
        (self._hurry if self._stop.is_set() else self._stop).set()

    def _start(self, child: _Child) -> None:
        child.process = governed_spawn(
            self.seam,
            child.program.argv,
            point=f"up.{child.program.name}",
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A session of its own, so that Ctrl-C reaches us alone and we choose the order.
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        child.started_at = time.monotonic()
        child.reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        child.reader.start()

    def _read(self, child: _Child) -> None:
        assert child.process is not None
        assert child.process.stdout is not None
        with child.process.stdout as pipe:
            for raw in pipe:
                self.printer.line(child.program.name, raw.decode("utf-8", "replace").rstrip("\r\n"))

    def _look_after(self, child: _Child) -> int | None:
        """Restart a child that ended. Answers its exit code when it has just ended."""
        now = time.monotonic()
        if child.process is None:
            if now >= child.restart_at:
                child.restarts += 1
                self._start(child)
            return None
        code = child.process.poll()
        if code is None:
            return None
        if child.reader is not None:
            child.reader.join(1)
        child.process = None
        name = child.program.name
        if code == exits.UNUSABLE:
            self.printer.line("up", f"{name} can't use the configuration; stopping everything")
            return code
        if now - child.started_at >= STABLE_SECS:
            child.pause = FIRST_PAUSE_SECS
        self.printer.line("up", f"{name} ended ({_ending(code)}); again in {child.pause:.0f} s")
        child.restart_at = now + child.pause
        child.pause = min(LONGEST_PAUSE_SECS, child.pause * 2)
        return code

    def _stop_all(self, children: Sequence[_Child]) -> None:
        alive = [child for child in children if child.running]
        for child in alive:
            assert child.process is not None
            child.process.terminate()
        if alive:
            names = ", ".join(child.program.name for child in alive)
            self.printer.line("up", f"stopping {names}; once more stops at once")
        asked_at = time.monotonic()
        for child in alive:
            self._await_end(child, asked_at + child.program.patience_secs)
        for child in children:
            if child.reader is not None:
                child.reader.join(1)

    def _await_end(self, child: _Child, deadline: float) -> None:
        assert child.process is not None
        while child.running and time.monotonic() < deadline and not self._hurry.is_set():
            time.sleep(_POLL_SECS / 2)
        if child.running:
            self.printer.line("up", f"killing {child.program.name}")
        # Also when it ended by itself: nothing of its process group may be left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def wants_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour (https://no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR")


def printer_for(names: Sequence[str]) -> Printer:
    """A printer on stdout."""
    return Printer(sys.stdout, names, colours=wants_colours(sys.stdout, os.environ))
