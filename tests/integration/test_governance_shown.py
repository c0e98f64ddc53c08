"""What a completed Check Run says about the rules."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coven import governance_shown
from coven.governance.audit import Event
from coven.publication import CheckRunContent
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.store.tasks import Task
from coven.surfacing import Surfacing
from coven.values import Conclusion, SurfaceKind
from tests.ledger import TENANT, look, put
from tests.support.governance import Office, office

AT = datetime(2026, 1, 1, tzinfo=UTC)


def verdict(decision: str, rule: str = "R1", **more: Any) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {"decision": decision}
    if decision != "allow":
        found |= {"rule_id": rule, "reason": "not | here `x`\n# @somebody"}
    return "governance.check", {"action": {}, "decision": found, "point": "git.spawn", **more}


def shown(
    desk: Office, task: Task, rows: list[tuple[str, dict[str, Any]]], **content: Any
) -> CheckRunContent:
    desk.gate.recorder.commit(
        [
            Event(kind, {**payload, "nonce": "n"}, "adapter", task.id, TENANT)
            for kind, payload in rows
        ],
        AT,
    )
    values: dict[str, Any] = {
        "name": "Cody", "head_sha": "a" * 40, "external_id": "x", "status": "completed",
        "conclusion": Conclusion.SUCCESS, "title": "Done", "summary": "All good.",
    } | content  # fmt: skip
    given = Surfacing(SurfaceKind.CHECK_RUN, "task:x:1", CheckRunContent.model_validate(values))
    with desk.store.read() as tx:
        [found] = governance_shown.completed(desk.settings, tx, task, [given])
    assert isinstance(found.content, CheckRunContent)
    return found.content


@pytest.fixture
def desk(sqlite_store: Store, tmp_path: Path) -> Office:
    return office(sqlite_store, tmp_path)


@pytest.fixture
def task(desk: Office) -> Task:
    return look(desk.store, put(desk.store))


def test_counts_notices_and_the_anchor_stand_below_the_summary(desk: Office, task: Task) -> None:
    rows = [
        *[verdict("allow")] * 3, verdict("warn", "R110", tool="Bash"),
        verdict("refuse", "R101", tool="Write"), verdict("refuse", "R101", tool="Write"),
        verdict("escalate", "R108", approved="E-00000000"), verdict("refuse", "R9", exempt="shown"),
    ]  # fmt: skip
    found = shown(desk, task, rows)
    summary = found.whole_summary
    assert summary.startswith("All good.\n\n### Governance\n\n")
    assert (
        "Actions: 3 allowed, 1 allowed with a warning, 2 refused, 1 approved by a person, "
        "1 done to show this."
    ) in summary
    head = desk.events()[-1]
    assert f"`{head['sequence']}:{bytes(head['row_hash']).hex()[:16]}`" in summary
    table = [line for line in summary.splitlines() if line.startswith("| ")][2:]
    assert [line.split(" | ")[0].strip("| ") for line in table] == [
        "allowed with a warning", "refused (2 times)", "approved by a person",
    ]  # fmt: skip
    assert "\n# @somebody" not in summary
    assert "incomplete" not in summary
    assert found.conclusion == Conclusion.SUCCESS


def test_no_more_than_twenty_notices_are_listed(desk: Office, task: Task) -> None:
    found = shown(desk, task, [verdict("refuse", f"R{n}") for n in range(25)])
    assert found.whole_summary.count("\n| refused ") == 20
    assert "And 5 more in the audit record." in found.whole_summary


def test_a_journal_with_a_fault_is_said(desk: Office, task: Task) -> None:
    found = shown(desk, task, [("governance.hook_incomplete", {"problem": "cut off"})])
    assert "`governance_incomplete`" in found.whole_summary
    assert "cut off" in found.whole_summary


@pytest.mark.parametrize(
    ("rows", "ended"),
    [
        ([verdict("refuse")], Conclusion.NEUTRAL),
        ([verdict("warn")], Conclusion.SUCCESS),
        ([verdict("escalate", approved="E-00000000")], Conclusion.SUCCESS),
    ],
    ids=["refused", "warned", "approved"],
)
def test_strict_conclusions_are_neutral_when_something_was_refused(
    sqlite_store: Store, tmp_path: Path, rows: Any, ended: Conclusion
) -> None:
    desk = office(sqlite_store, tmp_path, strict_conclusion=True)
    task = look(desk.store, put(desk.store))
    assert shown(desk, task, rows).conclusion == ended


def test_a_running_check_and_a_server_without_rules_say_nothing(desk: Office, task: Task) -> None:
    assert shown(desk, task, [], status="in_progress", conclusion=None).rules is None
    plain = Settings()
    with desk.store.read() as tx:
        assert governance_shown.completed(plain, tx, task, []) == []
