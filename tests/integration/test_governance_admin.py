"""What an operator does to the rules: signed, one transaction, and never on top of tampering."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import text

from coven.bootstrap import build_services
from coven.errors import ConfigurationError
from coven.governance.actions import FilesystemWrite
from coven.governance.admin import (
    Change,
    EpochConflict,
    NoSuchRule,
    audit_keys,
    listed,
    status,
)
from coven.governance.audit import verify_store
from coven.governance.defaults import install_defaults, would_have_blocked
from coven.governance.head import PolicyUnusable
from coven.governance.identity import KeyProblem
from coven.governance.refusal import ActionRefused
from coven.governance.seeds import SEEDS
from coven.governance.shapes import InvalidMatcher
from coven.governance.signing import Signer
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.checks import check_settings
from coven.settings.models import Settings
from coven.store import rules as ledger
from coven.store.engine import Store
from tests.support.governance import Office, office
from worker import upkeep

ALL = [seed.id for seed in SEEDS]
GLOB = '{"glob":"/srv/**"}'


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Office:
    return office(store, tmp_path)


def add(desk: Office, rule_id: str = "X1", **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"matcher": GLOB, "severity": "refuse", "reason": "no"} | changes
    return desk.admin.add(rule_id, "filesystem_write", **values)


def row(desk: Office, rule_id: str) -> dict[str, Any]:
    with desk.store.read() as tx:
        found = ledger.find_rule(tx, rule_id)
    assert found is not None
    return dict(found)


def epoch(desk: Office) -> int:
    with desk.store.read() as tx:
        return ledger.newest_epoch(tx)


def state(desk: Office, rule_id: str) -> str:
    return next(r["enforcement_state"] for r in listed(desk.engine) if r["id"] == rule_id)


def test_every_change_is_signed_counted_and_on_record(desk: Office) -> None:
    add(desk)
    desk.admin.disable("X1")
    desk.admin.enable("X1")
    desk.admin.remove("X1")
    assert epoch(desk) == 4
    assert row(desk, "X1")["revision"] == 4
    assert row(desk, "X1")["removed_at"] is not None
    assert desk.engine.policy().epoch == 4
    kinds = [event["event_type"].removeprefix("governance.") for event in desk.events()]
    assert kinds == [
        "rule_added",
        "policy_advanced",
        "rule_disabled",
        "policy_advanced",
        "rule_enabled",
        "policy_advanced",
        "rule_removed",
        "policy_advanced",
    ]
    assert desk.proven().ok


def test_the_status_says_what_is_in_force_and_what_is_wrong(desk: Office) -> None:
    add(desk)
    good = status(desk.engine)
    assert (good["ok"], good["policy_epoch"], good["rules_enforced"]) == (True, 1, 1)
    assert good["operator_keys"] == [desk.engine.keys.signer("operator").key_id]
    with desk.store.write() as tx:
        tx.execute(text("UPDATE governance_rules SET reason = 'x' WHERE id = 'X1'"))
    bad = status(desk.engine)
    assert bad["ok"] is False
    assert "policy_tampered" in bad["problem"]


def test_an_id_is_never_used_twice(desk: Office) -> None:
    add(desk)
    desk.admin.remove("X1")
    for change in (lambda: add(desk), lambda: desk.admin.enable("X1")):
        with pytest.raises(NoSuchRule):
            change()
    assert epoch(desk) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"matcher": "[]"},
        {"matcher": '{"glob":1}'},
        {"matcher": '{"globb":"/x"}'},
        {"matcher": "{}"},
        {"matcher": '{"glob":"/a","glob":"/b"}'},
        {"matcher": '{"max_bytes":1.5}'},
        {"severity": "forbid"},
        {"reason": ""},
        {"namespace": "somewhere"},
        {"examples": {"match": [{"kind": "filesystem_write", "path": "/other"}]}},
        {"examples": {"no_match": [{"kind": "filesystem_write", "path": "/srv/a"}]}},
    ],
)
def test_a_rule_that_can_not_work_is_refused_and_nothing_written(
    desk: Office, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidMatcher):
        add(desk, **changes)
    assert epoch(desk) == 0
    assert desk.events() == []


@pytest.mark.parametrize("act", ["add", "disable", "remove", "resign"])
def test_without_the_operators_key_nothing_changes(desk: Office, act: str) -> None:
    add(desk)
    (desk.engine.keys.folder / "operator.priv").unlink()
    acts = {
        "add": lambda: add(desk, "X2"),
        "disable": lambda: desk.admin.disable("X1"),
        "remove": lambda: desk.admin.remove("X1"),
        "resign": desk.admin.resign,
    }
    with pytest.raises(KeyProblem, match=r"governance\.no_operator_key"):
        acts[act]()
    assert epoch(desk) == 1


def test_nothing_is_signed_on_top_of_what_somebody_changed(desk: Office) -> None:
    add(desk)
    with desk.store.write() as tx:
        tx.execute(text("UPDATE governance_rules SET severity = 'log' WHERE id = 'X1'"))
    with pytest.raises(PolicyUnusable):
        add(desk, "X2")
    with pytest.raises(PolicyUnusable):
        desk.admin.resign()
    desk.admin.resign(although_tampered=True)
    assert state(desk, "X1") == "enforced"


def test_a_rotated_key_takes_over_by_signing_all_again(desk: Office) -> None:
    add(desk)
    old = desk.engine.keys.signer("operator").key_id
    new = desk.engine.keys.generate("operator", force=True)
    desk.admin.resign()
    (desk.engine.keys.folder / "trusted_keys" / f"{old}.pub").unlink()
    desk.clock.advance(100)
    assert desk.engine.policy().epoch == 2
    assert row(desk, "X1")["key_id"] == new.key_id


def test_rows_of_a_rotated_service_key_are_proven_by_its_voucher_alone(desk: Office) -> None:
    add(desk)
    old = desk.engine.keys.signer("service")
    desk.admin.vouch("service", old.public)
    desk.engine.keys.generate("service", force=True)
    (desk.engine.keys.folder / "service_keys" / f"{old.key_id}.pub").unlink()
    assert not verify_store(desk.store, desk.engine.keys.public_keys("service")).ok
    report = verify_store(desk.store, audit_keys(desk.engine))
    assert (report.ok, report.signature_failures) == (True, 0)


@pytest.mark.parametrize("change", ["role = 'operator'", "created_at = created_at + 1"])
def test_a_changed_voucher_proves_nothing(desk: Office, change: str) -> None:
    add(desk)
    other = Signer.from_seed(b"o" * 32)
    desk.admin.vouch("service", other.public)
    assert other.key_id in audit_keys(desk.engine)
    with desk.store.write() as tx:
        tx.execute(text(f"UPDATE governance_keys SET {change}"))
    assert other.key_id not in audit_keys(desk.engine)


def test_what_was_signed_elsewhere_is_accepted_once(desk: Office) -> None:
    add(desk)
    change = planned(desk, desk.engine.keys.signer("operator"))
    assert desk.admin.accept_signed(change) == 2
    assert state(desk, "X1") == "disabled"
    with pytest.raises((EpochConflict, PolicyUnusable)):
        desk.admin.accept_signed(change)


def planned(desk: Office, signer: Signer, at: int = 2) -> Change:
    with desk.store.read() as tx:
        rows = [dict(found) for found in ledger.all_rules(tx)]

    def change(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [next(r for r in known if r["id"] == "X1") | {"enabled": 0}]

    return desk.admin.plan(change, "governance.rule_disabled", signer, rows, at)


def test_what_a_stranger_signed_is_not_accepted(desk: Office) -> None:
    add(desk)
    with pytest.raises(PolicyUnusable):
        desk.admin.accept_signed(planned(desk, Signer.from_seed(b"\x09" * 32)))
    assert epoch(desk) == 1


def test_a_skipped_or_stale_epoch_is_a_conflict(desk: Office) -> None:
    add(desk)
    signer = desk.engine.keys.signer("operator")
    stale = planned(desk, signer)
    with pytest.raises(EpochConflict):
        desk.admin.accept_signed(planned(desk, signer, at=5))
    add(desk, "X2", matcher='{"glob":"/other/**"}')
    with pytest.raises((EpochConflict, PolicyUnusable)):
        desk.admin.accept_signed(stale)


def test_install_defaults_signs_all_in_one_transaction_and_again_changes_nothing(
    desk: Office,
) -> None:
    done = install_defaults(desk.admin, [i for i in ALL if i not in {"R001", "R105"}])
    assert done.not_enforced == []
    assert done.signed
    assert set(done.activated) | set(done.missing) == set(done.enforced)
    assert epoch(desk) == 1
    again = install_defaults(desk.admin, done.enforced)
    assert again.already_enabled == sorted(done.enforced)
    assert again.activated == again.resigned == []
    assert epoch(desk) == 1


def test_w4_a_seed_that_somebody_enabled_by_hand_is_no_working_rule(desk: Office) -> None:
    install_defaults(desk.admin, ["R002"])
    with desk.store.write() as tx:
        tx.execute(text("UPDATE governance_rules SET signature = NULL WHERE id = 'R002'"))
    assert state(desk, "R002") == "skipped_unsigned"
    with pytest.raises(PolicyUnusable):
        install_defaults(desk.admin, ["R003"])


def test_install_defaults_without_a_key_writes_nothing(store: Store, tmp_path: Path) -> None:
    desk = office(store, tmp_path, key=False)
    with pytest.raises(KeyProblem):
        install_defaults(desk.admin, ["R002"])
    assert desk.events() == []
    assert epoch(desk) == 0


def test_install_defaults_without_a_key_in_unsigned_dev_leaves_signatures_alone(
    store: Store, tmp_path: Path
) -> None:
    desk = office(store, tmp_path, "unsigned-dev", key=False)
    done = install_defaults(desk.admin, ["R002"])
    assert (done.signed, done.not_enforced) == (False, [])
    assert row(desk, "R002")["signature"] is None
    with pytest.raises(ActionRefused):
        desk.gate.check(FilesystemWrite("/var/tmp/x"), "p")
    desk.gate.check(FilesystemWrite("/srv/x"), "p")


def test_defaults_that_would_stop_this_server_are_not_installed(
    store: Store, tmp_path: Path
) -> None:
    desk = office(store, tmp_path)
    settings = desk.settings.model_copy(
        update={
            "worker": desk.settings.worker.model_copy(update={"workspace_root": Path("/tmp/w")})
        }
    )
    desk.engine.settings = settings
    with pytest.raises(ConfigurationError, match=r"workspace_root: R001"):
        install_defaults(desk.admin)
    assert epoch(desk) == 0


def test_the_preview_counts_what_the_shipped_rules_would_have_stopped(desk: Office) -> None:
    add(desk)
    for path in ("/var/tmp/a", "/var/tmp/b", "/home/c"):
        desk.gate.check(FilesystemWrite(path), "p")
    assert would_have_blocked(desk.engine, ["R002", "R003"]) == {"R002": 2, "R003": 0}


def test_the_shipped_rules_are_always_the_same() -> None:
    assert ALL[:4] == ["R001", "R002", "R003", "R004"]
    assert all(seed.row()["enabled"] == 0 for seed in SEEDS)
    assert {seed.row()["created_by"] for seed in SEEDS} == {"system:seed"}


def test_a_migrated_database_holds_the_shipped_rules_disabled(sqlite_store: Store) -> None:
    with sqlite_store.read() as tx:
        rows = ledger.all_rules(tx)
    assert [r["id"] for r in rows] == sorted(ALL)
    assert not any(r["enabled"] or r["signature"] for r in rows)


def configured(folder: Path, url: str, **governance: Any) -> Settings:
    return Settings.model_validate(
        {
            "server": {"state_dir": folder / "state"},
            "storage": {"path": url.removeprefix("sqlite:///")},
            "governance": governance,
        }
    )


def test_signed_mode_without_the_operators_public_key_does_not_start(
    sqlite_url: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="identity generate"):
        build_services(configured(tmp_path, sqlite_url, enabled=True))


def test_a_key_with_the_wrong_mode_does_not_start(sqlite_url: str, tmp_path: Path) -> None:
    settings = configured(tmp_path, sqlite_url, enabled=True, mode="unsigned-dev")
    build_services(settings).store.close()
    (tmp_path / "state" / "keys" / "service.priv").chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        build_services(settings)


@pytest.mark.parametrize("governance", [{}, {"enabled": True, "mode": "off"}])
def test_switched_off_there_is_no_gate(
    sqlite_url: str, tmp_path: Path, governance: dict[str, Any]
) -> None:
    services = build_services(configured(tmp_path, sqlite_url, **governance))
    assert services.rules is None
    services.store.close()


def test_switched_on_the_first_effects_of_a_process_are_on_record(
    sqlite_url: str, tmp_path: Path
) -> None:
    settings = configured(tmp_path, sqlite_url, enabled=True, mode="unsigned-dev")
    services = build_services(settings)
    assert services.rules is not None
    desk = Office(
        settings,
        services.store,
        cast(Any, None),
        services.rules.engine,
        services.rules,
        cast(Any, None),
        services.seam,
    )
    assert any("secret_key" in event["payload"] for event in desk.events("governance.check"))
    services.store.close()


@pytest.mark.parametrize(("deployment", "level"), [("hosted", "ERROR"), ("self_hosted", "WARNING")])
def test_unsigned_rules_are_never_for_others(deployment: str, level: str) -> None:
    settings = Settings.model_validate(
        {
            "server": {"state_dir": "/var/lib/x", "deployment": deployment},
            "governance": {"enabled": True, "mode": "unsigned-dev"},
        }
    )
    [found] = [f for f in check_settings(settings) if f.key == "governance.mode"]
    assert found.level.name == level


def test_payloads_are_forgotten_after_their_time_and_the_chain_still_proves(desk: Office) -> None:
    add(desk)
    settings = desk.settings.model_copy(
        update={"governance": desk.settings.governance.model_copy(update={"payload_days": 30})}
    )
    services = Services(
        settings=settings, store=desk.store, github=cast(Any, None), clock=desk.clock,
        seam=desk.seam, bell=cast(Any, None), redactor=Redactor(), secret_key=b"k", rules=desk.gate,
    )  # fmt: skip
    desk.clock.advance(29 * 86_400)
    upkeep.retain(services)
    assert all(event["payload"] for event in desk.events())
    old = len(desk.events())
    desk.clock.advance(2 * 86_400)
    add(desk, "X2", matcher='{"glob":"/other/**"}')
    upkeep.retain(services)
    kept = [event["payload"] is not None for event in desk.events()]
    assert kept == [False] * old + [True] * (len(kept) - old)
    report = desk.proven()
    assert (report.ok, report.pruned_payloads) == (True, old)
