"""``governance install-defaults``: bring the shipped rules to life, all in one transaction.

With the operator's key all rows and the head are signed anew. (The design this follows leaves
signatures alone, so that its signed rows became inert.) Without a key only ``unsigned-dev`` may do
it, and then signatures stay untouched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from coven.errors import ConfigurationError
from coven.governance.actions import (
    Action,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
    parse_action,
)
from coven.governance.admin import Admin, Row, listed
from coven.governance.audit import Event, redacted
from coven.governance.engine import Engine, templates_of
from coven.governance.evaluate import decide
from coven.governance.policy import Policy, Verdict, build_policy
from coven.governance.rules import Rule
from coven.governance.seeds import SEEDS
from coven.governance.strict_json import loads
from coven.governance.world import Scope
from coven.redaction import Redactor
from coven.store import chain
from coven.store import rules as ledger
from coven.store.engine import Tx

RECENT = 1_000
"""How many recorded checks the preview asks the shipped rules about."""


@dataclass
class Installed:
    """What was done, by rule id. ``not_enforced`` must be empty."""

    activated: list[str] = field(default_factory=list)
    already_enabled: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Were not in the table and were put back."""
    resigned: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    enforced: list[str] = field(default_factory=list)
    not_enforced: list[dict[str, str]] = field(default_factory=list)
    signed: bool = True

    def as_json(self) -> dict[str, Any]:
        """``{"verb": ..., "result": ...}``."""
        return {"verb": "governance.install-defaults", "result": asdict(self)}


def install_defaults(admin: Admin, only: Collection[str] = ()) -> Installed:
    """Enable the shipped rules (or some of them). Idempotent.

    Raises ``KeyProblem`` without a key in signed mode, and ``ConfigurationError`` when a rule would
    refuse what this server must do; nothing is written then.
    """
    engine = admin.engine
    chosen = [seed for seed in SEEDS if not only or seed.id in only]
    unknown = set(only) - {seed.id for seed in SEEDS}
    if unknown:
        raise ConfigurationError(f"no shipped rule is called {min(unknown)}")
    _require_workable(engine, [seed.row() | {"enabled": 1} for seed in chosen])
    before = {item["id"]: item for item in listed(engine)}
    done = Installed()
    for seed in chosen:
        known = before.get(seed.id)
        if known is None:
            done.missing.append(seed.id)
        elif known["enforcement_state"] == "enforced":
            done.already_enabled.append(seed.id)
        elif known["enabled"]:
            done.repaired.append(seed.id)
        else:
            done.activated.append(seed.id)
    wanted = {*done.missing, *done.repaired, *done.activated}
    if wanted and _has_key(admin):
        seeds = {seed.id: seed.row() for seed in chosen}

        def change(rows: list[Row]) -> list[Row]:
            known = {row["id"]: row for row in rows}
            changed = []
            for rule_id in sorted(seeds):
                row = known.get(rule_id) or _fresh(seeds[rule_id])
                changed.append(row | {"enabled": 1, "removed_at": None})
            return changed

        done.resigned = [row["id"] for row in admin.change(change, "governance.rule_enabled")]
    elif wanted:
        _without_key(admin, [seed.row() for seed in chosen if seed.id in wanted])
        done.signed = False
    after = {item["id"]: item["enforcement_state"] for item in listed(engine)}
    for seed in chosen:
        state = after.get(seed.id, "missing")
        if state == "enforced":
            done.enforced.append(seed.id)
        else:
            done.not_enforced.append({"id": seed.id, "enforcement_state": state})
    return done


def would_have_blocked(engine: Engine, only: Collection[str] = ()) -> dict[str, int]:
    """How many of the last recorded actions each shipped rule matches: a dry run."""
    rules = [Rule.read(seed.row() | {"enabled": 1}) for seed in SEEDS]
    policy = build_policy(rules, templates=templates_of(engine.settings))
    found = {seed.id: 0 for seed in SEEDS if not only or seed.id in only}
    with engine.store.read() as tx:
        head = chain.head(tx)
        rows = list(chain.rows(tx, max(0, head[0] - RECENT))) if head else []
    for row in rows:
        if row["event_type"] != "governance.check" or row["payload"] is None:
            continue
        value: Any = loads(row["payload"])
        try:
            action = parse_action(value["action"])
        except MalformedAction:
            continue
        decision = _asked(engine, policy, action, value.get("namespace", "_global"))
        for rule_id in {match.rule_id for match in decision.matched}:
            if rule_id in found:
                found[rule_id] += 1
    return found


def _require_workable(engine: Engine, rows: Sequence[Row]) -> None:
    """Raise unless this server can still work under these rules."""
    settings = engine.settings
    policy = build_policy([Rule.read(row) for row in rows], templates=templates_of(settings))
    root, state = settings.workspace_root, settings.server.state_dir.absolute()
    needed: list[tuple[str, Action]] = [
        ("worker.workspace_root", FilesystemWrite(str(root / "task" / "brief.json"), Op.CREATE)),
        ("server.state_dir", FilesystemWrite(str(state / "mirrors"), Op.CREATE)),
        ("github.api_base_url", NetworkRequest.of("GET", settings.github.api_base_url)),
        ("github.html_base_url", NetworkRequest.of("GIT", settings.github.html_base_url)),
        ("git", ProcessSpawn.of(["git", "fetch"])),
    ]
    for name, action in needed:
        decision = _asked(engine, policy, action, "_global")
        if decision.verdict is Verdict.REFUSE:
            where = getattr(action, "path", None) or getattr(action, "host", None) or name
            raise ConfigurationError(
                f"{name}: {decision.rule_id} ({decision.reason}) would refuse {where!r}, which "
                "this server needs; change the setting, or install the other rules with --only"
            )


def _asked(engine: Engine, policy: Policy, action: Action, namespace: str) -> Any:
    scope = Scope(namespace=namespace, workspace=str(engine.settings.workspace_root))
    return decide(lambda: policy, action, scope, engine.world)


def _has_key(admin: Admin) -> bool:
    """Whether to sign. Raises ``KeyProblem`` when that is needed and can't be done."""
    keys = admin.engine.keys
    private = keys.folder / "operator.priv"
    if admin.engine.signed or private.exists() or private.is_symlink():
        keys.signer("operator")
        return True
    return False


def _without_key(admin: Admin, rows: Sequence[Row]) -> None:
    def write(tx: Tx) -> list[Event]:
        for row in rows:
            known = ledger.find_rule(tx, row["id"])
            if known is None:
                ledger.insert_rule(tx, _fresh(row) | {"enabled": 1, "revision": 1})
            else:
                ledger.change_rule(tx, row["id"], known["revision"], {"enabled": 1})
        facts = {"rule_ids": [row["id"] for row in rows], "signed": False}
        return [Event("governance.rule_enabled", redacted(Redactor(), facts), "operator")]

    admin.recorder.commit_with(write, admin.engine.clock.now())


def _fresh(row: Row) -> Row:
    empty = {"signature": None, "key_id": None, "removed_at": None, "examples": None}
    return empty | row | {"revision": 0}
