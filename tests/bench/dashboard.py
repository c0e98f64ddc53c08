"""How soon pages of the dashboard answer over many tasks in PostgreSQL, and by which plans."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event, text

from coven.store.engine import Store, open_store
from tests.bench import report
from tests.ledger import TENANT
from tests.services import (
    ENV_SESSION,
    PostgresServer,
    ServiceUnavailable,
    close_session,
    open_session,
)
from tests.support.dashboard import Browser, Seeded, World

TASKS = int(os.environ.get("COVEN_BENCH_TASKS", "1000000"))
ROUNDS = 7
TARGET_SECS = 0.150
_LARGE = ("tasks", "attempts", "deliveries", "surfaces")
_AT = "timestamptz '2026-01-01 12:00+00' - n * interval '20 seconds'"
_STATES = "(ARRAY['completed','completed','completed','failed','superseded'])[1 + n % 5]"
# Nine of ten belong to the tenant that is looked at; names and days vary.
_VARIED: dict[str, dict[str, str]] = {
    "tasks": {
        "seq": "1000000 + n",
        "id": "md5('task' || n)",
        "installation_id": "CASE WHEN n % 10 = 0 THEN 42 ELSE 41 END",
        "repo_id": "7 + n % 50",
        "repo_name": "'repo-' || (n % 50)",
        "thread": "n % 5000",
        "title": "'Change number ' || n",
        "state": _STATES,
        "semantic_key": "'bench:' || n",
        "created_at": _AT,
        "delivery_id": "'bench-' || n",
    },
    "attempts": {
        "id": "1000000 + n",
        "task_id": "md5('task' || n)",
        "installation_id": "CASE WHEN n % 10 = 0 THEN 42 ELSE 41 END",
        "worker": "'worker-' || (n % 8)",
        "finished_at": _AT,
        "started_at": f"{_AT} - interval '90 seconds'",
    },
    "deliveries": {
        "id": "'bench-' || n",
        "installation_id": "CASE WHEN n % 10 = 0 THEN 42 ELSE 41 END",
        "routing": "CASE WHEN n % 3 = 0 THEN 'ignored:bot' ELSE 'task:' || md5('task' || n) END",
        "task_id": "CASE WHEN n % 3 = 0 THEN NULL ELSE md5('task' || n) END",
        "received_at": _AT,
    },
}


def measure(folder: Path) -> None:
    """Fill, look at every large page, and print times and plans."""
    session = None if ENV_SESSION in os.environ else open_session()
    try:
        with PostgresServer.for_session().database() as url:
            store = open_store(url)
            _measure(store, folder)
            store.close()
    except ServiceUnavailable as error:
        print(f"PostgreSQL: not measured ({error})")
    finally:
        if session is not None:
            close_session(session)


def _measure(store: Store, folder: Path) -> None:
    world = World(store, folder)
    seeded = Seeded(world)
    fill(store, seeded.tasks[TENANT], seeded.delivery[TENANT])
    pages = world.operator()
    cursor = _deep(pages)
    rows = []
    for name, path in {
        "Now, all": "/ops/",
        "Now, one": "/ops/?installation_id=41",
        "Tasks, all": "/ops/tasks",
        "Tasks, one": "/ops/tasks?installation_id=41",
        "Tasks, page 20": f"/ops/tasks?installation_id=41&cursor={cursor}",
        "Tasks, failed": "/ops/tasks?installation_id=41&state=failed",
        "Tasks, waiting": "/ops/tasks?installation_id=41&state=waiting",
        "Tasks, by title": "/ops/tasks?installation_id=41&q=number+99",
        "Tasks, no such title": "/ops/tasks?installation_id=41&q=nowhere",
        "Tasks, one repository": "/ops/tasks?installation_id=41&repo=octo/repo-7",
        "Task": f"/ops/tasks/{seeded.tasks[TENANT]}",
        "Deliveries": "/ops/deliveries?installation_id=41",
        "Memory": "/ops/memory?installation_id=41",
        "Usage": "/ops/usage?installation_id=41",
        "Audit": "/ops/audit?installation_id=41",
    }.items():
        with statements(store) as asked:
            assert pages.get(path).status_code == 200, path
        scans = sorted({scan for each in asked for scan in whole_scans(store, *each)})
        took = report.median(ROUNDS, lambda _, path=path: _seconds(pages, path))
        verdict = "within" if took <= TARGET_SECS else "OVER"
        rows.append((name, report.ms(took), verdict, ", ".join(scans) or "indexes only"))
    report.table(
        f"Pages over {TASKS:,} tasks in PostgreSQL (target {TARGET_SECS * 1000:.0f} ms)",
        ["PAGE", "MEDIAN", "TARGET", "READS WHOLE TABLES"],
        rows,
    )


def fill(store: Store, task: str, delivery: str) -> None:
    """Copies of one row of each large ledger."""
    models = {"tasks": ("id", task), "attempts": ("task_id", task), "deliveries": ("id", delivery)}
    for table, (column, value) in models.items():
        with store.write() as tx:
            known = tx.execute(
                text(
                    "SELECT column_name FROM information_schema.columns "
                    "WHERE table_name = :name AND table_schema = 'public'"
                ),
                {"name": table},
            ).scalars()
            names = list(known)
            values = ", ".join(_VARIED[table].get(name, f"model.{name}") for name in names)
            tx.execute(
                text(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                    f"FROM generate_series(1, {TASKS}) AS n, "
                    f"(SELECT * FROM {table} WHERE {column} = :value LIMIT 1) AS model"
                ),
                {"value": value},
            )
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


@contextmanager
def statements(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """Every SELECT that is sent meanwhile."""
    asked: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, sql: str, parameters: Any, *___: Any) -> None:
        if sql.lstrip().upper().startswith("SELECT"):
            asked.append((sql, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def whole_scans(store: Store, sql: str, parameters: Any) -> list[str]:
    """The large ledgers that a statement reads from end to end."""
    with store.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN {sql}", parameters).scalars().all()
    found = re.findall(r"Seq Scan on (\w+)", "\n".join(plan))
    return [table for table in found if table in _LARGE]


def _deep(pages: Browser) -> str:
    path = "/ops/tasks?installation_id=41"
    cursor = ""
    for _ in range(20):
        found = re.search(
            r'cursor=([^"&]+)" *>Older|rel="next" href="[^"]*cursor=([^"&]+)"', pages.get(path).text
        )
        assert found is not None
        cursor = found[1] or found[2]
        path = f"/ops/tasks?installation_id=41&cursor={cursor}"
    return cursor


def _seconds(pages: Browser, path: str) -> float:
    began = time.perf_counter()
    pages.get(path)
    return time.perf_counter() - began


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place))
