"""Signing people in through the App: who they are, and what GitHub lets them do with it.

Authorization code with state and PKCE. The user token is used at once and kept nowhere.
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from coven import __version__
from coven.clock import Clock
from coven.errors import GitHubUnavailable
from coven.github.rest import Rest, each, understood
from coven.github.transport import Request, Transport
from coven.github.urls import api_root
from coven.governance.wire import Seam
from coven.settings.models import Settings

PER_PAGE = 100
MOST_PAGES = 5


@dataclass(frozen=True, slots=True)
class OAuthPerson:
    """Who signed in."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class OAuthRepo:
    """A repository of an installation, and what the person may do there."""

    full_name: str
    private: bool
    rights: frozenset[str]


@dataclass(frozen=True, slots=True)
class AppInstallation:
    """An installation that the person has to do with."""

    id: int
    account_id: int | None
    repos: tuple[OAuthRepo, ...]


@dataclass(frozen=True, slots=True)
class Authorize:
    """One sign-in: what ties the answer to the browser that asked."""

    state: str
    verifier: str

    @classmethod
    def fresh(cls) -> Authorize:
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        """SHA-256 of the verifier, as PKCE wants it."""
        digest = hashlib.sha256(self.verifier.encode("ascii")).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class OAuth:
    """GitHub's side of a sign-in."""

    def __init__(
        self, client_id: str, client_secret: str, site: Rest, api: Rest, site_url: str
    ) -> None:
        self._client_id = client_id
        self._client_secret = client_secret
        self._site = site
        self._api = api
        self._site_url = site_url

    @classmethod
    def of(cls, settings: Settings, clock: Clock, seam: Seam) -> OAuth | None:
        """None when the App's client id and secret are not set."""
        github = settings.github
        if not github.client_id or github.client_secret is None:
            return None

        def rest(root: str) -> Rest:
            transport = Transport(
                root,
                user_agent=f"coven-github/{__version__}",
                api_version=github.api_version,
                clock=clock,
                seam=seam,
            )
            return Rest(transport, clock, github.timeout_secs)

        return cls(
            github.client_id,
            github.client_secret.get_secret_value(),
            rest(github.html_base_url),
            rest(api_root(github.api_base_url)),
            github.html_base_url,
        )

    def address(self, asked: Authorize, redirect_uri: str) -> str:
        """Where the browser is sent."""
        query = {
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "state": asked.state,
            "code_challenge": asked.challenge,
            "code_challenge_method": "S256",
        }
        return f"{self._site_url}/login/oauth/authorize?{urlencode(query)}"

    def exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        """The user token for a code. Raises ``GitHubError``, also when GitHub refuses the code."""
        request = Request(
            "oauth_token",
            "POST",
            "/login/oauth/access_token",
            body={
                "client_id": self._client_id,
                "client_secret": self._client_secret,
                "code": code,
                "redirect_uri": redirect_uri,
                "code_verifier": verifier,
            },
            # This address is no part of the API: it answers forms unless asked otherwise.
            accept="application/json",
        )
        body = self._site.call(request, None, self._site.deadline()).body
        token = body.get("access_token") if isinstance(body, dict) else None
        if not isinstance(token, str) or not token:
            # GitHub answers 200 with an error inside.
            why = str(body.get("error", ""))[:60] if isinstance(body, dict) else "no answer"
            raise GitHubUnavailable(f"github.oauth_token: refused ({why})", status=200)
        return token

    def person(self, token: str) -> OAuthPerson:
        """Who the token belongs to. Raises ``GitHubError``."""
        body = self._get("oauth_user", "/user", token)
        return understood("oauth_user", lambda: OAuthPerson(int(body["id"]), str(body["login"])))

    def installations(self, token: str) -> list[AppInstallation]:
        """The installations that the person sees, with their repositories there."""
        found = self._all("oauth_installations", "/user/installations", token, "installations")
        return [
            AppInstallation(
                number,
                account,
                tuple(
                    self._all(
                        "oauth_repositories",
                        f"/user/installations/{number}/repositories",
                        token,
                        "repositories",
                        _repo,
                    )
                ),
            )
            for number, account in found
        ]

    def _all(self, operation: str, path: str, token: str, key: str, read: Any = None) -> list[Any]:
        found: list[Any] = []
        for page in range(1, MOST_PAGES + 1):
            query = {"per_page": str(PER_PAGE), "page": str(page)}
            batch = each(
                operation, self._get(operation, path, token, query), read or _installation, key
            )
            found += batch
            if len(batch) < PER_PAGE:
                break
        return found

    def _get(
        self, operation: str, path: str, token: str, query: dict[str, str] | None = None
    ) -> Any:
        request = Request(operation, "GET", path, query)
        return self._api.call(request, token, self._api.deadline()).body


def _installation(item: dict[str, Any]) -> tuple[int, int | None]:
    account = item.get("account")
    owner = account.get("id") if isinstance(account, dict) else None
    return int(item["id"]), owner if isinstance(owner, int) else None


def _repo(item: dict[str, Any]) -> OAuthRepo:
    rights = item.get("permissions") or {}
    return OAuthRepo(
        str(item["full_name"]),
        bool(item.get("private")),
        frozenset(str(name) for name, given in rights.items() if given is True),
    )
