"""The request bodies of a Check Run, without any request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.publication import Annotation, CheckAction, CheckRunContent
from worker.publish.check_run import Shown, Times, plan

TIMES = Times(datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC))
QUEUED = Shown()


def content(**changes: Any) -> CheckRunContent:
    base = {
        "name": "Cody / review",
        "head_sha": "a" * 40,
        "external_id": "t:1",
        "status": "completed",
        "conclusion": "success",
        "title": "Fine",
        "summary": "All well.",
    }
    return CheckRunContent.model_validate(base | changes)


def marks(count: int) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(path="a", start_line=n, end_line=n, level="notice", title="t", message="m")
        for n in range(1, count + 1)
    )


def test_a_queued_run_is_created_with_its_names_and_nothing_else() -> None:
    (body,) = plan(content(status="queued", conclusion=None), None, TIMES)
    assert body == {
        "name": "Cody / review",
        "head_sha": "a" * 40,
        "external_id": "t:1",
        "status": "queued",
        "output": {"title": "Fine", "summary": "All well."},
    }


def test_a_completed_run_says_when_and_how() -> None:
    action = CheckAction(identifier="fix", label="Fix this", description="Open a draft")
    (body,) = plan(content(actions=(action,) * 5), QUEUED, TIMES)
    assert (body["status"], body["conclusion"]) == ("completed", "success")
    assert body["started_at"] == "2026-01-01T10:00:00Z"
    assert body["completed_at"] == "2026-01-01T11:00:00Z"
    assert len(body["actions"]) == 3
    assert "name" not in body


def test_a_completed_run_gets_new_words_but_no_new_state() -> None:
    closed = Shown(completed=True, conclusion="success")
    (same,) = plan(content(title="Other words"), closed, TIMES)
    assert set(same) == {"output", "actions"}
    (working,) = plan(content(status="in_progress", conclusion=None), closed, TIMES)
    assert set(working) == {"output"}
    (other,) = plan(content(conclusion="failure"), closed, TIMES)
    assert (other["status"], other["conclusion"]) == ("completed", "failure")


def test_an_end_before_the_beginning_is_moved() -> None:
    assert TIMES.started_at is not None
    times = Times(TIMES.started_at, datetime(2026, 1, 1, 9, tzinfo=UTC))
    (body,) = plan(content(), QUEUED, times)
    assert body["completed_at"] == body["started_at"]


@given(st.integers(0, 160), st.integers(0, 200), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_batches_carry_exactly_what_is_missing(
    wanted: int, posted: int, exists: bool, completed: bool
) -> None:
    there = Shown(completed=completed, conclusion="success", annotations=posted) if exists else None
    steps = plan(content(annotations=marks(wanted)), there, TIMES)
    sent = [a["start_line"] for body in steps for a in body["output"].get("annotations", [])]
    assert sent == list(range((posted if exists else 0) + 1, wanted + 1))
    assert all(len(body["output"].get("annotations", [])) <= 50 for body in steps)
    finishing = [index for index, body in enumerate(steps) if body.get("status") == "completed"]
    reopening = [body for body in steps if body.get("status") == "in_progress"]
    if exists and completed:
        assert not finishing
        assert not reopening
    else:
        assert finishing == [len(steps) - 1]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_open_run_is_never_given_a_conclusion(status: str) -> None:
    for there in (None, QUEUED):
        for body in plan(content(status=status, conclusion=None), there, TIMES):
            assert "conclusion" not in body
            assert "completed_at" not in body
