"""From the counts of a process to the table that all processes share."""

from __future__ import annotations

import threading

import structlog

from coven.errors import StoreUnavailable
from coven.services import Services
from coven.store import metric_counts

EVERY_SECS = 5.0
"""What a process that is killed has counted since then is lost; nothing else depends on it."""

_log = structlog.get_logger(__name__)


def flush(services: Services) -> bool:
    """Store what was counted. False when the store is away: it is kept for the next time."""
    grown, levels = services.meter.take()
    if not grown and not levels:
        return True
    now = services.clock.now()
    try:
        with services.store.write("metrics.flush") as tx:
            metric_counts.add(tx, grown, now)
            metric_counts.set_levels(tx, levels, now)
    except StoreUnavailable as error:
        services.meter.give_back(grown)
        _log.debug("metrics_not_stored", why=str(error))
        return False
    return True


class Flusher:
    """Stores the counts of this process every few seconds, on a thread of its own."""

    def __init__(self, services: Services, every_secs: float = EVERY_SECS) -> None:
        self._services = services
        self._every_secs = every_secs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin; call it in the process that counts, after any fork."""
        self._thread.start()

    def stop(self) -> None:
        """Store the last counts and end."""
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(self._every_secs):
            flush(self._services)
        flush(self._services)
