"""The gunicorn worker of the receiver: a client that is slow on purpose can't hold a thread.

gunicorn's threads read a request without any time limit, so as many idle connections as there are
threads would silence the receiver. Here each request has so many seconds for its head, and then
for its body and answer; whoever takes longer is hung up on.
"""

from __future__ import annotations

import contextlib
import socket
from threading import Timer
from typing import Any

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

HEAD_SECS = 4.0
"""The head is a few kilobytes and comes in one packet or two."""
BODY_SECS = 30.0
"""As long as the most patient sender (GitHub Enterprise Server) waits for an answer."""


class Deadline:
    """Stops the reading of a connection at a time; also reads that are under way.

    Only reading: an answer that is being made may still be sent.
    """

    def __init__(self, connection: socket.socket, secs: float) -> None:
        self._connection = connection
        self.reset(secs)

    def reset(self, secs: float) -> None:
        """Start over with ``secs`` from now."""
        self._timer = Timer(secs, self._hang_up)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Let the connection be."""
        self._timer.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)


class Worker(ThreadWorker):  # type: ignore[misc]
    """Named by ``webhooks.gunicorn_conf``."""

    def handle(self, conn: Any) -> Any:
        """Read and answer one request. Raises nothing."""
        conn.deadline = Deadline(conn.sock, HEAD_SECS)
        try:
            return super().handle(conn)
        finally:
            conn.deadline.cancel()

    def handle_request(self, req: Any, conn: Any) -> Any:
        """The head is read: the body and the answer get their own time."""
        conn.deadline.cancel()
        conn.deadline.reset(BODY_SECS)
        return super().handle_request(req, conn)
