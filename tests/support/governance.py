"""A gate of one's own: real rules, keys and chain over a test's database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coven.clock import ManualClock
from coven.governance.admin import Admin
from coven.governance.audit import Recorder, Report, verify_store
from coven.governance.context import Acting
from coven.governance.engine import Engine
from coven.governance.gate import RulesGate
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.store import chain
from coven.store.engine import Store
from tests.ledger import NOW, REPO_ID, TENANT

SECRET = "s3cret-value-of-this-test"
TASK = "a" * 32


@dataclass
class Office:
    """Everything about rules that a test needs."""

    settings: Settings
    store: Store
    clock: ManualClock
    engine: Engine
    gate: RulesGate
    admin: Admin
    seam: Seam

    def events(self, event_type: str | None = None) -> list[dict[str, Any]]:
        """Rows of the audit chain, oldest first."""
        with self.store.read() as tx:
            rows = [dict(row) for row in chain.rows(tx)]
        return [row for row in rows if event_type in (None, row["event_type"])]

    def proven(self) -> Report:
        return verify_store(self.store, self.engine.keys.public_keys("service"))

    def acting(self, **changes: Any) -> Acting:
        """A task of the tenant."""
        values: dict[str, Any] = {
            "installation": TENANT,
            "repo_id": REPO_ID,
            "repo": "octo/demo",
            "familiar": "cody",
            "may_wait": True,
            "task_id": TASK,
            "head_sha": "c" * 40,
            "attempts_root": self.settings.workspace_root / TASK,
        }
        return Acting(**(values | changes))


def office(
    store: Store, folder: Path, mode: str = "signed", *, key: bool = True, **governance: Any
) -> Office:
    """An office whose operator has a key; nothing is signed yet."""
    settings = Settings.model_validate(
        {
            "server": {"state_dir": folder / "state"},
            "governance": {"enabled": True, "mode": mode, **governance},
        }
    )
    clock = ManualClock(NOW)
    engine = Engine.of(settings, store, clock)
    if key:
        engine.keys.generate("operator")
    recorder = Recorder(store, engine.keys.service())
    gate = RulesGate(engine, recorder, settings, lambda: Redactor([SECRET]))
    admin = Admin(engine, recorder)
    return Office(settings, store, clock, engine, gate, admin, Seam(gate))
