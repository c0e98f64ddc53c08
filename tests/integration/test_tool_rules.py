"""Rules inside a real session: the hook is found, refuses, and its verdicts reach the chain."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from coven.clock import SystemClock
from coven.contract.exit_codes import ProcessEnd
from coven.errors import GovernanceRefused
from coven.governance import hook_journal
from coven.governance.actions import Bash
from coven.governance.digest import asking_id, digest_of
from coven.governance.refusal import ActionEscalated
from coven.governance.wire import Seam
from coven.redaction import Redactor
from coven.services import Services
from coven.store import escalations
from coven.store.engine import Store
from tests.integration.runtime_kit import backend_named, python, spec_for
from tests.ledger import TENANT, look, put
from tests.support.governance import Office, office
from worker import tool_rules
from worker.governance import acting_for
from worker.runtime.backend import Backend
from worker.runtime.session import SessionSpec
from worker.runtime.supervise import run_session
from worker.tool_rules import ToolRules
from worker.workspace.checkout import Workspace

GOOD = {"kind": "bash", "command": "git push"}

# A stand-in for a runtime: it reads its settings at the start as coven-code does, and asks the hook
# before each of its "tools".
HARNESS = """
import json, os, subprocess, sys
with open(os.path.join(os.environ["COVEN_CODE_HOME"], "settings.json")) as file:
    [hook] = json.load(file)["config"]["hooks"]["PreToolUse"]
