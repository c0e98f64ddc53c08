"""The backstop: programs and connections that did not come through the seam are stopped.

The seam is the way to act; the lint rule keeps product code on it. This catches what neither
sees, such as a library that starts a program or calls home. It is an audit hook of the
interpreter, which can't be removed again, so tests install it in processes of their own.

Not seen: what C code does by itself (the PostgreSQL driver), files, and other processes.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from coven.governance.wire import is_governed

SPAWNS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec", "os.system"})
CONNECTS = frozenset({"socket.connect", "socket.sendto"})

Address = str | int
"""The path of a Unix socket, or a port on any host (a name may resolve to another host today)."""


class Ungoverned(PermissionError):
    """Something acted past the seam. A fault of ours, or an attack; never retried."""


class Backstop:
    """The hook itself; ``allowed`` are addresses that need no asking (broker, database)."""

    def __init__(self, allowed: Collection[Address] = ()) -> None:
        self._allowed = frozenset(allowed)

    def __call__(self, event: str, arguments: Sequence[Any]) -> None:
        """Raises ``Ungoverned``, which the interpreter hands to whoever acted."""
        if event in SPAWNS:
            if not is_governed():
                raise Ungoverned(f"{event} outside the effects seam: {str(arguments[0])[:200]!r}")
        elif event in CONNECTS and not is_governed() and not self._is_allowed(arguments[1]):
            raise Ungoverned(f"{event} outside the effects seam: {str(arguments[1])[:200]!r}")

    def _is_allowed(self, address: Any) -> bool:
        if isinstance(address, bytes):
            address = address.decode("utf-8", "surrogateescape")
        return (address[1] if isinstance(address, tuple) else address) in self._allowed


def addresses_of(broker: str) -> tuple[Address, ...]:
    """What a process must reach that is no effect: its broker, by URL. Pure."""
    parts = urlsplit(broker)
    if parts.scheme.endswith("socket") or parts.scheme == "unix":
        return (unquote(parts.path),)
    return (parts.port or 6379,)


def install(allowed: Collection[Address] = ()) -> None:
    """Watch this process and its forks from now on; there is no way back."""
    sys.addaudithook(Backstop(allowed))
