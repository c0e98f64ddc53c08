"""What receiver and workers are built from: made once per process and handed down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coven.clock import Clock
from coven.github.factory import GitHub
from coven.governance.gate import RulesGate
from coven.governance.wire import Seam
from coven.metrics import Meter
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.values import TaskId


class Bell(Protocol):
    """Says *look now* to the workers. Never raises; False when nobody could be told."""

    def session(self, task_id: TaskId) -> bool:
        """A task of a session lane is due."""

    def control(self, task_id: TaskId) -> bool:
        """A task of the control lane is due."""

    def publish(self, task_id: TaskId) -> bool:
        """Surfaces of this task differ from GitHub."""


@dataclass(frozen=True)
class Services:
    """The collaborators of one process."""

    settings: Settings
    store: Store
    github: GitHub
    clock: Clock
    seam: Seam
    bell: Bell
    redactor: Redactor
    secret_key: bytes
    """Signs markers and cookies."""
    rules: RulesGate | None = None
    """The gate behind ``seam``; absent while the rules are switched off."""
    meter: Meter = field(default_factory=Meter)
    """Counts what happens in this process."""
