"""The gate before every effect: ask the rules, write the verdict down, and only then let it happen.

=========  ==================================================================================
verdict    at this boundary
=========  ==================================================================================
allow      on record, happens
warn       on record and in the log, happens
modify     on record, the rewritten action happens (it was judged itself)
ask        reduces to refuse
escalate   an unused approval of exactly this action is used up; else it waits for a person
refuse     on record, ``ActionRefused``
=========  ==================================================================================

Two narrow exemptions, on record like everything else: ending one's own session, and showing
people what happened. A verdict that can't be written down is a refusal, also under an exemption.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import structlog

from coven.errors import GovernanceRefused
from coven.governance import context
from coven.governance.actions import (
    Action,
    MalformedAction,
    NetworkRequest,
    ProcessSpawn,
    action_json,
)
from coven.governance.audit import Event, Recorder, append, redacted
from coven.governance.context import Acting
from coven.governance.digest import action_digest
from coven.governance.engine import Engine
from coven.governance.evaluate import Decision, refusal
from coven.governance.head import ROLLBACK, TAMPERED
from coven.governance.policy import Verdict
from coven.governance.refusal import ActionEscalated, ActionRefused, Facts
from coven.governance.strict_json import JsonValue, canonical
from coven.governance.world import Origin, Scope
from coven.metrics import VERDICTS, Meter
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.store import escalations
from coven.store import rules as ledger
from coven.store.engine import Tx
from coven.store.escalations import Escalation, Status
from coven.values import RepoId
from coven.waiting import ESCALATION_PATIENCE

CHECK = "governance.check"
ALARMING = frozenset({TAMPERED, ROLLBACK})
_STALE_TRIES = 5
_SHOWN = 2_000

_VERDICT_WRITES = re.compile(
    r"/(?:app/installations/\d+/access_tokens"
    r"|repos/[^/]+/[^/]+/(?:check-runs(?:/\d+)?|issues/(?:\d+/comments|comments/\d+)))"
)
"""The only writes that the publishing exemption covers, below the root of the API."""

_log = structlog.get_logger(__name__)


class Slot:
    """Where the gate of a process goes: used before it is there, or filled twice, it refuses."""

    def __init__(self) -> None:
        self._gate: RulesGate | None = None
        self._lock = threading.Lock()

    def install(self, gate: RulesGate) -> None:
        """Raises ``GovernanceRefused`` when there is one already."""
        with self._lock:
            if self._gate is not None:
                raise GovernanceRefused("governance: the gate of this process is installed already")
            self._gate = gate

    def check(self, action: Action, point: str) -> Action:
        return self._installed.check(action, point)

    def malformed(self, problem: MalformedAction, point: str) -> None:
        self._installed.malformed(problem, point)

    @property
    def _installed(self) -> RulesGate:
        if self._gate is None:
            raise GovernanceRefused("governance: no gate is installed in this process yet")
        return self._gate


@dataclass
class Deferred:
    """Rows of verdicts that were taken already and are written with the next transaction.

    Only the receiver's look-up uses this: it has no commit of its own to spare. Once closed, the
    gate commits at once again.
    """

    _events: list[Event] = field(default_factory=list)
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event) -> bool:
        """False when it is too late."""
        with self._lock:
            if not self._closed:
                self._events.append(event)
            return not self._closed

    def close(self) -> list[Event]:
        """What is to be written; nothing is added afterwards."""
        with self._lock:
            self._closed = True
            events, self._events = self._events, []
            return events


_deferred: ContextVar[Deferred | None] = ContextVar("coven_deferred", default=None)


@contextmanager
def deferring() -> Iterator[Deferred]:
    """Collect the rows of verdicts within; the caller writes them with its own transaction."""
    rows = Deferred()
    token = _deferred.set(rows)
    try:
        yield rows
    finally:
        _deferred.reset(token)


class _Stale(Exception):
    """The policy changed between verdict and record."""


@dataclass(frozen=True)
class RulesGate:
    """The real gate: see the module text."""

    engine: Engine
    recorder: Recorder
    settings: Settings
    redactor: Callable[[], Redactor]
    meter: Meter = field(default_factory=Meter)

    def check(self, action: Action, point: str) -> Action:
        """The action that may happen. Raises ``ActionRefused``, and ``GovernanceRefused`` when the
        verdict can't be written down."""
        who = context.current()
        scope = self._scope(who)
        for _ in range(_STALE_TRIES):
            decision = self.engine.decide(action, scope)
            try:
                settled = self._settle(action, point, who, scope, decision)
            except _Stale:
                continue
            finally:
                self.meter.count(VERDICTS, decision.verdict, str(action_json(action)["kind"]))
            return settled
        raise GovernanceRefused("governance:unavailable: the policy changes all the time")

    def malformed(self, problem: MalformedAction, point: str) -> None:
        """Refuse, on record, what no rule can judge. Always raises."""
        who = context.current()
        asked: dict[str, JsonValue] = {"kind": "malformed", "field": problem.field}
        decision = refusal(MalformedAction.code, str(problem))
        self.meter.count(VERDICTS, decision.verdict, "malformed")
        self._refuse(asked, point, who, self._scope(who), decision, None)

    def append_in(self, tx: Tx, events: list[Event]) -> None:
        """Write deferred rows in the caller's transaction; do it last."""
        if events:
            append(tx, self.recorder.signer, events, self.engine.clock.now())

    def flush(self, events: list[Event]) -> None:
        """Write deferred rows whose transaction did not come about."""
        if events:
            self.recorder.commit(events, self.engine.clock.now())

    def preview(self, actions: list[Action], point: str) -> None:
        """Ask before anything begins: raises what the effects themselves would.

        An escalation is left to the effect, which alone uses an approval up.
        """
        who = context.current()
        scope = self._scope(who)
        for action in actions:
            decision = self.engine.decide(action, scope)
            if decision.verdict is Verdict.REFUSE:
                self._refuse(dict(action_json(action)), point, who, scope, decision, None)
            self._commit(self._event(dict(action_json(action)), point, who, scope, decision))

    def _settle(
        self, action: Action, point: str, who: Acting, scope: Scope, decision: Decision
    ) -> Action:
        asked = dict(action_json(action))
        if decision.is_allowed:
            event = self._event(asked, point, who, scope, decision)
            self._commit(event, decision)
            if decision.verdict is Verdict.WARN:
                _log.warning("rule_warns", rule=decision.rule_id, why=decision.reason, at=point)
            return decision.rewritten if decision.rewritten is not None else action
        exempt = self._exemption(action, point, who)
        if exempt is not None:
            self._commit(self._event(asked, point, who, scope, decision, exempt=exempt))
            _log.warning("rule_exempt", rule=decision.rule_id, why=exempt, at=point)
            return action
        if decision.verdict is Verdict.ESCALATE and who.may_wait and who.task_id is not None:
            self._escalate(action, point, who, scope, decision)
            return action
        self._refuse(asked, point, who, scope, decision, action)
        return action

    def _refuse(
        self,
        asked: dict[str, JsonValue],
        point: str,
        who: Acting,
        scope: Scope,
        decision: Decision,
        action: Action | None,
    ) -> None:
        event = self._event(asked, point, who, scope, decision)
        sequence, digest = self._commit(event)
        if decision.rule_id in ALARMING:
            _log.error("policy_not_trusted", code=decision.rule_id, why=decision.reason)
        facts = self._facts(event, decision, sequence, digest)
        _log.warning("rule_refused", rule=facts.rule_id, why=facts.reason, at=point)
        raise ActionRefused(facts)

    def _escalate(
        self, action: Action, point: str, who: Acting, scope: Scope, decision: Decision
    ) -> None:
        """Use up an approval, or ask for one and raise ``ActionEscalated``."""
        now = self.engine.clock.now()
        asked = dict(action_json(action))
        installation, task = who.installation, who.task_id
        assert installation is not None
        assert task is not None
        digest = action_digest(action, who)
        rule_id = decision.rule_id or ""
        epoch = decision.policy_epoch
        asking: Escalation | None = None

        def write(tx: Tx) -> list[Event]:
            nonlocal asking
            asking = None
            _require_fresh(tx, decision)
            given = escalations.approved_for(installation, tx, task, digest, rule_id, epoch, now)
            if given is not None and escalations.consume(installation, tx, given.id, now):
                facts = {"escalation_id": given.id, "approved_by": given.decided_by}
                event = self._event(asked, point, who, scope, decision, **facts)
                return [event, self._noted("governance.escalation_consumed", who, facts)]
            event = self._event(asked, point, who, scope, decision, action_digest=digest)
            asking = escalations.request(
                installation, tx, self._wanted(event, decision, who, digest, now)
            )
            facts = {"escalation_id": asking.id, "rule_id": rule_id, "action_digest": digest}
            return [event, self._noted("governance.escalation_opened", who, facts)]

        events, sequence, row_hash = self.recorder.commit_with(write, now)
        if asking is None:
            return
        facts = self._facts(events[0], decision, sequence, row_hash)
        _log.warning("rule_escalates", rule=rule_id, escalation=asking.id, at=point)
        raise ActionEscalated(facts, asking.id)

    def _wanted(
        self, event: Event, decision: Decision, who: Acting, digest: str, now: datetime
    ) -> Escalation:
        assert who.installation is not None
        assert who.task_id is not None
        shown = canonical(event.payload["action"]).decode("utf-8")
        return Escalation(
            id=escalations.new_id(),
            installation_id=who.installation,
            task_id=who.task_id,
            repo_id=who.repo_id or RepoId(0),
            namespace=who.namespace,
            rule_id=decision.rule_id or "",
            reason=decision.reason or "",
            kind=str(event.payload["action"]["kind"]),
            action_digest=digest,
            action_redacted=shown[:_SHOWN],
            policy_epoch=decision.policy_epoch,
            head_sha=who.head_sha,
            status=Status.PENDING,
            requested_at=now,
            expires_at=now + ESCALATION_PATIENCE,
        )

    def _commit(self, event: Event, decision: Decision | None = None) -> tuple[int, bytes]:
        rows = _deferred.get()
        if rows is not None and rows.add(event):
            return 0, b""

        def write(tx: Tx) -> list[Event]:
            if decision is not None:
                _require_fresh(tx, decision)
            return [event]

        _, sequence, row_hash = self.recorder.commit_with(write, self.engine.clock.now())
        return sequence, row_hash

    def _event(
        self,
        asked: dict[str, JsonValue],
        point: str,
        who: Acting,
        scope: Scope,
        decision: Decision,
        **more: Any,
    ) -> Event:
        payload: dict[str, Any] = {
            "action": asked,
            "decision": decision.json(),
            "matched": decision.matched_json(),
            "policy_epoch": decision.policy_epoch,
            "origin": scope.origin.value,
            "namespace": scope.namespace,
            "point": point,
            **more,
        }
        if decision.rewritten is not None:
            payload["rewritten"] = action_json(decision.rewritten)
        return Event(
            CHECK,
            redacted(self.redactor(), payload),
            who.agent,
            who.task_id,
            who.installation,
            f"D-{uuid.uuid4().hex}",
        )

    def _noted(self, event_type: str, who: Acting, facts: dict[str, Any]) -> Event:
        payload = redacted(self.redactor(), facts)
        return Event(event_type, payload, who.agent, who.task_id, who.installation)

    def _facts(self, event: Event, decision: Decision, sequence: int, row_hash: bytes) -> Facts:
        action = event.payload["action"]
        return Facts(
            rule_id=decision.rule_id or "",
            reason=self.redactor().text(decision.reason or ""),
            kind=str(action["kind"]),
            action=canonical(action).decode("utf-8")[:_SHOWN],
            decision_id=event.decision_id or "",
            policy_epoch=decision.policy_epoch,
            sequence=sequence,
            row_hash=row_hash.hex(),
        )

    def _scope(self, who: Acting) -> Scope:
        return Scope(
            origin=Origin.ADAPTER,
            namespace=who.namespace,
            task_id=who.task_id,
            workspace=str(self.settings.workspace_root),
        )

    def _exemption(self, action: Action, point: str, who: Acting) -> str | None:
        if isinstance(action, ProcessSpawn) and point == "session.backend":
            ends = action.args[:1] == ("kill",) or action.args[:2] == ("rm", "--force")
            if ends and action.args[-1].startswith("coven-"):
                return "ending our own session"
        if isinstance(action, NetworkRequest) and who.publishing and self._shows(action):
            return "publishing a verdict"
        return None

    def _shows(self, request: NetworkRequest) -> bool:
        base = urlsplit(self.settings.github.api_base_url)
        path = (request.path or "").removeprefix(base.path.rstrip("/"))
        if (request.scheme, request.host) != (base.scheme, base.hostname):
            return False
        if request.method in ("GET", "HEAD"):
            return True
        return request.method in ("POST", "PATCH") and bool(_VERDICT_WRITES.fullmatch(path))


def _require_fresh(tx: Tx, decision: Decision) -> None:
    """Raises ``_Stale`` when the policy that gave the verdict is not in force any more."""
    if ledger.newest_epoch(tx) != decision.policy_epoch:
        raise _Stale
