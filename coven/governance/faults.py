"""Named fault points: where a test may stop, slow or kill a process, on purpose.

Production uses :class:`NoFaults`. A scripted plan is read from the environment variable
``COVEN_GITHUB_FAULTS`` only, so that real processes can be killed at an exact line by the chaos
tests. Grammar: ``point=action[@n]`` separated by ``;``; actions are ``kill`` (SIGKILL to this
process), ``raise`` and ``sleep:<seconds>``; ``@n`` means the n-th time (1 when absent). A plan
fires once per marker directory (``COVEN_GITHUB_FAULTS_DIR``), so that a restarted process
survives the same line.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

ENV_PLAN = "COVEN_GITHUB_FAULTS"
ENV_DIR = "COVEN_GITHUB_FAULTS_DIR"


class InjectedFault(RuntimeError):
    """Raised by a scripted ``raise``; nothing in the product catches it by name."""


class Faults(Protocol):
    """Called with the name of a point just before or after an effect."""

    def hit(self, point: str) -> None:
        """Return at once, or misbehave as planned."""


class NoFaults:
    """Nothing ever happens here."""

    def hit(self, point: str) -> None:
        return None


class ScriptedFaults:
    """Misbehaves as told by a plan; see the module text for the grammar."""

    def __init__(self, plan: str, marker_dir: Path | None = None) -> None:
        self._plan = [_parse(item) for item in plan.split(";") if item.strip()]
        self._dir = marker_dir
        self._seen: Counter[str] = Counter()
        self._done: set[int] = set()
        self._lock = threading.Lock()

    def hit(self, point: str) -> None:
        with self._lock:
            self._seen[point] += 1
            due = [
                (index, action)
                for index, (name, action, nth) in enumerate(self._plan)
                if name == point and nth == self._seen[point] and self._first_time(index)
            ]
        for _, action in due:
            _act(action, point)

    def _first_time(self, index: int) -> bool:
        if index in self._done:
            return False
        self._done.add(index)
        if self._dir is None:
            return True
        try:
            os.close(os.open(self._dir / f"fault-{index}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True


def faults_from(environ: Mapping[str, str]) -> Faults:
    """The plan of this process: none unless the environment names one."""
    plan = environ.get(ENV_PLAN, "")
    if not plan:
        return NoFaults()
    directory = environ.get(ENV_DIR)
    return ScriptedFaults(plan, Path(directory) if directory else None)


def _parse(item: str) -> tuple[str, str, int]:
    name, equals, action = item.strip().partition("=")
    action, at, nth = action.partition("@")
    known = action in {"kill", "raise"} or action.startswith("sleep:")
    if not equals or not known or (at and not nth.isdigit()):
        raise ValueError(
            f"{ENV_PLAN}: can't read {item!r}; write point=kill|raise|sleep:SECONDS[@n]"
        )
    return name, action, int(nth or 1)


def _act(action: str, point: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "raise":
        raise InjectedFault(point)
    else:
        time.sleep(float(action.partition(":")[2]))
