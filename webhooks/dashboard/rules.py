"""Agent-action rules: what binds, what waits for a person, and whether the record holds."""

from __future__ import annotations

from typing import Any

from coven.api_tokens import TokenScope
from coven.errors import CovenError
from coven.escalating import Decider, Refusal, decide_escalation
from coven.governance import admin, audit
from coven.governance.gate import RulesGate
from coven.governance.world import Scope
from coven.store import chain, dashboard, escalations
from coven.store.engine import Tx
from coven.store.escalations import Escalation, Status
from webhooks.api.problems import Problem
from webhooks.dashboard.asking import Ask, Done, Page, Shown, not_here
from webhooks.dashboard.rendering import url

PROVEN_ROWS = 200
"""So many rows of the record are proven while the page is made; the command proves all."""
OLD = 30
MAX_ACTION = 8_000
EXAMPLE = '{"kind": "bash", "command": "git push --force origin main"}'
_OVER = (Status.APPROVED, Status.DENIED, Status.EXPIRED, Status.CANCELLED, Status.CONSUMED)


def show(ask: Ask, tx: Tx) -> Shown:
    """Escalations for whoever may see their work; rules and record for operators."""
    return _page(ask, tx)


def attempt(ask: Ask, tx: Tx) -> Shown:
    """What the rules would say about an action. Nothing happens and nothing is recorded of it."""
    rules = _rules(ask)
    text = ask.form.get("action", "")[:MAX_ACTION]
    decision = rules.engine.decide(text, Scope())
    return _page(
        ask,
        tx,
        tried=text,
        verdict={**decision.json(), "matched": decision.matched_json()},
    )


def approve(ask: Ask) -> Done:
    """Let the action happen once."""
    return _decide(ask, approve=True)


def deny(ask: Ask) -> Done:
    """Refuse the action."""
    return _decide(ask, approve=False)


def may_decide(ask: Ask) -> bool:
    """Operators' tokens, and people whom GitHub has just given write access here."""
    person = ask.caller.person
    by_github = person is not None and person.id is not None
    return ask.may(TokenScope.ADMIN) or (by_github and ask.may(TokenScope.MEMORY_WRITE))


def _decide(ask: Ask, *, approve: bool) -> Done:
    if not may_decide(ask):
        raise Problem(403, "scope_missing", "Deciding about actions needs the scope admin here.")
    found = _escalation(ask)
    person = ask.caller.person
    login = person.login if person is not None else ask.caller.name
    decider = Decider(login, person.id if person is not None else None)
    try:
        done = decide_escalation(ask.services, found.installation_id, found.id, approve, decider)
    except CovenError as error:
        raise Problem(503, "not_recorded", f"It can't be written down: {error}") from None
    if done.refused is Refusal.UNKNOWN:
        raise not_here()
    if done.refused is not None:
        raise Problem(409, done.refused.value, _REFUSED.get(done.refused, "It stays as it is."))
    word = "may happen once; the work goes on" if approve else "is denied; the work ends"
    where = url("rules", installation_id=ask.query.get("installation_id"))
    return Done(where, f"{found.id} {word}.", found.id, owner=found.installation_id)


_REFUSED = {
    Refusal.OVER: "It was decided before, or its time is over; look at the list again.",
    Refusal.SELF_APPROVAL: "Whoever gave the command can't approve what it leads to; "
    "ask somebody else.",
    Refusal.BOT: "Bots decide nothing.",
}


def _escalation(ask: Ask) -> Escalation:
    with ask.services.store.read() as tx:
        wanted = ask.path["escalation_id"]
        if ask.installation is not None:
            found = escalations.get(ask.installation, tx, wanted)
            listed = [found] if found is not None else []
            if ask.caller.repos and found is not None:
                listed = dashboard.asked(
                    ask.installation, tx, [Status.PENDING], ask.caller.repos, limit=500
                )
        else:
            listed = dashboard.asked(None, tx, [Status.PENDING], limit=500)
        for each in listed:
            if each.id == wanted:
                return each
    raise not_here()


def _page(ask: Ask, tx: Tx, **more: Any) -> Shown:
    view, within = ask.installation, ask.caller.repos
    waiting = dashboard.asked(view, tx, [Status.PENDING], within)
    decided = dashboard.asked(view, tx, _OVER, within, limit=OLD)
    tasks = dashboard.named(view, tx, [each.task_id for each in (*waiting, *decided)])
    facts: dict[str, Any] = {"rules": [], "status": None, "record": None}
    if ask.access.is_operator and ask.services.rules is not None:
        facts = _state(ask.services.rules, tx)
    return Shown(
        "rules.html",
        {
            "title": "Rules",
            "section": "rules",
            "is_on": ask.services.rules is not None,
            "waiting": waiting,
            "decided": decided,
            "named": tasks,
            "may_decide": may_decide(ask),
            "tried": EXAMPLE,
            "verdict": None,
        }
        | facts
        | more,
        rows=len(waiting) + len(decided) + len(facts["rules"]),
    )


def _state(gate: RulesGate, tx: Tx) -> dict[str, Any]:
    """Rules with what becomes of them, and the newest rows of the record, proven."""
    try:
        listed = admin.listed(gate.engine)
        status = admin.status(gate.engine)
    except (CovenError, ValueError) as error:
        return {"rules": [], "status": {"ok": False, "problem": str(error)}, "record": None}
    head = chain.head(tx)
    since = max(head[0] - PROVEN_ROWS, 0) if head else 0
    keys = gate.engine.keys.public_keys("service")
    rows = chain.rows(tx, since, head[0] if head else None)
    report = audit.verify(rows, head, keys, since=since)
    return {"rules": listed, "status": status, "record": report}


def _rules(ask: Ask) -> RulesGate:
    if ask.services.rules is None:
        raise Problem(409, "off", "The rules are switched off (governance.enabled).")
    return ask.services.rules


PAGES = (
    Page(path="/rules", name="rules", view=show),
    Page(
        path="/rules/try",
        name="rules_try",
        view=attempt,
        method="POST",
        scope=TokenScope.ADMIN,
        operators=True,
    ),
    *(
        Page(
            path=f"/rules/escalations/<escalation_id>/{word}",
            name=f"escalation_{word}",
            view=view,
            method="POST",
            alone=True,
        )
        for word, view in (("approve", approve), ("deny", deny))
    ),
)
