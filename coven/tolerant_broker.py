"""A Redis transport that drops what is no message, instead of ending the worker.

Celery's own stops the whole worker at the first entry of a list that is not JSON, or not a
message: whoever can write to the broker, by accident or not, would stop all work. Nothing is
lost with such an entry, since the ledgers are in SQL and the dispatcher sends again.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport.redis import Channel, Transport

_NO_MESSAGE = (ValueError, TypeError, KeyError, AttributeError)
_log = structlog.get_logger(__name__)


class TolerantChannel(Channel):
    """Reads lists that strangers may have written to."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except _NO_MESSAGE as error:
            # The entry is off its list already. Only the kind of the error: its text quotes it.
            _log.warning("broker_entry_dropped", why=type(error).__name__)
            return True


class TolerantTransport(Transport):
    """Redis with :class:`TolerantChannel`."""

    Channel = TolerantChannel


class TolerantConnection(Connection):
    """A broker connection whose Redis transport is tolerant."""

    def get_transport_cls(self) -> Any:
        """The transport of the URL, ours in the place of plain Redis."""
        found = super().get_transport_cls()  # type: ignore[no-untyped-call]
        return TolerantTransport if found is Transport else found


class TolerantAMQP(AMQP):  # type: ignore[misc]
    """Hands Celery the tolerant connections; give it as ``Celery(amqp=...)``."""

    Connection = TolerantConnection
