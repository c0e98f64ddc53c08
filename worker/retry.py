"""When a failed attempt runs again. Pure."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from coven.settings.models import Worker


def next_attempt_at(
    settings: Worker, now: datetime, attempts_used: int, retry_after: float | None, draw: float
) -> datetime:
    """Capped exponential back-off; ``draw`` in 0..1 spreads it over its upper half.

    A time that GitHub asked for (``retry_after``, seconds) is a floor.
    """
    exponent = min(max(attempts_used - 1, 0), 16)
    most = min(settings.retry_base_secs * 2**exponent, settings.retry_cap_secs)
    seconds = most * (0.5 + 0.5 * draw)
    return now + timedelta(seconds=max(seconds, retry_after or 0.0))


def jitter() -> float:
    """A random draw for :func:`next_attempt_at`."""
    return random.random()  # noqa: S311 - spreads load; not a secret
