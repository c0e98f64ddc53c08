"""How the decisions on a memory report are written down and shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coven.memory.policy import Grant
from coven.memory.validation import Judged, Kind

KEY = "memory"
"""Where the record stands in the stored result of a task."""


def record(grant: Grant | None, judged: Judged) -> dict[str, Any]:
    """The policy that was sent and every decision, for the task's stored result."""
    return {
        "policy": grant.policy.model_dump(mode="json", exclude_none=True) if grant else None,
        "writer": grant.writer.value if grant else None,
        "off": grant.why if grant else "no policy was sent",
        "judged_at": judged.at.isoformat(),
        "alarms": len(judged.alarms),
        "decisions": [
            {
                "kind": each.kind.value,
                "index": each.index,
                "target": each.target,
                "scope": each.scope,
                "accepted": each.accepted,
                "reason": each.reason.value if each.reason else None,
                # What is in the book stands there alone, where it can be taken out.
                "summary": each.summary if each.entry is None else None,
                "approval": each.approval,
                "alarm": each.alarm,
                "detail": each.detail,
                "entry": each.entry,
            }
            for each in judged.decisions
        ],
    }


def refusals(judged: Judged) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Per list of the report: how many were refused, and for which reasons, commonest first.

    The runtime's own refusals are not counted: it kept to the rules.
    """
    found = []
    for kind in (Kind.PROPOSED, Kind.READ):
        refused = judged.of(kind, accepted=False)
        reasons = Counter(each.reason.value for each in refused if each.reason)
        if refused:
            found.append((kind.value, len(refused), reasons.most_common()))
    return found
