"""A person decides about a held action: who may, once, for exactly this, on record and shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from coven.bell import SilentBell
from coven.escalating import Decider, Refusal, decide_escalation
from coven.github.factory import GitHub
from coven.github.models import Permission
from coven.governance.actions import Custom
from coven.governance.context import acting
from coven.governance.refusal import ActionEscalated, ActionRefused
from coven.queues import RUN_PUBLISH, RUN_SESSION
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import escalations, surfaces
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store
from coven.store.escalations import Status
from coven.store.tasks import Task
from coven.values import Lane, RepoId, SurfaceKind, TaskId, TaskState
from tests.integration.test_memory_commands import People
from tests.ledger import TENANT, look, put, take
from tests.support.governance import Office, office
from worker import governance
from worker.control import run_control

CODY = Familiar(id="cody", display_name="Cody", bot_username="cody[bot]")
HEAD = "a" * 40
DEPLOY = Custom("deploy", {"what": "site"})
RULE = ("X4", "custom", '{"kind":"deploy"}', "escalate", "ask first")


class Floor:
    """A held task, and people who answer."""

    def __init__(self, store: Store, folder: Path, **governance_keys: Any) -> None:
        self.store = store
        self.office: Office = office(store, folder, **governance_keys)
        self.office.admin.add(*RULE)
        self.people = People()
        self.people.rights["robot[bot]"] = Permission("write", "write", 77)
        self.bell = SilentBell()
        self.services = Services(
            settings=self.office.settings.model_copy(update={"familiars": (CODY,)}),
            store=store,
            github=cast(GitHub, self.people),
            clock=self.office.clock,
            seam=self.office.seam,
            bell=self.bell,
            redactor=Redactor(),
            secret_key=b"k" * 32,
            rules=self.office.gate,
        )
        self._comment = 900

    def held(self, **facts: Any) -> tuple[Task, str]:
        """A task that waits, and what for."""
        given: dict[str, Any] = {"head_sha": HEAD, "actor_id": 2, "actor_login": "lisa"}
        task = take(self.store, put(self.store, **(given | facts)))
        assert task is not None
        error = self.ask(task)
        assert isinstance(error, ActionEscalated)
        governance.escalated(self.services, task, CODY, AttemptEnd("x", "x"), error)
        return look(self.store, task.id), error.escalation_id

    def ask(self, task: Task, action: Custom = DEPLOY) -> ActionRefused | None:
        """What the gate says to this task; None: it may."""
        who = governance.acting_for(self.services.settings, task, may_wait=True)
        try:
            with acting(who):
                self.office.gate.check(action, "p")
        except ActionRefused as error:
            return error
        return None

    def answer(self, verb: str, who: str = "mona", **changes: Any) -> TaskId:
        """A command or a click as the receiver writes it down, carried out."""
        self._comment += 1
        ids = {"mona": 1, "lisa": 2, "eve": 9, "robot[bot]": 77}
        facts: dict[str, Any] = {
            "lane": Lane.CONTROL,
            "verb": verb,
            "actor_id": ids[who],
            "actor_login": who,
            "trust_evidence": {"source": "permission_api"},
            "semantic_key": f"control:{self._comment}",
        }
        task_id = put(self.store, **(facts | changes))
        run_control(self.services, task_id, "test")
        return task_id

    def say(self, verb: str, escalation_id: str, who: str = "mona", **more: Any) -> TaskId:
        comment = {"comment_id": self._comment + 1, "comment_kind": "issue_comment"}
        return self.answer(verb, who, payload={"args": escalation_id}, **comment, **more)

    def click(self, button: str, task: Task, who: str = "mona", run: str | None = None) -> TaskId:
        payload = {"check_run": run or f"{task.id}:{task.round}"}
        return self.answer(button, who, payload=payload, parent_task_id=task.id)

    def status(self, escalation_id: str) -> Status:
        with self.store.read() as tx:
            found = escalations.get(TENANT, tx, escalation_id)
        assert found is not None
        return found.status

    def shown(self, task_id: TaskId, kind: SurfaceKind) -> list[dict[str, Any]]:
        with self.store.read() as tx:
            return [s.desired for s in surfaces.of_task(TENANT, tx, task_id) if s.kind is kind]

    def reply(self, task_id: TaskId) -> str:
        return str(self.shown(task_id, SurfaceKind.REPLY)[0]["body"])


@pytest.fixture
def floor(store: Store, tmp_path: Path) -> Floor:
    return Floor(store, tmp_path)


@pytest.fixture
def desk(sqlite_store: Store, tmp_path: Path) -> Floor:
    return Floor(sqlite_store, tmp_path)


def test_the_waiting_check_run_has_the_two_buttons_and_no_others(desk: Floor) -> None:
    task, escalation_id = desk.held()
    (check,) = desk.shown(task.id, SurfaceKind.CHECK_RUN)
    assert [each["identifier"] for each in check["actions"]] == ["gov_approve", "gov_deny"]
    assert check["escalation"] == escalation_id
    assert check["external_id"] == f"{task.id}:{task.round}"


@pytest.mark.parametrize("how", ["comment", "shouted", "button"])
def test_an_approval_lets_the_task_go_on_and_the_action_happen_once(floor: Floor, how: str) -> None:
    task, escalation_id = floor.held()
    if how == "button":
        floor.click("gov_approve", task)
    else:
        name = escalation_id.upper() if how == "shouted" else escalation_id
        assert "is approved" in floor.reply(floor.say("approve", name))
    again = look(floor.store, task.id)
    assert (again.state, again.round) == (TaskState.QUEUED, task.round + 1)
    assert (RUN_SESSION, task.id) in floor.bell.rung
    claimed = take(floor.store, task.id, "u" * 32)
    assert claimed is not None
    assert floor.ask(claimed) is None
    assert floor.status(escalation_id) is Status.CONSUMED
    assert isinstance(floor.ask(claimed), ActionEscalated), "an approval counts once"
    names = [row["event_type"].rpartition(".")[2] for row in floor.office.events()]
    assert names.count("escalation_approved") == names.count("escalation_consumed") == 1
    assert floor.office.proven().ok


def test_an_approval_is_for_exactly_this_action(desk: Floor) -> None:
    task, escalation_id = desk.held()
    desk.say("approve", escalation_id)
    claimed = take(desk.store, task.id, "u" * 32)
    assert claimed is not None
    assert isinstance(desk.ask(claimed, Custom("deploy", {"what": "other"})), ActionEscalated)
    assert desk.status(escalation_id) is Status.APPROVED


def test_a_refusal_that_is_added_after_the_approval_wins(desk: Floor) -> None:
    task, escalation_id = desk.held()
    desk.say("approve", escalation_id)
    desk.office.admin.add("X9", "custom", '{"kind":"deploy"}', "refuse", "never")
    claimed = take(desk.store, task.id, "u" * 32)
    assert claimed is not None
    error = desk.ask(claimed)
    assert error is not None
    assert not isinstance(error, ActionEscalated)
    assert error.facts.rule_id == "X9"


def test_the_check_run_that_waited_says_who_approved_and_asks_no_more(desk: Floor) -> None:
    task, escalation_id = desk.held()
    desk.say("approve", escalation_id)
    (check,) = desk.shown(task.id, SurfaceKind.CHECK_RUN)
    assert (check["title"], check["conclusion"]) == ("Approved: X4", "neutral")
    assert "mona" in check["summary"]
    assert check["actions"] == []
    assert (RUN_PUBLISH, task.id) in desk.bell.rung


@pytest.mark.parametrize("how", ["comment", "button"])
def test_a_denial_ends_the_work_visibly(floor: Floor, how: str) -> None:
    task, escalation_id = floor.held()
    if how == "button":
        floor.click("gov_deny", task)
    else:
        assert "is denied" in floor.reply(floor.say("deny", escalation_id))
    assert floor.status(escalation_id) is Status.DENIED
    governance.settle_escalations(floor.services)
    ended = look(floor.store, task.id)
    assert (ended.state, ended.outcome) == (TaskState.FAILED, "governance_denied")
    (check,) = floor.shown(task.id, SurfaceKind.CHECK_RUN)
    assert (check["title"], check["conclusion"], check["actions"]) == ("Denied: X4", "failure", [])


OUTSIDERS = ["eve", "robot[bot]"]


@pytest.mark.parametrize("who", OUTSIDERS)
@pytest.mark.parametrize("verb", ["approve", "deny", "gov_approve", "gov_deny"])
def test_outsiders_and_bots_decide_nothing(desk: Floor, who: str, verb: str) -> None:
    task, escalation_id = desk.held()
    if verb.startswith("gov"):
        desk.click(verb, task, who)
    else:
        desk.say(verb, escalation_id, who)
    assert desk.status(escalation_id) is Status.PENDING
    assert look(desk.store, task.id).state is TaskState.WAITING


def test_rights_are_those_of_the_moment_of_the_decision(desk: Floor) -> None:
    task, escalation_id = desk.held()
    desk.people.rights["mona"] = Permission("read", "read", 1)
    desk.click("gov_approve", task)
    assert desk.status(escalation_id) is Status.PENDING


def test_a_login_that_was_given_to_somebody_else_counts_for_nothing(desk: Floor) -> None:
    task, escalation_id = desk.held()
    desk.people.rights["mona"] = Permission("admin", "admin", 1234)
    desk.click("gov_approve", task)
    assert desk.status(escalation_id) is Status.PENDING


@pytest.mark.parametrize("how", ["comment", "button"])
def test_four_eyes_keep_whoever_gave_the_command_from_approving(
    sqlite_store: Store, tmp_path: Path, how: str
) -> None:
    floor = Floor(sqlite_store, tmp_path, four_eyes=True)
    task, escalation_id = floor.held()
    (check,) = floor.shown(task.id, SurfaceKind.CHECK_RUN)
    assert "not whoever gave the command" in check["summary"]
    if how == "button":
        floor.click("gov_approve", task, "lisa")
    else:
        assert "Somebody else" in floor.reply(floor.say("approve", escalation_id, "lisa"))
    assert floor.status(escalation_id) is Status.PENDING
    floor.say("approve", escalation_id, "mona")
    assert floor.status(escalation_id) is Status.APPROVED


def test_under_four_eyes_whoever_gave_the_command_may_still_take_it_back(
    sqlite_store: Store, tmp_path: Path
) -> None:
    floor = Floor(sqlite_store, tmp_path, four_eyes=True)
    _, escalation_id = floor.held()
    floor.say("deny", escalation_id, "lisa")
    assert floor.status(escalation_id) is Status.DENIED


def test_a_button_of_an_older_round_decides_nothing(desk: Floor) -> None:
    task, first = desk.held()
    desk.click("gov_approve", task)
    claimed = take(desk.store, task.id, "u" * 32)
    assert claimed is not None
    desk.ask(claimed)
    error = desk.ask(claimed)
    assert isinstance(error, ActionEscalated)
    governance.escalated(desk.services, claimed, CODY, AttemptEnd("x", "x"), error)
    desk.click("gov_approve", task, run=f"{task.id}:{task.round}")
    assert desk.status(error.escalation_id) is Status.PENDING
    assert desk.status(first) is Status.CONSUMED


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_what_is_decided_stays_decided(desk: Floor, verb: str) -> None:
    _, escalation_id = desk.held()
    desk.say("approve", escalation_id)
    assert "can't be answered any more: it is approved" in desk.reply(desk.say(verb, escalation_id))
    assert desk.status(escalation_id) is Status.APPROVED


def test_an_escalation_of_another_repository_is_unknown_on_this_thread(desk: Floor) -> None:
    _, escalation_id = desk.held()
    by, elsewhere = Decider("mona", 1), RepoId(4711)
    done = decide_escalation(desk.services, TENANT, escalation_id, True, by, repo_id=elsewhere)
    assert done.refused is Refusal.UNKNOWN
    assert "no such escalation" in desk.reply(desk.say("approve", "E-00000000"))
    assert desk.status(escalation_id) is Status.PENDING


def test_w10_a_decision_without_a_record_is_not_taken(desk: Floor) -> None:
    _, escalation_id = desk.held()
    with desk.store.write() as tx:
        tx.exec_driver_sql("DELETE FROM chain_head")
    with pytest.raises(Exception, match="audit_unavailable"):
        decide_escalation(desk.services, TENANT, escalation_id, True, Decider("mona", 1))
    assert desk.status(escalation_id) is Status.PENDING


def test_without_rules_there_is_nothing_to_decide(desk: Floor) -> None:
    _, escalation_id = desk.held()

    off = replace(desk.services, rules=None)
    done = decide_escalation(off, TENANT, escalation_id, True, Decider("mona", 1))
    assert done.refused is Refusal.UNKNOWN


def test_a_command_that_a_rule_stops_is_answered_and_not_tried_again(
    desk: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.office.admin.add("X5", "custom", '{"kind":"look-up"}', "refuse", "nobody looks")

    def look_up(*_: object, **__: object) -> None:
        desk.office.gate.check(Custom("look-up", {}), "github.request")

    _, waiting = desk.held()
    monkeypatch.setattr(desk.people, "for_repo", look_up)
    asked = look(desk.store, desk.say("approve", waiting))
    assert (asked.state, asked.outcome) == (TaskState.FAILED, "governance_refused")
    assert asked.attempts_used == 1
    assert "`X5`" in desk.reply(asked.id)
    assert "nobody looks" in desk.reply(asked.id)
    assert desk.status(waiting) is Status.PENDING
