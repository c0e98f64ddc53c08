"""The App's own identity: a short-lived JWT signed with its private key."""

from __future__ import annotations

import threading
from datetime import timedelta

import jwt

from coven.clock import Clock
from coven.errors import ConfigurationError
from coven.github.keys import AppKey, read_app_key
from coven.settings.models import GitHub as GitHubSettings

ISSUED_BEFORE = timedelta(seconds=60)
"""``iat`` lies in the past, for clocks that run ahead."""
LIVES_FOR = timedelta(seconds=540)
"""GitHub allows 600 s by its own clock."""


class AppAuth:
    """Signs as the App. The key is read once, when it is first needed."""

    def __init__(self, settings: GitHubSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._key: AppKey | None = None

    @property
    def issuer(self) -> str:
        """The client id where it is set, else the App id. Raises ``ConfigurationError``."""
        client_id = (self._settings.client_id or "").strip()
        if client_id:
            return client_id
        if self._settings.app_id:
            return str(self._settings.app_id)
        raise ConfigurationError(
            "github.app_id: not set; copy the App ID (or, as github.client_id, the client ID) "
            "from the App's settings page"
        )

    def key(self) -> AppKey:
        """The private key. Raises ``ConfigurationError``."""
        with self._lock:
            if self._key is None:
                self._key = read_app_key(self._settings)
            return self._key

    def loaded_pem(self) -> str | None:
        """The key's text when it has been read: a value to mask."""
        return self._key.pem if self._key is not None else None

    def token(self) -> str:
        """A fresh JWT. Raises ``ConfigurationError``."""
        now = self._clock.now()
        claims = {
            "iat": int((now - ISSUED_BEFORE).timestamp()),
            "exp": int((now + LIVES_FOR).timestamp()),
            "iss": self.issuer,
        }
        return jwt.encode(claims, self.key().private, algorithm="RS256")
