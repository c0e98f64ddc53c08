"""The user id of our App's bot, learned beside the deliveries and never in their way."""

from __future__ import annotations

import threading
from typing import Protocol

import structlog

from coven.errors import CovenError

_log = structlog.get_logger(__name__)


class Known(Protocol):
    """What GitHub says about the App."""

    @property
    def bot_user_id(self) -> int | None: ...


class AppSource(Protocol):
    """Asks GitHub, and remembers."""

    def app_info(self) -> Known: ...


class Identity:
    """Asks once in a thread of its own, and again at most every ``ASK_AGAIN`` readings."""

    ASK_AGAIN = 50

    def __init__(self, github: AppSource) -> None:
        self._github = github
        self._id: int | None = None
        self._readings = 0
        self._asking = threading.Lock()

    @property
    def id(self) -> int | None:
        """The bot's user id, or None while it is not known; never waits."""
        if self._id is None:
            if self._readings % self.ASK_AGAIN == 0 and self._asking.acquire(blocking=False):
                threading.Thread(target=self._ask, name="app-identity", daemon=True).start()
            self._readings += 1
        return self._id

    def _ask(self) -> None:
        try:
            self._id = self._github.app_info().bot_user_id
        except CovenError as error:
            _log.warning("app_unknown", why=str(error))
        except Exception:  # noqa: BLE001 - knowing the id early is a convenience
            _log.exception("app_unknown")
        finally:
            self._asking.release()
