"""What a session worker tidies up before it takes work: the remains of a worker that was killed."""

from __future__ import annotations

import structlog

from coven.services import Services
from coven.store import sweeps
from worker.runtime.orphans import sweep_orphans
from worker.workspace.checkout import Workspaces

_log = structlog.get_logger(__name__)


def sweep_leftovers(services: Services) -> None:
    """Kill processes of dead supervisors, then remove checkouts that nobody has a lease of."""
    settings = services.settings
    killed = sweep_orphans(settings.workspace_root)
    with services.store.read() as tx:
        keep = sweeps.leased(tx, services.clock.now())
    workspaces = Workspaces(settings, services.seam, services.clock, services.redactor)
    removed = workspaces.sweep(keep)
    if killed or removed:
        _log.warning("leftovers_swept", processes=killed, workspaces=removed)
