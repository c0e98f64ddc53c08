"""Which backend a worker uses, by its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from coven.errors import ConfigurationError
from coven.settings.models import Settings
from worker.runtime.backend import Backend
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.container import Container
from worker.runtime.environment import check_allowed
from worker.runtime.host import Host


def choose(settings: Settings, environ: Mapping[str, str] | None = None) -> Backend:
    """The backend that ``worker.backend`` names.

    Raises ``ConfigurationError`` when it would not keep tenants apart: ``host`` with several
    installations needs ``worker.allow_host_backend``.
    """
    worker = settings.worker
    problems = check_allowed(worker.env_allow)
    if problems:
        raise ConfigurationError("; ".join(problems))
    if worker.backend == "bubblewrap":
        return Bubblewrap(worker.readable)
    if worker.backend == "container":
        found = os.environ if environ is None else environ
        container = Container(worker.container, found, os.geteuid(), os.getegid())
        problems = container.static_problems()
        if problems:
            raise ConfigurationError("; ".join(problems))
        return container
    if len(settings.installations) > 1 and not worker.allow_host_backend:
        raise ConfigurationError(
            "worker.backend = host lets a session read what belongs to other installations: "
            "choose bubblewrap or container, or set worker.allow_host_backend = true"
        )
    return Host()
