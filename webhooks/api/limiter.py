"""Slows down who keeps coming with tokens that open nothing. Memory is bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

FAILURES = 20
"""How many refused tokens of one address in one window."""
WINDOW_SECS = 60.0
ADDRESSES = 4_096
"""How many addresses, and how many tokens that were good, are remembered."""


class Failures:
    """Counts refused tokens per address; a token that was good here before is never held up."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._good: OrderedDict[str, None] = OrderedDict()

    def wait_secs(self, address: str, digest: str | None) -> int:
        """How long this address must wait before it may try; 0: now."""
        with self._lock:
            if digest is not None and digest in self._good:
                return 0
            since, count = self._counts.get(address, (0.0, 0))
            left = since + WINDOW_SECS - self._monotonic()
            return max(1, int(left + 0.999)) if count >= FAILURES and left > 0 else 0

    def failed(self, address: str, digest: str | None) -> None:
        """A token from this address was refused."""
        with self._lock:
            now = self._monotonic()
            since, count = self._counts.pop(address, (now, 0))
            if now - since >= WINDOW_SECS:
                since, count = now, 0
            self._counts[address] = (since, count + 1)
            if digest is not None:
                self._good.pop(digest, None)
            _shorten(self._counts)

    def passed(self, digest: str) -> None:
        """This token was good."""
        with self._lock:
            self._good[digest] = None
            self._good.move_to_end(digest)
            _shorten(self._good)


def _shorten(
    kept: OrderedDict[str, object] | OrderedDict[str, None] | OrderedDict[str, tuple[float, int]],
) -> None:
    while len(kept) > ADDRESSES:
        kept.popitem(last=False)
