"""Installation tokens: one per installation, repository and role, kept until shortly before expiry.

However many threads ask at once, one of them mints and the others wait for its token, each at
most until its own deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from coven.clock import Clock
from coven.errors import GitHubUnavailable
from coven.github.models import Token
from coven.github.roles import Role
from coven.values import InstallationId, RepoId

MARGIN = timedelta(minutes=5)
"""A token is not handed out in the last minutes of its life."""


ALL_REPOSITORIES = RepoId(0)
"""Stands for every repository of an installation; only to list them."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What a token is for."""

    installation: InstallationId
    repo_id: RepoId
    role: Role


@dataclass(frozen=True, slots=True)
class Minted:
    """A token, and until when it lives by our own clock."""

    token: Token
    dies_at: datetime


Mint = Callable[[TokenKey, float], Minted]
"""Asks GitHub for a token, at most until a monotonic deadline."""


class Tokens:
    """The cache. Holds secrets: it has no useful repr and is never serialised."""

    def __init__(self, mint: Mint, clock: Clock) -> None:
        self._mint = mint
        self._clock = clock
        self._lock = threading.Lock()
        self._minting: dict[TokenKey, threading.Lock] = {}
        self._kept: dict[TokenKey, Minted] = {}
        self._alive: list[Minted] = []

    def get(self, key: TokenKey, deadline: float) -> Token:
        """A token with at least five minutes left. Raises a subclass of ``GitHubError``."""
        token = self._fresh(key)
        if token is not None:
            return token
        with self._lock:
            turn = self._minting.setdefault(key, threading.Lock())
        if not turn.acquire(timeout=max(deadline - self._clock.monotonic(), 0)):
            raise GitHubUnavailable("github.create_token: timed out waiting for a token")
        try:
            token = self._fresh(key)
            if token is not None:
                return token
            minted = self._mint(key, deadline)
            with self._lock:
                self._prune()
                self._kept[key] = minted
                self._alive.append(minted)
            return minted.token
        finally:
            turn.release()

    def mint_alone(self, key: TokenKey, deadline: float) -> Token:
        """A new token that nobody else gets: its holder may revoke it at any time."""
        minted = self._mint(key, deadline)
        with self._lock:
            self._prune()
            self._alive.append(minted)
        return minted.token

    def forget(self, key: TokenKey, value: str | None = None) -> None:
        """Don't hand this token out again. With ``value``: only if it is still that one."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and value in {None, kept.token.value}:
                del self._kept[key]

    def drop(self, value: str) -> None:
        """Forget a token by its value, whatever it is for."""
        with self._lock:
            self._kept = {k: m for k, m in self._kept.items() if m.token.value != value}

    def live_values(self) -> tuple[str, ...]:
        """All tokens minted here that may still be valid, forgotten ones too: values to mask."""
        with self._lock:
            self._prune()
            return tuple(minted.token.value for minted in self._alive)

    def any_value(self) -> str | None:
        """Some token that is valid now, for look-ups that need no right at all."""
        with self._lock:
            now = self._clock.now()
            return next((m.token.value for m in self._kept.values() if _usable(m, now)), None)

    def _fresh(self, key: TokenKey) -> Token | None:
        with self._lock:
            kept = self._kept.get(key)
        return kept.token if kept is not None and _usable(kept, self._clock.now()) else None

    def _prune(self) -> None:
        now = self._clock.now()
        self._alive = [minted for minted in self._alive if minted.dies_at > now]
        self._kept = {key: minted for key, minted in self._kept.items() if minted.dies_at > now}
        idle = [k for k, turn in self._minting.items() if k not in self._kept and not turn.locked()]
        for key in idle:
            del self._minting[key]


def _usable(minted: Minted, now: datetime) -> bool:
    return minted.dies_at - MARGIN > now
