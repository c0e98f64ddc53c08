"""Whose turn it is, and which of a tenant's tasks comes first. Pure.

Start-time fair queueing: a tenant's next turn starts at the virtual time at which its last one
ended, or now if it was idle. The smallest start is served, and a turn lasts the longer the smaller
the tenant's weight. So a tenant with 500 queued tasks delays another by one turn, and an idle one
saves nothing up. Within a tenant the priority decides, and rises while a task waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

STRIDE = 2_520
"""Virtual length of a turn at weight 1; divisible by every weight up to 10."""
AGE_SECS = 60.0
"""Waiting so long is worth one step of priority."""
INTERACTIVE, REVIEW, MAINTENANCE = 10, 0, -10
"""Priorities: somebody waits for it, an event asked for it, a schedule did."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A tenant with due work. ``finished``: virtual end of its last turn, None if it had none."""

    installation_id: int
    finished: int | None
    served_at: datetime | None


@dataclass(frozen=True, slots=True)
class Head:
    """The first task of one priority in a tenant's queue."""

    task_id: str
    priority: int
    seq: int
    created_at: datetime


def start_of(turn: Turn, virtual_now: int) -> int:
    """The virtual time at which a tenant's next turn starts."""
    return virtual_now if turn.finished is None else max(turn.finished, virtual_now)


def in_order(turns: Iterable[Turn], virtual_now: int) -> list[Turn]:
    """Tenants by the start of their next turn; of equals, whoever was served longest ago."""

    def key(turn: Turn) -> tuple[int, float, int]:
        served = turn.served_at.timestamp() if turn.served_at is not None else 0.0
        return start_of(turn, virtual_now), served, turn.installation_id

    return sorted(turns, key=key)


def end_of(start: int, weight: int) -> int:
    """The virtual end of a turn."""
    return start + max(STRIDE // max(weight, 1), 1)


def aged(head: Head, now: datetime) -> float:
    """The priority of a task, risen by how long it has waited."""
    waited = max((now - head.created_at).total_seconds(), 0.0)
    return head.priority + waited / AGE_SECS


def first_of(heads: Iterable[Head], now: datetime) -> Head | None:
    """The task of a tenant that comes first; of equals, the older one."""
    return max(heads, key=lambda head: (aged(head, now), -head.seq), default=None)


def first_tenant(
    candidates: Iterable[tuple[Turn, Head, int]], now: datetime, most: int = 16
) -> tuple[Turn, Head, int] | None:
    """Of the leading candidates with an equal start, the one whose task is the most urgent.

    ``candidates`` come in order, each with its task and start; at most ``most`` are looked at.
    """
    leading: list[tuple[Turn, Head, int]] = []
    for candidate in islice(candidates, most):
        if leading and candidate[2] != leading[0][2]:
            break
        leading.append(candidate)
    return max(leading, key=lambda found: aged(found[1], now), default=None)
