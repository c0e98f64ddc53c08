"""When two wishes are the same work: the semantic key, unique among live tasks of a tenant. Pure.

The receiver writes these, and the worker that queues a head which nobody else has.
"""

from __future__ import annotations

from coven.values import RepoId, TaskId


def asked_work(verb: str, repo_id: RepoId, thread: int, familiar_id: str) -> str:
    """Work that somebody asked for: one of a kind, per thread and familiar."""
    key = f"{verb}:{repo_id}:{thread}:{familiar_id}"
    # Apart from the automatic reviews, which must not stand in its way.
    return f"{key}:cmd" if verb == "review" else key


def automatic_review(repo_id: RepoId, thread: int, familiar_id: str, head_sha: str) -> str:
    """A review that nobody asked for: one per head, so that a stopping one blocks no newer."""
    return f"review:{repo_id}:{thread}:{familiar_id}:{head_sha}"


def control(repo_id: RepoId, comment_id: int | None) -> str:
    """One answer per comment."""
    return f"control:{repo_id}:{comment_id}"


def answer(repo_id: RepoId, comment_kind: str, comment_id: int) -> str:
    """The handing over of one person's answer."""
    return f"answer:{repo_id}:{comment_kind}:{comment_id}"


def memory_click(repo_id: RepoId, external_id: str) -> str:
    """The memory button of one Check Run."""
    return f"mem_approve:{repo_id}:{external_id}"


def escalation_click(wanted: str, repo_id: RepoId, external_id: str) -> str:
    """One of the two buttons of a Check Run that waits for a decision."""
    return f"{wanted}:{repo_id}:{external_id}"


def behind(key: str, holder: TaskId) -> str:
    """The same work once more, behind ``holder``, which was told to stop and has not ended yet."""
    return f"{key}:{holder[:8]}"
