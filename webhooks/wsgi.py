"""What gunicorn imports: ``webhooks.wsgi:app_from_environment()``."""

from __future__ import annotations

import atexit
import sys

from flask import Flask
from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]

from coven import telemetry
from coven.bell import CeleryBell
from coven.bootstrap import build_services
from coven.embedded import broker_url
from coven.errors import CovenError
from coven.governance import backstop, engine
from coven.metrics_flush import Flusher
from coven.settings.loader import load_settings
from coven.setup.flow import names_app
from webhooks.app import ReadyCheck, create_app
from webhooks.setup import announced


def app_from_environment() -> Flask:
    """The receiver as the configuration of this process says.

    A process that could only refuse deliveries does not start: one line says why, and the exit
    code makes gunicorn's master stop instead of trying for ever.
    """
    try:
        settings = load_settings()
        if not names_app(settings):
            return announced(settings)
        services = build_services(settings)
    except CovenError as error:
        print(f"coven-github: {error}", file=sys.stderr)  # noqa: T201 - no log is set up yet
        sys.exit(Arbiter.WORKER_BOOT_ERROR)
    telemetry.configure(
        settings.logging.format, settings.logging.level, services.redactor, process="web"
    )
    backstop.install(backstop.addresses_of(broker_url(settings)))
    ready: dict[str, ReadyCheck] = {}
    if isinstance(services.bell, CeleryBell):
        ready["broker"] = services.bell.answers
    if services.rules is not None:
        ready["governance"] = engine.ready(services.rules.engine)
    flusher = Flusher(services)
    flusher.start()
    atexit.register(flusher.stop)
    return create_app(services, ready=ready)
