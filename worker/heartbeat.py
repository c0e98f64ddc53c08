"""The Check Run of a running session says how long it has been at it.

Coalesced: a change of phase shows at once, time only every ``worker.check_heartbeat_secs``. A
worker that lost its lease, or was told to stop, writes nothing more.
"""

from __future__ import annotations

import threading
import time

import structlog

from coven.errors import StoreUnavailable
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import tasks
from coven.store.tasks import Task
from worker import show

_log = structlog.get_logger(__name__)


class Heartbeat:
    """Progress of one attempt; ``tick`` is called by the keeper of its lease."""

    def __init__(self, services: Services, task: Task, familiar: Familiar, began: float) -> None:
        self._services = services
        self._task = task
        self._familiar = familiar
        self._began = began
        self._every = services.settings.worker.check_heartbeat_secs
        self._phase: str | None = None
        self._shown_at = began
        self._lock = threading.Lock()

    def enter(self, phase: str) -> None:
        """A new phase, in words for people; shown at once. Never fails the work for it."""
        with self._lock:
            self._phase = phase
        try:
            self._show(phase)
        except StoreUnavailable as error:
            _log.warning("heartbeat_not_written", why=str(error))

    def leave(self) -> None:
        """Nothing more to say: what follows shows itself."""
        with self._lock:
            self._phase = None

    def tick(self) -> None:
        """Show the time when it is due. Raises ``StoreUnavailable``."""
        with self._lock:
            phase = self._phase
            due = time.monotonic() - self._shown_at >= self._every
        if phase is not None and due:
            self._show(phase)

    def _show(self, phase: str) -> None:
        task, services = self._task, self._services
        self._shown_at = time.monotonic()
        if not task.is_pull:
            return
        now = services.clock.now()
        with services.store.write("task.heartbeat") as tx:
            # The write takes the row: whoever ends the task afterwards overwrites this line.
            held = tasks.amend(task.installation_id, tx, task.id, task.lease_token or "", now)
            if held is None or held.cancel_requested_at is not None:
                return
            seconds = time.monotonic() - self._began
            wanted = show.heartbeat(services.settings, held, self._familiar, phase, seconds)
            show.desire_all(tx, held, wanted, now)
        services.bell.publish(task.id)
