"""``GET /metrics``: what all processes counted and how the ledgers stand, for Prometheus.

Everything comes from the database, so any receiver answers for all processes, and its numbers
survive every restart. Who may ask: whoever holds ``metrics.token``; without one, the networks of
``metrics.allow``, directly and not through a proxy.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from ipaddress import ip_address, ip_network
from threading import Lock

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from coven import __version__
from coven.errors import StoreUnavailable
from coven.metrics import ABOVE, COUNTED, SUM, Kind, Metric, Part
from coven.metrics_flush import flush
from coven.metrics_standing import ASKED, INFO, READY, STANDING
from coven.services import Services
from coven.settings import models
from coven.store import metric_counts, standing
from coven.store.standing import Sample
from webhooks.nearby import is_forwarded, is_loopback, without_port

KEPT_SECS = 5.0
"""For how long an answer is given again."""
LEVELS_AGE = timedelta(hours=1)
_NAMES = {metric.name: metric for metric in COUNTED}


def metrics_blueprint(
    services: Services, passes: Callable[[str], bool], checks: Iterable[str]
) -> Blueprint:
    """The route; ``passes`` answers a check of ``/readyz`` by its name."""
    page = Page(services, passes, tuple(checks))
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def metrics() -> Response:
        refused = refusal(services.settings.metrics, request.remote_addr, dict(request.headers))
        if refused is not None:
            status, why = refused
            return Response(f"{why}\n", status, mimetype="text/plain")
        return Response(page.text(), 200, content_type=CONTENT_TYPE_LATEST)

    return blueprint


def refusal(
    settings: models.Metrics, address: str | None, headers: Mapping[str, str]
) -> tuple[int, str] | None:
    """Status and reason for whoever may not read; None for whoever may. Pure."""
    if settings.token is not None:
        wanted = f"Bearer {settings.token.get_secret_value()}".encode()
        if hmac.compare_digest(headers.get("Authorization", "").encode(), wanted):
            return None
        return 401, "send metrics.token as a bearer token"
    if is_forwarded(headers):
        return 403, "not through a proxy; set metrics.token and send it as a bearer token"
    try:
        caller = ip_address(address or "")
    except ValueError:
        return 403, "only over TCP; or set metrics.token and send it as a bearer token"
    if caller.is_loopback and not is_loopback(without_port(headers.get("Host", ""))):
        return 403, "not under this name; ask localhost, or set metrics.token"
    if any(caller in ip_network(network) for network in settings.allow):
        return None
    return 403, "not from here: add the network to metrics.allow, or set metrics.token"


class Page:
    """The text, made anew after :data:`KEPT_SECS`. Safe for threads."""

    def __init__(
        self, services: Services, passes: Callable[[str], bool], checks: tuple[str, ...]
    ) -> None:
        self._services = services
        self._passes = passes
        self._checks = checks
        self._lock = Lock()
        self._until = float("-inf")
        self._text = b""

    def text(self) -> bytes:
        """The exposition. While the database is away it says only so, by ``coven_ready``."""
        now = self._services.clock.monotonic
        with self._lock:
            if now() >= self._until:
                registry = CollectorRegistry()
                registry.register(_Given([*self._counted(), *self._families()]))
                self._text = generate_latest(registry)
                self._until = now() + KEPT_SECS
            return self._text

    def _families(self) -> Iterator[Family]:
        ready: list[Sample] = [(READY, (name,), float(self._passes(name))) for name in self._checks]
        yield from gauges(ASKED, [*ready, (INFO, (__version__,), 1.0)])
        try:
            with self._services.store.read() as tx:
                found = standing.read(tx, self._services.clock.now())
        except StoreUnavailable:
            return
        yield from gauges(STANDING, found)

    def _counted(self) -> Iterator[Family]:
        flush(self._services)
        try:
            with self._services.store.read() as tx:
                numbers = metric_counts.read(tx, self._services.clock.now() - LEVELS_AGE)
        except StoreUnavailable:
            return
        yield from counted(numbers)


def counted(numbers: Mapping[Part, float]) -> Iterator[Family]:
    """Families of all :data:`COUNTED`; rows of metrics that this release has not are left out."""
    rows: dict[str, dict[tuple[str, ...], dict[str, float]]] = {name: {} for name in _NAMES}
    for part, value in numbers.items():
        metric = _NAMES.get(part.metric)
        if metric is not None and len(part.labels) == len(metric.labels):
            rows[part.metric].setdefault(part.labels, {})[part.part] = value
    for metric in COUNTED:
        yield _family(metric, rows[metric.name])


def gauges(metrics: Iterable[Metric], samples: Iterable[Sample]) -> Iterator[Family]:
    """Families of gauges that were read just now."""
    families = {m.name: GaugeMetricFamily(m.name, m.help, labels=m.labels) for m in metrics}
    for metric, labels, value in samples:
        families[metric.name].add_metric(labels, value)
    yield from families.values()


def _family(metric: Metric, series: Mapping[tuple[str, ...], Mapping[str, float]]) -> Family:
    if not metric.labels and not series:
        series = {(): {}}
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, parts in series.items():
            histogram.add_metric(labels, _cumulated(metric, parts), parts.get(SUM, 0.0))
        return histogram
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, parts in series.items():
        family.add_metric(labels, parts.get("", 0.0))
    return family


def _cumulated(metric: Metric, parts: Mapping[str, float]) -> list[tuple[str, float]]:
    bounds, total = [], 0.0
    for bound in (*(f"{upper:g}" for upper in metric.buckets), ABOVE):
        total += parts.get(bound, 0.0)
        bounds.append((bound, total))
    return bounds


class _Given(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families
