"""Which deliveries never arrived, from GitHub's list of attempts. Pure.

GitHub delivers once and never tries again by itself. A time-out or a refused connection has no
HTTP status, so only ``status != OK`` tells a failure; and one event has one GUID however often it
was attempted (https://docs.github.com/webhooks/using-webhooks/handling-failed-webhook-deliveries).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from coven.github.models import HookDelivery

WINDOW = timedelta(days=3)
"""How long github.com can deliver again; the server editions can for :data:`WINDOW_GHES`."""
WINDOW_GHES = timedelta(days=7)
SETTLE = timedelta(seconds=60)
"""An attempt younger than this may still be underway, or its row be written."""
MAX_ATTEMPTS = 20
"""After so many attempts it is not the network; people must look. With the pauses between them
they reach over the whole window, so an outage of hours loses nothing."""
PAUSE, PAUSE_CAP = timedelta(minutes=5), timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Missed:
    """An event that we never accepted. ``attempt``: the newest one, which is asked for again."""

    guid: str
    attempt: int
    event: str
    action: str | None
    installation_id: int | None
    attempts: int
    status: str
    first_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a list of attempts."""

    again: list[Missed] = field(default_factory=list)
    """To be delivered again, oldest event first."""
    given_up: list[Missed] = field(default_factory=list)
    """Failed too often."""
    too_young: int = 0
    """Failed a moment ago, or too often for now; a later round looks at them."""
    oldest_open: datetime | None = None
    """The first event that the next round must see again."""


def window(api_base_url: str) -> timedelta:
    """How far back this GitHub can deliver again."""
    host = api_base_url.partition("://")[2].partition("/")[0].partition(":")[0].casefold()
    hosted = host in ("api.github.com", "github.com") or host.endswith(".ghe.com")
    return WINDOW if hosted else WINDOW_GHES


def plan(
    attempts: Iterable[HookDelivery],
    known: Collection[str],
    now: datetime,
    reach: timedelta = WINDOW,
    settle: timedelta = SETTLE,
    *,
    patient: bool = True,
) -> Plan:
    """Group attempts by event and choose those that nobody accepted.

    ``patient`` pauses between attempts and gives up at last; without, a person asks now.
    ``known``: GUIDs in our ledger. Whatever GitHub believes, a recorded delivery has arrived.
    """
    events: dict[str, list[HookDelivery]] = {}
    for attempt in attempts:
        events.setdefault(attempt.guid, []).append(attempt)
    found = Plan()
    too_young, oldest_open = 0, None
    for guid, tried in events.items():
        if guid in known or any(attempt.ok for attempt in tried):
            continue
        newest = max(tried, key=lambda attempt: (attempt.delivered_at, attempt.id))
        first_at = min(attempt.delivered_at for attempt in tried)
        missed = Missed(
            guid,
            newest.id,
            newest.event,
            newest.action,
            newest.installation_id,
            len(tried),
            newest.status,
            first_at,
        )
        if first_at <= now - reach:
            continue
        if newest.delivered_at > now - max(settle, _pause(len(tried) if patient else 1)):
            too_young += 1
        elif patient and len(tried) >= MAX_ATTEMPTS:
            found.given_up.append(missed)
            continue
        else:
            found.again.append(missed)
        oldest_open = min(oldest_open or first_at, first_at)
    found.again.sort(key=lambda missed: missed.first_at)
    return Plan(found.again, found.given_up, too_young, oldest_open)


def _pause(attempts: int) -> timedelta:
    """How long to wait after so many attempts; a first failure is asked for again at once."""
    return min(PAUSE * 2 ** min(attempts - 2, 10), PAUSE_CAP) if attempts > 1 else timedelta(0)


def since(watermark: datetime | None, now: datetime, reach: timedelta = WINDOW) -> datetime:
    """From when on attempts must be looked at."""
    return max(watermark, now - reach) if watermark is not None else now - reach


def next_watermark(done: Plan, started: datetime, settle: timedelta = SETTLE) -> datetime:
    """Where the next round begins: before whatever may still be open."""
    return min(started - settle, done.oldest_open or started)
