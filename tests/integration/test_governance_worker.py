"""A task that a rule stops or holds, on both databases: states, surfaces, sweeps, the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from coven.bell import SilentBell
from coven.escalating import Decider, decide_escalation
from coven.github.factory import GitHub
from coven.governance.actions import Custom
from coven.governance.context import acting
from coven.governance.gate import deferring
from coven.governance.refusal import ActionEscalated, ActionRefused
from coven.queues import RUN_SESSION
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Familiar
from coven.store import chain, escalations, rules, surfaces, tasks
from coven.store.attempts import AttemptEnd
from coven.store.deliveries import Received
from coven.store.engine import Store
from coven.store.escalations import Escalation, Status
from coven.store.tasks import Task
from coven.values import DeliveryId, InstallationId, SurfaceKind, TaskId, TaskState
from tests.ledger import NOW, OTHER, TENANT, look, put, take
from tests.support.governance import Office, office
from webhooks.recorder import Recorder
from webhooks.routing import Ignored
from worker import governance, upkeep

HEAD = "a" * 40
CODY = Familiar(id="cody", display_name="Cody", bot_username="cody[bot]")
DEPLOY = Custom("deploy", {"what": "site"})
END = AttemptEnd("x", "x")


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Office:
    made = office(store, tmp_path)
    made.admin.add("X4", "custom", '{"kind":"deploy"}', "escalate", "a @person [decides](http://x)")
    made.admin.add("X5", "custom", '{"kind":"erase"}', "refuse", "never")
    return made


@pytest.fixture
def bell() -> SilentBell:
    return SilentBell()


@pytest.fixture
def services(desk: Office, bell: SilentBell) -> Services:
    return Services(
        settings=desk.settings.model_copy(update={"familiars": (CODY,)}),
        store=desk.store,
        github=cast(GitHub, None),  # nobody asks GitHub here
        clock=desk.clock,
        seam=desk.seam,
        bell=bell,
        redactor=Redactor(),
        secret_key=b"k" * 32,
        rules=desk.gate,
    )


def running(services: Services) -> Task:
    task_id = put(services.store, head_sha=HEAD)
    task = take(services.store, task_id)
    assert task is not None
    return task


def ask(services: Services, task: Task, action: Custom = DEPLOY) -> ActionRefused:
    gate = services.rules
    assert gate is not None
    who = governance.acting_for(services.settings, task, may_wait=True)
    with acting(who), pytest.raises(ActionRefused) as caught:
        gate.check(action, "p")
    return caught.value


def held(services: Services) -> tuple[Task, str]:
    """A task that waits, and what for."""
    task = running(services)
    error = ask(services, task)
    assert isinstance(error, ActionEscalated)
    governance.escalated(services, task, CODY, END, error)
    return look(services.store, task.id), error.escalation_id


def check_of(services: Services, task_id: TaskId) -> dict[str, object]:
    with services.store.read() as tx:
        shown = surfaces.of_task(TENANT, tx, task_id)
    return next(s.desired for s in reversed(shown) if s.kind is SurfaceKind.CHECK_RUN)


def status_of(services: Services, escalation_id: str) -> Status:
    with services.store.read() as tx:
        found = escalations.get(TENANT, tx, escalation_id)
    assert found is not None
    return found.status


def decide(
    services: Services,
    escalation_id: str,
    decision: escalations.Decision,
    installation: InstallationId = TENANT,
) -> Escalation | None:
    """By somebody whose rights were looked up; None when nothing came of it."""
    approve = decision == "approve"
    done = decide_escalation(services, installation, escalation_id, approve, Decider("mona", 1))
    return done.escalation if done.done else None


def test_a_refused_task_fails_once_and_shows_the_rule(services: Services) -> None:
    task = running(services)
    governance.refused(services, task, CODY, END, ask(services, task, Custom("erase", None)))
    ended = look(services.store, task.id)
    assert (ended.state, ended.outcome) == (TaskState.FAILED, "governance_refused")
    shown = check_of(services, task.id)
    assert shown["title"] == "Blocked by governance: X5"
    assert shown["conclusion"] == "failure"
    assert "Audit record" in str(shown["summary"])


def test_a_held_task_has_no_lease_and_says_what_it_waits_for(services: Services) -> None:
    task, escalation_id = held(services)
    assert (task.state, task.waiting_for, task.lease_token) == (
        TaskState.WAITING,
        "escalation",
        None,
    )
    assert task.expires_at == NOW + timedelta(hours=72)
    shown = check_of(services, task.id)
    assert (shown["title"], shown["conclusion"]) == ("Waiting for approval: X4", "action_required")
    text = str(shown["summary"])
    assert f"approve {escalation_id}" in text
    assert "](http://x)" not in text, "the operator's words are no Markdown of ours"


def test_an_approval_queues_the_task_again_in_its_next_round(
    desk: Office, services: Services
) -> None:
    task, escalation_id = held(services)
    assert decide(services, escalation_id, "approve") is not None
    again = look(services.store, task.id)
    assert (again.state, again.round) == (TaskState.QUEUED, task.round + 1)
    claimed = take(services.store, task.id, "u" * 32)
    assert claimed is not None
    with acting(governance.acting_for(services.settings, claimed, may_wait=True)):
        assert desk.gate.check(DEPLOY, "p") == DEPLOY
    assert status_of(services, escalation_id) is Status.CONSUMED
    assert desk.proven().ok


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_is_taken_once(
    desk: Office, services: Services, decision: escalations.Decision
) -> None:
    _, escalation_id = held(services)
    assert decide(services, escalation_id, decision) is not None
    assert decide(services, escalation_id, "approve") is None
    assert decide(services, escalation_id, "deny") is None


def test_nobody_of_another_installation_decides(desk: Office, services: Services) -> None:
    _, escalation_id = held(services)
    assert decide(services, escalation_id, "approve", OTHER) is None
    assert status_of(services, escalation_id) is Status.PENDING


def test_a_denied_task_fails_at_the_next_sweep(desk: Office, services: Services) -> None:
    task, escalation_id = held(services)
    decide(services, escalation_id, "deny")
    governance.settle_escalations(services)
    ended = look(services.store, task.id)
    assert (ended.state, ended.outcome) == (TaskState.FAILED, "governance_denied")
    assert check_of(services, task.id)["title"] == "Denied: X4"


def test_a_decision_before_the_task_waits_is_not_lost(
    desk: Office, services: Services, bell: SilentBell
) -> None:
    task = running(services)
    error = ask(services, task)
    assert isinstance(error, ActionEscalated)
    decide(services, error.escalation_id, "approve")
    governance.escalated(services, task, CODY, END, error)
    assert look(services.store, task.id).state is TaskState.QUEUED


def test_a_decision_that_the_worker_did_not_see_is_found_by_the_sweep(
    desk: Office, services: Services, bell: SilentBell
) -> None:
    task, escalation_id = held(services)
    with services.store.write() as tx:
        escalations.decide(TENANT, tx, escalation_id, "approve", "mona", NOW)
    governance.settle_escalations(services)
    assert look(services.store, task.id).state is TaskState.QUEUED
    assert (RUN_SESSION, task.id) in bell.rung


def test_what_nobody_answers_expires_with_its_task(desk: Office, services: Services) -> None:
    task, escalation_id = held(services)
    desk.clock.advance(72 * 3600 + 1)
    assert decide(services, escalation_id, "approve") is None
    governance.settle_escalations(services)
    assert status_of(services, escalation_id) is Status.EXPIRED
    upkeep.settle_idle(services)
    assert look(services.store, task.id).state is TaskState.CANCELLED
    assert desk.events("governance.escalation_expired")


def test_an_approval_that_is_not_used_in_time_expires(desk: Office, services: Services) -> None:
    task, escalation_id = held(services)
    decide(services, escalation_id, "approve")
    desk.clock.advance(72 * 3600 + 1)
    claimed = replace(task)
    assert isinstance(ask(services, claimed), ActionEscalated)
    assert status_of(services, escalation_id) is Status.APPROVED
    governance.settle_escalations(services)
    assert status_of(services, escalation_id) is Status.EXPIRED


def test_an_escalation_of_ended_work_is_cancelled(desk: Office, services: Services) -> None:
    task, escalation_id = held(services)
    with services.store.write() as tx:
        end = tasks.Ending(TaskState.CANCELLED, "stopped")
        assert tasks.settle_idle(TENANT, tx, task.id, NOW, end)
    governance.settle_escalations(services)
    assert status_of(services, escalation_id) is Status.CANCELLED


def received(name: str) -> Received:
    return Received(DeliveryId(name), "ping", b"{}", "", NOW)


@pytest.mark.parametrize("copies", [1, 2], ids=["accepted", "a copy was faster"])
def test_the_look_ups_verdict_is_written_with_the_delivery(
    desk: Office, services: Services, copies: int
) -> None:
    recorder = Recorder(services)
    if copies == 2:
        recorder.settle(received("d1"), None, [Ignored("ping")])
    before = len(desk.events())
    with deferring() as verdicts:
        desk.gate.check(Custom("look", None), "github.permission")
        assert len(desk.events()) == before
        settled = recorder.settle(received("d1"), None, [Ignored("ping")], None, verdicts)
    assert settled.duplicate is (copies == 2)
    assert len(desk.events()) == before + 1
    assert desk.proven().ok


def test_an_untrusted_policy_ends_tasks_and_says_so(desk: Office, services: Services) -> None:
    task = running(services)
    desk.admin.engine.keys.folder.joinpath("operator.pub").unlink()
    desk.engine._kept = None
    error = ask(services, task)
    governance.refused(services, task, CODY, END, error)
    assert check_of(services, task.id)["title"] == "Governance unavailable"


PREVIEW: list[tuple[str, str, str]] = [
    ("filesystem_write", '{"glob":"**/workspaces/**"}', "a folder"),
    ("process_spawn", '{"binary":"git"}', "git"),
    ("network_request", '{"host":"github.com"}', "the clone"),
    ("process_spawn", '{"binary":"coven-code"}', "the runtime"),
]


@pytest.mark.parametrize(("kind", "matcher", "what"), PREVIEW)
def test_what_a_task_needs_is_asked_before_any_token(
    desk: Office, services: Services, kind: str, matcher: str, what: str
) -> None:
    task = running(services)
    asked: Callable[[], None] = lambda: governance.look_ahead(services, task)  # noqa: E731
    asked()
    desk.admin.add("X8", kind, matcher, "refuse", what)
    with pytest.raises(ActionRefused) as caught:
        asked()
    assert caught.value.facts.rule_id == "X8"


def test_w16_a_nonce_counts_once_for_all_processes_and_is_forgotten(desk: Office) -> None:
    with desk.store.write() as tx:
        assert rules.use_nonce(tx, "k" * 16, "n1", NOW)
        assert not rules.use_nonce(tx, "k" * 16, "n1", NOW)
        assert rules.use_nonce(tx, "j" * 16, "n1", NOW)
    with desk.store.write() as tx:
        assert rules.forget_nonces(tx, NOW) == 0
        assert rules.forget_nonces(tx, NOW + timedelta(seconds=1)) == 2


def test_a_purged_account_is_forgotten_and_the_chain_still_proves(
    desk: Office, services: Services
) -> None:
    _, escalation_id = held(services)
    desk.clock.advance(10)
    with desk.store.write() as tx:
        assert chain.empty_payloads(tx, desk.clock.now(), OTHER) == 0
        assert chain.empty_payloads(tx, desk.clock.now(), TENANT) == 2
        assert escalations.purge(OTHER, tx) == 0
        assert escalations.purge(TENANT, tx) == 1
    report = desk.proven()
    assert report.ok
    assert report.pruned_payloads == 2
    with desk.store.read() as tx:
        assert escalations.get(TENANT, tx, escalation_id) is None
