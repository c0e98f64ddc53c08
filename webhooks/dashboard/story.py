"""The story of a task from the rows of several ledgers. Pure; forgives rows of any shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coven.store.attempts import Attempt
from coven.store.deliveries import Delivery
from coven.store.escalations import Escalation
from coven.store.surfaces import Surface
from coven.store.tasks import Task

MOST_FINDINGS = 300


@dataclass(frozen=True, slots=True)
class Moment:
    """One point of the timeline."""

    at: datetime
    what: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding as the run gave it; ``shown`` says whether GitHub shows it."""

    severity: str
    place: str
    title: str
    body: str
    shown: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a result, and how many each gate kept back."""

    found: tuple[Finding, ...] = ()
    withheld: tuple[tuple[str, int], ...] = ()
    known: bool = True
    """False for results from before it was stored which ones are shown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row of the audit chain about this task."""

    sequence: int
    at: str
    event: str
    verdict: str
    rule: str
    reason: str
    action: str


def moments(
    task: Task,
    came: Delivery | None,
    tries: Sequence[Attempt],
    shown: Sequence[Surface],
    asked: Sequence[Escalation],
) -> list[Moment]:
    """From the delivery to what GitHub shows, in the order of time."""
    found: list[Moment | None] = []
    if came is not None:
        found.append(Moment(came.received_at, f"Delivery {came.event}", came.action or ""))
    found.append(Moment(task.created_at, "Task wanted", task.reason))
    for each in tries:
        found.append(Moment(each.started_at, f"Attempt {each.number} began", each.worker))
        if each.finished_at is not None:
            text = f"Attempt {each.number} ended: {each.outcome or 'unknown'}"
            found.append(Moment(each.finished_at, text, (each.detail or "")[:300]))
    for one in asked:
        found.append(Moment(one.requested_at, f"Escalation {one.id} opened", one.rule_id))
        if one.decided_at is not None:
            by = f"by {one.decided_by}" if one.decided_by else ""
            found.append(Moment(one.decided_at, f"Escalation {one.id}: {one.status}", by))
    if task.cancel_requested_at is not None:
        found.append(Moment(task.cancel_requested_at, "End asked for", task.cancel_reason or ""))
    for surface in shown:
        if surface.published_at is not None:
            what = surface.kind.replace("_", " ")
            found.append(Moment(surface.published_at, f"GitHub shows the {what}"))
    if task.finished_at is not None:
        found.append(Moment(task.finished_at, f"Task {task.state}", task.outcome or ""))
    return sorted((each for each in found if each is not None), key=lambda each: each.at)


def findings_of(result: object) -> Findings:
    """What a stored result says about findings."""
    stored = result if isinstance(result, Mapping) else {}
    review = stored.get("review")
    listed = review.get("findings") if isinstance(review, Mapping) else None
    marks = stored.get("shown")
    known = isinstance(marks, list)
    places = {
        (_text(mark, "path"), _text(mark, "title"))
        for mark in (marks if isinstance(marks, list) else ())
        if isinstance(mark, Mapping)
    }
    found = [
        _finding(each, places, known)
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, Mapping)
    ]
    withheld = stored.get("withheld")
    counts = withheld.items() if isinstance(withheld, Mapping) else ()
    return Findings(
        tuple(found[:MOST_FINDINGS]),
        tuple(
            (str(gate), int(count)) for gate, count in counts if isinstance(count, int) and count
        ),
        known,
    )


def _finding(each: Mapping[str, Any], shown: set[tuple[str, str]], known: bool) -> Finding:
    line = each.get("line")
    path, title = _text(each, "file"), _text(each, "title")
    return Finding(
        _text(each, "severity") or "unknown",
        f"{path}:{line}" if line else path,
        title,
        _text(each, "body"),
        not known or (path, title) in shown,
    )


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """A row of the chain; one whose payload is gone or damaged says so."""
    payload = _parsed(row.get("payload"))
    decision = payload.get("decision")
    decided = decision if isinstance(decision, Mapping) else {}
    action = payload.get("action")
    about = {k: v for k, v in payload.items() if k != "nonce"}
    shown = json.dumps(action if action is not None else about, ensure_ascii=False, default=str)
    return Verdict(
        int(row.get("sequence") or 0),
        str(row.get("timestamp") or ""),
        str(row.get("event_type") or ""),
        _text(decided, "verdict") or _text(decided, "decision"),
        _text(decided, "rule_id") or _text(payload, "rule_id"),
        _text(decided, "reason"),
        shown[:600] if payload else "the payload is not kept any more, or can't be read",
    )


def _parsed(text: object) -> Mapping[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return "" if value is None else str(value)
