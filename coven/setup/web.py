"""The pages of a registration, for the terminal's own small server and for the receiver.

Only whoever holds the token that was printed in the terminal gets in: the token works once and
becomes a cookie. No script runs, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, redirect, request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from coven.errors import ConfigurationError, CovenError, Retry
from coven.setup.choices import (
    DEFAULT_NAME,
    GITHUB,
    Choices,
    parse_name,
    parse_owner,
    parse_public_url,
    parse_site,
)
from coven.setup.flow import Done, Form, Setup, SetupRefused
from coven.setup.manifest import Grants, events, permissions

COOKIE = "coven_setup"
CALLBACK = "/setup/callback"
MAX_FORM_BYTES = 16_384

_BLANK: Mapping[str, Any] = {
    "host": GITHUB,
    "owner": "",
    "name": DEFAULT_NAME,
    "public_url": "",
    "fixes": True,
    "member_events": False,
}


class Door:
    """Lets in whoever has the token, once; from then on whoever has the cookie."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(24)
        self.csrf = secrets.token_urlsafe(24)
        self._used = False
        self._lock = threading.Lock()

    def open(self, token: str) -> str | None:
        """The cookie for a good token that was not used before."""
        with self._lock:
            if self._used or not _same(self.token, token):
                return None
            self._used = True
            return self._cookie

    def knows(self, cookie: str | None) -> bool:
        return _same(self._cookie, cookie or "")


def register(
    app: Flask,
    setup: Setup,
    door: Door,
    *,
    next_step: str,
    preset: Choices | None = None,
    hosts: frozenset[str] | None = None,
    when_over: Callable[[Done | CovenError], None] = lambda _: None,
) -> None:
    """Add ``/setup`` to ``app``.

    ``preset`` skips the questions; ``hosts``: the only names this server is asked under;
    ``when_over`` is told how it ended, after the page that says so was sent.
    """
    pages = _Pages(setup, door, next_step, preset, hosts, when_over)
    app.add_url_rule("/setup", "setup", pages.start, methods=["GET"])
    app.add_url_rule("/setup", "setup_chosen", pages.chosen, methods=["POST"])
    app.add_url_rule(CALLBACK, "setup_callback", pages.callback, methods=["GET"])


