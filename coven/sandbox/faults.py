"""What goes wrong on purpose, and what was asked of the sandbox."""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from coven.sandbox.state import JSON

KINDS = ("drop", "delay", "status", "expire")


@dataclass
class Fault:
    """One switch. It acts on the ``nth`` matching request and on ``times - 1`` after it."""

    id: int
    method: str
    """HTTP method, or ``*``."""
    path: str
    """Regular expression, searched in the path (without ``/api/v3``)."""
    kind: str
    nth: int = 1
    times: int = 1
    status: int = 502
    seconds: float = 0.0
    retry_after: int | None = None
    after: bool = False
    """Do what was asked, then fail: the answer is lost, the effect is not."""
    message: str | None = None
    seen: int = 0
    fired: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Count a request, and say whether it is hit."""
        if self.method not in ("*", method) or not re.search(self.path, path):
            return False
        self.seen += 1
        if self.nth <= self.seen < self.nth + self.times:
            self.fired += 1
            return True
        return False


class Faults:
    """All switches, in the order in which they were set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._next = 0

    def add(self, **fields: Any) -> Fault:
        """Set a switch. ValueError names a wrong field."""
        if fields.get("kind") not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}")
        re.compile(fields.get("path", ""))
        with self._lock:
            self._next += 1
            fault = Fault(id=self._next, **fields)
            self._faults.append(fault)
            return fault

    def take(self, method: str, path: str) -> Fault | None:
        """The first switch that hits this request; every matching one counts it."""
        with self._lock:
            hits = [fault for fault in self._faults if fault.takes(method, path)]
            return hits[0] if hits else None

    def clear(self) -> None:
        """Everything works again."""
        with self._lock:
            self._faults.clear()

    def listed(self) -> list[JSON]:
        """All switches with their counts."""
        with self._lock:
            return [asdict(fault) for fault in self._faults]


@dataclass
class LoggedRequest:
    """One request, without any credential."""

    n: int
    at: str
    method: str
    path: str
    query: str
    purpose: str
    """Name of the operation, such as ``create_check_run``; empty for an unknown route."""
    status: int = 0
    actor: str = "anonymous"
    """``app``, ``token:<id>`` or ``anonymous``."""
    installation_id: int | None = None
    repo: str | None = None
    fault: str | None = None
    duration_ms: float = 0.0
    unexpected: bool = False
    user_agent: str = ""


@dataclass
class RequestLog:
    """Every request, oldest first."""

    entries: list[LoggedRequest] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, entry: LoggedRequest) -> None:
        """Write one down and number it."""
        with self._lock:
            entry.n = len(self.entries) + 1
            self.entries.append(entry)

    def listed(self, since: int = 0) -> list[JSON]:
        """Entries after number ``since``."""
        with self._lock:
            return [asdict(entry) for entry in self.entries[since:]]

    def counts(self) -> dict[str, int]:
        """How often each operation was asked for."""
        with self._lock:
            return dict(Counter(entry.purpose or "unknown" for entry in self.entries))

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self.entries.clear()
