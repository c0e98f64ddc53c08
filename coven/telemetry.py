"""Logs: one structured line per fact, as JSON for machines or coloured for people.

Everything that any library logs goes through the same pipe and the redactor at its end, so a
secret in somebody else's message is masked too.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TextIO

import structlog
from celery.signals import setup_logging
from structlog.typing import EventDict, ExcInfo, Processor

PROCESS = "process"

_MAX_TEXT = 8_192
_MAX_MASKED = 262_144
_QUIET = {
    "urllib3": logging.WARNING,
    "github": logging.WARNING,
    "kombu": logging.WARNING,
    "amqp": logging.WARNING,
    "werkzeug": logging.WARNING,
    "alembic": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,
    "celery.app.trace": logging.WARNING,
}
_OWN_HANDLERS = ("gunicorn", "gunicorn.error", "gunicorn.access", "celery", "celery.task", "flask")


class Masks(Protocol):
    """Replaces secrets in a text (``coven.redaction.Redactor``)."""

    def text(self, s: str) -> str:
        """``s`` without secrets."""


def configure(
    format: Literal["json", "pretty"],
    level: str,
    redactor: Masks,
    *,
    process: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Set up logging of this process; call once, at the start of the process.

    ``process`` (``web``, ``worker``…) is put on every line. Calling again replaces the set-up.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _with_process(process),
    ]
    target = stream or sys.stderr
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.PositionalArgumentsFormatter()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.ExceptionRenderer(_traceback_text),
            _masking(redactor.text),
            *_renderer(format, target),
        ],
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(_SafeFormatter(formatter, redactor))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _OWN_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name, floor in _QUIET.items():
        logging.getLogger(name).setLevel(max(floor, root.level))
    logging.captureWarnings(True)
    # With a receiver, Celery leaves handlers, levels and stdout alone.
    setup_logging.connect(_leave_to_us, weak=False, dispatch_uid="coven.telemetry")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """A structured logger; ``log.info("task_claimed", task=…)``."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


def bind(**facts: object) -> None:
    """Put facts on every further line of this thread of work; None values are left out."""
    structlog.contextvars.bind_contextvars(**_known(facts))


def clear() -> None:
    """Take all bound facts off again (start of a request or of a Celery task)."""
    structlog.contextvars.clear_contextvars()


@contextmanager
def bound(**facts: object) -> Iterator[None]:
    """Facts for the lines inside the ``with`` block only."""
    with structlog.contextvars.bound_contextvars(**_known(facts)):
        yield


def _leave_to_us(**_: object) -> None:
    return None


def _known(facts: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value is not None}


def _with_process(process: str | None) -> Processor:
    def add(_logger: object, _method: str, event: EventDict) -> EventDict:
        if process is not None:
            event.setdefault(PROCESS, process)
        return event

    return add


def _traceback_text(exc_info: ExcInfo) -> str:
    return "".join(traceback.format_exception(*exc_info))


def _masking(mask: Callable[[str], str]) -> Processor:
    def clean(value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return _cut(mask(value[:_MAX_MASKED]))
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if depth < 6 and isinstance(value, dict):
            return {mask(str(k)): clean(v, depth + 1) for k, v in value.items()}
        if depth < 6 and isinstance(value, (list, tuple, set, frozenset)):
            return [clean(item, depth + 1) for item in value]
        return _cut(mask(str(value)[:_MAX_MASKED]))

    def processor(_logger: object, _method: str, event: EventDict) -> EventDict:
        return {key: clean(value) for key, value in event.items()}

    return processor


def _cut(text: str) -> str:
    # After masking, so that no half of a secret is left; a traceback says most at its end.
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 4]} … {text[-_MAX_TEXT * 3 // 4 :]}"


def _renderer(format_: str, target: TextIO) -> list[Processor]:
    if format_ == "json":
        return [structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=False)]
    colours = bool(getattr(target, "isatty", lambda: False)())
    return [structlog.dev.ConsoleRenderer(colors=colours, sort_keys=True)]


class _SafeFormatter(logging.Formatter):
    """Formats through structlog; a line that can't be formatted is masked text, never lost."""

    def __init__(self, inner: logging.Formatter, redactor: Masks) -> None:
        super().__init__()
        self._inner = inner
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        try:
            return self._inner.format(record)
        except Exception as error:  # noqa: BLE001 - a log line must not break the work it tells of
            text = f"{record.levelname.lower()} {record.name}: {record.msg!s}"[:_MAX_TEXT]
            return self._redactor.text(f"{text} (not formatted: {type(error).__name__})")
