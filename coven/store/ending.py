"""What an operator may do to a task from outside: ask for its end.

The workers carry it out and show it on GitHub: a running task at its next heartbeat, an idle one
at the next run of the upkeep.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import case, select, update

from coven.store.engine import Tx
from coven.store.tables import tasks
from coven.values import LIVE_STATES, InstallationId, TaskId, TaskState


class Cancel(StrEnum):
    """What a wish to cancel came to."""

    ASKED = "asked"
    """A running task was asked; its worker stops it at the next heartbeat."""
    SETTLED_SOON = "settled soon"
    """A queued or waiting task will not start; the next upkeep run ends it."""
    ALREADY_ASKED = "already asked"
    OVER = "over"


def ask(
    installation: InstallationId, tx: Tx, task_id: TaskId, now: datetime, reason: str
) -> Cancel:
    """Ask for the end of a task of this installation; unknown ones are ``OVER``."""
    mine = (tasks.c.installation_id == installation, tasks.c.id == task_id)
    changed = tx.execute(
        update(tasks)
        .where(
            *mine,
            tasks.c.state.in_(LIVE_STATES),
            tasks.c.cancel_requested_at.is_(None),
        )
        .values(
            cancel_requested_at=now,
            cancel_reason=reason[:200],
            # Upkeep ends what waits too long; what nobody wants any more has waited enough.
            expires_at=case((tasks.c.state == TaskState.WAITING, now), else_=tasks.c.expires_at),
            updated_at=now,
        )
        .returning(tasks.c.state)
    ).scalar_one_or_none()
    if changed is not None:
        return Cancel.ASKED if changed == TaskState.RUNNING else Cancel.SETTLED_SOON
    state = tx.execute(select(tasks.c.state).where(*mine)).scalar_one_or_none()
    return Cancel.ALREADY_ASKED if state in LIVE_STATES else Cancel.OVER
