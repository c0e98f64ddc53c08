"""Pure parts of follow-ups: the text of findings, and which work ``retry`` means."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coven.store.tasks import Task
from coven.values import Lane, TaskId, TaskState
from webhooks.followups import FINDINGS, findings_text, last_session

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def task(**changes: Any) -> Task:
    values: dict[str, Any] = {field.name: None for field in fields(Task)}
    values |= {
        "id": TaskId("0" * 32),
        "lane": Lane.FIX,
        "familiar_id": "cody",
        "state": TaskState.COMPLETED,
        "head_sha": "a" * 40,
    }
    return Task(**(values | changes))


def finding(number: int) -> dict[str, Any]:
    return {"severity": "low", "file": "a.py", "line": number, "title": "T", "body": "x" * 9_000}


def test_findings_are_numbered_bounded_and_the_rest_is_counted() -> None:
    many = [finding(n) for n in range(1, FINDINGS + 4)]
    text = findings_text(task(result={"review": {"findings": many}}))
    assert text.startswith(f"Fix these findings of the review of {'a' * 40}:")
    assert f"{FINDINGS}. [low] a.py:{FINDINGS} T" in text
    assert "… and 3 more" in text
    assert len(text) < FINDINGS * 1_700


@given(JSON)
@settings(deadline=None, max_examples=60)
def test_a_stored_result_of_any_shape_is_read(odd: Any) -> None:
    for result in ({"review": odd}, {"review": {"findings": odd}}, {"review": {"findings": [odd]}}):
        assert isinstance(findings_text(task(result=result)), str)
    assert findings_text(task(result=None)) == ""


def test_retry_means_the_newest_ended_work_of_the_same_familiar() -> None:
    live = task(id=TaskId("1" * 32), state=TaskState.RUNNING)
    answer = task(id=TaskId("2" * 32), lane=Lane.CONTROL)
    other = task(id=TaskId("3" * 32), familiar_id="nova")
    wanted = task(id=TaskId("4" * 32), state=TaskState.SUPERSEDED)
    older = task(id=TaskId("5" * 32))
    assert last_session([live, answer, other, wanted, older], "cody") == wanted
    assert last_session([live, answer], "cody") is None
