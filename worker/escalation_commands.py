"""``approve E-…``, ``deny E-…`` and their buttons: maintainers decide about one held action.

Each runs inside the transaction that also ends the command (:mod:`worker.decisions`), by somebody
who was just seen to have write access.
"""

from __future__ import annotations

from collections.abc import Mapping

from coven import texts_governance as texts
from coven.escalating import Decided, Decider, Grounds, Refusal, decide_in
from coven.publication import CheckRunContent
from coven.store import surfaces
from coven.store.engine import Tx
from coven.values import SurfaceKind
from worker.decisions import Act, Command, Line, Said

APPROVE_CLICK = "gov_approve"
DENY_CLICK = "gov_deny"


def decide(command: Command, tx: Tx, name: str, approve: bool) -> Line:
    """Approve or deny one escalation by its id."""
    decided = _decide(command, tx, name, approve)
    text = _line(name, decided, approve)
    return Line(text, good=decided.done, ring=decided.ring, wake=decided.wake)


def clicked(command: Command, tx: Tx) -> Said:
    """A button: the one escalation that this Check Run offers, and no other."""
    run = str(command.task.payload.get("check_run", ""))
    task = command.task
    shown = surfaces.find(
        task.installation_id, tx, task.repo_id, SurfaceKind.CHECK_RUN, f"task:{run}"
    )
    if shown is None:
        return Said(None, good=False)
    offer = CheckRunContent.model_validate(shown.desired).escalation
    if offer is None:
        return Said(None, good=False)
    decided = _decide(command, tx, offer, command.verb == APPROVE_CLICK)
    return Said(None, good=decided.done, ring=decided.ring, wake=decided.wake)


def _decide(command: Command, tx: Tx, name: str, approve: bool) -> Decided:
    task = command.task
    by = Decider(command.by.login, command.by.id)
    return decide_in(
        Grounds.of(command.services),
        task.installation_id,
        tx,
        name,
        approve,
        by,
        repo_id=task.repo_id,
    )


def _line(name: str, decided: Decided, approve: bool) -> str:
    found = decided.escalation
    if found is None:
        # Also for what belongs to somebody else, of which nothing may be said.
        return texts.not_decided_line(name, None)
    if decided.refused is Refusal.SELF_APPROVAL:
        return texts.own_decision_line(found.id)
    if decided.refused is not None:
        return texts.not_decided_line(found.id, str(found.status))
    line = texts.approved_line if approve else texts.denied_line
    return line(found.id, found.rule_id)


ACTS: Mapping[str, Act] = {APPROVE_CLICK: clicked, DENY_CLICK: clicked}
"""What the two buttons do, by verb."""
