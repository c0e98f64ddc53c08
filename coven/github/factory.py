"""The entry to GitHub: tokens, clients for one repository, the App itself, its hook deliveries."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from coven import __version__
from coven.clock import Clock
from coven.errors import CovenError, GitHubError, GitHubForbidden
from coven.github.app_auth import AppAuth
from coven.github.models import (
    AppInfo,
    AppRegistration,
    DeliveryPage,
    HookConfig,
    HookDelivery,
    InstallationInfo,
    PurchaseInfo,
    Repository,
    Token,
    parse_time,
)
from coven.github.repo_client import RepoClient
from coven.github.rest import Rest, each, understood
from coven.github.roles import Role
from coven.github.tokens import ALL_REPOSITORIES, Minted, TokenKey, Tokens
from coven.github.transport import Request, Response, Transport
from coven.github.urls import api_root, next_query, path
from coven.governance.wire import Seam
from coven.metrics import RATE_LEFT, Meter
from coven.settings.models import Settings
from coven.values import InstallationId, RepoId, RepoName

__all__ = ["GitHub", "Role"]

_BOT_RETRY_SECS = 300.0


class GitHub:
    """One GitHub, as one App. Made once per process; safe for threads.

    Nothing is read or sent before it is needed; the doctor looks at key and issuer before that.
    """

    def __init__(
        self, settings: Settings, clock: Clock, seam: Seam, meter: Meter | None = None
    ) -> None:
        self._clock = clock
        self._meter = meter or Meter()
        self._auth = AppAuth(settings.github, clock)
        transport = Transport(
            api_root(settings.github.api_base_url),
            user_agent=f"coven-github/{__version__}",
            api_version=settings.github.api_version,
            clock=clock,
            seam=seam,
            meter=self._meter,
        )
        self._rest = Rest(transport, clock, settings.github.timeout_secs)
        self._tokens = Tokens(self._mint, clock)
        self._app_lock = threading.Lock()
        self._app: AppInfo | None = None
        self._app_asked_at = 0.0

    def for_repo(
        self,
        installation: InstallationId,
        repo_id: RepoId,
        repo: RepoName,
        role: Role,
        *,
        timeout_secs: float | None = None,
    ) -> RepoClient:
        """A client for one repository. Sends nothing yet.

        ``timeout_secs`` is the most that one method call may take per page, the token it may have
        to mint included; ``github.timeout_secs`` when absent.
        """
        key = TokenKey(installation, repo_id, role)
        heard = partial(self._heard, installation)
        return RepoClient(self._rest, self._tokens, key, repo, timeout_secs, heard)

    def token(self, installation: InstallationId, repo_id: RepoId, role: Role) -> Token:
        """A token of this role for this one repository, with at least five minutes left.

        Shared and cached, except for ``Role.PUSH``: whoever pushes revokes it afterwards, so each
        caller gets a new one with its whole hour, as from :meth:`own_token`.

        Raises ``InstallationGone``, ``GitHubForbidden``, ``GitHubUnavailable``, ``RateLimited``.
        """
        key, deadline = TokenKey(installation, repo_id, role), self._rest.deadline()
        if role is Role.PUSH:
            return self._tokens.mint_alone(key, deadline)
        return self._tokens.get(key, deadline)

    def own_token(self, installation: InstallationId, repo_id: RepoId, role: Role) -> Token:
        """A new token that nobody else gets; its holder revokes it. Raises as :meth:`token`."""
        return self._tokens.mint_alone(TokenKey(installation, repo_id, role), self._rest.deadline())

    def forget_token(self, installation: InstallationId, repo_id: RepoId, role: Role) -> None:
        """The next call mints a new token."""
        self._tokens.forget(TokenKey(installation, repo_id, role))

    def revoke(self, token: Token) -> None:
        """Make a token worthless now. Best effort: it expires by itself, so nothing is raised."""
        self._tokens.drop(token.value)
        request = Request("revoke_token", "DELETE", path("installation", "token"))
        with contextlib.suppress(CovenError):
            self._rest.call(request, token.value, self._rest.deadline())

    def _heard(self, installation: InstallationId, response: Response) -> None:
        left = response.headers.get("x-ratelimit-remaining", "")
        if left.isdecimal():
            resource = response.headers.get("x-ratelimit-resource", "core")
            self._meter.set(RATE_LEFT, float(left), str(installation), resource)

    def live_secrets(self) -> tuple[str, ...]:
        """Values that must never be shown: tokens that may still be valid, and the private key."""
        pem = self._auth.loaded_pem()
        return (*self._tokens.live_values(), *((pem,) if pem else ()))

    def app_info(self) -> AppInfo:
        """The App's id, slug and bot user; asked once. Raises ``GitHubError``."""
        with self._app_lock:
            if self._app is None or self._bot_is_worth_asking(self._app):
                self._app = self._ask_app(self._app)
                self._app_asked_at = self._clock.monotonic()
            return self._app

    def registration(self) -> AppRegistration:
        """The App with its permissions and events; asked each time. Raises ``GitHubError``."""
        response = self._as_app("app", "GET", path("app"))
        said_at = _date(response)
        return understood("app", lambda: AppRegistration.from_json(response.body, said_at))

    def hook_config(self) -> HookConfig:
        """The settings of the App's webhook. Raises ``GitHubError``."""
        body = self._as_app("hook_config", "GET", path("app", "hook", "config")).body
        return understood("hook_config", lambda: HookConfig.from_json(body))

    def list_hook_deliveries(self, cursor: str | None = None, per_page: int = 100) -> DeliveryPage:
        """A page of attempts to deliver to our webhook, newest first. Raises ``GitHubError``."""
        query = {"per_page": str(per_page)} | ({"cursor": cursor} if cursor else {})
        response = self._as_app("list_hook_deliveries", "GET", path(*_HOOK), query)
        following = next_query(response.headers.get("link")) or {}
        items = each("list_hook_deliveries", response.body, HookDelivery.from_json)
        return DeliveryPage(tuple(items), following.get("cursor"))

    def hook_delivery(self, delivery_attempt: int) -> HookDelivery:
        """One attempt with its request headers and payload. Raises ``GitHubError``."""
        response = self._as_app("hook_delivery", "GET", path(*_HOOK, delivery_attempt))
        return understood("hook_delivery", lambda: HookDelivery.from_json(response.body))

    def redeliver(self, delivery_attempt: int) -> None:
        """Ask GitHub to deliver again, under the same GUID. Raises ``GitHubError``."""
        self._as_app("redeliver", "POST", path(*_HOOK, delivery_attempt, "attempts"))

    def list_installations(self) -> Iterator[InstallationInfo]:
        """Every installation of the App. Raises ``GitHubError``."""
        query: dict[str, str] = {"per_page": "100"}
        for _ in range(_MAX_PAGES):
            response = self._as_app("installations", "GET", path("app", "installations"), query)
            yield from each("installations", response.body, InstallationInfo.from_json)
            following = next_query(response.headers.get("link"))
            if following is None or (query | following) == query:
                return
            query |= following

    def installation(self, installation: InstallationId) -> InstallationInfo:
        """One installation; ``GitHubNotFound`` when it is gone. Raises ``GitHubError``."""
        where = path("app", "installations", installation)
        body = self._as_app("installation", "GET", where).body
        return understood("installation", lambda: InstallationInfo.from_json(body))

    def installation_repositories(
        self, installation: InstallationId, most: int
    ) -> tuple[list[Repository], bool]:
        """What an installation may work in, and whether that is all: ``most`` pages are read.

        With a token of its own that can read nothing but names. Raises ``GitHubError``.
        """
        token = self.own_token(installation, ALL_REPOSITORIES, Role.LOOKUP)
        query = {"per_page": "100"}
        found: list[Repository] = []
        try:
            for _ in range(most):
                request = Request(_LISTED, "GET", path("installation", "repositories"), query)
                response = self._rest.call(request, token.value, self._rest.deadline())
                found += each(_LISTED, response.body, Repository.from_json, "repositories")
                following = next_query(response.headers.get("link"))
                if following is None or (query | following) == query:
                    return found, following is None
                query = query | following
        finally:
            self.revoke(token)
        return found, False

    def purchase(self, account_id: int) -> PurchaseInfo:
        """The marketplace plan of an account; ``GitHubNotFound`` without one.

        Raises ``GitHubError``.
        """
        where = path("marketplace_listing", "accounts", account_id)
        body = self._as_app("purchase", "GET", where).body
        return understood("purchase", lambda: PurchaseInfo.from_json(body))

    def _as_app(
        self, operation: str, method: str, where: str, query: dict[str, str] | None = None
    ) -> Response:
        request = Request(operation, method, where, query)
        return self._rest.call(request, self._auth.token(), self._rest.deadline(), app_auth=True)

    def _ask_app(self, known: AppInfo | None) -> AppInfo:
        if known is None:
            body = self._as_app("app", "GET", path("app")).body
            known = understood(
                "app",
                lambda: AppInfo(int(body["id"]), str(body["slug"]), f"{body['slug']}[bot]", None),
            )
        request = Request("bot_user", "GET", path("users", known.bot_login))
        try:
            # A JWT is not accepted here; the look-up needs no right, so any token or none will do.
            body = self._rest.call(request, self._tokens.any_value(), self._rest.deadline()).body
            bot_id = understood("bot_user", lambda: int(body["id"]))
        except GitHubError:
            return known
        return AppInfo(known.id, known.slug, known.bot_login, bot_id)

    def _bot_is_worth_asking(self, app: AppInfo) -> bool:
        waited = self._clock.monotonic() - self._app_asked_at
        return app.bot_user_id is None and waited >= _BOT_RETRY_SECS

    def _mint(self, key: TokenKey, deadline: float) -> Minted:
        request = Request(
            "create_token",
            "POST",
            path("app", "installations", key.installation, "access_tokens"),
            body=_scope(key) | {"permissions": key.role.permissions},
        )
        response = self._rest.call(
            request, self._auth.token(), deadline, app_auth=True, minting=True
        )
        token = understood("create_token", lambda: _token(response.body))
        problem = _scope_problem(response.body, key)
        if problem is not None:
            self.revoke(token)
            raise GitHubForbidden(f"github.create_token: {problem}", status=response.status)
        return Minted(token, self._clock.now() + _lifetime(token, response, self._clock))


