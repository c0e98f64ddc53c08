"""The lease on one surface while it is published, and what a kind of surface needs meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from coven.errors import LeaseLost
from coven.github.repo_client import RepoClient
from coven.redaction import Redactor
from coven.services import Services
from coven.store import surfaces
from coven.store.surfaces import Surface
from coven.values import same_login

SPARE_SECS = 15.0
"""Beyond the time-out of one call, for everything else that happens under a lease."""


YOUNG = timedelta(minutes=1)
"""Older rows are looked for on GitHub even if the ledger says that nothing was sent."""


@dataclass(frozen=True, slots=True)
class Published:
    """The object that now shows the desired content."""

    object_id: int
    url: str | None


@dataclass(frozen=True)
class Hold:
    """We are the only publisher of ``surface`` while we renew the lease before each request."""

    services: Services
    client: RepoClient
    surface: Surface
    """As leased; its ``desired`` is what gets published."""
    token: str
    started_at: datetime | None = None
    """When the task of the surface began."""
    finished_at: datetime | None = None

    @property
    def first_ever(self) -> bool:
        """Nothing of this surface was ever sent, so nothing of it can exist yet.

        Believed of young rows only: in a ledger that was restored from a copy, an old row does not
        know what was sent after the copy was made.
        """
        row = self.surface
        young = self.services.clock.now() - row.created_at < YOUNG
        return (
            young
            and row.tries == 1
            and row.object_id is None
            and row.published_at is None
            and row.error is None
        )

    def ready(self) -> None:
        """Call before each request: renews the lease. Raises ``LeaseLost``."""
        row = self.surface
        length = lease_secs(self.services.settings.github.timeout_secs)
        with self.services.store.write("publish.renew") as tx:
            kept = surfaces.renew(
                row.installation_id, tx, row.id, self.token, self.services.clock.now(), length
            )
        if not kept:
            raise LeaseLost(f"surface {row.id} is not ours any more")

    def point(self, name: str) -> None:
        """Pass the fault point ``publish.<kind>.<name>``."""
        self.services.seam.faults.hit(f"publish.{self.surface.kind}.{name}")

    def remember(self, object_id: int, url: str | None) -> None:
        """Store which object this is before more is done with it. Raises ``LeaseLost``."""
        if self.surface.object_id == object_id:
            return
        row = self.surface
        with self.services.store.write("publish.remember") as tx:
            kept = surfaces.remember_object(
                row.installation_id, tx, row.id, self.token, object_id, url
            )
        if not kept:
            raise LeaseLost(f"surface {row.id} belongs to another publisher now")

    def clean(self, text: str) -> str:
        """``text`` without secrets, whatever came before; the last gate before GitHub."""
        return self._redactor.text(text)

    @cached_property
    def _redactor(self) -> Redactor:
        return self.services.redactor.with_live(*self.services.github.live_secrets())

    def is_ours(self, app_id: int | None, author_id: int | None, login: str | None) -> bool:
        """Whether our App wrote this. Unknown authors are never us."""
        configured = self.services.settings.github.app_id
        if app_id is not None and configured:
            return app_id == configured
        app = self.services.github.app_info()
        if app_id is not None:
            return app_id == app.id
        if author_id is not None and app.bot_user_id is not None:
            return author_id == app.bot_user_id
        return login is not None and same_login(login, app.bot_login)


def lease_secs(call_timeout_secs: float) -> float:
    """How long a lease lasts: longer than one call may take, so that nobody else begins meanwhile,
    and short, so that the surface of a publisher that died is soon taken up again."""
    return call_timeout_secs + SPARE_SECS
