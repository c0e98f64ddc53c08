"""One bounded look at GitHub: what may this person do in this repository?

The call runs in a small pool, because it may hang in ways no time-out catches; the receiver waits
for what is left of its budget and then goes on without an answer. A breaker per installation
skips GitHub after repeated failures. Answers are kept for a minute at most, by numeric ids, and
an answer that comes too late still serves the next delivery.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as BudgetExceeded
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from coven.clock import Clock
from coven.errors import CovenError, GitHubNotFound, GitHubUnavailable, RateLimited
from coven.github.models import Permission
from coven.github.roles import Role
from coven.trust import may_write
from coven.values import InstallationId, RepoId, RepoName
from webhooks.intents import Intent, Person
from webhooks.trust import Rights

POOL = 4
KEEP_SECS = 60.0
KEEP_NEGATIVE_SECS = 15.0
"""Shorter, so that somebody who was just granted access is not refused for a minute."""
KEEP_ENTRIES = 4_096
BREAKER_FAILURES = 3
BREAKER_SECS = 30.0

_log = structlog.get_logger(__name__)


class RightsClient(Protocol):
    """The two calls that we make."""

    def permission(self, login: str) -> Permission: ...

    def is_collaborator(self, login: str) -> bool: ...


class ClientFactory(Protocol):
    """Makes a client for one repository; minting its token is part of the budget."""

    def for_repo(
        self,
        installation: InstallationId,
        repo_id: RepoId,
        repo: RepoName,
        role: Role,
        *,
        timeout_secs: float | None = None,
    ) -> RightsClient: ...


class Breaker:
    """Closed until ``failures`` in a row, then open for ``open_secs``, then one probe at a time."""

    def __init__(
        self, clock: Clock, failures: int = BREAKER_FAILURES, open_secs: float = BREAKER_SECS
    ) -> None:
        self._clock = clock
        self._limit = failures
        self._open_secs = open_secs
        self._failed = 0
        self._opened_at: float | None = None
        self._probing = False
        self._lock = threading.Lock()

    def allows(self) -> bool:
        """Whether to call; the caller must report ``succeeded`` or ``failed`` afterwards."""
        with self._lock:
            if self._opened_at is None:
                return True
            rested = self._clock.monotonic() - self._opened_at >= self._open_secs
            if not rested or self._probing:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """GitHub answered in time."""
        with self._lock:
            self._failed, self._opened_at, self._probing = 0, None, False

    def failed(self) -> None:
        """GitHub did not answer in time, or said that it can't."""
        with self._lock:
            self._failed += 1
            if self._probing or self._failed >= self._limit:
                self._opened_at = self._clock.monotonic()
            self._probing = False


@dataclass(frozen=True, slots=True)
class _Key:
    installation: InstallationId
    repo_id: RepoId
    user_id: int


class Lookup:
    """Answers questions about rights within a budget. Safe to share between threads."""

    def __init__(
        self, github: ClientFactory, clock: Clock, pool: ThreadPoolExecutor | None = None
    ) -> None:
        self._github = github
        self._clock = clock
        self._pool = pool or ThreadPoolExecutor(POOL, thread_name_prefix="lookup")
        self._kept: OrderedDict[_Key, tuple[float, Rights]] = OrderedDict()
        self._breakers: OrderedDict[InstallationId, Breaker] = OrderedDict()
        self._lock = threading.Lock()

    def rights(
        self,
        intent: Intent,
        person: Person | None,
        deadline: float,
        changed_at: datetime | None = None,
    ) -> Rights:
        """What ``person`` may do, known before ``deadline`` (monotonic), else ``unavailable``.

        Never raises for anything that GitHub does or fails to do. ``changed_at``: what was learned
        before then counts no more, because GitHub told of a change.
        """
        if person is None or not person.login:
            return Rights("no_account", self._clock.now())
        key = _Key(intent.installation_id, intent.repo_id, person.id)
        kept = self._remembered(key)
        if kept is not None and (changed_at is None or kept.at > changed_at):
            return kept
        left = deadline - self._clock.monotonic()
        breaker = self._breaker(intent.installation_id)
        if left <= 0 or not breaker.allows():
            return self._unavailable("budget spent" if left <= 0 else "breaker open")
        future = self._pool.submit(copy_context().run, self._ask, intent, person, key, deadline)
        return self._await(future, left, breaker)

    def _await(self, future: Future[Rights], left: float, breaker: Breaker) -> Rights:
        try:
            answer = future.result(timeout=left)
        except BudgetExceeded:
            future.cancel()
            breaker.failed()
            return self._unavailable("no answer within the budget")
        except (GitHubUnavailable, RateLimited) as error:
            breaker.failed()
            return self._unavailable(type(error).__name__)
        except CovenError as error:
            # GitHub answered, and at once; a breaker would not help.
            breaker.succeeded()
            return self._unavailable(type(error).__name__)
        except Exception:  # noqa: BLE001 - a look-up may never fail or delay a delivery
            breaker.failed()
            _log.exception("permission_lookup_crashed")
            return self._unavailable("crashed")
        breaker.succeeded()
        return answer

    def _ask(self, intent: Intent, person: Person, key: _Key, deadline: float) -> Rights:
        def left() -> float:
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                raise GitHubUnavailable("the budget of this delivery is spent")
            return remaining

        def client() -> RightsClient:
            return self._github.for_repo(
                intent.installation_id,
                intent.repo_id,
                intent.repo,
                Role.LOOKUP,
                timeout_secs=left(),
            )

        login = person.login or ""
        at = self._clock.now()
        try:
            permission = client().permission(login)
        except GitHubNotFound:
            # Bots and other actors that are no users. Never a reason to allow.
            _log.warning("actor_is_not_a_user", actor=person.id)
            return self._keep(key, Rights("not_a_user", at))
        if permission.user_id != person.id:
            # The login belongs to somebody else by now.
            return self._keep(key, Rights("identity_changed", at))
        collaborator = False
        known = intent.repo_private or permission.role_name == "triage"
        if permission.permission == "read" and not known:
            collaborator = client().is_collaborator(login)
        return self._keep(key, Rights("permission_api", at, permission, collaborator))

    def _remembered(self, key: _Key) -> Rights | None:
        with self._lock:
            entry = self._kept.get(key)
            if entry is None or entry[0] <= self._clock.monotonic():
                return None
            return entry[1]

    def _keep(self, key: _Key, rights: Rights) -> Rights:
        positive = may_write(rights.permission) or rights.collaborator
        until = self._clock.monotonic() + (KEEP_SECS if positive else KEEP_NEGATIVE_SECS)
        with self._lock:
            self._kept[key] = (until, rights)
            self._kept.move_to_end(key)
            while len(self._kept) > KEEP_ENTRIES:
                self._kept.popitem(last=False)
        return rights

    def _breaker(self, installation: InstallationId) -> Breaker:
        with self._lock:
            breaker = self._breakers.setdefault(installation, Breaker(self._clock))
            while len(self._breakers) > KEEP_ENTRIES:
                self._breakers.popitem(last=False)
            return breaker

    def _unavailable(self, why: str) -> Rights:
        _log.warning("permission_unconfirmed", why=why)
        return Rights("unavailable", self._clock.now())
