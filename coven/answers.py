"""Questions of a familiar and the answers of people, as a task carries them. Pure.

Written by the receiver or, when the answerer's rights had to be looked up, by the worker; read
where the brief is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coven.store.task_rows import Task

MAX_ANSWERS = 5
"""Rounds of question and answer that a task remembers."""
QUESTION_CHARS = 4_000
ANSWER_CHARS = 16_384
WAITING_FOR_ANSWER = "answer"

Json = dict[str, Any]


def with_answer(
    task: Task, text: str, by: str | None, comment_id: int | None, clean: Callable[[str], str]
) -> Json:
    """The task's payload with one more answer; ``clean`` redacts."""
    answers = [entry for entry in task.payload.get("answers", []) if isinstance(entry, dict)]
    answers.append(
        {
            "question": clean(task.summary or "")[:QUESTION_CHARS],
            "answer": clean(text)[:ANSWER_CHARS],
            "by": by or "",
            "comment_id": comment_id,
        }
    )
    return task.payload | {"answers": answers[-MAX_ANSWERS:]}


def was_given(task: Task, comment_id: int) -> bool:
    """Whether this very comment answered this task before."""
    return any(
        isinstance(entry, dict) and entry.get("comment_id") == comment_id
        for entry in task.payload.get("answers", [])
    )


def answers_of(task: Task) -> list[tuple[str, str]]:
    """(question, answer), oldest first."""
    found = []
    for entry in task.payload.get("answers", []):
        if isinstance(entry, dict):
            found.append((str(entry.get("question", "")), str(entry.get("answer", ""))))
    return found
