"""From settings to the services of one process. The only place that knows how all parts fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from pydantic import BaseModel, SecretStr

from coven.bell import CeleryBell
from coven.clock import Clock, SystemClock
from coven.embedded import broker_url
from coven.errors import ConfigurationError
from coven.github.factory import GitHub
from coven.governance.audit import Recorder
from coven.governance.engine import Engine
from coven.governance.faults import faults_from
from coven.governance.gate import RulesGate, Slot
from coven.governance.wire import Seam
from coven.metrics import Meter
from coven.queues import celery_app
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.settings.secret_key import resolve_secret_key
from coven.store import migrate
from coven.store.engine import Store, open_store


def build_services(settings: Settings, environ: Mapping[str, str] | None = None) -> Services:
    """The services of this process. Raises ``ConfigurationError`` and ``StoreUnavailable``.

    The database must be at this release's schema (``coven-github db upgrade``).
    """
    faults = faults_from(os.environ if environ is None else environ)
    slot = Slot()
    seam = Seam(slot, faults) if settings.governance.active else Seam(faults=faults)
    clock = SystemClock()
    store = open_store(settings.database_url, faults)
    migrate.require_usable(store)
    meter = Meter()
    github = GitHub(settings, clock, seam, meter)
    secrets = [*secrets_of(settings)]

    def redactor() -> Redactor:
        return Redactor([*secrets, *github.live_secrets()])

    rules = None
    if settings.governance.active:
        rules = build_gate(settings, store, clock, redactor, meter)
        slot.install(rules)
    secret_key = resolve_secret_key(settings, seam)
    secrets.append(secret_key.decode("utf-8", "replace"))
    bell_app = celery_app(settings, broker_url(settings))
    return Services(
        settings=settings,
        store=store,
        github=github,
        clock=clock,
        seam=seam,
        bell=CeleryBell(bell_app, settings.queue.wake_budget_secs),
        redactor=Redactor(secrets),
        secret_key=secret_key,
        rules=rules,
        meter=meter,
    )


def build_gate(
    settings: Settings,
    store: Store,
    clock: Clock,
    redactor: Callable[[], Redactor],
    meter: Meter | None = None,
) -> RulesGate:
    """The gate of this process. Raises ``ConfigurationError`` when its keys can't be used.

    A policy that can't be trusted is no reason not to start: deliveries are still taken and kept,
    and every effect is refused until it can.
    """
    engine = Engine.of(settings, store, clock)
    if engine.signed and not engine.keys.public_keys("operator"):
        raise ConfigurationError(
            f"governance.mode is signed, but there is no {engine.keys.folder / 'operator.pub'}; "
            "copy the operator's public key there, or run `coven-github identity generate`"
        )
    recorder = Recorder(store, engine.keys.service())
    return RulesGate(engine, recorder, settings, redactor, meter or Meter())


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
