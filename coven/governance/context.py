"""For whom this process acts right now: set around the work, read by the gate.

It comes from a task's record, never from what is being asked. Threads of a pool don't inherit it:
hand them :func:`contextvars.copy_context` when they act for the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from coven.values import InstallationId, RepoId, TaskId

GLOBAL = "_global"


@dataclass(frozen=True, slots=True)
class Acting:
    """Whose work it is. All absent: upkeep of this server."""

    installation: InstallationId | None = None
    repo_id: RepoId | None = None
    repo: str | None = None
    """``owner/name``."""
    familiar: str | None = None
    task_id: TaskId | None = None
    head_sha: str | None = None
    attempts_root: Path | None = None
    """Folder of this task's attempts; each attempt gets one below it with a name of its own."""
    may_wait: bool = False
    """The work can stop here until a person decides; else an escalation is a refusal."""
    publishing: bool = False
    """A Check Run or status comment is being shown: people must always learn what happened."""

    @property
    def namespace(self) -> str:
        """``_global``, or the installation's, the repository's or the familiar's below it."""
        if self.installation is None:
            return GLOBAL
        parts = [f"installation/{self.installation}"]
        if self.repo is not None:
            parts.append(f"repo/{self.repo}")
            if self.familiar is not None:
                parts.append(f"familiar/{self.familiar}")
        return "/".join(parts)

    @property
    def agent(self) -> str:
        """Who acts, for the record."""
        return f"familiar:{self.familiar}" if self.familiar else "adapter"


NOBODY = Acting()
_acting: ContextVar[Acting] = ContextVar("coven_acting", default=NOBODY)


def current() -> Acting:
    """For whom this thread acts."""
    return _acting.get()


@contextmanager
def acting(who: Acting) -> Iterator[None]:
    """Act for ``who`` within."""
    token = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(token)


@contextmanager
def publishing() -> Iterator[None]:
    """Show a verdict within: the narrow exemption of :mod:`coven.governance.gate`."""
    with acting(replace(current(), publishing=True)):
        yield
