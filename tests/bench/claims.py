"""What a claim costs as tenants and queues grow, in terms of the smallest queue of the same run."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import func, insert, select, update

from coven.settings.models import Settings
from coven.store import attempts, migrate, turns
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store, open_store
from coven.store.tables import tasks as task_table
from coven.store.tasks import Ending, finish
from coven.tenancy.policy import allowance
from coven.values import InstallationId, TaskState, new_token
from tests.bench import report
from tests.ledger import NOW, new_task
from tests.services import (
    ENV_SESSION,
    PostgresServer,
    ServiceUnavailable,
    close_session,
    open_session,
)

SHAPES = ((1, 40), (1, 1_000), (1, 10_000), (10, 100), (100, 100), (1_000, 10))
"""Tenants with queued work, and tasks that each of them has queued."""
ROUNDS = 40
TARGET = {(1, 1_000): 3.0, (1, 10_000): 3.0, (10, 100): 3.0, (100, 100): 6.0, (1_000, 10): 10.0}
_CHUNK = 500


def measure(folder: Path) -> None:
    """Print the growth on SQLite, and on PostgreSQL where it can be had."""
    store = open_store(f"sqlite:///{folder / 'claims.db'}")
    migrate.upgrade(store)
    _measure("SQLite", store)
    store.close()
    session = None if ENV_SESSION in os.environ else open_session()
    try:
        with PostgresServer.for_session().database() as url:
            server = open_store(url)
            _measure("PostgreSQL", server)
            server.close()
    except ServiceUnavailable as error:
        print(f"PostgreSQL: not measured ({error})")
    finally:
        if session is not None:
            close_session(session)


def _measure(name: str, store: Store) -> None:
    settings = Settings.model_validate({"limits": {"max_tasks_per_day": 10**6}})
    rows: list[tuple[object, ...]] = []
    first = 0.0
    for tenants, depth in SHAPES:
        _fill(store, tenants, depth)
        took = report.median(ROUNDS, lambda _: _claim_and_end(store, settings))
        first = first or took
        target = TARGET.get((tenants, depth))
        rows.append(
            (tenants, depth, tenants * depth, report.ms(took), report.ratio(took, first, target))
        )
        _empty(store)
    report.table(
        f"One claim on {name}, its end included",
        ["TENANTS", "QUEUED EACH", "QUEUED", "TIME", "GROWTH"],
        rows,
    )


def _fill(store: Store, tenants: int, depth: int) -> None:
    fields = new_task().__dataclass_fields__
    values = []
    for tenant in range(1, tenants + 1):
        # Every round takes one, so the smallest queue is as deep as there are rounds.
        for _ in range(max(depth, ROUNDS // tenants)):
            new = new_task(installation_id=InstallationId(tenant))
            values.append({n: getattr(new, n) for n in fields} | {"updated_at": NOW})
    for start in range(0, len(values), _CHUNK):
        with store.write() as tx:
            tx.execute(insert(task_table), values[start : start + _CHUNK])


def _claim_and_end(store: Store, settings: Settings) -> None:
    with store.write() as tx:
        task = turns.claim_next(
            tx, lambda *facts: allowance(settings, *facts, NOW), new_token(), NOW, 60
        )
        if task is None:
            raise RuntimeError("nothing was due")
        attempts.start(task.installation_id, tx, task, "bench", NOW)
    with store.write() as tx:
        token = task.lease_token or ""
        finish(task.installation_id, tx, task.id, token, NOW, Ending(TaskState.COMPLETED, "ok"))
        attempts.finish(task.installation_id, tx, task.id, token, NOW, AttemptEnd("ok"))


def _empty(store: Store) -> None:
    with store.write() as tx:
        tx.execute(
            update(task_table)
            .where(task_table.c.state == TaskState.QUEUED)
            .values(state=TaskState.CANCELLED, finished_at=NOW)
        )
        assert (
            tx.execute(
                select(func.count()).where(task_table.c.state == TaskState.QUEUED)
            ).scalar_one()
            == 0
        )
