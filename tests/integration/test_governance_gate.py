"""The gate over real rules, keys and chain: nothing happens that is not on record, or refused."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from coven.errors import GovernanceRefused
from coven.governance.actions import (
    Action,
    Custom,
    FilesystemWrite,
    NetworkRequest,
    ProcessSpawn,
)
from coven.governance.audit import Recorder
from coven.governance.context import acting
from coven.governance.gate import Slot, deferring
from coven.governance.policy import Opinion, Verdict
from coven.governance.refusal import ActionEscalated, ActionRefused
from coven.governance.wire import Seam, governed_request, governed_spawn, governed_write
from coven.governance.world import Scope
from coven.store import escalations
from coven.store.engine import Store, open_store
from coven.store.escalations import Status
from tests.ledger import NOW, TENANT
from tests.support.governance import SECRET, TASK, Office, office

TMP = FilesystemWrite("/var/spool/blocked/x")
OTHER = FilesystemWrite("/srv/data/x")


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Office:
    made = office(store, tmp_path)
    made.admin.add(
        "X1", "filesystem_write", '{"glob":"/var/spool/blocked/**"}', "refuse", "not there"
    )
    return made


def code_of(desk: Office, action: Action = OTHER) -> str:
    with pytest.raises(ActionRefused) as caught:
        desk.gate.check(action, "p")
    return caught.value.facts.rule_id


def test_what_no_rule_forbids_is_on_record_before_it_happens(desk: Office, tmp_path: Path) -> None:
    target = tmp_path / "made"
    seen: list[int] = []

    def effect() -> None:
        seen.append(len(desk.events("governance.check")))
        target.touch()

    desk.seam.perform(FilesystemWrite(str(target)), "p", effect)
    assert seen == [1]
    assert target.exists()
    assert desk.proven().ok


def test_a_refused_effect_does_not_happen_and_is_on_record(desk: Office) -> None:
    ran: list[int] = []
    with pytest.raises(ActionRefused) as caught:
        desk.seam.perform(TMP, "p", lambda: ran.append(1))
    assert ran == []
    facts = caught.value.facts
    assert (facts.rule_id, facts.reason, facts.policy_epoch) == ("X1", "not there", 1)
    [row] = desk.events("governance.check")
    assert row["sequence"] == facts.sequence
    assert row["row_hash"].hex() == facts.row_hash
    assert row["decision_id"] == facts.decision_id


def test_w15_the_record_holds_action_and_verdict_without_secrets(desk: Office) -> None:
    with acting(desk.acting()):
        desk.gate.check(ProcessSpawn("git", ("fetch", f"--token={SECRET}")), "p")
    [row] = desk.events("governance.check")
    assert '"binary":"git"' in row["payload"]
    assert '"decision":"allow"' in row["payload"]
    assert SECRET not in row["payload"]
    assert (row["task_id"], row["installation_id"], row["agent_id"]) == (
        TASK,
        TENANT,
        "familiar:cody",
    )


def test_w17_a_change_by_another_process_binds_at_once(desk: Office, store_url: str) -> None:
    desk.gate.check(OTHER, "p")
    elsewhere = open_store(store_url)
    other = office(elsewhere, desk.settings.server.state_dir.parent, key=False)
    other.admin.add("X2", "filesystem_write", '{"glob":"/srv/**"}', "refuse", "no more")
    elsewhere.close()
    assert code_of(desk) == "X2"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE governance_rules SET severity = 'log' WHERE id = 'X1'",
        "UPDATE governance_rules SET enabled = 0 WHERE id = 'X1'",
        "UPDATE governance_rules SET matcher = '{\"glob\":\"/nowhere\"}' WHERE id = 'X1'",
        "UPDATE governance_rules SET signature = NULL WHERE id = 'X1'",
        "UPDATE governance_rules SET removed_at = 5 WHERE id = 'X1'",
        "UPDATE policy_head SET digest = signature",
        "UPDATE policy_head SET epoch = 9",
        "INSERT INTO governance_rules (id, kind, matcher, severity, reason, created_by, "
        "created_at) VALUES ('X9', 'filesystem_write', '{\"glob\":\"/x\"}', 'log', 'x', 'x', 0)",
    ],
)
def test_w1_an_edit_by_hand_refuses_everything_at_once(desk: Office, statement: str) -> None:
    desk.gate.check(OTHER, "p")
    with desk.store.write() as tx:
        tx.execute(text(statement))
    assert code_of(desk) == "governance:policy_tampered"
    assert code_of(desk, TMP) == "governance:policy_tampered"


def test_w2_a_deleted_head_is_no_fresh_start(desk: Office) -> None:
    with desk.store.write() as tx:
        tx.execute(text("DELETE FROM policy_head"))
    assert code_of(desk) == "governance:unavailable"


def test_w2_an_older_database_is_a_rollback(tmp_path: Path, sqlite_url: str) -> None:
    store = open_store(sqlite_url)
    desk = office(store, tmp_path)
    desk.admin.add("X1", "filesystem_write", '{"glob":"/a"}', "log", "one")
    store.close()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    shutil.copyfile(path, tmp_path / "old.db")
    store = open_store(sqlite_url)
    desk = office(store, tmp_path, key=False)
    desk.admin.add("X2", "filesystem_write", '{"glob":"/srv/**"}', "refuse", "two")
    store.close()
    old = open_store(f"sqlite:///{tmp_path / 'old.db'}")
    desk = office(old, tmp_path, key=False)
    assert code_of(desk) == "governance:rollback"
    desk.admin.resign()
    desk.gate.check(OTHER, "p")
    old.close()


def test_w3_without_the_operators_public_key_nothing_is_allowed(desk: Office) -> None:
    (desk.engine.keys.folder / "operator.pub").unlink()
    fresh = office(desk.store, desk.settings.server.state_dir.parent, key=False)
    assert code_of(fresh) == "governance:unavailable"


def test_w3_a_key_that_is_taken_away_is_noticed_in_time(desk: Office) -> None:
    desk.gate.check(OTHER, "p")
    (desk.engine.keys.folder / "operator.pub").unlink()
    desk.clock.advance(61)
    assert code_of(desk) == "governance:unavailable"


def test_nothing_signed_yet_refuses(store: Store, tmp_path: Path) -> None:
    assert code_of(office(store, tmp_path)) == "governance:unavailable"


def test_w11_a_rule_of_one_installation_binds_no_other(desk: Office) -> None:
    desk.admin.add(
        "X3",
        "filesystem_write",
        '{"glob":"/srv/**"}',
        "refuse",
        "theirs",
        namespace=f"installation/{TENANT}",
    )
    with acting(desk.acting(installation=TENANT + 1)):
        desk.gate.check(OTHER, "p")
    with acting(desk.acting()), pytest.raises(ActionRefused):
        desk.gate.check(OTHER, "p")


def test_w12_requests_may_be_refused_by_default(store: Store, tmp_path: Path) -> None:
    desk = office(store, tmp_path, default_network_request="refuse")
    desk.admin.add("X1", "filesystem_write", '{"glob":"/a"}', "log", "x")
    assert code_of(desk, NetworkRequest("example.com", "https")) == "governance:default"
    desk.gate.check(OTHER, "p")


def test_w18_no_environment_variable_opens_the_gate(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AI_MEMORY_GOVERNANCE_FAIL_OPEN_ON_ERROR", "COVEN_GITHUB_FAULTS"):
        monkeypatch.setenv(name, "1")
    with desk.store.write() as tx:
        tx.execute(text("UPDATE governance_rules SET reason = 'x' WHERE id = 'X1'"))
    assert code_of(desk) == "governance:policy_tampered"


def test_a_warning_is_on_record_and_happens(desk: Office) -> None:
    desk.admin.add("X2", "filesystem_write", '{"glob":"/srv/**"}', "warn", "look")
    assert desk.gate.check(OTHER, "p") == OTHER
    assert '"decision":"warn"' in desk.events("governance.check")[-1]["payload"]


def register(desk: Office, verdict: Verdict, rewritten: Action | None = None) -> None:
    """As if the engine had been built with this evaluator."""

    def judge(action: Action, scope: Scope) -> Opinion | None:
        return Opinion(verdict, "an evaluator", rewritten) if action == OTHER else None

    desk.engine.evaluators = {"E1": judge}
    desk.engine._kept = None


def test_ask_reduces_to_refuse(desk: Office) -> None:
    register(desk, Verdict.ASK)
    assert code_of(desk) == "E1"


def test_modify_happens_as_rewritten_and_is_on_record(desk: Office) -> None:
    other = FilesystemWrite("/srv/safe/x")
    register(desk, Verdict.MODIFY, other)
    assert desk.gate.check(OTHER, "p") == other
    assert "/srv/safe/x" in desk.events("governance.check")[-1]["payload"]


def test_modify_into_something_forbidden_is_refused(desk: Office) -> None:
    register(desk, Verdict.MODIFY, TMP)
    assert code_of(desk) == "E1"


def test_what_can_not_be_described_is_refused_on_record(desk: Office, tmp_path: Path) -> None:
    with pytest.raises(ActionRefused) as caught:
        governed_write(desk.seam, tmp_path / "a\udcff", b"x", point="p")
    assert caught.value.facts.rule_id == "governance:malformed_event"
    assert list(tmp_path.glob("a*")) == []
    assert len(desk.events("governance.check")) == 1


ACTING = [
    lambda seam, folder: governed_write(seam, folder / "made", b"x", point="p"),
    lambda seam, folder: governed_spawn(
        seam, [sys.executable, "-c", f"open({str(folder / 'made')!r}, 'w')"], point="p", env={}
    ).wait(20),
    lambda seam, folder: governed_request(
        seam, "GET", "https://api.github.com/x", (folder / "made").touch, point="p"
    ),
]


@pytest.mark.parametrize("act", ACTING, ids=["write", "spawn", "request"])
@pytest.mark.parametrize("fault", ["tables gone", "head gone", "disk", "store closed", "key gone"])
def test_a_fault_of_the_record_never_yields_an_effect(
    desk: Office,
    tmp_path: Path,
    fault: str,
    act: Callable[[Seam, Path], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "effects"
    folder.mkdir()
    if fault == "tables gone":
        with desk.store.write() as tx:
            tx.execute(text("ALTER TABLE signed_events RENAME TO elsewhere"))
    elif fault == "head gone":
        with desk.store.write() as tx:
            tx.execute(text("DELETE FROM chain_head"))
    elif fault == "disk":
        monkeypatch.setattr(
            Recorder, "_turn", lambda self: contextlib.ExitStack().enter_context(_broken())
        )
    elif fault == "store closed":
        with desk.store.write() as tx:
            tx.execute(text("ALTER TABLE governance_rules RENAME TO elsewhere"))
    else:
        (desk.engine.keys.folder / "operator.pub").write_bytes(b"x")
        desk.engine._kept = None
    with pytest.raises(GovernanceRefused):
        act(desk.seam, folder)
    assert list(folder.iterdir()) == []
    if fault == "tables gone":
        with desk.store.write() as tx:
            tx.execute(text("ALTER TABLE elsewhere RENAME TO signed_events"))


@contextlib.contextmanager
def _broken():  # type: ignore[no-untyped-def]
    raise OSError(28, "No space left on device")
    yield


def test_an_escalation_waits_is_approved_once_and_used_once(desk: Office) -> None:
    desk.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a person decides")
    action = Custom("deploy", {"what": "site"})
    with acting(desk.acting()):
        with pytest.raises(ActionEscalated) as first:
            desk.gate.check(action, "p")
        with pytest.raises(ActionEscalated) as again:
            desk.gate.check(action, "p")
        assert first.value.escalation_id == again.value.escalation_id
        escalation_id = first.value.escalation_id
        with desk.store.write() as tx:
            assert escalations.decide(TENANT, tx, escalation_id, "approve", "mona", NOW)
            assert escalations.decide(TENANT, tx, escalation_id, "deny", "mona", NOW) is None
        assert desk.gate.check(action, "p") == action
        with pytest.raises(ActionEscalated) as third:
            desk.gate.check(action, "p")
        assert third.value.escalation_id != escalation_id
    with desk.store.read() as tx:
        used = escalations.get(TENANT, tx, escalation_id)
    assert used is not None
    assert (used.status, used.decided_by) == (Status.CONSUMED, "mona")
    kinds = [row["event_type"] for row in desk.events()]
    assert kinds.count("governance.escalation_opened") == 3
    assert kinds.count("governance.escalation_consumed") == 1
    assert desk.proven().ok


@pytest.mark.parametrize(
    "other",
    [
        {"head_sha": "d" * 40},
        {"task_id": "b" * 32},
        {"familiar": "nova"},
        {"installation": TENANT + 1},
    ],
)
def test_an_approval_is_for_exactly_this_action(desk: Office, other: dict[str, object]) -> None:
    desk.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a person decides")
    action = Custom("deploy", {"what": "site"})
    with acting(desk.acting()), pytest.raises(ActionEscalated) as caught:
        desk.gate.check(action, "p")
    with desk.store.write() as tx:
        escalations.decide(TENANT, tx, caught.value.escalation_id, "approve", "mona", NOW)
    with acting(desk.acting(**other)), pytest.raises(ActionEscalated):
        desk.gate.check(action, "p")
    with acting(desk.acting()), pytest.raises(ActionEscalated):
        desk.gate.check(Custom("deploy", {"what": "shop"}), "p")


def test_an_approval_holds_for_the_next_attempt_of_the_same_write(desk: Office) -> None:
    desk.admin.add(
        "X4", "filesystem_write", '{"glob":"**/.github/workflows/**"}', "escalate", "ask"
    )
    root = desk.settings.workspace_root / TASK

    def write(attempt: str, size: int) -> None:
        place = root / attempt / "tree" / ".github/workflows/ci.yml"
        desk.gate.check(FilesystemWrite(str(place), None, size), "p")

    with acting(desk.acting()):
        with pytest.raises(ActionEscalated) as caught:
            write("0011223344556677", 10)
        with desk.store.write() as tx:
            escalations.decide(TENANT, tx, caught.value.escalation_id, "approve", "mona", NOW)
        write("8899aabbccddeeff", 12)


def test_a_refusal_that_is_added_after_the_approval_wins(desk: Office) -> None:
    desk.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a person decides")
    action = Custom("deploy", None)
    with acting(desk.acting()):
        with pytest.raises(ActionEscalated) as caught:
            desk.gate.check(action, "p")
        with desk.store.write() as tx:
            escalations.decide(TENANT, tx, caught.value.escalation_id, "approve", "mona", NOW)
        desk.admin.add("X5", "custom", '{"kind":"deploy"}', "refuse", "not any more")
        assert code_of(desk, action) == "X5"


def test_what_escalates_outside_a_task_is_refused(desk: Office) -> None:
    desk.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a person decides")
    with pytest.raises(ActionRefused) as caught:
        desk.gate.check(Custom("deploy", None), "p")
    assert not isinstance(caught.value, ActionEscalated)


API = "https://api.github.com"


@pytest.mark.parametrize(
    ("method", "path", "exempt"),
    [
        ("POST", "/repos/octo/demo/check-runs", True),
        ("PATCH", "/repos/octo/demo/check-runs/5", True),
        ("POST", "/repos/octo/demo/issues/3/comments", True),
        ("POST", "/app/installations/41/access_tokens", True),
        ("GET", "/repos/octo/demo/commits/x/check-runs", True),
        ("DELETE", "/repos/octo/demo/git/refs/heads/x", False),
        ("POST", "/repos/octo/demo/pulls", False),
        ("POST", "/repos/octo/demo/check-runs/../git/refs", False),
        ("PUT", "/repos/octo/demo/contents/x", False),
    ],
)
def test_a_verdict_can_always_be_shown_and_nothing_else(
    desk: Office, method: str, path: str, exempt: bool
) -> None:
    desk.admin.add("X6", "network_request", '{"host":"*"}', "refuse", "no network")
    request = NetworkRequest.of(method, f"{API}{path}")
    assert code_of(desk, request) == "X6"
    with acting(desk.acting(publishing=True)):
        if exempt:
            desk.gate.check(request, "p")
            assert "publishing a verdict" in desk.events("governance.check")[-1]["payload"]
        else:
            assert code_of(desk, request) == "X6"


def test_another_host_is_never_shown_a_verdict(desk: Office) -> None:
    desk.admin.add("X6", "network_request", '{"host":"*"}', "refuse", "no network")
    request = NetworkRequest.of("POST", "https://evil.example/repos/octo/demo/check-runs")
    with acting(desk.acting(publishing=True)):
        assert code_of(desk, request) == "X6"


@pytest.mark.parametrize(
    ("argv", "point", "exempt"),
    [
        (("docker", "kill", "coven-abc"), "session.backend", True),
        (("docker", "rm", "--force", "--volumes", "coven-abc"), "session.backend", True),
        (("docker", "kill", "database"), "session.backend", False),
        (("docker", "run", "coven-abc"), "session.backend", False),
        (("docker", "kill", "coven-abc"), "session.spawn", False),
    ],
)
def test_our_own_session_can_always_be_ended(
    desk: Office, argv: tuple[str, ...], point: str, exempt: bool
) -> None:
    desk.admin.add("X7", "process_spawn", '{"binary_any":["*","docker"]}', "refuse", "nothing")
    action = ProcessSpawn.of(argv)
    if exempt:
        assert desk.gate.check(action, point) == action
        assert "ending our own session" in desk.events("governance.check")[-1]["payload"]
        return
    with pytest.raises(ActionRefused):
        desk.gate.check(action, point)


def test_the_gate_is_installed_once_and_not_used_before(desk: Office) -> None:
    slot = Slot()
    with pytest.raises(GovernanceRefused, match="no gate is installed"):
        slot.check(OTHER, "p")
    slot.install(desk.gate)
    assert slot.check(OTHER, "p") == OTHER
    with pytest.raises(GovernanceRefused, match="already"):
        slot.install(desk.gate)


def test_deferred_rows_are_written_with_the_callers_transaction(desk: Office) -> None:
    before = len(desk.events())
    with deferring() as rows:
        desk.gate.check(OTHER, "p")
        assert len(desk.events()) == before
        events = rows.close()
        desk.gate.check(OTHER, "late")
        assert len(desk.events()) == before + 1
    with desk.store.write() as tx:
        desk.gate.append_in(tx, events)
    assert len(desk.events()) == before + 2
    assert desk.proven().ok


def test_a_refusal_stops_a_deferred_effect_too(desk: Office) -> None:
    with deferring() as rows:
        with pytest.raises(ActionRefused):
            desk.gate.check(TMP, "p")
        assert len(rows.close()) == 1


def test_a_preview_refuses_and_leaves_approvals_alone(desk: Office) -> None:
    desk.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a person decides")
    with acting(desk.acting()):
        desk.gate.preview([OTHER, Custom("deploy", None)], "preview")
        with pytest.raises(ActionRefused):
            desk.gate.preview([OTHER, TMP], "preview")
    with desk.store.read() as tx:
        assert escalations.listed(TENANT, tx) == []
