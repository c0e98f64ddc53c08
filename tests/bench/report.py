"""Measuring and printing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from coven.cli.output import show_table

T = TypeVar("T")


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(rounds: int, work: Callable[[int], object]) -> float:
    """The median time of ``rounds`` calls; each gets its number."""
    return statistics.median(seconds(lambda n=n: work(n)) for n in range(rounds))  # type: ignore[misc]


def best(rounds: int, work: Callable[[int], object]) -> float:
    """The shortest time of ``rounds`` calls: for work that only the machine's load can vary."""
    return min(seconds(lambda n=n: work(n)) for n in range(rounds))  # type: ignore[misc]


def ratio(value: float, other: float, target: float | None = None) -> str:
    """``value`` in terms of ``other``, with the verdict on the target if there is one."""
    found = f"{value / other:.2f}x"
    if target is None:
        return found
    return f"{found} (target {target:.1f}x: {'met' if value <= target * other else 'MISSED'})"


def ms(value: float) -> str:
    """Seconds as milliseconds."""
    return f"{value * 1000:,.1f} ms"


def mib(value: float) -> str:
    """Bytes as mebibytes."""
    return f"{value / 2**20:,.1f} MiB"


def table(title: str, columns: list[str], rows: list[tuple[object, ...]]) -> None:
    """One headed table."""
    print(f"\n{title}\n", flush=True)
    show_table(columns, rows, "nothing")
