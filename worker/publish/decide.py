"""What a failed try means for a surface: later, or never. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from coven.errors import CovenError, GitHubUnauthorised, RateLimited, Retry

BASE_SECS = 4.0
"""First back-off: longer than a lost request may still be on its way inside GitHub."""
CAP_SECS = 600.0
RATE_FLOOR_SECS = 60.0
"""Least wait after a rate limit that did not say how long."""
LONGEST_WAIT_SECS = 7_200.0
"""More than any window of GitHub's limits; a longer order is a mistake."""
MAX_TRIES = 440
"""About three days of an unreachable GitHub at the cap."""
MAX_TRIES_REFUSED = 30
"""About four hours of refused credentials."""
MAX_TRIES_UNEXPECTED = 20


@dataclass(frozen=True, slots=True)
class Decision:
    """``delay_secs`` is None when the surface is given up."""

    delay_secs: float | None
    reason: str


def decide(error: Exception, tries: int, jitter: float) -> Decision:
    """After the ``tries``-th try raised ``error``; ``jitter`` is in [0, 1)."""
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, CovenError) and error.retry is Retry.NEVER:
        return Decision(None, f"{reason} — {error.public}")
    most = _most_tries(error)
    if tries >= most:
        return Decision(None, f"{reason} — given up after {tries} tries")
    return Decision(_delay(error, tries, jitter), reason)


def _most_tries(error: Exception) -> int:
    if isinstance(error, GitHubUnauthorised):
        return MAX_TRIES_REFUSED
    return MAX_TRIES if isinstance(error, CovenError) else MAX_TRIES_UNEXPECTED


def _delay(error: Exception, tries: int, jitter: float) -> float:
    own = min(BASE_SECS * 2.0 ** min(tries - 1, 16), CAP_SECS)
    asked = error.retry_after if isinstance(error, CovenError) else None
    if isinstance(error, RateLimited):
        asked = asked if asked and asked > 0 else RATE_FLOOR_SECS
    if asked is None:
        return own * (0.5 + jitter / 2)
    # GitHub's word is the least; jitter keeps those who wait for it from coming back together.
    asked = min(max(asked, 1.0), LONGEST_WAIT_SECS)
    return max(asked, own * 0.5) + jitter * min(10.0, asked / 4)


def creation_allowed_at(
    minute_full_since: datetime | None, hour_full_since: datetime | None, now: datetime
) -> datetime:
    """When the next object may be created.

    The arguments are the times of the 80th newest publication of the last minute and of the 500th
    of the last hour, where there were as many.
    """
    earliest = now
    if minute_full_since is not None:
        earliest = max(earliest, minute_full_since + timedelta(minutes=1))
    if hour_full_since is not None:
        earliest = max(earliest, hour_full_since + timedelta(hours=1))
    return earliest
