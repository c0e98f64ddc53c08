"""Whether the receiver could listen where it is told to, said in one line."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is in the way and what to do. ``passes``: it may go away by itself."""

    text: str
    passes: bool = False


def problem(bind: str) -> Problem | None:
    """What keeps ``bind`` (HOST:PORT) from being listened on; tried for real, and given back."""
    host, _, port = bind.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        return Problem(f"{bind}: the host is not known; use an address of this machine")
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        # As gunicorn does: connections of an earlier receiver that linger are not in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            return _said(bind, error)
    return None


def _said(bind: str, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return Problem(
            f"{bind} is in use by another process; stop that one, or choose another port", True
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return Problem(f"{bind}: this machine has no such address; use one of its own")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Problem(f"{bind}: this user may not listen there; choose a port from 1024 on")
    return Problem(f"{bind}: {error.strerror}; choose another address")
