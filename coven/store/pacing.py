"""What the surface ledger knows about an installation's pace, for all publishers at once.

GitHub counts and limits by installation, whatever process asks; so does this. Nothing is stored
for it: the times that the ledger holds anyway are read.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, or_, select, update

from coven.store.engine import Tx
from coven.store.tables import surfaces
from coven.values import InstallationId, SurfaceState

HELD = "RateLimited:"
"""How the ``error`` of a surface begins that GitHub's rate limit has stopped."""


def held_until(installation: InstallationId, tx: Tx, now: datetime) -> datetime | None:
    """Until when GitHub has asked this installation to wait, or None."""
    value: datetime | None = tx.execute(
        select(func.max(surfaces.c.next_at)).where(
            surfaces.c.installation_id == installation,
            surfaces.c.state == SurfaceState.PENDING,
            surfaces.c.next_at > now,
            surfaces.c.error.startswith(HELD, autoescape=True),
        )
    ).scalar_one_or_none()
    return value


def nth_publication(
    installation: InstallationId, tx: Tx, since: datetime, n: int
) -> datetime | None:
    """When the ``n``-th newest surface after ``since`` was published; None when fewer were."""
    value: datetime | None = tx.execute(
        select(surfaces.c.published_at)
        .where(
            surfaces.c.installation_id == installation,
            surfaces.c.published_at > since,
            # Implied by the line above; it is what the index on (state, next_at) can use.
            surfaces.c.state.in_(list(SurfaceState)),
            surfaces.c.next_at > since,
        )
        .order_by(surfaces.c.published_at.desc())
        .offset(n - 1)
        .limit(1)
    ).scalar_one_or_none()
    return value


def defer(
    installation: InstallationId, tx: Tx, now: datetime, until: datetime, surface_id: int | None
) -> int:
    """Let pending surfaces that nobody publishes wait; all of the installation when id is None.

    No try is counted. Returns how many wait longer than before.
    """
    condition = [
        surfaces.c.installation_id == installation,
        surfaces.c.state == SurfaceState.PENDING,
        surfaces.c.next_at < until,
        or_(surfaces.c.lease_expires_at.is_(None), surfaces.c.lease_expires_at < now),
    ]
    if surface_id is not None:
        condition.append(surfaces.c.id == surface_id)
    return tx.execute(update(surfaces).where(*condition).values(next_at=until)).rowcount