_MAX_PAGES = 1_000
_LISTED = "installation_repositories"
_HOOK = ("app", "hook", "deliveries")


def _token(body: dict[str, Any]) -> Token:
    value = body["token"]
    if not isinstance(value, str) or not value:
        raise ValueError("token: missing")
    granted = {str(k): str(v) for k, v in (body.get("permissions") or {}).items()}
    return Token(value, parse_time(body["expires_at"]), granted)


def _scope(key: TokenKey) -> dict[str, Any]:
    return {} if key.repo_id == ALL_REPOSITORIES else {"repository_ids": [key.repo_id]}


def _scope_problem(body: dict[str, Any], key: TokenKey) -> str | None:
    # A server or proxy that ignores the scope would hand out the whole installation.
    listed = body.get("repositories")
    if key.repo_id == ALL_REPOSITORIES:
        pass
    elif isinstance(listed, list):
        ids = {entry.get("id") for entry in listed if isinstance(entry, dict)}
        if ids != {key.repo_id}:
            return "the token is for other repositories than the one asked for"
    elif body.get("repository_selection") == "all":
        return "the token is for all repositories instead of the one asked for"
    granted = body.get("permissions")
    return key.role.problem_with(granted) if isinstance(granted, dict) else None


def _lifetime(token: Token, response: Response, clock: Clock) -> timedelta:
    # By GitHub's own clock: a wrong one here must neither keep dead tokens nor mint each time.
    return token.expires_at - (_date(response) or clock.now())


_DATE_CHARS = 29
"""A date of HTTP has one length; a server or proxy that adds a second one is cut off."""


def _date(response: Response) -> datetime | None:
    """GitHub's clock when it answered."""
    try:
        said = parsedate_to_datetime(response.headers.get("date", "")[:_DATE_CHARS])
    except (TypeError, ValueError, IndexError):
        return None
    return said if said.tzinfo else None
