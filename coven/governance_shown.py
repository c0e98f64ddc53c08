"""What the record says about a piece of work, on its completed Check Run. Reads, writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from coven import texts_governance as texts
from coven.governance.strict_json import JsonRefused, loads
from coven.publication import CheckRunContent
from coven.settings.models import Settings
from coven.store import chain
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.surfacing import Surfacing
from coven.texts_governance import Notice, RecordView
from coven.values import Conclusion

READ = 2_000
"""How many of a task's newest rows are read."""


def completed(
    settings: Settings, tx: Tx, task: Task, wanted: Iterable[Surfacing]
) -> list[Surfacing]:
    """The surfaces, with a section about the rules on every completed Check Run."""
    wanted = list(wanted)
    if not settings.governance.active:
        return wanted
    found = []
    for each in wanted:
        content = each.content
        if isinstance(content, CheckRunContent) and content.status == "completed":
            view = view_of(tx, task)
            update: dict[str, object] = {"rules": texts.section(view)}
            strict = settings.governance.strict_conclusion and view.held_back
            if strict and content.conclusion == Conclusion.SUCCESS:
                update["conclusion"] = Conclusion.NEUTRAL
            each = replace(each, content=content.model_copy(update=update))
        found.append(each)
    return found


def view_of(tx: Tx, task: Task) -> RecordView:
    """The verdicts of one task, and where the record stands."""
    rows = chain.of_task(task.installation_id, tx, task.id, READ)
    head = chain.head(tx)
    counts: Counter[str] = Counter()
    notices: dict[Notice, int] = {}
    incomplete = None
    for row in reversed(rows):
        value = _payload(row["payload"])
        if row["event_type"] == "governance.hook_incomplete":
            incomplete = str(value.get("problem") or "verdicts are missing")
        if row["event_type"] != "governance.check":
            continue
        decision = value.get("decision")
        decision = decision if isinstance(decision, dict) else {}
        verdict = str(decision.get("decision") or "unknown")
        if value.get("exempt"):
            verdict = "exempt"
        elif verdict == "escalate" and (value.get("approved") or value.get("approved_by")):
            verdict = "approved"
        counts[verdict] += 1
        if verdict not in ("allow", "exempt"):
            notice = Notice(
                verdict,
                str(value.get("tool") or value.get("point") or ""),
                str(decision.get("rule_id") or ""),
                str(decision.get("reason") or ""),
            )
            notices[notice] = notices.get(notice, 0) + 1
    return RecordView(
        counts=tuple(counts.items()),
        notices=tuple(notices.items()),
        incomplete=incomplete,
        whole=len(rows) < READ,
        record=f"{head[0]}:{head[1].hex()[:16]}" if head else None,
    )


def _payload(text: str | None) -> dict[str, object]:
    try:
        value = loads(text or "{}")
    except JsonRefused:
        return {}
    return dict(value) if isinstance(value, dict) else {}
