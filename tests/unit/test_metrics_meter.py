"""Counting in one process: bounded, exact, and nobody's but its own after a fork."""

from __future__ import annotations

import os
import re
import threading

import pytest

from coven.metrics import (
    ABOVE,
    ACCEPT,
    ATTEMPTS,
    COUNTED,
    DELIVERIES,
    MOST_SERIES,
    MOST_VALUES,
    OTHER,
    RATE_LEFT,
    REAPED,
    SUM,
    Kind,
    Meter,
    Part,
)
from coven.metrics_standing import ASKED, STANDING
from coven.tracing import current, going_on, read, within

ALL = (*COUNTED, *STANDING, *ASKED)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_counters_and_durations_add_up_until_they_are_taken() -> None:
    meter = Meter()
    meter.count(REAPED)
    meter.count(REAPED, by=2)
    for seconds in (0.003, 0.005, 99, -1):
        meter.observe(ACCEPT, seconds)
    grown, levels = meter.take()
    name = ACCEPT.name
    assert grown == {
        Part(REAPED.name, ()): 3,
        Part(name, (), "0.005"): 3,
        Part(name, (), ABOVE): 1,
        Part(name, (), SUM): pytest.approx(99.008),
    }
    assert levels == {}
    assert meter.take() == ({}, {})
    meter.give_back(grown)
    meter.count(REAPED)
    assert meter.take()[0][Part(REAPED.name, ())] == 4


def test_a_gauge_keeps_its_newest_value() -> None:
    meter = Meter()
    meter.set(RATE_LEFT, 5, "1", "core")
    meter.set(RATE_LEFT, 4, "1", "core")
    assert meter.take()[1] == {Part(RATE_LEFT.name, ("1", "core")): 4}


@pytest.mark.parametrize(
    "hostile", ["", "a b", "x" * 41, 'a"} 1', "a|b", "a\n", "\u00e9", "\x00", "$(id)"]
)
def test_a_value_that_is_no_short_name_is_other(hostile: str) -> None:
    meter = Meter()
    meter.count(DELIVERIES, hostile, "task")
    assert list(meter.take()[0]) == [Part(DELIVERIES.name, (OTHER, "task"))]


def test_one_value_too_many_is_other() -> None:
    meter = Meter()
    for number in range(MOST_VALUES + 50):
        meter.count(DELIVERIES, f"event_{number}", "task")
    series = {part.labels for part in meter.take()[0]}
    assert len(series) == MOST_VALUES + 1
    assert (OTHER, "task") in series
    meter.count(DELIVERIES, "event_3", "task")
    assert list(meter.take()[0]) == [Part(DELIVERIES.name, ("event_3", "task"))]


def test_one_series_too_many_is_other() -> None:
    meter = Meter()
    for lane in range(60):
        for outcome in range(60):
            meter.count(ATTEMPTS, f"l{lane}", f"o{outcome}")
    grown = meter.take()[0]
    assert len(grown) <= MOST_SERIES + 1
    assert grown[Part(ATTEMPTS.name, (OTHER, OTHER))] == 60 * 60 - MOST_SERIES


def test_labels_are_all_given() -> None:
    with pytest.raises(ValueError, match="event"):
        Meter().count(DELIVERIES, "push")


def test_threads_lose_nothing() -> None:
    meter = Meter()
    threads = [
        threading.Thread(target=lambda: [meter.count(REAPED) for _ in range(2_000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.take()[0][Part(REAPED.name, ())] == 8_000


def test_a_child_counts_from_nothing_even_when_the_lock_was_held() -> None:
    meter = Meter()
    meter.count(REAPED)
    meter._lock.acquire()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        meter.count(REAPED, by=5)
        os.write(writer, str(meter.take()[0][Part(REAPED.name, ())]).encode())
        os._exit(0)
    meter._lock.release()
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"5.0"
    os.close(reader)
    os.close(writer)
    assert meter.take()[0][Part(REAPED.name, ())] == 1


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: str(metric.name))
def test_names_follow_the_convention(metric: object) -> None:
    from coven.metrics import Metric

    assert isinstance(metric, Metric)
    assert re.fullmatch(r"coven_[a-z][a-z_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")
        assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")


def test_names_are_used_once() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", True),
        (f"cc-{TRACE}-{SPAN}-01-later", True),
        (f"00-{TRACE}-{SPAN}-01-later", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}-01\n", False),
        ("", False),
        (None, False),
        ("00-" + "\u0664" * 32 + f"-{SPAN}-01", False),
    ],
)
def test_a_trace_is_taken_on_only_when_it_is_one(header: str | None, taken: bool) -> None:
    assert (read(header) is not None) == taken
    here = going_on(header)
    assert (here.trace_id == TRACE) == taken
    assert here.span_id != SPAN
    assert read(here.header) == here


def test_work_begun_within_a_trace_carries_it() -> None:
    assert current() is None
    with within(f"00-{TRACE}-{SPAN}-01") as trace:
        assert current() == trace.header
        assert trace.header.startswith(f"00-{TRACE}-")
        assert trace.header.endswith("-01")
    assert current() is None
