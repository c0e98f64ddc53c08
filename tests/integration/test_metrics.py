"""``/metrics`` on both databases: what is counted, what stands, and who may read it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from coven.errors import StoreUnavailable
from coven.metrics import ATTEMPTS, COUNTED, OTHER, RATE_LEFT, Meter, Part
from coven.metrics_flush import Flusher, flush
from coven.metrics_standing import ASKED, STANDING
from coven.settings.models import Metrics
from coven.store import metric_counts, standing, tasks
from coven.store.engine import Store
from coven.tracing import read as read_trace
from tests.integration.receiver_kit import Bench, payload, settings
from tests.ledger import NOW, TENANT, put
from webhooks.metrics import KEPT_SECS, refusal

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def bench(store: Store) -> Bench:
    return Bench(store)


def samples(bench: Bench, **headers: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """(name, label values) -> value, as a scraper reads it."""
    answer = bench.client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_deliveries_are_counted_by_event_and_routing(bench: Bench) -> None:
    bench.deliver("pull_request", payload("pull_request.opened"), "a")
    bench.deliver("pull_request", payload("pull_request.opened"), "a")
    bench.deliver("hostile_event_1", {"action": "x"})
    bench.deliver("hostile_event_2", {"action": "x"})
    bench.post(b"no json", "push")
    bench.post(b"{}", X_Hub_Signature_256=None)
    found = samples(bench)
    assert found["coven_deliveries_total", ("pull_request", "task")] == 1
    assert found["coven_deliveries_total", ("pull_request", "duplicate")] == 1
    assert found["coven_deliveries_total", (OTHER, "ignored")] == 2
    assert found["coven_webhook_rejected_total", ("invalid_signature",)] == 1
    assert not any("hostile" in str(labels) for _, labels in found)
    assert found["coven_webhook_accept_seconds_count", ()] == 6
    assert found["coven_tasks", ("review", "queued")] == 1
    assert found["coven_surfaces_pending", ("check_run",)] == 1
    assert found["coven_ready", ("store",)] == 1


def test_an_answer_is_kept_for_a_few_seconds(bench: Bench) -> None:
    name = ("coven_tasks", ("review", "queued"))
    assert samples(bench)[name] == 0
    bench.deliver("pull_request", payload("pull_request.opened"))
    assert samples(bench)[name] == 0
    bench.clock.advance(KEPT_SECS)
    assert samples(bench)[name] == 1


def test_ages_count_from_when_something_was_due(bench: Bench) -> None:
    bench.deliver("pull_request", payload("pull_request.opened"))
    bench.clock.advance(90)
    found = samples(bench)
    assert found["coven_queue_oldest_seconds", ("review",)] == pytest.approx(90, abs=1)
    assert found["coven_queue_oldest_seconds", ("fix",)] == 0
    assert found["coven_surfaces_oldest_seconds", ("check_run",)] == pytest.approx(90, abs=1)


def test_a_task_that_waits_for_its_time_is_not_old(store: Store) -> None:
    put(store, not_before=NOW + timedelta(hours=1))
    with store.read() as tx:
        found = {(metric.name, labels): value for metric, labels, value in standing.read(tx, NOW)}
    assert found["coven_queue_oldest_seconds", ("review",)] == 0
    assert found["coven_tasks", ("queued", "review")] == 1


def test_a_task_that_waited_for_a_person_is_not_old_either(store: Store) -> None:
    task = put(store, state="waiting")
    later = NOW + timedelta(days=2)
    with store.write() as tx:
        assert tasks.resume(TENANT, tx, task, later) is not None
    with store.read() as tx:
        found = {
            m.name: value for m, labels, value in standing.read(tx, later) if "review" in labels
        }
    assert found["coven_queue_oldest_seconds"] == 0


def test_every_metric_is_there_from_the_start(bench: Bench) -> None:
    text = bench.client.get("/metrics").text
    for metric in (*COUNTED, *STANDING, *ASKED):
        assert f"# HELP {metric.name} " in text


def test_counts_of_several_processes_and_restarts_add_up(bench: Bench) -> None:
    part = Part(ATTEMPTS.name, ("review", "success"))
    for meter in (Meter(), Meter(), Meter()):
        meter.count(ATTEMPTS, "review", "success")
        assert flush(replace(bench.services, meter=meter))
    with bench.store.read() as tx:
        assert metric_counts.read(tx, NOW)[part] == 3


def test_gauges_are_replaced_and_forgotten(bench: Bench) -> None:
    now = bench.clock.now()
    part = Part(RATE_LEFT.name, ("7", "core"))
    with bench.store.write() as tx:
        metric_counts.set_levels(tx, {part: 10.0}, now)
        metric_counts.set_levels(tx, {part: 9.0}, now)
    assert samples(bench)[RATE_LEFT.name, ("7", "core")] == 9
    bench.clock.advance(3_601)
    assert (RATE_LEFT.name, ("7", "core")) not in samples(bench)
    with bench.store.write() as tx:
        metric_counts.add(tx, {Part(ATTEMPTS.name, ("fix", "x")): 1.0}, now)
        assert metric_counts.drop_levels(tx, now + timedelta(days=2)) == 1
        assert len(metric_counts.read(tx, now)) > 0


class _Away(Store):
    """A database that is not there."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner.engine)

    def _transaction(self, *, write: bool) -> Any:
        raise StoreUnavailable("store: gone")


