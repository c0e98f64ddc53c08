"""Whether a delivery could be written down now, found out without writing a row.

A full disk, a quota and a file system that became read-only leave reading intact, and a write
transaction that changes nothing needs no space. So the check takes the write lock and gives it
back, and for SQLite it also writes a small file beside the database.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import text

from coven.errors import StoreUnavailable
from coven.governance.wire import governed_write
from coven.services import Services

GOOD_SECS = 5.0
RECORDED_SECS = 60.0
"""With rules switched on, each written file is also a row that is kept for ever."""
BAD_SECS = 1.0
"""How long an answer is given again: probes come often, and the write lock has better uses."""
ROOM_BYTES = 65_536
"""A delivery and its task need less."""
PROBE_NAME = ".readyz"


class StoreCheck:
    """The check ``store`` of ``/readyz``; safe to use from many threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._until: float | None = None
        self._problem: StoreUnavailable | None = None

    def __call__(self) -> bool:
        """``True``. Raises ``StoreUnavailable`` with the reason."""
        with self._lock:
            now = self._services.clock.monotonic
            if self._until is None or now() >= self._until:
                self._problem = self._try()
                good = GOOD_SECS if self._services.rules is None else RECORDED_SECS
                self._until = now() + (BAD_SECS if self._problem else good)
            if self._problem is not None:
                raise StoreUnavailable(str(self._problem))
        return True

    def _try(self) -> StoreUnavailable | None:
        store = self._services.store
        try:
            with store.read() as tx:
                tx.execute(text("SELECT 1")).scalar_one()
            store.check_writable()
            if (folder := store.folder) is not None:
                self._write_file(folder)
        except StoreUnavailable as error:
            return error
        return None

    def _write_file(self, folder: Path) -> None:
        try:
            governed_write(
                self._services.seam, folder / PROBE_NAME, bytes(ROOM_BYTES), point="web.ready"
            )
        except OSError as error:
            raise StoreUnavailable(
                f"store: can't write beside the database: {error.strerror}; "
                "free space on its disk, or let this user write there"
            ) from error
