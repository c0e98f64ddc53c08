"""Whether a request comes from this machine itself, for what is open to it without a token. Pure.

A browser here may be led by a stranger's page: under the stranger's name, which then means this
machine. So what counts is the peer's address, the name asked for, and that no proxy is between.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_PROXIES = {"forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip"}
"""What proxies say of themselves, beside ``X-Forwarded-…``."""


def is_forwarded(header_names: Iterable[str]) -> bool:
    """Whether a proxy stands in between, by its headers."""
    names = map(str.lower, header_names)
    return any(name.startswith("x-forwarded-") or name in _PROXIES for name in names)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    bare = host.strip("[]").casefold()
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def without_port(host: str) -> str:
    """The name in a ``Host`` header."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
