"""The rules inside a session: policy, hook and journal go in, verdicts come out on record.

The session reaches no database. It gets a signed snapshot of the policy and a hook that judges each
tool call by it (:mod:`coven.governance.hook`); the worker proves before the session that the hook
refuses, and takes its verdicts into the audit chain afterwards.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import structlog

from coven.errors import GovernanceRefused
from coven.governance import hook_journal, snapshot
from coven.governance.actions import Action, MalformedAction, action_json, parse_action
from coven.governance.audit import Event, redacted
from coven.governance.context import Acting
from coven.governance.digest import asking_id, digest_of
from coven.governance.engine import templates_of
from coven.governance.gate import CHECK, RulesGate
from coven.governance.hook_journal import Reading
from coven.governance.hook_settings import Hook, code_folders
from coven.governance.refusal import ActionEscalated, Facts
from coven.governance.snapshot import Approved, Binding
from coven.governance.strict_json import canonical
from coven.governance.wire import governed_make_dir, governed_write
from coven.services import Services
from coven.store import escalations
from coven.store.engine import Tx
from coven.store.escalations import Escalation, Status
from coven.store.tasks import Task
from coven.waiting import ESCALATION_PATIENCE
from worker.runtime.backend import Backend
from worker.runtime.session import SessionSpec
from worker.runtime.supervise import run_session
from worker.workspace.checkout import Workspace

CANARY_SECS = 30.0
REFUSED = 2
INCOMPLETE = "governance.hook_incomplete"
_CANARY_CALLS = 2
"""How many calls the canary itself writes down."""
_ROWS_AT_ONCE = 200
_SHOWN = 2_000
_REASON = 1_000
_RULE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ToolRules:
    """What one session got, and how to read what it left."""

    gate: RulesGate
    hook: Hook
    session: str
    binding: Binding
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]

    def confine(self, spec: SessionSpec) -> SessionSpec:
        """The session with the hook's files in sight: policy and settings can't be changed."""
        return replace(
            spec,
            readable=(*spec.readable, *self.readable),
            writable=(*spec.writable, *self.writable),
        )


def install(services: Services, task: Task, workspace: Workspace) -> ToolRules | None:
    """Write policy, journal and settings; None while the rules are switched off.

    Raises ``GovernanceRefused`` when no policy is in force, ``OSError``.
    """
    gate = services.rules
    if gate is None:
        return None
    own = (str(workspace.tree), str(workspace.home), str(workspace.out_dir))
    templates = dict(templates_of(services.settings).values)
    # A session's workspace is its own attempt, and nothing of the server's state is its business.
    templates |= {"workspace": own, "state_dir": own}
    policy = gate.engine.policy()
    binding = Binding(
        head_sha=task.head_sha,
        attempts_root=str(workspace.attempt_dir.parent),
        attempt=workspace.attempt_dir.name,
        approved=_hand_out(services, gate, task, policy.epoch),
    )
    sealed = snapshot.seal(
        snapshot.of_policy(
            policy,
            namespace=_acting(task).namespace,
            task_id=task.id,
            workspace=str(workspace.tree),
            home=str(workspace.home),
            templates=templates,
            binding=binding,
        ),
        gate.recorder.signer,
    )
    folder = workspace.attempt_dir / "rules"
    journal = folder / "journal"
    session = secrets.token_hex(16)
    hook = Hook(folder / "policy.json", journal / "verdicts", gate.recorder.signer.public)
    claude = workspace.home / ".claude"
    settings = (workspace.engine_home / "settings.json", claude / "settings.json")
    for place in (folder, journal, claude):
        governed_make_dir(services.seam, place, point="rules.folder")
    for path, data in (
        (hook.snapshot, sealed),
        (hook.journal, hook_journal.opening(session)),
        (settings[0], hook.coven_code),
        (settings[1], hook.claude_code),
    ):
        governed_write(services.seam, path, data, point="rules.write")
    return ToolRules(
        gate, hook, session, binding, (hook.snapshot, *settings, *code_folders()), (journal,)
    )


def _hand_out(services: Services, gate: RulesGate, task: Task, epoch: int) -> tuple[Approved, ...]:
    """The approvals for calls of this task's sessions; used up by this, so no other gets them."""
    now = services.clock.now()
    handed: list[Escalation] = []

    def write(tx: Tx) -> list[Event]:
        handed.clear()
        for one in escalations.of_task(task.installation_id, tx, task.id, {Status.APPROVED}):
            bound = ("tool", epoch, task.head_sha)
            if (one.origin, one.policy_epoch, one.head_sha) != bound or one.expires_at <= now:
                continue
            if escalations.consume(task.installation_id, tx, one.id, now):
                handed.append(one)
        facts = ({"escalation_id": one.id, "approved_by": one.decided_by} for one in handed)
        return [_event(services, task, "governance.escalation_consumed", fact) for fact in facts]

    with services.store.read() as tx:
        if not escalations.of_task(task.installation_id, tx, task.id, {Status.APPROVED}):
            return ()
    gate.recorder.commit_with(write, now)
    return tuple(Approved(one.id, one.action_digest, one.rule_id) for one in handed)


