"""One trace id from a delivery to what GitHub shows, across queue and processes.

The W3C ``traceparent`` of the request is taken on where one came (a proxy makes them; GitHub sends
none), else a trace begins here. Tasks carry it, and every log line has its ``trace_id``. Spans are
not exported. Source: W3C Trace Context, level 1.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from coven.telemetry import bound

_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Trace:
    """Which trace this is part of, and our own place in it."""

    trace_id: str
    span_id: str
    sampled: bool = False

    @property
    def header(self) -> str:
        """As a ``traceparent``."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


_current: ContextVar[Trace | None] = ContextVar("coven_trace", default=None)


def read(header: str | None) -> Trace | None:
    """The trace of a ``traceparent``; None for one that is absent or not valid. Pure."""
    found = _HEADER.match(header or "")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if (
        version == "ff"
        or (version == "00" and more)
        or not int(trace_id, 16)
        or not int(span_id, 16)
    ):
        return None
    return Trace(trace_id, span_id, bool(int(flags, 16) & 1))


def going_on(header: str | None) -> Trace:
    """A new place in the trace of ``header``, or in a new trace."""
    above = read(header)
    span = secrets.token_hex(8)
    return (
        Trace(above.trace_id, span, above.sampled) if above else Trace(secrets.token_hex(16), span)
    )


@contextmanager
def within(header: str | None) -> Iterator[Trace]:
    """Be part of the trace of ``header`` inside the block: its id is on every log line."""
    trace = going_on(header)
    token = _current.set(trace)
    try:
        with bound(trace_id=trace.trace_id):
            yield trace
    finally:
        _current.reset(token)


def current() -> str | None:
    """The ``traceparent`` that work begun here carries; None outside of any trace."""
    trace = _current.get()
    return trace.header if trace is not None else None
