"""What is measured, and the counting of one process.

What happened is counted here, where it happens; what stands is read from the ledgers when somebody
looks (:mod:`coven.metrics_standing`). Counts go from each process into one table every few seconds
(:mod:`coven.metrics_flush`), so they outlive processes and every receiver can show all of them.
"""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OTHER: Final = "other"
"""Stands for a label value that is no short name, or one too many."""
MOST_VALUES: Final = 100
"""Distinct values of one label that a process knows."""
MOST_SERIES: Final = 1_000
"""Series of one metric that a process counts."""

_VALUE = re.compile(r"[A-Za-z0-9_.:-]{1,40}\Z", re.ASCII)


class Kind(StrEnum):
    """How a metric grows."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``buckets``: upper bounds in seconds, of a histogram."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)

DELIVERIES = Metric(
    "coven_deliveries_total",
    Kind.COUNTER,
    "Verified deliveries, by event and what was decided.",
    ("event", "routing"),
)
IGNORED = Metric(
    "coven_deliveries_ignored_total",
    Kind.COUNTER,
    "Deliveries that led to nothing, by reason.",
    ("reason",),
)
REJECTED = Metric(
    "coven_webhook_rejected_total",
    Kind.COUNTER,
    "Requests to the webhook that were refused, by reason.",
    ("reason",),
)
ACCEPT = Metric(
    "coven_webhook_accept_seconds",
    Kind.HISTOGRAM,
    "From the last byte of a delivery to our answer.",
    buckets=_FAST,
)
FIRST_SURFACE = Metric(
    "coven_first_surface_seconds",
    Kind.HISTOGRAM,
    "From the delivery to the first thing that GitHub shows of its work.",
    ("lane",),
    _SLOW,
)
QUEUE_WAIT = Metric(
    "coven_queue_wait_seconds",
    Kind.HISTOGRAM,
    "From when work was wanted to when a worker first began it.",
    ("lane",),
    _SLOW,
)
SESSION = Metric(
    "coven_session_seconds", Kind.HISTOGRAM, "How long sessions ran.", ("lane",), _SLOW
)
ATTEMPTS = Metric(
    "coven_attempts_total",
    Kind.COUNTER,
    "Attempts that ended, by outcome.",
    ("lane", "outcome"),
)
GITHUB_CALLS = Metric(
    "coven_github_requests_total",
    Kind.COUNTER,
    "Requests to GitHub, by route and status (none: no answer).",
    ("route", "status"),
)
GITHUB_TIME = Metric(
    "coven_github_request_seconds",
    Kind.HISTOGRAM,
    "How long requests to GitHub took.",
    buckets=_FAST,
)
RATE_LEFT = Metric(
    "coven_github_rate_limit_remaining",
    Kind.GAUGE,
    "Requests left in GitHub's current window, as last heard within the hour.",
    ("installation", "resource"),
)
MEMORY = Metric(
    "coven_memory_decisions_total",
    Kind.COUNTER,
    "Decisions about what sessions reported of memory.",
    ("kind", "reason"),
)
VERDICTS = Metric(
    "coven_governance_verdicts_total",
    Kind.COUNTER,
    "Verdicts of the rules, by severity and kind of action.",
    ("verdict", "kind"),
)
REAPED = Metric(
    "coven_leases_reaped_total", Kind.COUNTER, "Leases of workers that were not heard of any more."
)
UPKEEP = Metric(
    "coven_upkeep_runs_total", Kind.COUNTER, "Periodic jobs that ran.", ("job", "outcome")
)

COUNTED: tuple[Metric, ...] = (
    DELIVERIES,
    IGNORED,
    REJECTED,
    ACCEPT,
    FIRST_SURFACE,
    QUEUE_WAIT,
    SESSION,
    ATTEMPTS,
    GITHUB_CALLS,
    GITHUB_TIME,
    RATE_LEFT,
    MEMORY,
    VERDICTS,
    REAPED,
    UPKEEP,
)
"""What processes count."""

TOTAL: Final = ""
SUM: Final = "sum"
ABOVE: Final = "+Inf"
"""Parts of a metric beside its bucket bounds: the value, the sum, and what is above all bounds."""


@dataclass(frozen=True, slots=True)
class Part:
    """One number: of which metric, with which label values, and which part of it."""

    metric: str
    labels: tuple[str, ...]
    part: str = TOTAL


class Meter:
    """Counts of this process since they were last taken. Safe for threads, and after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grown: dict[Part, float] = {}
        self._levels: dict[Part, float] = {}
        self._values: dict[tuple[str, str], set[str]] = {}
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._pid = os.getpid()

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """``by`` more. Label values that are no short names, or too many, are :data:`OTHER`."""
        self._add(metric, labels, [(TOTAL, by)])

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """One more duration in a histogram; what a clock set back makes negative counts as 0."""
        seconds = max(0.0, seconds)
        place = bisect_left(metric.buckets, seconds)
        bound = f"{metric.buckets[place]:g}" if place < len(metric.buckets) else ABOVE
        self._add(metric, labels, [(bound, 1.0), (SUM, seconds)])

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """The newest value of a gauge."""
        with self._mine():
            self._levels[Part(metric.name, self._labels(metric, labels))] = value

    def take(self) -> tuple[dict[Part, float], dict[Part, float]]:
        """What grew since the last call, and the newest gauges."""
        with self._mine():
            grown, self._grown = self._grown, {}
            levels, self._levels = self._levels, {}
        return grown, levels

    def give_back(self, grown: dict[Part, float]) -> None:
        """Count again what could not be stored."""
        with self._mine():
            for part, by in grown.items():
                self._grown[part] = self._grown.get(part, 0.0) + by

    def _add(
        self, metric: Metric, labels: tuple[str, ...], parts: Iterable[tuple[str, float]]
    ) -> None:
        with self._mine():
            values = self._labels(metric, labels)
            for name, by in parts:
                part = Part(metric.name, values, name)
                self._grown[part] = self._grown.get(part, 0.0) + by

    def _labels(self, metric: Metric, given: tuple[str, ...]) -> tuple[str, ...]:
        if len(given) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}")
        values = tuple(
            self._known(metric, place, value)
            for place, value in zip(metric.labels, given, strict=True)
        )
        series = self._series.setdefault(metric.name, set())
        if values not in series:
            if len(series) >= MOST_SERIES:
                return tuple(OTHER for _ in values)
            series.add(values)
        return values

    def _known(self, metric: Metric, place: str, value: str) -> str:
        if not _VALUE.match(value):
            return OTHER
        known = self._values.setdefault((metric.name, place), set())
        if value not in known:
            if len(known) >= MOST_VALUES:
                return OTHER
            known.add(value)
        return value

    def _mine(self) -> threading.Lock:
        # After a fork the counts are the parent's to store, and its lock may be held for ever.
        if self._pid != os.getpid():
            self._lock, self._grown, self._levels = threading.Lock(), {}, {}
            self._pid = os.getpid()
        return self._lock
