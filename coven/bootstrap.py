"""From settings to the services of one process. The only place that knows how all parts fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, SecretStr

from coven.bell import CeleryBell
from coven.clock import SystemClock
from coven.embedded import broker_url
from coven.github.factory import GitHub
from coven.governance.faults import faults_from
from coven.governance.wire import Seam
from coven.queues import celery_app
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.settings.secret_key import resolve_secret_key
from coven.store import migrate
from coven.store.engine import open_store


def build_services(settings: Settings, environ: Mapping[str, str] | None = None) -> Services:
    """The services of this process. Raises ``ConfigurationError`` and ``StoreUnavailable``.

    The database must be at this release's schema (``coven-github db upgrade``).
    """
    faults = faults_from(os.environ if environ is None else environ)
    seam = Seam(faults=faults)
    clock = SystemClock()
    store = open_store(settings.database_url, faults)
    migrate.require_current(store)
    secret_key = resolve_secret_key(settings, seam)
    bell_app = celery_app(settings, broker_url(settings))
    return Services(
        settings=settings,
        store=store,
        github=GitHub(settings, clock, seam),
        clock=clock,
        seam=seam,
        bell=CeleryBell(bell_app, settings.queue.wake_budget_secs),
        redactor=Redactor([*secrets_of(settings), secret_key.decode("utf-8", "replace")]),
        secret_key=secret_key,
    )


def secrets_of(section: BaseModel) -> Iterator[str]:
    """Every configured secret value, for masking."""
    for name in type(section).model_fields:
        yield from _secrets(getattr(section, name))


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        if value.get_secret_value():
            yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        yield from secrets_of(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from _secrets(item)
