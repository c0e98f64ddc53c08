"""What one transaction of the receiver wrote, and whom to wake for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from coven.store.tasks import Task
from coven.values import Lane, TaskId, TaskState


@dataclass
class Settled:
    """The answer to one delivery."""

    routing: str = ""
    task_id: TaskId | None = None
    duplicate: bool = False
    sessions: list[TaskId] = field(default_factory=list)
    controls: list[TaskId] = field(default_factory=list)
    publications: list[TaskId] = field(default_factory=list)

    def ring_for(self, task: Task) -> None:
        """Wake the workers of a queued task."""
        if task.state is not TaskState.QUEUED:
            return
        ring = self.controls if task.lane is Lane.CONTROL else self.sessions
        ring.append(task.id)

    def publish(self, task_id: TaskId) -> None:
        """Wake the publisher, once per task."""
        if task_id not in self.publications:
            self.publications.append(task_id)
