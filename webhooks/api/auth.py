"""Who asks: from the secret of a token to a caller. Knows no web framework.

Every secret is compared by its digest, in constant time; the ones in the configuration all of
them, whichever matches. An answer never says which part was wrong, except to whoever holds the
right secret of a token that has ended.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from coven.api_tokens import TokenScope, digest_of, id_of
from coven.errors import ConfigurationError
from coven.memory.book import Person
from coven.settings.models import Api
from coven.store import api_tokens
from coven.store.engine import Store
from coven.values import InstallationId, RepoName

_NOBODY = "0" * 64
_NO_HEADER = "send a token: Authorization: Bearer cvn_…; `coven-github tokens create` makes one"
_UNKNOWN = "this token is not known; `coven-github tokens create` makes one"


class Unauthorized(Exception):
    """The token opens nothing; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``installation`` None: all of them. ``repos`` empty: all of the installation."""

    name: str
    installation: InstallationId | None
    scope: TokenScope
    repos: frozenset[RepoName] = field(default_factory=frozenset)
    token_id: str | None = None
    person: Person | None = None
    """Who decides, where that is known better than by a token's name."""

    def may(self, needed: TokenScope) -> bool:
        """Whether the scope is enough."""
        return self.scope.includes(needed)

    def sees(self, repo: RepoName) -> bool:
        """Whether the token reaches this repository of its installation."""
        return not self.repos or repo in self.repos


OPEN = Caller("open", None, TokenScope.READ)
"""Anybody on this machine, where ``api.mode`` is ``open``. Never writes."""


class Tokens:
    """Checks secrets against the configuration and the ledger. Safe for threads."""

    def __init__(self, api: Api, store: Store) -> None:
        self._store = store
        self._configured = list(_configured(api))

    def caller(self, secret: str, now: datetime) -> Caller:
        """Whose token this is. Raises ``Unauthorized`` and ``StoreUnavailable``."""
        digest = digest_of(secret)
        found = None
        for known, caller in self._configured:
            if hmac.compare_digest(known, digest):
                found = caller
        token_id = id_of(secret)
        if token_id is None:
            if found is None:
                raise Unauthorized(_UNKNOWN)
            return found
        with self._store.read() as tx:
            row = api_tokens.find(tx, token_id)
        same = hmac.compare_digest(row.digest if row is not None else _NOBODY, digest)
        if row is None or not same:
            if found is None:
                raise Unauthorized(_UNKNOWN)
            return found
        if not row.is_good(now):
            how = "was revoked" if row.revoked_at is not None else "has expired"
            raise Unauthorized(f"this token {how}; `coven-github tokens create` makes another")
        return _caller_of(row)

    def again(
        self, name: str, token_id: str | None, digest_is: Callable[[str], bool], now: datetime
    ) -> Caller | None:
        """Who a session belongs to that began with a token; None once that is no longer good.

        ``digest_is`` says whether a digest is the one of that token.
        """
        if token_id is None:
            for known, caller in self._configured:
                if caller.name == name and digest_is(known):
                    return caller
            return None
        with self._store.read() as tx:
            row = api_tokens.find(tx, token_id)
        if row is None or not digest_is(row.digest) or not row.is_good(now):
            return None
        return _caller_of(row)


def _caller_of(row: api_tokens.Token) -> Caller:
    return Caller(f"token:{row.id}", row.installation_id, row.scope, token_id=row.id)


def bearer(authorization: str | None) -> str:
    """The secret in an ``Authorization`` header. Raises ``Unauthorized``."""
    scheme, _, secret = (authorization or "").strip().partition(" ")
    secret = secret.strip()
    if scheme.casefold() != "bearer" or not secret:
        raise Unauthorized(_NO_HEADER)
    return secret


def _configured(api: Api) -> list[tuple[str, Caller]]:
    """The tokens of the configuration: the service's may revoke memory, tenants' only read."""
    found = []
    for tenant in api.tenants:
        digest = digest_of(tenant.token.get_secret_value().strip())
        repos = frozenset(_repo(name) for name in tenant.repos)
        # One of some repositories has a name of its own: it sees what stands under its name.
        name = f"tenant:{tenant.installation_id}" + (f":{digest[:8]}" if repos else "")
        owner = InstallationId(tenant.installation_id)
        found.append((digest, Caller(name, owner, TokenScope.READ, repos)))
    if api.service_token is not None:
        secret = api.service_token.get_secret_value().strip()
        found.append((digest_of(secret), Caller("service", None, TokenScope.MEMORY_WRITE)))
    return found


def _repo(name: str) -> RepoName:
    # Leaving a bad name out could leave none, and none means all.
    try:
        return RepoName.parse(name)
    except ValueError:
        raise ConfigurationError(
            f'api.tenants[].repos: {name[:80]!r} is no repository name; write "owner/name"'
        ) from None
