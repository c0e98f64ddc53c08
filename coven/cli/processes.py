"""The long-running processes: how each one is started, and with which environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coven.settings.defaults import ENV_CONFIG, WEB_GRACE_SECS
from coven.settings.models import Settings

DRAIN_MARGIN_SECS = 15.0
"""Beyond what a process allows itself, before it is killed."""


@dataclass(frozen=True, slots=True)
class Program:
    """One long-running process. ``patience_secs``: how long it may take to stop."""

    name: str
    argv: tuple[str, ...]
    patience_secs: float


def web(settings: Settings) -> Program:
    """The receiver under gunicorn; what the settings don't say is in ``webhooks.gunicorn_conf``."""
    server = settings.server
    argv = (
        sys.executable,
        "-m",
        "gunicorn",
        "webhooks.wsgi:app_from_environment()",
        f"--bind={server.bind}",
        f"--workers={server.web_workers}",
        f"--threads={server.web_threads}",
        "--config=python:webhooks.gunicorn_conf",
        "--logger-class=coven.cli.web_log.Logger",
    )
    return Program("web", argv, WEB_GRACE_SECS + DRAIN_MARGIN_SECS)


def setup_web(settings: Settings) -> Program:
    """The receiver before there is an App: one process, since the page's token is its own."""
    server = settings.server.model_copy(update={"web_workers": 1, "web_threads": 4})
    return web(settings.model_copy(update={"server": server}))


def worker(settings: Settings) -> Program:
    """Runs sessions: queue ``sessions``."""
    patience = settings.worker.drain_secs + settings.worker.grace_secs + DRAIN_MARGIN_SECS
    return Program("worker", _celery("sessions"), patience)


def control(_: Settings) -> Program:
    """Answers, publishes and tidies up: queues ``control``, ``publish``, ``upkeep``."""
    return Program("control", _celery("control"), 2 * DRAIN_MARGIN_SECS)


def beat(_: Settings) -> Program:
    """Sends the periodic upkeep; two of them do no harm."""
    return Program("beat", _celery("beat"), DRAIN_MARGIN_SECS)


def _celery(role: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "worker", role)


def environment(config: Path | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process: ours, and the configuration by its absolute path."""
    env = dict(os.environ if environ is None else environ)
    if config is not None:
        env[ENV_CONFIG] = str(config.absolute())
    return env
