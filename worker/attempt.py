"""What one attempt carries from phase to phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from coven.contract.exit_codes import ProcessEnd
from coven.contract.result import ResultReading
from coven.metrics import SESSION as SESSION_SECS
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar
from coven.store.attempts import AttemptEnd
from coven.store.tasks import Task
from worker.lease import LeaseKeeper
from worker.session import Prepared
from worker.tool_rules import Asked

SESSION = "session"
"""The phase in which the runtime runs."""


class Stopped(Exception):
    """The keeper says that the work must stop; ``reason`` is its word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Attempt:
    """What one attempt carries from phase to phase."""

    services: Services
    task: Task
    familiar: Familiar
    keeper: LeaseKeeper
    number: int
    redactor: Redactor
    began: float
    phase: str = "claimed"
    timings: dict[str, float] = field(default_factory=dict)
    prepared: Prepared | None = None
    end: ProcessEnd | None = None
    reading: ResultReading | None = None
    asked: Asked | None = None
    """A call of the session that a person would have to approve."""
    tolerated: list[str] = field(default_factory=list)
    """Deviations found after the result was read, such as an unexpected branch name."""
    spawned: float | None = None
    exited: float | None = None

    @property
    def start_sha(self) -> str | None:
        """The commit that was checked out; None before that."""
        return self.prepared.workspace.start_sha if self.prepared else None

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Name the phase, time it in seconds, and stop at its border when told to."""
        self.check()
        self.phase = phase
        self.keeper.note(phase=phase)
        began = time.monotonic()
        if phase == SESSION:
            self.spawned = began
        try:
            yield
        finally:
            ended = time.monotonic()
            self.timings[phase] = ended - began
            if phase == SESSION:
                self.exited = ended
                self.services.meter.observe(SESSION_SECS, ended - began, self.task.lane)
        self.check()

    def check(self) -> None:
        """Raises ``Stopped`` when the work must stop."""
        reason = self.keeper.stop_reason()
        if reason is not None:
            raise Stopped(reason)

    def closing(self, outcome: str, detail: str | None = None) -> AttemptEnd:
        """How this attempt is written down. Texts are redacted."""
        end, reading = self.end, self.reading
        return AttemptEnd(
            outcome=outcome,
            detail=self.redactor.text(detail)[:2_000] if detail else None,
            exit_code=end.exit_code if end else None,
            signal=end.signal if end else None,
            tolerated=[
                self.redactor.text(each)
                for each in (*(reading.tolerated if reading else ()), *self.tolerated)
            ],
            timings=self._all_timings(),
            stdout_tail=end.stdout_tail if end else None,
            stderr_tail=end.stderr_tail if end else None,
        )

    def _all_timings(self) -> dict[str, float]:
        """Seconds by phase, and what they come to around the session."""
        now = time.monotonic()
        found = {**self.timings, "total": now - self.began}
        if self.spawned is not None:
            found["claim_to_spawn"] = self.spawned - self.began
        if self.exited is not None:
            found["exit_to_terminal"] = now - self.exited
        return {name: round(value, 4) for name, value in found.items()}
