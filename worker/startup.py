"""What a session worker tidies up: the remains of a worker process that was killed."""

from __future__ import annotations

from typing import Any

import structlog
from celery import signals

from coven.errors import CovenError
from coven.services import Services
from coven.store import sweeps
from worker.purge import forget_gone
from worker.runtime.choose import choose
from worker.runtime.container import Container
from worker.runtime.orphans import sweep_containers, sweep_orphans
from worker.workspace.checkout import Workspaces

SWEEP_EVERY_SECS = 15.0

_log = structlog.get_logger(__name__)


def sweep_leftovers(services: Services) -> None:
    """Kill processes of dead supervisors, then remove checkouts that nobody has a lease of."""
    settings = services.settings
    killed = sweep_orphans(settings.workspace_root, services.seam)
    backend = choose(settings)
    if isinstance(backend, Container):
        killed += sweep_containers(backend, settings.workspace_root, services.seam)
    workspaces = Workspaces(settings, services.seam, services.clock, services.redactor)
    # Looked at before the leases: a folder that is there now belongs to a task claimed before.
    present = workspaces.present()
    if present:
        with services.store.read() as tx:
            present -= sweeps.leased(tx, services.clock.now())
    removed = workspaces.sweep(present)
    forgotten = forget_gone(services)
    if killed or removed or forgotten:
        _log.warning("leftovers_swept", processes=killed, workspaces=removed, tenants=forgotten)


def sweep_regularly(services: Services) -> None:
    """Sweep from the worker's own event loop: a killed pool process is replaced by Celery, but
    nobody tells the replacement what its predecessor left."""

    def sweep() -> None:
        try:
            sweep_leftovers(services)
        except (CovenError, OSError) as error:
            _log.warning("leftovers_not_swept", why=str(error))

    def on_ready(sender: Any, **_: Any) -> None:
        sender.timer.call_repeatedly(SWEEP_EVERY_SECS, sweep)

    signals.worker_ready.connect(on_ready, weak=False)
