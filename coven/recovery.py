"""Asking GitHub to deliver again what never reached the ledger.

Called by upkeep and by ``deliveries recover``. Two of them at once do no harm: a delivery that
arrives twice has one id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from coven.clock import Clock
from coven.errors import CovenError, GitHubError, GitHubNotFound
from coven.github.factory import GitHub
from coven.github.models import HookDelivery
from coven.store import recoveries
from coven.store.engine import Store
from coven.tenancy import redelivery
from coven.tenancy.redelivery import Missed, Plan

MAX_PAGES = 500
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one search did."""

    seen: int
    asked: list[Missed]
    given_up: list[Missed]
    too_young: int
    refused: list[Missed]
    """GitHub did not take the request; the next search asks again."""


def recover_deliveries(
    store: Store,
    github: GitHub,
    clock: Clock,
    reach: timedelta,
    *,
    everything: bool = False,
    dry_run: bool = False,
    settle: timedelta = redelivery.SETTLE,
    progress: Progress = lambda _: None,
) -> Recovered:
    """Find deliveries that were never accepted and have them sent again.

    ``everything`` looks at the whole window instead of what is new since the last search, and
    asks at once for what failed often too. Raises
    ``GitHubError`` when the list can't be read, ``StoreUnavailable``.
    """
    started = clock.now()
    with store.write("recovery.begin") as tx:
        mark = None if everything else recoveries.watermark(tx, recoveries.DELIVERIES)
        search = recoveries.begin(tx, recoveries.DELIVERIES, started)
    seen = 0
    try:
        attempts = _attempts(github, redelivery.since(mark, started, reach), progress)
        seen = len(attempts)
        with store.read() as tx:
            known = recoveries.known_deliveries(tx, {attempt.guid for attempt in attempts})
        todo = redelivery.plan(attempts, known, started, reach, settle, patient=not everything)
        asked, refused = ([], []) if dry_run else _ask(github, todo, progress)
    except CovenError as error:
        with store.write("recovery.end") as tx:
            recoveries.finish(tx, search, clock.now(), seen=seen, asked=0, error=str(error))
        raise
    done = Recovered(seen, todo.again if dry_run else asked, todo.given_up, todo.too_young, refused)
    with store.write("recovery.end") as tx:
        recoveries.finish(
            tx,
            search,
            clock.now(),
            seen=seen,
            asked=0 if dry_run else len(asked),
            given_up=len(todo.given_up),
            watermark=None if dry_run else redelivery.next_watermark(todo, started, settle),
            error=f"{len(refused)} requests refused" if refused else None,
        )
    return done


def _attempts(github: GitHub, since: datetime, progress: Progress) -> list[HookDelivery]:
    found: list[HookDelivery] = []
    cursor: str | None = None
    for number in range(1, MAX_PAGES + 1):
        page = github.list_hook_deliveries(cursor)
        found += [attempt for attempt in page.items if attempt.delivered_at >= since]
        progress(f"page {number}: {len(found)} attempts since {since:%Y-%m-%d %H:%M} UTC")
        past = any(attempt.delivered_at < since for attempt in page.items)
        if past or page.next_cursor is None or page.next_cursor == cursor:
            break
        cursor = page.next_cursor
    return found


def _ask(github: GitHub, todo: Plan, progress: Progress) -> tuple[list[Missed], list[Missed]]:
    asked: list[Missed] = []
    refused: list[Missed] = []
    for missed in todo.again:
        try:
            github.redeliver(missed.attempt)
        except GitHubNotFound:
            refused.append(missed)  # too old by GitHub's own clock
            continue
        except GitHubError as error:
            progress(f"{missed.guid}: {error}")
            refused.append(missed)
            if error.retry_after is not None:
                refused += [m for m in todo.again if m not in asked and m not in refused]
                break
            continue
        asked.append(missed)
        progress(f"asked for {missed.event} {missed.guid} again")
    return asked, refused
