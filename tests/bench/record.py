"""The gate and its record: a whole check with 200 signed rules, appends, and proving the chain.

A whole check is what stands before every effect: reading the rules, the verdict, and the commit of
its row (with the wait for the disk).
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path

from coven.clock import SystemClock
from coven.governance.actions import FilesystemWrite
from coven.governance.admin import Admin, Row
from coven.governance.audit import Event, Recorder, verify_store
from coven.governance.engine import Engine
from coven.governance.gate import RulesGate
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.store import migrate
from coven.store.engine import open_store
from tests.bench.report import best, ms, ratio, seconds, table

ROWS = 5_000
WHOLE = 1_000_000
LIMIT_SECS = 0.005
GROWTH_TARGET = 100.0


def measure(folder: Path) -> None:
    """Print the tables."""
    times, policies, first = {}, {}, 0.0
    action = FilesystemWrite(str(folder / "x"))
    for count in (10, 200, 1_000):
        gate = gate_with(folder / str(count), count)
        gate.check(action, "bench")
        policies[count] = [seconds(gate.engine.policy) for _ in range(100)]
        times[count] = [seconds(partial(gate.check, action, "bench")) for _ in range(100)]
        if count == 200:
            first = best(3, lambda _, gate=gate: prove(gate.engine))  # type: ignore[misc]
        gate.engine.store.close()
    p95 = statistics.quantiles(policies[200], n=20)[-1]
    table(
        "One check with 200 signed rules",
        ["PART", "MEDIAN", "P95", "1,000 RULES AGAINST 10"],
        [
            (
                "the policy, read from the database",
                ms(statistics.median(policies[200])),
                f"{ms(p95)} ({'met' if p95 < LIMIT_SECS else 'MISSED'}: 5 ms)",
                ratio(min(policies[1_000]), min(policies[10]), GROWTH_TARGET),
            ),
            (
                "everything, with the commit",
                ms(statistics.median(times[200])),
                ms(statistics.quantiles(times[200], n=20)[-1]),
                ratio(min(times[1_000]), min(times[10]), GROWTH_TARGET),
            ),
            ("proving it after a change", ms(first), "", ""),
        ],
    )
    _chain(folder / "chain")


def _chain(folder: Path) -> None:
    gate = gate_with(folder, 1)
    recorder, now = gate.recorder, gate.engine.clock.now()
    event = Event("governance.check", {"action": {"kind": "custom"}, "nonce": "a" * 32})
    one = best(50, lambda _: recorder.commit([event], now))
    batch = [event] * ROWS
    many = seconds(lambda: recorder.commit(batch, now))
    keys = gate.engine.keys.public_keys("service")
    proof = seconds(lambda: verify_store(gate.engine.store, keys))
    gate.engine.store.close()
    table(
        "The audit chain on SQLite",
        ["WORK", "RATE", "AT THIS RATE"],
        [
            ("append, a commit each", f"{1 / one:,.0f} rows/s", ""),
            (f"append {ROWS:,} in one commit", f"{ROWS / many:,.0f} rows/s", ""),
            (
                "prove",
                f"{ROWS / proof:,.0f} rows/s",
                f"1,000,000 rows in {proof / ROWS * WHOLE:,.0f} s",
            ),
        ],
    )


def prove(engine: Engine) -> None:
    """Read and prove the policy as after a change."""
    engine._kept = None
    engine.policy()


def gate_with(folder: Path, count: int) -> RulesGate:
    """A gate over ``count`` signed rules, all of the kind that is asked about."""
    settings = Settings.model_validate(
        {"server": {"state_dir": folder}, "governance": {"enabled": True}}
    )
    store = open_store(settings.database_url)
    migrate.upgrade(store)
    engine = Engine.of(settings, store, SystemClock())
    engine.keys.generate("operator")
    recorder = Recorder(store, engine.keys.service())

    def rules(_: list[Row]) -> list[Row]:
        return [_rule(number) for number in range(count)]

    Admin(engine, recorder).change(rules, "governance.rule_added")
    return RulesGate(engine, recorder, settings, Redactor)


def _rule(number: int) -> Row:
    return {
        "id": f"B{number:04}",
        "kind": "filesystem_write",
        "matcher": json.dumps({"glob": f"/srv/place-{number}/**"}),
        "severity": "refuse",
        "reason": "bench",
        "namespace": "_global",
        "created_by": "bench",
        "created_at": 0,
        "enabled": 1,
        "signature": None,
        "attest_level": "unsigned",
        "revision": 0,
        "key_id": None,
        "removed_at": None,
        "examples": None,
    }
