"""What people read when a rule refused something, or wants a person to approve it.

Reasons are the operator's words and actions may come from anywhere: both are made harmless here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from coven.governance.refusal import Facts
from coven.markdown import cell, code_span, fenced, inline
from coven.texts import CheckText, Voice, Work, bullets, comment, more, paragraphs, title_line

REASON_CHARS = 300
NOTICES = 20
"""Refusals and warnings that a Check Run lists."""
_ACTION_BYTES = 1_000
OPERATOR = "the operator of this App"


def refused_title(facts: Facts) -> str:
    """Title of the Check Run."""
    if facts.rule_id.startswith("governance:"):
        return "Governance unavailable"
    return f"Blocked by governance: {facts.rule_id}"


def refused_why(facts: Facts) -> str:
    """One sentence, as Markdown."""
    if facts.rule_id.startswith("governance:"):
        code = code_span(facts.rule_id)
        return f"The rules of this server could not be asked or trusted ({code}), so nothing ran."
    return f"Rule {code_span(facts.rule_id)} refused this: {inline(facts.reason, REASON_CHARS)}"


def refused_next(facts: Facts) -> str:
    """Who can change it."""
    if facts.rule_id.startswith("governance:"):
        return (
            f"{OPERATOR} looks at `coven-github governance status`; then write the command again."
        )
    return (
        f"do it without this action, or ask {OPERATOR}, who alone can change rule "
        f"{code_span(facts.rule_id)}; then write the command again."
    )


def check_refused(voice: Voice, facts: Facts) -> CheckText:
    """Refused before, in or after the session: the work ends here."""
    return CheckText(
        title_line(refused_title(facts)),
        paragraphs(
            refused_why(facts), _record(facts), f"**Next:** {refused_next(facts)}", more(voice)
        ),
        _action(facts),
    )


def comment_refused(voice: Voice, work: Work, facts: Facts) -> str:
    """The same on the thread."""
    return comment(voice, work, "failed", refused_why(facts), f"**Next:** {refused_next(facts)}")


def reply_refused(facts: Facts) -> str:
    """The answer to a command that a rule stopped."""
    return paragraphs(refused_why(facts), f"**Next:** {refused_next(facts)}")


def check_escalated(
    voice: Voice,
    facts: Facts,
    escalation_id: str,
    expires_at: datetime,
    *,
    four_eyes: bool = False,
) -> CheckText:
    """The work waits until a person decides."""
    return CheckText(
        title_line(f"Waiting for approval: {facts.rule_id}"),
        paragraphs(
            escalated_why(facts),
            _record(facts),
            f"**Next:** {escalated_next(voice, escalation_id, expires_at, four_eyes=four_eyes)}",
            more(voice),
        ),
        _action(facts),
    )


def comment_escalated(
    voice: Voice,
    work: Work,
    facts: Facts,
    escalation_id: str,
    expires_at: datetime,
    *,
    four_eyes: bool = False,
) -> str:
    """The same on the thread."""
    step = escalated_next(voice, escalation_id, expires_at, four_eyes=four_eyes)
    return comment(voice, work, "needs input", escalated_why(facts), f"**Next:** {step}")


def escalated_why(facts: Facts) -> str:
    """One sentence, as Markdown."""
    return (
        f"Rule {code_span(facts.rule_id)} wants a person to approve one action: "
        f"{inline(facts.reason, REASON_CHARS)}"
    )


def escalated_next(
    voice: Voice, escalation_id: str, expires_at: datetime, *, four_eyes: bool = False
) -> str:
    """How to decide, who may, and until when."""
    who = "somebody with write access"
    if four_eyes:
        who += ", but not whoever gave the command,"
    approve = code_span(f"@{voice.handle} approve {escalation_id}")
    deny = code_span(f"@{voice.handle} deny {escalation_id}")
    return (
        f"{who} comments {approve} or {deny} until "
        f"{expires_at:%Y-%m-%d %H:%M} UTC. The approval is for exactly this action, once."
    )


def approved_title(rule_id: str) -> str:
    """Title of the Check Run that waited; the work goes on in a new one."""
    return title_line(f"Approved: {rule_id}")


def approved_why(escalation_id: str, rule_id: str, by: str | None) -> str:
    """What its summary begins with, as Markdown."""
    person = inline(by or "somebody", 60)
    return (
        f"{code_span(escalation_id)} (rule {code_span(rule_id)}) was approved by {person}. "
        "The work goes on in a new Check Run."
    )


def approved_line(escalation_id: str, rule_id: str) -> str:
    """Answer to an approval."""
    return (
        f"{code_span(escalation_id)} is approved: the action that rule {code_span(rule_id)} "
        "stopped may happen once. The work goes on."
    )


def denied_line(escalation_id: str, rule_id: str) -> str:
    """Answer to a denial."""
    return (
        f"{code_span(escalation_id)} is denied: the action that rule {code_span(rule_id)} "
        "stopped does not happen, and the work ends."
    )


def not_decided_line(escalation_id: str, status: str | None) -> str:
    """Answer to a decision that came too late, or names nothing of this repository."""
    name = code_span(escalation_id[:20])
    if status is None:
        return f"There is no such escalation here: {name}."
    return f"{name} can't be answered any more: it is {status}."


def own_decision_line(escalation_id: str) -> str:
    """Answer to somebody who may not approve what their own command caused."""
    return (
        f"{code_span(escalation_id)} was not approved: whoever gave the command can't approve "
        "what it leads to here. Somebody else with write access can."
    )


def denied_why(escalation_id: str, rule_id: str, by: str | None) -> str:
    """Why the work ended, as Markdown."""
    person = inline(by or "somebody", 60)
    return f"{code_span(escalation_id)} (rule {code_span(rule_id)}) was denied by {person}."


def denied_next() -> str:
    """What can be done."""
    return "ask for it without this action, or talk to whoever denied it."


@dataclass(frozen=True, slots=True)
class Notice:
    """A verdict that people should know of. All of it may come from a session."""

    verdict: str
    at: str
    """The tool, or the place in our own code."""
    rule_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordView:
    """What the record says about one piece of work."""

    counts: tuple[tuple[str, int], ...] = ()
    """How often each verdict was given."""
    notices: tuple[tuple[Notice, int], ...] = ()
    """All but plain permissions, oldest first, and how often."""
    incomplete: str | None = None
    whole: bool = True
    """Whether all of the work's rows were read."""
    record: str | None = None
    """Where the chain stands: an anchor."""

    @property
    def held_back(self) -> bool:
        """Whether something that the work wanted did not happen."""
        return any(notice.verdict in ("refuse", "escalate", "ask") for notice, _ in self.notices)