def prove(services: Services, rules: ToolRules, spec: SessionSpec, backend: Backend) -> None:
    """Ask the hook, confined like the session, about a tool that it must refuse.

    Raises ``GovernanceRefused`` when it does not: then no session may start.
    """
    end = run_session(
        replace(
            spec,
            argv=("/bin/sh", "-c", rules.hook.canary),
            entrypoint="/bin/sh",
            timeout_secs=CANARY_SECS,
            secrets_env={},
        ),
        backend,
        services.seam,
        services.clock,
        services.redactor,
        lambda: None,
        1.0,
    )
    if end.exit_code == REFUSED:
        return
    seen = end.spawn_error or end.stderr_tail.strip()[-300:] or f"exit {end.exit_code}"
    raise GovernanceRefused(
        f"governance:unavailable: the hook does not refuse in a session ({seen}); see that "
        f"{rules.hook.python} can run there",
        public="The rules can't be enforced inside a session at the moment, so none starts.",
    )


@dataclass(frozen=True)
class Reconciled:
    """What the record says about a session's calls."""

    problem: str | None = None
    """Why it is not complete; None when it is."""
    asked: Asked | None = None
    """The first call that a person would have had to approve."""


@dataclass(frozen=True)
class Asked:
    """A call that a rule escalated, as the journal has it."""

    action: Action
    rule_id: str
    reason: str
    epoch: int


def reconcile(services: Services, rules: ToolRules, task: Task) -> Reconciled:
    """Take the session's verdicts into the audit chain.

    Raises ``GovernanceRefused`` when they can't be written down.
    """
    reading = _read(rules)
    calls = reading.entries[_CANARY_CALLS:]
    events = [event for call in calls for event in _events(services, rules, task, call)]
    if reading.problem is not None:
        facts = {"problem": reading.problem, "calls": len(calls)}
        events.append(_event(services, task, INCOMPLETE, facts))
        _log.error("verdicts_incomplete", why=reading.problem, calls=len(calls))
    for start in range(0, len(events), _ROWS_AT_ONCE):
        batch = events[start : start + _ROWS_AT_ONCE]
        rules.gate.recorder.commit(batch, services.clock.now())
    return Reconciled(reading.problem, next(filter(None, map(_asked, calls)), None))


