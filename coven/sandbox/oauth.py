"""Signing in through the App: the page that asks, the code, the token, and what it may read.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
Codes live ten minutes and work once; PKCE with S256. Whoever opens the page chooses who they are.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlencode

from flask import Flask, Response, request
from markupsafe import Markup

from coven.sandbox import render
from coven.sandbox.auth import bearer
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, Installation, Repo, User, now

CLIENT_SECRET = "sandbox-client-secret-0123456789abcdef"  # noqa: S105 - of a GitHub on localhost
CODE_LIFE = timedelta(minutes=10)
_PAGE = Markup(
    "<!doctype html><html lang=en><title>Authorize</title><h1>Authorize {}</h1>"
    "<p>Who are you?<ul>{}</ul>"
)


@dataclass(frozen=True)
class _Code:
    user_id: int
    challenge: str
    redirect_uri: str
    until: datetime


@dataclass
class OAuthPages:
    """The OAuth side of the sandbox. Codes and user tokens live in memory."""

    hub: Hub
    _codes: dict[str, _Code] = field(default_factory=dict)
    _tokens: dict[str, int] = field(default_factory=dict)

    def register(self, flask: Flask) -> None:
        """Add the routes."""
        flask.add_url_rule("/login/oauth/authorize", "oauth_authorize", self.authorize)
        flask.add_url_rule(
            "/login/oauth/access_token", "oauth_token", self.exchange, methods=["POST"]
        )
        for prefix in ("", "/api/v3"):
            for rule, name, view in (
                ("/user", "oauth_user", self.user),
                ("/user/installations", "oauth_installations", self.installations),
                (
                    "/user/installations/<int:installation_id>/repositories",
                    "oauth_repositories",
                    self.repositories,
                ),
            ):
                flask.add_url_rule(prefix + rule, f"{name} {prefix}", view)

    def authorize(self) -> Response:
        """Ask who it is, then send the browser back with a code."""
        asked = request.args
        app = self.hub.app
        if asked.get("client_id") != app.client_id or not asked.get("redirect_uri"):
            return Response("This App is not known.", 404)
        login = asked.get("login")
        people = [u for u in self.hub.state.users.values() if u.type == "User" and not u.deleted]
        if login is None:
            items = Markup("").join(
                Markup('<li><a href="?{}">{}</a>').format(
                    urlencode({**asked.to_dict(), "login": each.login}), each.login
                )
                for each in people
            )
            return Response(_PAGE.format(app.name, items), mimetype="text/html")
        chosen = next((u for u in people if u.login.casefold() == login.casefold()), None)
        answer = {"state": asked.get("state", "")}
        if chosen is None:
            answer |= {"error": "access_denied"}
        else:
            code = secrets.token_hex(10)
            self._codes[code] = _Code(
                chosen.id,
                asked.get("code_challenge", ""),
                asked["redirect_uri"],
                now() + CODE_LIFE,
            )
            answer |= {"code": code}
        where = f"{asked['redirect_uri']}?{urlencode(answer)}"
        return Response(status=302, headers={"Location": where})

    def exchange(self) -> Response:
        """A user token for a code: once, and only for whoever has the verifier."""
        body = request.get_json(silent=True) or {}
        code = self._codes.pop(str(body.get("code", "")), None)
        if body.get("client_id") != self.hub.app.client_id or not hmac.compare_digest(
            str(body.get("client_secret", "")), CLIENT_SECRET
        ):
            return _json({"error": "incorrect_client_credentials"})
        digest = hashlib.sha256(str(body.get("code_verifier", "")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            code is None
            or code.until <= now()
            or code.challenge != challenge
            or code.redirect_uri != body.get("redirect_uri")
        ):
            return _json({"error": "bad_verification_code"})
        token = f"ghu_{secrets.token_hex(18)}"
        self._tokens[token] = code.user_id
        if "json" not in request.headers.get("Accept", "").split("+")[0]:
            return Response(urlencode({"access_token": token, "token_type": "bearer"}))
        return _json({"access_token": token, "token_type": "bearer", "scope": ""})

    def user(self) -> Response:
        """Who the token belongs to."""
        person = self._person()
        return _bad() if person is None else _json(render.public_user(self.hub, person))

    def installations(self) -> Response:
        """The installations with a repository that the person has a role in."""
        person = self._person()
        if person is None:
            return _bad()
        found = [
            each
            for each in self.hub.state.installations.values()
            if not each.deleted and (each.account_id == person.id or self._repos(each, person))
        ]
        shown = [render.installation(self.hub, each) for each in found]
        return _json({"total_count": len(shown), "installations": shown})

    def repositories(self, installation_id: int) -> Response:
        """The person's repositories in one installation, with what they may do there."""
        person = self._person()
        if person is None:
            return _bad()
        found = self.hub.state.installations.get(installation_id)
        if found is None or found.deleted:
            return _json({"message": "Not Found"}, 404)
        shown = []
        for repo in self._repos(found, person):
            role = self.hub.role(repo, person)
            level = role.permission
            rights = {
                "admin": level == "admin",
                "maintain": role.base in ("admin", "maintain"),
                "push": level in ("admin", "write"),
                "triage": role.base in ("admin", "maintain", "write", "triage"),
                "pull": level != "none",
            }
            shown.append({**render.repository(self.hub, repo), "permissions": rights})
        return _json({"total_count": len(shown), "repositories": shown})

    def _repos(self, found: Installation, person: User) -> list[Repo]:
        return [
            repo
            for repo in self.hub.state.repos.values()
            if repo.owner_id == found.account_id
            and not repo.deleted
            and (found.repo_ids is None or repo.id in found.repo_ids)
            and (person.id in repo.roles or person.id == repo.owner_id)
        ]

    def _person(self) -> User | None:
        credential = bearer(request.headers.get("Authorization", "")) or ""
        user_id = self._tokens.get(credential)
        return None if user_id is None else self.hub.account(user_id)


def _bad() -> Response:
    return _json({"message": "Bad credentials"}, 401)


def _json(body: JSON, status: int = 200) -> Response:
    return Response(json.dumps(body), status, mimetype="application/json")
