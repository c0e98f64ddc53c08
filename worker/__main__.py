"""``python -m worker sessions|control|beat``: one Celery process of this product."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import structlog
from celery import signals

from coven.bootstrap import build_services
from coven.embedded import broker_url
from coven.errors import CovenError, GovernanceRefused, Retry
from coven.governance import backstop
from coven.queues import CONTROL, PUBLISH, SESSIONS, UPKEEP
from coven.redaction import Redactor
from coven.settings.loader import load_settings
from coven.telemetry import configure
from worker.app import create_worker
from worker.runtime.privacy import hide_from_peers
from worker.startup import sweep_leftovers, sweep_regularly

CONTROL_CONCURRENCY = 2
FAILED = 1
UNUSABLE = 2
UNAVAILABLE = 4


def main(argv: list[str]) -> int:
    """Run until told to stop.

    Exit codes: 0 stopped, 1 Celery failed, 2 the configuration can't be used, 4 the store is not
    reachable now.
    """
    parser = argparse.ArgumentParser(prog="worker", description=__doc__)
    parser.add_argument("role", choices=["sessions", "control", "beat"])
    parser.add_argument("--config", type=Path, default=None)
    options = parser.parse_args(argv)
    try:
        settings = load_settings(options.config)
        configure(settings.logging.format, settings.logging.level, Redactor())
        services = build_services(settings)
    except CovenError as error:
        print(f"coven-github: {error}", file=sys.stderr)  # noqa: T201 - no log is set up yet
        return UNAVAILABLE if error.retry is Retry.BACKOFF else UNUSABLE
    configure(
        settings.logging.format, settings.logging.level, services.redactor, process=options.role
    )
    backstop.install(backstop.addresses_of(broker_url(settings)))
    app = create_worker(services, broker_url(settings))
    if options.role == "beat":
        app.Beat(loglevel="WARNING", quiet=True).run()
        return 0
    sessions = options.role == "sessions"
    if sessions:
        hide_from_peers()
        try:
            sweep_leftovers(services)
        except GovernanceRefused as error:
            # Tasks must be able to say so; the next sweep tries again.
            structlog.get_logger(__name__).warning("leftovers_not_swept", why=str(error))
        except CovenError as error:
            print(f"coven-github: {error}", file=sys.stderr)  # noqa: T201 - for who started it
            return UNAVAILABLE if error.retry is Retry.BACKOFF else UNUSABLE
        sweep_regularly(services)
    queues = [SESSIONS] if sessions else [CONTROL, PUBLISH, UPKEEP]
    concurrency = settings.worker.concurrency if sessions else CONTROL_CONCURRENCY
    started: list[Any] = []

    def remember(sender: Any, **_: Any) -> None:
        started.append(sender)

    signals.worker_init.connect(remember)
    app.worker_main(
        [
            "--quiet",
            "worker",
            f"--queues={','.join(queues)}",
            f"--concurrency={concurrency}",
            f"--hostname={options.role}-{os.getpid()}@%h",
            "--pool=prefork",
            "--without-mingle",
            "--without-gossip",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
    # Celery keeps to itself how it ended; a service manager restarts only what failed.
    return int(started[0].exitcode or 0) if started else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