def ask(services: Services, rules: ToolRules, task: Task, asked: Asked) -> NoReturn:
    """Ask a person about a call; the next session may make it once when they approve.

    Raises ``ActionEscalated``, and ``GovernanceRefused`` when it can't be written down.
    """
    now = services.clock.now()
    root = Path(rules.binding.attempts_root or "")
    namespace = _acting(task).namespace
    digest = digest_of(asked.action, namespace, task.id, task.head_sha, root)
    shown = redacted(services.redactor, {"action": action_json(asked.action)})["action"]
    wanted = Escalation(
        id=asking_id(digest, asked.rule_id, rules.binding.attempt),
        installation_id=task.installation_id,
        task_id=task.id,
        repo_id=task.repo_id,
        namespace=namespace,
        rule_id=asked.rule_id,
        reason=asked.reason,
        kind=str(shown["kind"]),
        action_digest=digest,
        action_redacted=canonical(shown).decode("utf-8")[:_SHOWN],
        policy_epoch=asked.epoch,
        head_sha=task.head_sha,
        status=Status.PENDING,
        requested_at=now,
        expires_at=now + ESCALATION_PATIENCE,
        origin="tool",
    )
    opened = wanted

    def write(tx: Tx) -> list[Event]:
        nonlocal opened
        opened = escalations.request(task.installation_id, tx, wanted)
        facts = {
            "escalation_id": opened.id,
            "rule_id": asked.rule_id,
            "action_digest": digest,
            "policy_epoch": asked.epoch,
        }
        return [_event(services, task, "governance.escalation_opened", facts)]

    events, sequence, row_hash = rules.gate.recorder.commit_with(write, now)
    facts = Facts(
        rule_id=asked.rule_id,
        reason=services.redactor.text(asked.reason),
        kind=wanted.kind,
        action=wanted.action_redacted,
        decision_id=events[0].decision_id or "",
        policy_epoch=asked.epoch,
        sequence=sequence,
        row_hash=row_hash.hex(),
    )
    raise ActionEscalated(facts, opened.id)


def _asked(call: Mapping[str, Any]) -> Asked | None:
    """The first action of a call that waits for a person; None for anything else.

    The session's own user wrote it: what is not exact is not asked about.
    """
    verdicts = call.get("verdicts")
    for verdict in verdicts if isinstance(verdicts, list) else ():
        decision = verdict.get("decision") if isinstance(verdict, dict) else None
        if not isinstance(decision, dict) or decision.get("decision") != "escalate":
            continue
        if "approved" in verdict:
            continue
        rule_id, reason, epoch = decision.get("rule_id"), decision.get("reason"), call.get("epoch")
        try:
            action = parse_action(verdict.get("action"))
        except (MalformedAction, TypeError, AttributeError):
            continue
        if isinstance(rule_id, str) and _RULE_ID.fullmatch(rule_id) and isinstance(epoch, int):
            return Asked(action, rule_id, str(reason)[:_REASON], epoch)
    return None


def _acting(task: Task) -> Acting:
    """Whose tool calls they are: by the task's record, whatever the session says."""
    return Acting(
        installation=task.installation_id,
        repo_id=task.repo_id,
        repo=str(task.repo),
        familiar=task.familiar_id,
        task_id=task.id,
    )


def _read(rules: ToolRules) -> Reading:
    try:
        handle = os.open(rules.hook.journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return Reading(problem="the journal is gone")
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > 2 * hook_journal.MAX_BYTES:
            return Reading(problem="the journal is no file of ours")
        reading = hook_journal.read(file.read(), rules.session)
    if reading.problem is None and len(reading.entries) < _CANARY_CALLS:
        return replace(reading, problem="the journal lost its beginning")
    return reading


def _events(
    services: Services, rules: ToolRules, task: Task, call: Mapping[str, Any]
) -> list[Event]:
    # The session may write what it likes, but not that a person approved what nobody did.
    handed = {one.id for one in rules.binding.approved}
    found = []
    verdicts = call.get("verdicts")
    for verdict in verdicts if isinstance(verdicts, list) else ():
        if isinstance(verdict, dict):
            payload = {
                "action": verdict.get("action") or {"kind": "malformed"},
                "decision": verdict.get("decision"),
                "matched": verdict.get("matched"),
                "policy_epoch": call.get("epoch"),
                "origin": "tool",
                "namespace": _acting(task).namespace,
                "point": "session.hook",
                "tool": call.get("tool"),
                "approved": next((i for i in handed if i == verdict.get("approved")), None),
            }
            found.append(_event(services, task, CHECK, payload))
    return found


def _event(services: Services, task: Task, event_type: str, payload: Mapping[str, Any]) -> Event:
    return Event(
        event_type,
        redacted(services.redactor, payload),
        _acting(task).agent,
        task.id,
        task.installation_id,
        f"D-{uuid.uuid4().hex}",
    )
