"""``rules``, ``governance`` and ``identity`` as an operator runs them: codes, words, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coven.cli import governed
from coven.cli.main import main
from coven.governance.seeds import SEEDS
from coven.store.engine import Store
from tests.support.governance import Office, office

Run = Callable[..., tuple[int, str, str]]
RM = '{"argv_prefix":["rm"]}'
ADD = ("rules", "add", "X1", "--kind", "bash", "--severity", "refuse", "--reason", "no rm")


@pytest.fixture
def made(sqlite_store: Store, tmp_path: Path) -> Office:
    return office(sqlite_store, tmp_path, key=False)


@pytest.fixture
def run(made: Office, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    state = made.settings.server.state_dir
    path = state.parent / "c.toml"
    path.write_text(
        f'[server]\nstate_dir = "{state}"\n[worker]\nworkspace_root = "/srv/sessions"\n'
        f'[storage]\npath = "{made.store.engine.url.database}"\n[governance]\nenabled = true\n'
    )
    monkeypatch.setenv("COVEN_GITHUB_CONFIG", str(path))

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coven-github", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


@pytest.fixture
def keyed(run: Run, made: Office) -> Run:
    assert run("identity", "generate")[0] == 0
    return run


def told(run: Run, *words: str) -> Any:
    code, out, err = run(*words, "--json")
    assert code == 0, err
    return json.loads(out)["result"]


MUTATIONS = [
    (*ADD, "--matcher", RM),
    ("rules", "enable", "R001"),
    ("rules", "disable", "R001"),
    ("rules", "remove", "R001"),
    ("rules", "resign"),
    ("governance", "escalations", "approve", "E-12345678"),
    ("governance", "escalations", "deny", "E-12345678"),
]


@pytest.mark.parametrize("words", MUTATIONS, ids=[" ".join(w[:3]) for w in MUTATIONS])
def test_every_change_needs_the_word_sign_and_a_key(
    run: Run, made: Office, words: tuple[str, ...]
) -> None:
    for sign in ((), ("--sign",)):
        code, _, err = run(*words, *sign)
        assert code == governed.NO_KEY
        assert "governance.no_operator_key" in err
        assert ("--sign" in err) if not sign else ("identity generate" in err)
    assert made.events() == []


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o400])
def test_a_key_that_others_could_have_read_is_not_used(keyed: Run, made: Office, mode: int) -> None:
    key = made.engine.keys.folder / "operator.priv"
    key.chmod(mode)
    code, _, err = keyed("rules", "enable", "R002", "--sign")
    assert code == governed.NO_KEY
    assert f"chmod 600 {key}" in err


def test_a_new_operator_comes_from_nothing_to_enforced_rules(run: Run, made: Office) -> None:
    code, out, _ = run("governance", "status")
    assert code == governed.UNVERIFIED
    assert "identity generate" in out
    code, out, _ = run("identity", "generate")
    assert code == 0
    assert "governance install-defaults" in out
    assert ((made.engine.keys.folder / "operator.priv").stat().st_mode & 0o777) == 0o600
    only = [word for seed in SEEDS for word in ("--only", seed.id) if seed.id != "R001"]
    done = told(run, "governance", "install-defaults", "--yes", *only)
    assert done["not_enforced"] == []
    assert len(done["activated"]) == len(SEEDS) - 1
    again = told(run, "governance", "install-defaults", "--yes", *only)
    assert len(again["already_enabled"]) == len(SEEDS) - 1
    code, out, _ = run("governance", "status")
    assert code == 0
    facts = told(run, "governance", "status")
    assert (facts["ok"], facts["rules_enforced"]) == (True, len(SEEDS) - 1)


def test_install_defaults_asks_first_and_never_in_json(keyed: Run, made: Office) -> None:
    code, _, err = keyed("governance", "install-defaults", "--json")
    assert code == governed.USAGE
    assert "--yes" in err
    assert made.events() == []


def test_a_rule_lives_from_add_to_remove(keyed: Run, made: Office) -> None:
    examples = (
        "--match", '{"kind":"bash","command":"rm -rf x"}',
        "--no-match", '{"kind":"bash","command":"ls"}',
    )  # fmt: skip
    added = told(keyed, *ADD, "--matcher", RM, *examples, "--sign")
    assert (added["id"], added["revision"], added["enabled"]) == ("X1", 1, True)
    assert told(keyed, "rules", "show", "--id", "X1")["enforcement_state"] == "enforced"
    listed = told(keyed, "rules", "list", "--enabled-only")
    assert (listed["count"], listed["policy_epoch"]) == (1, 1)
    code, out, _ = keyed("rules", "check", "--kind", "bash", "--payload", '{"command":"rm x"}')
    assert (code, out) == (governed.REFUSED, "Refuse: X1 — no rm\n")
    code, out, _ = keyed("rules", "check", "--kind", "bash", "--payload", '{"command":"ls"}')
    assert (code, out) == (0, "Allow\n")
    assert told(keyed, "rules", "disable", "X1", "--sign")["enabled"] is False
    assert told(keyed, "rules", "enable", "X1", "--sign")["revision"] == 3
    assert told(keyed, "rules", "remove", "X1", "--sign")["removed_at"] is not None
    code, _, err = keyed("rules", "enable", "X1", "--sign")
    assert (code, "rules list" in err) == (governed.USAGE, True)
    code, _, err = keyed(*ADD, "--matcher", RM, "--sign")
    assert (code, "never used twice" in err) == (governed.USAGE, True)
    assert made.proven().ok


def test_a_check_in_json_has_the_envelope_and_is_on_record(keyed: Run, made: Office) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    words = ("rules", "check", "--kind", "bash", "--payload", '{"command":"rm x"}', "--json")
    code, out, _ = keyed(*words)
    facts = json.loads(out)
    assert code == governed.REFUSED
    assert set(facts) == {
        "agent_id", "decision", "decision_id", "error", "kind", "matched", "policy_epoch",
    }  # fmt: skip
    assert facts["error"] == "GOVERNANCE_REFUSED"
    assert made.events("governance.check")[-1]["decision_id"] == facts["decision_id"]


BAD_RULES: dict[str, tuple[str, str]] = {
    "inert: no key": ("{}", "can never match; add one of"),
    "an unknown key": ('{"regex":"x"}', "regex"),
    "a fraction": ('{"opaque_code":1.5}', "whole number"),
    "a key twice": ('{"opaque_code":true,"opaque_code":true}', "twice"),
    "no JSON": ("rm", "JSON"),
    "no object": ('["rm"]', "object"),
    "NaN": ('{"opaque_code":NaN}', "finite"),
    "too large a number": ('{"opaque_code":9007199254740993}', "2^53"),
    "an empty text": ('{"command_substring":""}', "empty"),
}


@pytest.mark.parametrize("name", BAD_RULES)
def test_a_rule_that_could_never_bind_is_refused_with_the_reason(
    keyed: Run, made: Office, name: str
) -> None:
    matcher, words = BAD_RULES[name]
    code, _, err = keyed(*ADD, "--matcher", matcher, "--sign")
    assert code == governed.USAGE
    assert "governance.invalid_matcher" in err
    assert words in err
    assert made.events() == []


USAGE: dict[str, tuple[str, ...]] = {
    "an unknown kind": ("rules", "add", "X", "--kind", "telepathy", "--matcher", "{}"),
    "an unknown severity": (*ADD, "--matcher", RM, "--severity", "allow", "--sign"),
    "no id": ("rules", "enable", "--sign"),
    "two ids": ("rules", "enable", "R001", "--id", "R002", "--sign"),
    "no such rule": ("rules", "show", "Z9"),
    "no such command": ("rules", "frobnicate"),
    "no such option": ("rules", "list", "--frobnicate"),
    "no such file": ("rules", "test", "/nowhere.json"),
    "no such escalation": ("governance", "escalations", "approve", "E-12345678", "--sign"),
    "no such shipped rule": ("governance", "install-defaults", "--yes", "--only", "R999"),
    "an example that does not hold": (
        *ADD, "--matcher", RM, "--match", '{"kind":"bash","command":"ls"}', "--sign",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage_ends_with_3_and_changes_nothing(keyed: Run, made: Office, name: str) -> None:
    code, _, err = keyed(*USAGE[name])
    assert code == governed.USAGE, err
    assert err.strip()
    assert made.events() == []


MALFORMED = {
    "a NUL byte": '{"command":"a\\u0000b"}',
    "an oversized command": json.dumps({"command": "x" * 70_000}),
    "not UTF-8": '{"command":"\\ud800"}',
    "an unknown member": '{"comand":"ls"}',
    "another kind": '{"path":"/x"}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_action_that_can_t_be_judged_is_refused(keyed: Run, made: Office, name: str) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    words = ("rules", "check", "--kind", "bash", "--payload", MALFORMED[name])
    code, out, _ = keyed(*words)
    assert code == governed.REFUSED
    assert out.startswith("Refuse: governance:malformed_event — ")
    assert made.proven().ok


def test_expectations_of_a_file_are_tried(keyed: Run, made: Office, tmp_path: Path) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    file = tmp_path / "cases.json"
    rm = {"kind": "bash", "command": "rm x"}
    good = [
        {"action": rm, "expect": "refuse", "rule_id": "X1"},
        {"action": {"kind": "bash", "command": "ls"}, "expect": "allow"},
    ]
    file.write_text(json.dumps(good))
    before = len(made.events())
    code, out, _ = keyed("rules", "test", str(file))
    assert (code, out) == (0, "2 of 2 hold.\n")
    file.write_text(json.dumps([*good, {"name": "rm is fine", "action": rm, "expect": "allow"}]))
    code, out, _ = keyed("rules", "test", str(file))
    assert code == governed.BAD
    assert "rm is fine: expected allow, got refuse by X1" in out
    assert len(made.events()) == before
    file.write_text("{}")
    assert keyed("rules", "test", str(file))[0] == governed.USAGE


def test_a_rotated_key_signs_everything_and_the_old_one_can_go(keyed: Run, made: Office) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    done = told(keyed, "identity", "rotate")
    assert done["old"] != done["new"]
    assert done["resigned"] == 1
    folder = made.engine.keys.folder
    (folder / "trusted_keys" / f"{done['old']}.pub").unlink()
    assert keyed("governance", "status")[0] == 0
    shown = told(keyed, "identity", "show")
    assert shown["operator_keys"] == [done["new"]]


def test_a_key_is_not_replaced_by_accident(keyed: Run) -> None:
    code, _, err = keyed("identity", "generate")
    assert (code, "--force" in err) == (governed.NO_KEY, True)


def test_w1_tampering_shows_in_status_list_and_verify(keyed: Run, made: Office) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    with made.store.write() as tx:
        tx.exec_driver_sql("UPDATE governance_rules SET severity = 'log' WHERE id = 'X1'")
    code, out, _ = keyed("governance", "status")
    assert (code, "policy_tampered" in out) == (governed.UNVERIFIED, True)
    _, out, err = keyed("rules", "list")
    assert "skipped_signature_invalid" in out
    assert "everything is refused" in err
    assert keyed("governance", "audit", "verify")[0] == governed.UNVERIFIED
    code, out, _ = keyed("rules", "check", "--kind", "bash", "--payload", '{"command":"ls"}')
    assert code == governed.REFUSED
    code, _, err = keyed("rules", "enable", "R002", "--sign")
    assert code == governed.UNVERIFIED, "nobody signs on top of what was changed by hand"


def test_the_record_is_proven_here_elsewhere_and_against_an_anchor(
    keyed: Run, made: Office, tmp_path: Path
) -> None:
    keyed(*ADD, "--matcher", RM, "--sign")
    _, line, _ = keyed("governance", "audit", "anchor")
    anchor, export = tmp_path / "anchor", tmp_path / "export"
    anchor.write_text(line)
    _, rows, _ = keyed("governance", "audit", "export")
    export.write_text(rows)
    verify = ("governance", "audit", "verify", "--anchor", str(anchor))
    code, out, _ = keyed(*verify, "--json")
    facts = json.loads(out)
    assert (code, facts["ok"], facts["anchors_checked"]) == (0, True, 1)
    assert keyed("governance", "audit", "verify", "--export", str(export))[0] == 0
    export.write_text("\n".join(rows.splitlines()[:-1]) + "\n")
    cut = ("governance", "audit", "verify", "--export", str(export), "--anchor", str(anchor))
    code, _, err = keyed(*cut)
    assert (code, "was anchored" in err) == (governed.UNVERIFIED, True)
    anchor.write_text("{}\n")
    assert keyed(*verify)[0] == governed.USAGE


def test_the_hook_is_put_beside_other_settings_once(keyed: Run, tmp_path: Path) -> None:
    file = tmp_path / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"model":"x","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[]}]}}')
    for _ in range(2):
        assert keyed("governance", "hook", "install", str(file))[0] == 0
    settings = json.loads(file.read_text())
    assert settings["model"] == "x"
    first, second = settings["hooks"]["PreToolUse"]
    assert (first["hooks"][0]["onFailure"], second["matcher"]) == ("block", "Bash")
    file.write_text("{")
    assert keyed("governance", "hook", "install", str(file))[0] == governed.USAGE


def test_a_database_that_is_away_is_its_own_code(keyed: Run, made: Office) -> None:
    with made.store.write() as tx:
        tx.exec_driver_sql("DELETE FROM chain_head")
        tx.exec_driver_sql("INSERT INTO chain_head VALUES (1, 5, x'00')")
    keyed(*ADD, "--matcher", RM, "--sign")
    with made.store.write() as tx:
        tx.exec_driver_sql("DELETE FROM chain_head")
    code, _, err = keyed("rules", "disable", "X1", "--sign")
    assert (code, "audit_unavailable" in err) == (governed.UNREACHABLE, True)
