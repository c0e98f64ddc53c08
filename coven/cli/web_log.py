"""Gunicorn's own lines, through the product's log pipe and redactor."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger as GunicornLogger  # type: ignore[import-untyped]

from coven.bootstrap import secrets_of
from coven.redaction import Redactor
from coven.settings.loader import load_settings
from coven.telemetry import configure


class Logger(GunicornLogger):  # type: ignore[misc]
    """Named by ``--logger-class``; gunicorn makes one in its master process."""

    def setup(self, cfg: Any) -> None:
        """Take the format and level of the configuration instead of gunicorn's."""
        super().setup(cfg)
        settings = load_settings()
        redactor = Redactor(list(secrets_of(settings)))
        configure(settings.logging.format, settings.logging.level, redactor, process="web")

    def reopen_files(self) -> None:
        """Nothing to reopen: lines go to stderr."""