for command in json.loads(sys.argv[1]):
    event = {"event": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    asked = subprocess.run(["sh", "-c", hook["command"]], input=json.dumps(event).encode(),
                           capture_output=True)
    if asked.returncode == 0 and not asked.stdout:
        subprocess.run(["bash", "-c", command])
    else:
        print("BLOCKED", asked.stderr.decode().strip(), flush=True)
"""


@dataclass
class Session:
    """A session with rules, in a backend."""

    services: Services
    desk: Office
    rules: ToolRules
    workspace: Workspace
    spec: SessionSpec
    backend: Backend
    task_id: Any

    def run(self, *commands: str) -> ProcessEnd:
        spec = replace(self.spec, argv=(*python(HARNESS), json.dumps(commands)))
        return run_session(
            spec, self.backend, Seam(), SystemClock(), Redactor(), lambda: None, 30.0
        )

    def checks(self) -> list[tuple[str, str]]:
        rows = self.desk.events("governance.check")
        payloads = [json.loads(row["payload"]) for row in rows]
        hooked = [one for one in payloads if one["point"] == "session.hook"]
        return [(one["action"]["command"], one["decision"]["decision"]) for one in hooked]

    def reconcile(self) -> str | None:
        task = look(self.services.store, self.task_id)
        return tool_rules.reconcile(self.services, self.rules, task).problem


@pytest.fixture(params=["bubblewrap", "host"])
def session(request: pytest.FixtureRequest, sqlite_store: Store, tmp_path: Path) -> Session:
    store = sqlite_store
    backend = backend_named(request.param)
    desk = office(store, tmp_path)
    desk.admin.add("X1", "filesystem_write", '{"glob":"/srv/**"}', "refuse", "not there")
    desk.admin.add("X2", "bash", '{"argv_prefix":["git","push"]}', "escalate", "ask first")
    desk.admin.add(
        "X3", "filesystem_write", '{"glob_not_in":["${workspace}/**"]}', "refuse", "stay inside"
    )
    services = Services(
        settings=desk.settings, store=store, github=cast(Any, None), clock=SystemClock(),
        seam=Seam(), bell=cast(Any, None), redactor=Redactor(["s3cret-word-of-this-test"]),
        secret_key=b"k", rules=desk.gate,
    )  # fmt: skip
    task_id = put(store)
    parts = opened(services, task_id, tmp_path / "attempt")
    return Session(services=services, desk=desk, backend=backend, task_id=task_id, **parts)


def opened(services: Services, task_id: Any, folder: Path) -> dict[str, Any]:
    """The parts of a session in this folder."""
    tree, home, out = folder / "tree", folder / "home", folder / "out"
    for place in (tree, home / ".coven-code", out):
        place.mkdir(parents=True)
    workspace = cast(
        Workspace,
        type("W", (), {"attempt_dir": folder, "tree": tree, "home": home, "out_dir": out,
                       "engine_home": home / ".coven-code"}),
    )  # fmt: skip
    rules = tool_rules.install(services, look(services.store, task_id), workspace)
    assert rules is not None
    spec = spec_for(tree, ("true",), writable=(tree, home, out))
    env = {**spec.env, "HOME": str(home), "COVEN_CODE_HOME": str(home / ".coven-code")}
    spec = rules.confine(replace(spec, env=env))
    return {"rules": rules, "workspace": workspace, "spec": spec}


def test_a_session_is_stopped_at_its_rules_and_the_chain_knows(session: Session) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    end = session.run(
        "echo allowed > file", "echo x > /srv/y", "g''it push origin main",
        "echo s3cret-word-of-this-test", "cd .. && touch outside",
    )  # fmt: skip
    assert (session.workspace.tree / "file").read_text() == "allowed\n"
    assert not (session.workspace.attempt_dir / "outside").exists()
    assert end.stdout_tail.splitlines() == [
        "BLOCKED X1: not there",
        f"BLOCKED X2: ask first (a maintainer must approve {asked_id(session)}; "
        "end with the status needs_input to ask)",
        "s3cret-word-of-this-test",
        "BLOCKED X3: stay inside",
    ]
    assert session.reconcile() is None
    found = session.checks()
    assert [verdict for _, verdict in found] == ["allow", "refuse", "escalate", "allow", "refuse"]
    assert found[0][0] == "echo allowed > file"
    assert "s3cret" not in found[3][0]
    assert session.desk.proven().ok


def asked_id(session: Session, command: str = "g''it push origin main") -> str:
    """The id that hook and worker give to a request about this command."""
    task = look(session.services.store, session.task_id)
    who = acting_for(session.desk.settings, task)
    action = Bash(command, cwd=str(session.workspace.tree))
    root = session.workspace.attempt_dir.parent
    digest = digest_of(action, who.namespace, task.id, task.head_sha, root)
    return asking_id(digest, "X2", session.workspace.attempt_dir.name)


def ask(session: Session) -> str:
    """End a session that was stopped by X2, as the worker does; the escalation's id."""
    task = look(session.services.store, session.task_id)
    told = tool_rules.reconcile(session.services, session.rules, task)
    assert told.asked is not None
    with pytest.raises(ActionEscalated) as held:
        tool_rules.ask(session.services, session.rules, task, told.asked)
    assert json.loads(held.value.facts.action)["command"] == "git push origin main"
    return held.value.escalation_id


def approve(session: Session, escalation_id: str) -> None:
    with session.services.store.write() as tx:
        decided = escalations.decide(
            TENANT, tx, escalation_id, "approve", "mona", SystemClock().now()
        )
    assert decided is not None
    assert decided.origin == "tool"


def next_attempt(session: Session) -> Session:
    """The same task in another folder."""
    folder = session.workspace.attempt_dir.parent / "again"
    return replace(session, **opened(session.services, session.task_id, folder))


def test_an_approved_call_happens_once_in_the_next_session_and_no_other(session: Session) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    session.run("git push origin main", "git push origin other")
    asked = ask(session)
    assert asked == asked_id(session, "git push origin main")
    approve(session, asked)
    second = next_attempt(session)
    tool_rules.prove(second.services, second.rules, second.spec, second.backend)
    end = second.run("git push origin other", "git push origin main", "git push origin main")
    assert [line[:10] for line in end.stdout_tail.splitlines()] == ["BLOCKED X2", "BLOCKED X2"]
    second.reconcile()
    rows = [json.loads(row["payload"]) for row in second.desk.events("governance.check")]
    assert [row["approved"] for row in rows if row.get("approved")] == [asked]
    [used] = second.desk.events("governance.escalation_consumed")
    assert json.loads(used["payload"])["approved_by"] == "mona"
    third = replace(
        session,
        **opened(session.services, session.task_id, second.workspace.attempt_dir.parent / "third"),
    )
    assert third.rules.binding.approved == ()


def test_an_approval_does_not_outlive_the_policy_that_asked_for_it(session: Session) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    session.run("git push origin main")
    approve(session, ask(session))
    session.desk.admin.add("X9", "bash", '{"argv_prefix":["true"]}', "refuse", "changes the epoch")
    assert next_attempt(session).rules.binding.approved == ()


def test_a_session_can_not_say_that_a_person_approved(session: Session) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    forged = {"action": GOOD, "decision": {"decision": "escalate"}, "approved": "E-00000000"}
    hook_journal.append(str(session.rules.hook.journal), {"epoch": 1, "verdicts": [forged]})
    session.reconcile()
    [row] = [json.loads(row["payload"]) for row in session.desk.events("governance.check")
             if "session.hook" in row["payload"]]  # fmt: skip
    assert row["approved"] is None


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        {"decision": {"decision": "escalate", "rule_id": "X2", "reason": "r"}},
        {"decision": {"decision": "escalate", "rule_id": "../x"}, "action": GOOD},
        {"decision": {"decision": "escalate", "rule_id": 5}, "action": GOOD},
        {"decision": "escalate", "action": GOOD},
        {"decision": {"decision": "escalate", "rule_id": "X2"}, "action": {"kind": "bash"}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_a_session_forged_in_its_journal_asks_nobody(session: Session, verdict: Any) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    hook_journal.append(str(session.rules.hook.journal), {"epoch": 1, "verdicts": [verdict]})
    task = look(session.services.store, session.task_id)
    assert tool_rules.reconcile(session.services, session.rules, task).asked is None


@pytest.mark.parametrize("session", ["bubblewrap"], indirect=True)
def test_policy_and_settings_can_not_be_changed_by_a_confined_session(session: Session) -> None:
    settings = session.workspace.engine_home / "settings.json"
    before = (settings.read_bytes(), session.rules.hook.snapshot.read_bytes())
    attack = f"echo > {settings}; rm -f {settings}; echo > {session.rules.hook.snapshot}"
    argv = ("sh", "-c", attack)
    run_session(
        replace(session.spec, argv=argv),
        session.backend, Seam(), SystemClock(), Redactor(), lambda: None, 30.0,
    )  # fmt: skip
    assert (settings.read_bytes(), session.rules.hook.snapshot.read_bytes()) == before


@pytest.mark.parametrize("damage", ["snapshot", "journal", "program"])
def test_no_session_starts_without_a_hook_that_refuses(session: Session, damage: str) -> None:
    rules = session.rules
    if damage == "snapshot":
        rules.hook.snapshot.write_bytes(b"{}")
    elif damage == "journal":
        rules.hook.journal.write_bytes(b"")
    else:
        rules = replace(rules, hook=replace(rules.hook, python="/nowhere/python"))
    with pytest.raises(GovernanceRefused, match="does not refuse"):
        tool_rules.prove(session.services, rules, session.spec, session.backend)


@pytest.mark.parametrize("session", ["host"], indirect=True)
@pytest.mark.parametrize("damage", ["gone", "emptied", "cut", "link"])
def test_a_journal_that_lost_something_is_on_record(session: Session, damage: str) -> None:
    tool_rules.prove(session.services, session.rules, session.spec, session.backend)
    session.run("true")
    path = session.rules.hook.journal
    data = path.read_bytes()
    path.unlink()
    if damage == "emptied":
        path.write_bytes(data.split(b"\n")[0] + b"\n")
    elif damage == "cut":
        path.write_bytes(data[:-9])
    elif damage == "link":
        path.symlink_to("/etc/passwd")
    problem = session.reconcile()
    assert problem is not None
    [row] = session.desk.events("governance.hook_incomplete")
    assert json.loads(row["payload"])["problem"] == problem


@pytest.mark.parametrize("session", ["host"], indirect=True)
def test_without_rules_nothing_is_installed(session: Session) -> None:
    services = replace(session.services, rules=None)
    task = look(services.store, session.task_id)
    assert tool_rules.install(services, task, session.workspace) is None


@pytest.mark.parametrize("session", ["host"], indirect=True)
def test_a_policy_that_is_not_in_force_starts_nothing(session: Session) -> None:
    with session.services.store.write("test") as tx:
        from sqlalchemy import text

        tx.execute(
            text("UPDATE governance_rules SET enabled = :off WHERE id = 'X1'"), {"off": False}
        )
    task = look(session.services.store, session.task_id)
    with pytest.raises(GovernanceRefused):
        tool_rules.install(session.services, task, session.workspace)