_VERDICTS = {
    "allow": "allowed",
    "warn": "allowed with a warning",
    "modify": "rewritten",
    "approved": "approved by a person",
    "exempt": "done to show this",
    "escalate": "held for a person",
    "ask": "refused",
    "refuse": "refused",
}


def section(view: RecordView) -> str:
    """The section of a completed Check Run, as Markdown."""
    counted = [f"{number} {_VERDICTS.get(name, 'unclear')}" for name, number in view.counts]
    least = "" if view.whole else ", and older ones"
    lines = [f"Actions: {', '.join(counted) or 'none'}{least}."]
    if view.incomplete:
        lines.append(
            "`governance_incomplete`: the session's own list of its tool calls has a fault, so "
            f"calls may be missing here ({inline(view.incomplete, REASON_CHARS)})."
        )
    if view.record:
        lines.append(f"Audit record: {code_span(view.record)}")
    rows = [
        f"| {_VERDICTS.get(notice.verdict, 'unclear')}{f' ({times} times)' if times > 1 else ''} "
        f"| {cell(notice.at, 60)} | {cell(notice.rule_id, 80)} "
        f"| {cell(notice.reason, REASON_CHARS)} |"
        for notice, times in view.notices[:NOTICES]
    ]
    table = None
    if rows:
        table = "\n".join(["| verdict | at | rule | reason |", "| --- | --- | --- | --- |", *rows])
    left = len(view.notices) - NOTICES
    rest = f"And {left} more in the audit record." if left > 0 else None
    return paragraphs("### Governance", "\n".join(f"- {line}" for line in lines), table, rest)


def _record(facts: Facts) -> str:
    found = bullets(
        "On record",
        [
            f"Action: {code_span(facts.kind)}",
            f"Decision: {code_span(facts.decision_id)}",
            f"Policy: epoch {facts.policy_epoch}",
            f"Audit record: {code_span(facts.record)}",
        ],
        safe=True,
    )
    return found or ""


def _action(facts: Facts) -> str:
    return paragraphs("What was about to happen:", fenced(facts.action, _ACTION_BYTES))
