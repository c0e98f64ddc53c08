"""Keeping a claimed task ours while it runs, and hearing when it must stop.

A thread renews the lease in SQL and looks for a request to stop more often than that, so that a
cancelled session ends within seconds. The session loop asks :meth:`LeaseKeeper.stop_reason`,
which costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import structlog

from coven.errors import StoreUnavailable
from coven.services import Services
from coven.store import attempts, tasks
from coven.store.tasks import Task

LOOK_EVERY_SECS = 1.0
"""How often a request to stop is looked for; a running session must end within 5 s of it."""

LEASE_LOST = "lease lost"
DRAIN = "drain"

_log = structlog.get_logger(__name__)


class Draining(Protocol):
    """Whether this process was asked to put its work back and end."""

    def is_set(self) -> bool:
        """True from the moment the grace of a shutdown is over."""


class LeaseKeeper:
    """Renews the lease of one running task; a context manager."""

    def __init__(self, services: Services, task: Task, draining: Draining) -> None:
        if task.lease_token is None:
            raise ValueError("only a claimed task has a lease")
        self._services = services
        self._task = task
        self._token = task.lease_token
        self._draining = draining
        self._stop_reason: str | None = None
        self.on_tick: Callable[[], None] | None = None
        """Called every ``LOOK_EVERY_SECS`` while the lease is ours; may raise
        ``StoreUnavailable``."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def stop_reason(self) -> str | None:
        """Why the work must stop now: ``lease lost``, ``drain``, or the reason of a cancel."""
        if self._stop_reason is None and self._draining.is_set():
            self._stop_reason = DRAIN
        return self._stop_reason

    def note(self, **facts: object) -> None:
        """Write facts of the running attempt (``phase``, ``pid``, ``start_sha``)."""
        with self._services.store.write("lease.note") as tx:
            attempts.progress(
                self._task.installation_id,
                tx,
                self._task.id,
                self._token,
                self._services.clock.now(),
                **facts,
            )

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join(timeout=10)

    def _keep(self) -> None:
        clock = self._services.clock
        settings = self._services.settings.worker
        renewed = clock.monotonic()
        while not self._done.wait(LOOK_EVERY_SECS):
            now = clock.monotonic()
            try:
                if now - renewed >= settings.heartbeat_secs:
                    self._renew()
                    renewed = clock.monotonic()
                else:
                    self._look()
                if self.on_tick is not None and self._stop_reason is None:
                    self.on_tick()
            except StoreUnavailable as error:
                # The lease may outlive a short fault. After that somebody else may own the task.
                _log.warning("lease_not_renewed", why=str(error))
                if now - renewed >= settings.lease_secs:
                    self._stop_reason = LEASE_LOST
            if self._stop_reason == LEASE_LOST:
                return

    def _renew(self) -> None:
        task, services = self._task, self._services
        with services.store.write("lease.renew") as tx:
            pulse = tasks.heartbeat(
                task.installation_id,
                tx,
                task.id,
                self._token,
                services.clock.now(),
                services.settings.worker.lease_secs,
            )
            attempts.progress(task.installation_id, tx, task.id, self._token, services.clock.now())
        self._stop_reason = self._stop_reason or (
            pulse.cancel_reason if pulse.alive else LEASE_LOST
        )

    def _look(self) -> None:
        with self._services.store.read() as tx:
            current = tasks.get(self._task.installation_id, tx, self._task.id)
        if current is None or current.lease_token != self._token:
            self._stop_reason = LEASE_LOST
        elif current.cancel_requested_at is not None:
            self._stop_reason = self._stop_reason or current.cancel_reason or "cancelled"
