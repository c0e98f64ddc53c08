"""The dashboard in Flask: one view for every row of the tables, and its own headers."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Flask, Response, request

from coven.services import Services
from webhooks.dashboard.asking import Page
from webhooks.dashboard.login import Login
from webhooks.dashboard.pages import PAGES
from webhooks.dashboard.serving import Dashboard
from webhooks.receiver import Receiver

PREFIX = "/ops"
MAX_FORM_BYTES = 64 * 1024
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    # Not no-referrer: browsers then hide the Origin of our own forms too.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie",
}
_STATIC = "public, max-age=31536000, immutable"


def register(app: Flask, services: Services, receiver: Receiver) -> Dashboard:
    """Add all pages to the application."""
    dashboard = Dashboard(services, receiver)
    login = Login(dashboard)
    blueprint = Blueprint(
        "ops", __name__, url_prefix=PREFIX, static_folder="static", static_url_path="/static"
    )
    for rule, name, view, method in (
        ("/login", "login", login.show, "GET"),
        ("/login", "login_token", login.by_token, "POST"),
        ("/login/github", "login_github", login.to_github, "GET"),
        ("/login/github/callback", "login_callback", login.from_github, "GET"),
        ("/logout", "logout", login.leave, "POST"),
    ):
        blueprint.add_url_rule(rule, endpoint=name, view_func=view, methods=[method])
    for page in PAGES:
        blueprint.add_url_rule(
            page.path,
            endpoint=page.name,
            view_func=_view(dashboard, page),
            methods=[page.method],
        )
    blueprint.before_request(_limit)
    app.register_blueprint(blueprint)
    app.extensions["coven_dashboard"] = dashboard
    return dashboard


def is_page(path: str) -> bool:
    """Whether errors of this path are told as pages, and the dashboard's headers hold."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def with_headers(response: Response) -> Response:
    """What browsers are told about a page or a file of ours."""
    response.headers.update(HEADERS)
    if request.path.startswith(f"{PREFIX}/static/") and response.status_code in (200, 304):
        response.headers["Cache-Control"] = _STATIC
        del response.headers["Vary"]
    return response


def _limit() -> None:
    request.max_content_length = MAX_FORM_BYTES


def _view(dashboard: Dashboard, page: Page) -> Any:
    def view(**path: str) -> Response:
        return dashboard.answer(page, path)

    return view
