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

Json = dict[str, Any]


def with_answer(
    task: Task, text: str, by: str | None, comment_id: int | None, clean: Callable[[str], str]
) -> Json:
    """The task's payload with one more answer; ``clean`` redacts."""
    answers = _entries(task)
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
    return any(entry.get("comment_id") == comment_id for entry in _entries(task))


def answers_of(task: Task) -> list[tuple[str, str]]:
    """(question, answer), oldest first."""
    return [
        (str(entry.get("question", "")), str(entry.get("answer", ""))) for entry in _entries(task)
    ]


def _entries(task: Task) -> list[Json]:
    kept = task.payload.get("answers")
    return [entry for entry in kept if isinstance(entry, dict)] if isinstance(kept, list) else []
