"""What the API does with rules: tokens read and ask, and only the operator's signature changes.

The server holds no private key: a change comes as the row and the head that the operator signed
elsewhere, and is stored once both prove. So what an attacker can replay is stale.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coven.errors import CovenError, GovernanceRefused
from coven.escalating import Decider, Refusal, decide_escalation
from coven.governance import codes
from coven.governance.admin import Admin, Change, EpochConflict, Row, listed, status
from coven.governance.asking import Asker, ask
from coven.governance.engine import Engine
from coven.governance.gate import RulesGate
from coven.governance.head import ROLLBACK, TAMPERED, UNAVAILABLE, PolicyUnusable
from coven.governance.shapes import InvalidMatcher
from coven.governance.world import Origin, Scope
from coven.services import Services
from coven.store import chain, escalations, tasks
from coven.store import rules as ledger
from coven.store.escalations import Escalation
from coven.values import InstallationId, TaskId
from webhooks.api import governance_shapes as shapes
from webhooks.api.context import Call, Outcome
from webhooks.api.problems import Problem, not_found

_BINARY = ("signature", "digest")
_UNPROVEN = {
    TAMPERED: codes.POLICY_TAMPERED,
    ROLLBACK: codes.ROLLBACK,
    UNAVAILABLE: codes.UNAVAILABLE,
}
"""Codes of the API for a change that does not prove."""


def list_rules(call: Call[shapes.RulesQuery, Any]) -> Outcome:
    """All rules and what becomes of each at a check; a tenant sees those that may bind it."""
    engine = _engine(call.services)
    query = call.query
    found = [
        _rule_item(call, rule)
        for rule in listed(engine)
        if _sees(call, rule)
        and query.kind in (None, rule["kind"])
        and (rule["enabled"] or not query.enabled_only)
    ]
    epoch = ledger.newest_epoch(call.tx)
    return Outcome(
        shapes.RulesAnswer(count=len(found), rules=found, policy_epoch=epoch), rows=len(found)
    )


def show_rule(call: Call[Any, Any]) -> Outcome:
    """One rule."""
    return Outcome(_rule_answer(call, call.path["rule_id"]), rows=1, target=call.path["rule_id"])


def check_action(call: Call[Any, shapes.CheckBody]) -> Outcome:
    """Ask the rules about one action; the question is put on record, whatever the verdict."""
    gate, caller = _gate(call.services), call.caller
    action = call.body.model_dump(exclude={"task"}, exclude_none=True)
    namespace = "_global"
    task_id: TaskId | None = None
    installation = caller.installation
    if installation is not None:
        namespace = f"installation/{installation}"
    if call.body.task is not None:
        task = tasks.locate(call.tx, TaskId(call.body.task))
        hidden = task is None or caller.installation not in (None, task.installation_id)
        if task is None or hidden or not caller.sees(task.repo):
            raise not_found()
        installation, task_id = task.installation_id, task.id
        namespace = f"installation/{installation}/repo/{task.repo}/familiar/{task.familiar_id}"
    elif caller.repos:
        raise Problem(
            400, "task_required", "task: this token sees some repositories; name a task of them"
        )
    answer = ask(
        gate.engine,
        gate.recorder,
        gate.redactor(),
        action,
        Scope(Origin.TOOL, namespace, task_id),
        Asker(f"api:{caller.name}", "api.check", installation, task_id),
    )
    said = shapes.CheckAnswer.model_validate(answer.json())
    return Outcome(said, rows=1, target=answer.decision_id)


def add_rule(call: Call[Any, shapes.ChangeBody]) -> Outcome:
    """Add a rule that the operator signed elsewhere."""
    if call.body.row.revision != 1:
        raise Problem(409, codes.EPOCH_CONFLICT, "row.revision: a new rule begins at 1")
    return _accept(call, "governance.rule_added")


def change_rule(call: Call[Any, shapes.ChangeBody]) -> Outcome:
    """Enable, disable or re-sign a rule."""
    _require_same(call)
    how = "enabled" if call.body.row.enabled else "disabled"
    return _accept(call, f"governance.rule_{how}")


def remove_rule(call: Call[Any, shapes.ChangeBody]) -> Outcome:
    """Take a rule out for good; its row stays as a tombstone."""
    _require_same(call)
    if call.body.row.removed_at is None or call.body.row.enabled:
        raise Problem(
            422,
            codes.INVALID_MATCHER,
            "row.removed_at: a rule is removed by a disabled row with the time of its removal",
        )
    return _accept(call, "governance.rule_removed")


def list_escalations(call: Call[shapes.EscalationsQuery, Any]) -> Outcome:
    """What waits for a person, newest first."""
    query, tenant = call.query, call.one_installation()
    after = None
    if call.place:
        after = (datetime.fromisoformat(str(call.place[0])), str(call.place[1]))
    found = escalations.listed(tenant, call.tx, (query.status,), query.limit + 1, after=after)
    page = found[: query.limit]
    shown = [_escalation_item(each) for each in page if _sees_work(call, tenant, each)]
    return Outcome(
        shapes.EscalationsAnswer(escalations=shown),
        rows=len(shown),
        next=([page[-1].requested_at.isoformat(), page[-1].id] if len(found) > len(page) else None),
    )


def decide(call: Call[Any, shapes.DecisionBody]) -> Outcome:
    """Approve or deny one held action, as the operator of this server."""
    tenant = InstallationId(call.body.installation_id)
    name = call.path["escalation_id"]
    done = decide_escalation(
        call.services, tenant, name, call.body.decision == "approve", Decider(call.caller.name)
    )
    if done.refused is Refusal.UNKNOWN or done.escalation is None:
        raise not_found()
    if done.refused is Refusal.OVER:
        why = f"it is {done.escalation.status}; look at the newest ones"
        raise Problem(409, codes.ALREADY_DECIDED, why)
    if done.refused is not None:
        raise Problem(403, codes.SELF_APPROVAL, "somebody else has to decide this")
    return Outcome(
        shapes.EscalationAnswer(escalation=_escalation_item(done.escalation)),
        rows=1,
        target=done.escalation.id,
    )


def audit(call: Call[shapes.GovernanceAuditQuery, Any]) -> Outcome:
    """Rows of the signed record, oldest first, and its head; a tenant sees its own rows."""
    if call.caller.repos:
        raise Problem(
            403, "whole_installation", "rows tell of a whole installation; use a token that sees it"
        )
    query = call.query
    after = int(str(call.place[0])) if call.place else query.since
    if call.installation is not None:
        found = chain.of_installation(call.installation, call.tx, after, query.limit + 1)
    else:
        found = list(itertools.islice(chain.rows(call.tx, after), query.limit + 1))
    page = found[: query.limit]
    head = chain.head(call.tx)
    return Outcome(
        shapes.GovernanceAuditAnswer(
            rows=[shapes.AuditRow.model_validate(_hex(row)) for row in page],
            head=shapes.AuditHead(sequence=head[0], row_hash=head[1].hex()) if head else None,
        ),
        rows=len(page),
        next=[page[-1]["sequence"]] if len(found) > len(page) else None,
    )


def claims(services: Services) -> dict[str, bool | int | str | None]:
    """Exactly what is enforced here, where, and what is not: from the state of this moment."""
    settings = services.settings
    gate = services.rules
    if gate is None:
        return {
            "enabled": False,
            "mode": settings.governance.mode,
            "agent_action_check": "off",
            "rules_immutable_seed": False,
            "adapter_effects": "not enforced",
            "agent_tool_calls": "not enforced",
            "effects_of_allowed_programs": f"bounded only by the {settings.worker.backend} backend",
        }
    facts = status(gate.engine)
    trusted = bool(facts["ok"])
    tools = "enforced at the runtime's hook when the canary passed and hook rows reconcile"
    if settings.worker.backend == "host":
        tools += "; a session on the host backend can change its hook"
    return {
        "enabled": True,
        "mode": settings.governance.mode,
        "agent_action_check": "substrate-authoritative-for-internal-ops",
        "rules_immutable_seed": gate.engine.signed and trusted,
        "adapter_effects": "enforced in process at every listed call site",
        "agent_tool_calls": tools,
        "effects_of_allowed_programs": f"bounded only by the {settings.worker.backend} backend",
        "policy_trusted": trusted,
        "policy_epoch": facts["policy_epoch"],
        "rules_enforced": facts["rules_enforced"],
        "unsigned_mode": facts["unsigned_mode"],
    }


def _accept(call: Call[Any, shapes.ChangeBody], event_type: str) -> Outcome:
    gate, body = _gate(call.services), call.body
    row = body.row.model_dump() | {"enabled": int(body.row.enabled)}
    change = Change((_bytes(row),), _bytes(body.head.model_dump()), event_type)
    try:
        Admin(gate.engine, gate.recorder).accept_signed(change)
    except EpochConflict as error:
        raise Problem(409, error.code, f"{error}; read the rules again, then sign anew") from None
    except InvalidMatcher as error:
        raise Problem(422, codes.INVALID_MATCHER, str(error), field="row") from None
    except PolicyUnusable as error:
        raise Problem(409, _UNPROVEN.get(error.code, error.code), str(error)) from None
    return Outcome(_rule_answer(call, body.row.id), rows=1, target=body.row.id)


def _require_same(call: Call[Any, shapes.ChangeBody]) -> None:
    if call.body.row.id != call.path["rule_id"]:
        raise Problem(422, codes.INVALID_MATCHER, "row.id: is not the rule of the path")


def _rule_answer(call: Call[Any, Any], rule_id: str) -> shapes.RuleAnswer:
    engine = _engine(call.services)
    for rule in listed(engine):
        if rule["id"] == rule_id and _sees(call, rule):
            with engine.store.read() as tx:
                epoch = ledger.newest_epoch(tx)
            return shapes.RuleAnswer(rule=_rule_item(call, rule), policy_epoch=epoch)
    raise not_found()


def _rule_item(call: Call[Any, Any], rule: Mapping[str, Any]) -> shapes.RuleItem:
    values = dict(rule)
    if call.caller.installation is not None and rule["namespace"] == "_global":
        # The operator's rules may name places of this server; a tenant learns why, not where.
        values |= {"matcher": None, "examples": None, "signature": None}
    return shapes.RuleItem.model_validate(values)


def _sees(call: Call[Any, Any], rule: Mapping[str, Any]) -> bool:
    """Whether the rule may bind what this token sees."""
    tenant, namespace = call.caller.installation, str(rule["namespace"])
    if tenant is None or namespace == "_global":
        return True
    own = f"installation/{tenant}"
    if namespace == own:
        return True
    if not namespace.startswith(f"{own}/repo/"):
        return False
    repo = "/".join(namespace.removeprefix(f"{own}/repo/").split("/")[:2]).casefold()
    return not call.caller.repos or repo in {str(each).casefold() for each in call.caller.repos}


def _sees_work(call: Call[Any, Any], tenant: InstallationId, found: Escalation) -> bool:
    if not call.caller.repos:
        return True
    task = tasks.get(tenant, call.tx, found.task_id)
    return task is not None and call.caller.sees(task.repo)


def _engine(services: Services) -> Engine:
    if services.rules is not None:
        return services.rules.engine
    return Engine.of(services.settings, services.store, services.clock)


def _gate(services: Services) -> RulesGate:
    if services.rules is None:
        raise Problem(
            409,
            codes.OFF,
            "rules are switched off on this server; the operator sets governance.enabled = true",
        )
    return services.rules


def _escalation_item(found: Escalation) -> shapes.EscalationItem:
    values = {name: getattr(found, name) for name in shapes.EscalationItem.model_fields}
    return shapes.EscalationItem.model_validate(values | {"status": str(found.status)})


def _hex(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: bytes(value).hex() if isinstance(value, bytes | memoryview) else value
        for name, value in row.items()
    }


def _bytes(row: Row) -> Row:
    return row | {name: bytes.fromhex(row[name]) for name in _BINARY if name in row}


def refused(error: CovenError) -> Problem:
    """What a refusal of the rules looks like on any route of this API."""
    code = getattr(error, "code", None)
    if code == "GOVERNANCE_ESCALATED":
        return Problem(409, code, error.public)
    if isinstance(error, GovernanceRefused):
        return Problem(403, "GOVERNANCE_REFUSED", error.public)
    raise error
