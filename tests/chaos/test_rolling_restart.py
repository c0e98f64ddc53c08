# ruff: noqa: TID251 - the processes of a test are no effects of the product
"""Every process replaced by a new one while work comes in: nothing is lost and nothing doubled."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest
import requests
from sqlalchemy import select

from coven.clock import SystemClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.metrics import ATTEMPTS, Part
from coven.recovery import recover_deliveries
from coven.sandbox.stack import DemoFamiliar
from coven.store import metric_counts
from coven.store.tables import attempts, tasks
from coven.tracing import read
from tests.e2e.kit import BAD_CODE, Product, Repo, make_repo, running, until

pytestmark = [pytest.mark.xdist_group("rolling"), pytest.mark.timeout(180)]

KEYS = {
    "worker": {"lease_secs": "20", "retry_base_secs": "0.2", "concurrency": "2"},
    "review": {"familiar": '"slow"', "pull_request": "true"},
}
FAMILIARS = (DemoFamiliar("slow", "slow-familiar", "sandbox:slow,1"),)
PULLS = 5


@pytest.fixture
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running(tmp_path_factory.mktemp("rolling"), KEYS, FAMILIARS) as product:
        yield product


def pids_of(process: subprocess.Popen[bytes]) -> set[int]:
    """The process and everything below it."""
    main = psutil.Process(process.pid)
    return {main.pid, *(child.pid for child in main.children(recursive=True))}


def replace(product: Product, role: str) -> tuple[set[int], datetime]:
    """A new process first, then the old one is asked to go; its pids, and when it was asked."""
    old = product.stack.processes[role]
    if role == "web":  # one address, one receiver
        pids, asked = pids_of(old), datetime.now(UTC)
        product.stack.kill(role, signal.SIGTERM)
        product.stack.spawn(role)
        product.stack.wait_ready()
        return pids, asked
    product.stack.spawn(role)
    pids, asked = pids_of(old), datetime.now(UTC)
    old.send_signal(signal.SIGTERM)
    old.wait(timeout=30)
    return pids, asked


def alive(pids: set[int]) -> set[int]:
    return {
        pid
        for pid in pids
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    }


def test_every_process_is_replaced_under_load(product: Product) -> None:
    repo: Repo = make_repo(product, "acme/rolling")
    heads: list[str] = []

    def load() -> None:
        for number in range(PULLS):
            pull = repo.pull({f"things/pack{number}.py": BAD_CODE}, branch=f"changes-{number}")
            heads.append(pull["head"]["sha"])

    opening = threading.Thread(target=load)
    opening.start()
    until("the first session", lambda: running_attempts(product), 30)
    gone: dict[str, tuple[set[int], datetime]] = {}
    for role in ("worker", "control", "web", "beat"):
        gone[role] = replace(product, role)
        assert alive(gone[role][0]) == set(), f"{role} leaves children behind"
    opening.join()
    github = GitHub(product.stack.settings, SystemClock(), Seam())
    recover_deliveries(product.store, github, SystemClock(), timedelta(days=3), settle=timedelta(0))
    assert len(heads) == PULLS
    for head in heads:
        assert repo.completed(head, 60)["conclusion"] == "success"
    product.settle(60)
    assert [len(repo.runs(head)) for head in heads] == [1] * PULLS
    pids, asked = gone["worker"]
    late = [
        row
        for row in all_attempts(product)
        if int(row.worker.rpartition(":")[2]) in pids
        and row.started_at > asked + timedelta(seconds=0.5)
    ]
    assert late == [], "a worker that drains claims nothing"
    with product.store.read() as tx:
        traces = [read(header) for (header,) in tx.execute(select(tasks.c.traceparent))]
    for trace in traces:
        assert trace is not None
        assert events_of(product, trace.trace_id) >= {
            ("web", "delivery_settled"),
            ("sessions", "attempt_started"),
            ("sessions", "task_ended"),
            ("control", "surface_published"),
        }
    until("the counts", lambda: counted(product) == len(all_attempts(product)), 15)
    page = requests.get(product.stack.webhook_url.replace("/webhook", "/metrics"), timeout=5).text
    for name in ("first_surface", "queue_wait", "session", "webhook_accept", "github_request"):
        found = re.search(rf"^coven_{name}_seconds_count(?:{{.*}})? (\S+)$", page, re.M)
        assert found is not None, name
        assert float(found[1]) >= PULLS, name
    for name in ("deliveries_total", "github_requests_total", "upkeep_runs_total"):
        assert re.search(rf"^coven_{name}{{.*}} [1-9]", page, re.M), name
    assert re.search(r"^coven_github_rate_limit_remaining{.*core.*} \d", page, re.M)


def events_of(product: Product, trace_id: str) -> set[tuple[str, str]]:
    """(process, event) of every log line of a trace."""
    lines = [
        json.loads(line)
        for log in (product.stack.state_dir / "logs").glob("*.log")
        for line in log.read_text().splitlines()
        if f'"trace_id": "{trace_id}"' in line
    ]
    return {(line["process"], line["event"]) for line in lines}


def running_attempts(product: Product) -> int:
    return sum(row.finished_at is None for row in all_attempts(product))


def all_attempts(product: Product) -> list[Any]:
    with product.store.read() as tx:
        return list(tx.execute(select(attempts)))


def counted(product: Product) -> float:
    """Attempts that processes have counted, those that are gone included."""
    with product.store.read() as tx:
        numbers = metric_counts.read(tx, datetime.now(UTC))
    return sum(value for part, value in numbers.items() if _is_attempt(part))


def _is_attempt(part: Part) -> bool:
    return part.metric == ATTEMPTS.name
