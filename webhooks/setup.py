"""A receiver without an App: it takes no deliveries, and offers to register one at ``/setup``.

As soon as a configuration names an App this is not loaded at all, so ``/setup`` is not there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from flask import Flask, Response, jsonify

from coven.clock import SystemClock
from coven.governance.wire import Seam
from coven.settings.models import Settings
from coven.setup.flow import Setup
from coven.setup.places import Places, config_path
from coven.setup.web import Door, quiet_app, register

NEXT_STEP = "Start the server again: it reads the new configuration only then."


def setup_app(config: Path | None, environ: Mapping[str, str], door: Door) -> Flask:
    """The receiver of a server that has no App yet."""
    places = Places(config_path(config, environ, Path.cwd()), Seam())
    app = quiet_app()

    @app.get("/healthz")
    def healthz() -> tuple[Response, int]:
        return jsonify(ok=True), 200

    @app.get("/readyz")
    def readyz() -> tuple[Response, int]:
        return jsonify(ok=False, checks={"app": False}), 503

    @app.post("/webhook")
    def webhook() -> tuple[Response, int]:
        return jsonify(ok=False, error="not_configured"), 503

    register(app, Setup(places, Seam(), SystemClock(), environ), door, next_step=NEXT_STEP)
    return app


def announced(settings: Settings) -> Flask:
    """That receiver, with its address printed where the log of this process goes."""
    door = Door()
    base = settings.server.public_url or f"http://{settings.server.bind}"
    print(  # noqa: T201 - for whoever looks at the log; there is nothing else to look at
        "coven-github: no App is configured. Register one here (the address works once):\n"
        f"  {base.rstrip('/')}/setup?token={door.token}",
        file=sys.stderr,
        flush=True,
    )
    return setup_app(None, os.environ, door)