def test_without_the_database_nothing_counted_is_lost(bench: Bench) -> None:
    away = replace(bench.services, store=_Away(bench.store))
    bench.services.meter.count(ATTEMPTS, "review", "success")
    assert not flush(away)
    assert flush(bench.services)
    assert samples(bench)["coven_attempts_total", ("review", "success")] == 1


def test_without_the_database_the_page_says_so(bench: Bench) -> None:
    bench.services = replace(bench.services, store=_Away(bench.store))
    bench.configure(bench.settings)
    assert samples(bench)["coven_ready", ("store",)] == 0


def test_the_flusher_stores_what_is_left_when_it_ends(bench: Bench) -> None:
    flusher = Flusher(bench.services, every_secs=3_600)
    flusher.start()
    bench.services.meter.count(ATTEMPTS, "fix", "failure")
    flusher.stop()
    with bench.store.read() as tx:
        assert metric_counts.read(tx, NOW)[Part(ATTEMPTS.name, ("fix", "failure"))] == 1


TOKEN = "t" * 32
GUARDED = Metrics(token=SecretStr(TOKEN))


@pytest.mark.parametrize(
    ("rule", "config", "address", "headers", "status"),
    [
        ("loopback may", Metrics(), "127.0.0.1", {}, None),
        ("loopback by IPv6 may", Metrics(), "::1", {}, None),
        ("nobody else may", Metrics(), "10.0.0.5", {}, 403),
        ("a listed network may", Metrics(allow=("10.0.0.0/8",)), "10.0.0.5", {}, None),
        ("a list replaces", Metrics(allow=("10.0.0.0/8",)), "127.0.0.1", {}, 403),
        ("an empty list lets nobody", Metrics(allow=()), "127.0.0.1", {}, 403),
        ("a proxy of ours is no loopback", Metrics(), "127.0.0.1", {"X-Forwarded-For": "1"}, 403),
        ("nor one that says Forwarded", Metrics(), "127.0.0.1", {"Forwarded": "for=1"}, 403),
        (
            "nor one that says the scheme",
            Metrics(),
            "127.0.0.1",
            {"X-Forwarded-Proto": "https"},
            403,
        ),
        ("nor one of a network", Metrics(), "127.0.0.1", {"Cf-Connecting-Ip": "1.2.3.4"}, 403),
        ("this machine by its address", Metrics(), "::1", {"Host": "[::1]:8080"}, None),
        ("a stranger's name for us", Metrics(), "127.0.0.1", {"Host": "evil.example:8080"}, 403),
        ("a name like ours", Metrics(), "127.0.0.1", {"Host": "localhost.evil.example"}, 403),
        ("a Unix socket has no address", Metrics(), "", {}, 403),
        ("a token is needed", GUARDED, "127.0.0.1", {}, 401),
        ("a wrong one", GUARDED, "127.0.0.1", {"Authorization": "Bearer no"}, 401),
        ("not ASCII", GUARDED, "127.0.0.1", {"Authorization": "Bearer \u00e9"}, 401),
        ("basic", GUARDED, "127.0.0.1", {"Authorization": TOKEN}, 401),
        ("the token", GUARDED, "8.8.8.8", {"Authorization": f"Bearer {TOKEN}"}, None),
        (
            "the token, through a proxy",
            GUARDED,
            "8.8.8.8",
            {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "1.2.3.4"},
            None,
        ),
    ],
)
def test_who_may_read(
    rule: str, config: Metrics, address: str, headers: dict[str, str], status: int | None
) -> None:
    found = refusal(config, address, {"Host": "localhost:8080"} | headers)
    assert (found[0] if found else None) == status, rule


def test_the_route_asks_and_says_the_next_step(sqlite_store: Store) -> None:
    bench = Bench(sqlite_store, settings(metrics={"token": TOKEN}))
    answer = bench.client.get("/metrics")
    assert (answer.status_code, "metrics.token" in answer.text) == (401, True)
    assert samples(bench, Authorization=f"Bearer {TOKEN}")
    away = bench.client.get("/metrics", environ_base={"REMOTE_ADDR": "203.0.113.9"})
    assert away.status_code == 401


def test_a_task_carries_the_trace_of_its_delivery(sqlite_store: Store) -> None:
    bench = Bench(sqlite_store)
    sent = f"00-{TRACE}-00f067aa0ba902b7-01"
    body = payload("pull_request.opened")
    task = bench.task(bench.post(json.dumps(body).encode(), traceparent=sent))
    trace = read_trace(task.traceparent)
    assert trace is not None
    assert (trace.trace_id, trace.sampled) == (TRACE, True)
    assert trace.span_id != "00f067aa0ba902b7"


def test_without_a_trace_one_begins(sqlite_store: Store) -> None:
    bench = Bench(sqlite_store)
    task = bench.task(bench.deliver("pull_request", payload("pull_request.opened")))
    assert read_trace(task.traceparent) is not None
