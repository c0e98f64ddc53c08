"""What gunicorn imports: ``webhooks.wsgi:app_from_environment()``."""

from __future__ import annotations

from flask import Flask

from coven import telemetry
from coven.bell import CeleryBell
from coven.bootstrap import build_services
from coven.settings.loader import load_settings
from webhooks.app import ReadyCheck, create_app


def app_from_environment() -> Flask:
    """The receiver as the configuration of this process says.

    Raises ``ConfigurationError`` and ``StoreUnavailable``: a process that could only refuse
    deliveries does not start.
    """
    settings = load_settings()
    services = build_services(settings)
    telemetry.configure(
        settings.logging.format, settings.logging.level, services.redactor, process="web"
    )
    ready: dict[str, ReadyCheck] = {}
    if isinstance(services.bell, CeleryBell):
        ready["broker"] = services.bell.answers
    return create_app(services, ready=ready)
