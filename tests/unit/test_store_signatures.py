"""No query of a ledger can forget whose rows it reads: every function takes the tenant first."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import coven.store

NOT_LEDGERS = {
    "turns",  # decides between tenants
    "recoveries",  # of all tenants at once
    "engine",
    "migrate",
    "tables",
    "task_rows",
    "book_rows",
    "book_sweeps",
    "sweeps",
    "standing",  # counts of all tenants together
    "metric_counts",  # no tenant's data
    "beats",
    "api_tokens",
    "rules",  # one policy for all tenants
    "chain",  # one record for all tenants
    "tables_governance",
}
ENTRY_LOOKUPS = {
    "tasks.locate",
    "surfaces.next_due_of_task",
    "deliveries.find",
    "deliveries.record",
    "deliveries.reroute",
    "deliveries.count_duplicate",
    "plans.learn",
    "plans.of_account",
    "plans.reconcile",
}
PURE = {
    "escalations.new_id",
    "escalations.parse_id",
    "escalations.from_row",
    "surfaces.content_hash",
    "surfaces.is_due",
    "surfaces.from_row",
    "installations.from_row",
    "book_reads.exported",
    "api_audit.page_query",
    "listing.tasks_query",
    "listing.deliveries_query",
    "rollup.done_query",
    "rollup.from_row",
}


def ledger_functions() -> Iterator[tuple[str, inspect.Signature]]:
    for module in pkgutil.iter_modules(coven.store.__path__):
        if module.name in NOT_LEDGERS or module.ispkg:
            continue
        loaded = importlib.import_module(f"coven.store.{module.name}")
        for name, member in inspect.getmembers(loaded, inspect.isfunction):
            if member.__module__ == loaded.__name__ and not name.startswith("_"):
                yield f"{module.name}.{name}", inspect.signature(member)


FUNCTIONS = dict(ledger_functions())


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - ENTRY_LOOKUPS - PURE))
def test_every_ledger_function_takes_the_installation_first(name: str) -> None:
    first, second = list(FUNCTIONS[name].parameters.values())[:2]
    assert first.name == "installation"
    assert str(first.annotation) in {"InstallationId", "InstallationId | None"}
    assert first.default is inspect.Parameter.empty
    assert second.name == "tx"


def test_the_exceptions_exist() -> None:
    assert set(FUNCTIONS) >= ENTRY_LOOKUPS | PURE


def test_nothing_pure_takes_a_transaction() -> None:
    assert all("tx" not in FUNCTIONS[name].parameters for name in PURE)
