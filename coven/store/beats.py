"""One runner per periodic job, however many beats there are, and the last time each one ran."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from coven.store.engine import Tx
from coven.store.tables import beats


def take(tx: Tx, name: str, now: datetime, hold_secs: float) -> bool:
    """Upkeep: become the runner of ``name`` for ``hold_secs``. False when somebody else is."""
    held_until = now + timedelta(seconds=hold_secs)
    won = tx.execute(
        update(beats)
        .where(beats.c.name == name, beats.c.held_until <= now)
        .values(held_until=held_until, ran_at=now)
    ).rowcount
    if won:
        return True
    try:
        with tx.begin_nested():
            tx.execute(insert(beats).values(name=name, held_until=held_until, ran_at=now))
    except IntegrityError:
        return False
    return True


def last_runs(tx: Tx) -> dict[str, datetime]:
    """Upkeep: when each job last ran."""
    rows = tx.execute(select(beats.c.name, beats.c.ran_at))
    return {name: ran_at for name, ran_at in rows if ran_at is not None}