class _Pages:
    def __init__(
        self,
        setup: Setup,
        door: Door,
        next_step: str,
        preset: Choices | None,
        hosts: frozenset[str] | None,
        when_over: Callable[[Done | CovenError], None],
    ) -> None:
        self._setup = setup
        self._door = door
        self._next_step = next_step
        self._preset = preset
        self._hosts = hosts
        self._when_over = when_over
        self._done = False
        loader = PackageLoader("coven.setup", "templates")
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        css, _, _ = loader.get_source(self._templates, "setup.css")
        self._css = Markup(css)  # noqa: S704 - our own file, never somebody's text
        self._digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()

    def start(self) -> Response:
        """The token becomes a cookie; then the questions, or the form when all is decided."""
        token = request.args.get("token")
        if token is not None:
            cookie = self._door.open(token) if self._is_us() else None
            if cookie is None:
                return self._stranger()
            answer = redirect("/setup", 303)
            answer.set_cookie(COOKIE, cookie, httponly=True, samesite="Lax", path="/setup")
            return self._sealed(answer, None)  # type: ignore[arg-type]
        if not self._may():
            return self._stranger()
        if self._preset is not None:
            return self._form(self._preset)
        return self._page("Register a GitHub App", ask=True, asked=dict(_BLANK))

    def chosen(self) -> Response:
        """The answers; the next page posts them to GitHub."""
        if not self._may() or (request.content_length or 0) > MAX_FORM_BYTES:
            return self._stranger()
        given = request.form
        if not _same(self._door.csrf, given.get("csrf", "")):
            return self._stranger()
        asked: dict[str, Any] = {name: given.get(name, "")[:300] for name in _BLANK}
        asked |= {name: name in given for name in ("fixes", "member_events")}
        try:
            choices = Choices(
                parse_site(asked["host"]),
                parse_name(asked["name"]),
                parse_owner(asked["owner"]),
                parse_public_url(asked["public_url"]),
                grants=Grants(asked["fixes"], asked["member_events"]),
            )
        except ConfigurationError as error:
            return self._page(
                "Register a GitHub App", 400, ask=True, asked=asked, problem=_said(error)
            )
        return self._form(choices)

    def callback(self) -> Response:
        """GitHub leads back here with ``code`` and ``state``."""
        if not self._may():
            return self._stranger()
        code, state = request.args.get("code", ""), request.args.get("state", "")
        try:
            done = self._setup.finish(code, state)
        except SetupRefused as error:
            return self._page("Not registered", 400, problem=_said(error))
        except CovenError as error:
            if error.retry is not Retry.NEVER:
                problem = f"{_said(error)}; reload this page to try again"
                return self._page("Not registered yet", 502, problem=problem)
            return self._over(error, self._page("Not registered", 400, problem=_said(error)))
        self._done = True
        return self._over(done, self._page("Registered", done=done))

    def _over(self, end: Done | CovenError, page: Response) -> Response:
        page.call_on_close(lambda: self._when_over(end))
        return page

    def _form(self, choices: Choices) -> Response:
        try:
            form = self._setup.begin(choices, f"{self._origin(choices)}{CALLBACK}")
        except ConfigurationError as error:
            return self._page("Not registered", 400, problem=_said(error))
        facts = [
            ("GitHub", choices.site.html),
            ("Owner", choices.owner or "you"),
            ("Name", choices.name),
            ("Events go to", choices.deliveries_to or "nowhere yet: the webhook stays off"),
            ("Permissions", ", ".join(f"{k}: {v}" for k, v in permissions(choices.grants).items())),
            ("Events", ", ".join(events(choices.grants))),
        ]
        host = urlsplit(choices.site.html).netloc
        return self._page("Register a GitHub App", form=form, facts=facts, host=host)

    def _origin(self, choices: Choices) -> str:
        """This server as the browser sees it; a proxy may have taken the TLS off."""
        public = urlsplit(choices.public_url or "")
        if public.netloc.casefold() == request.host.casefold():
            return f"{public.scheme}://{public.netloc}"
        return request.host_url.rstrip("/")

    def _is_us(self) -> bool:
        return self._hosts is None or request.host in self._hosts

    def _may(self) -> bool:
        return self._is_us() and not self._done and self._door.knows(request.cookies.get(COOKIE))

    def _stranger(self) -> Response:
        return self._page(
            "Not here",
            403,
            problem="This page opens with the address that was printed in the terminal, once. "
            "Start `coven-github setup` again for a new one.",
        )

    def _page(self, title: str, status: int = 200, **context: Any) -> Response:
        form: Form | None = context.get("form")
        shown = {"problem": None, "form": None, "ask": False, "done": None, **context}
        html = self._templates.get_template("setup.html").render(
            css=self._css, title=title, csrf=self._door.csrf, next_step=self._next_step, **shown
        )
        return self._sealed(Response(html, status, content_type="text/html; charset=utf-8"), form)

    def _sealed(self, response: Response, form: Form | None) -> Response:
        target = "'self'"
        if form is not None:
            parts = urlsplit(form.action)
            # Chromium holds redirects after the form against this too: GitHub leads back here.
            target = f"'self' {parts.scheme}://{parts.netloc}"
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; style-src 'sha256-{self._digest}'; base-uri 'none'; "
            f"form-action {target}; frame-ancestors 'none'"
        )
        response.headers["Cache-Control"] = "no-store"
        # No path, so no token; but GitHub is told which origin posts the form.
        response.headers["Referrer-Policy"] = "strict-origin"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def quiet_app() -> Flask:
    """A Flask app that says nothing about itself in its errors."""
    app = Flask("coven.setup", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_FORM_BYTES

    def refused(error: HTTPException) -> tuple[str, int, dict[str, str]]:
        return f"{error.code} {error.name}\n", error.code or 500, {"Content-Type": "text/plain"}

    app.register_error_handler(HTTPException, refused)
    return app


def _said(error: CovenError) -> str:
    return str(error).removeprefix("setup: ")


def _same(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))
