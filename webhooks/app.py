"""The Flask app of the receiver: routes of a few lines, JSON for every error, no surprises."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import BadRequest, HTTPException, MethodNotAllowed, RequestEntityTooLarge

from coven.errors import ConfigurationError, CovenError
from coven.services import Services
from webhooks import metrics
from webhooks.api import blueprint as api
from webhooks.dashboard import blueprint as ops
from webhooks.lookup import ClientFactory
from webhooks.readiness import StoreCheck
from webhooks.receiver import Receiver, Request

MAX_BODY_BYTES = 25 * 2**20
"""GitHub sends no larger payloads."""

ReadyCheck = Callable[[], bool]

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
_log = structlog.get_logger(__name__)


def create_app(
    services: Services,
    *,
    ready: Mapping[str, ReadyCheck] | None = None,
    github: ClientFactory | None = None,
) -> Flask:
    """The receiver over these services.

    ``ready`` adds named checks to ``/readyz``; ``github`` replaces the client factory of the
    permission look-up. Raises ``ConfigurationError`` without a webhook secret: an empty one would
    verify everybody's deliveries.
    """
    if not services.settings.github.active_webhook_secrets():
        raise ConfigurationError(
            "github.webhook_secret is not set: set it to the secret of the App's webhook, "
            "or run `coven-github setup`"
        )
    app = Flask("webhooks", static_folder=None)
    # One more than allowed: a body without a declared length is cut here, and must be seen to be
    # too long.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    receiver = Receiver(services, github)
    app.extensions["coven_receiver"] = receiver
    checks: dict[str, ReadyCheck] = {"store": StoreCheck(services)} | dict(ready or {})

    @app.post("/webhook")
    def webhook() -> tuple[Response, int]:
        # Raw bytes first: reading a form would consume what the signature is over.
        raw = _raw_body()
        if len(raw) > MAX_BODY_BYTES:
            raise RequestEntityTooLarge
        headers = request.headers
        reply = receiver.receive(
            Request(
                raw,
                headers.get("X-Hub-Signature-256"),
                headers.get("X-GitHub-Event"),
                headers.get("X-GitHub-Delivery"),
                request.mimetype,
                headers.get("traceparent"),
            )
        )
        return jsonify(reply.body), reply.status

    @app.get("/healthz")
    def healthz() -> tuple[Response, int]:
        return jsonify(ok=True), 200

    @app.get("/readyz")
    def readyz() -> tuple[Response, int]:
        answers = {name: _passes(name, check) for name, check in checks.items()}
        good = all(answers.values())
        return jsonify(ok=good, checks=answers), 200 if good else 503

    app.register_blueprint(api.api_blueprint(services))
    app.register_blueprint(
        metrics.metrics_blueprint(services, lambda name: _passes(name, checks[name]), checks)
    )
    dashboard = ops.register(app, services, receiver)

    def refused(error: HTTPException) -> Response | tuple[Response, int]:
        if ops.is_page(request.path):
            return dashboard.http_error(error)
        return _refused(error)

    def crashed(error: Exception) -> Response | tuple[Response, int]:
        if ops.is_page(request.path):
            return dashboard.crashed(error)
        return _crashed(error)

    app.register_error_handler(HTTPException, refused)
    app.register_error_handler(Exception, crashed)
    app.after_request(_with_headers)
    return app


def _raw_body() -> bytes:
    """The bytes as sent. Raises ``HTTPException``: what can't be read is the sender's fault."""
    try:
        return request.get_data(cache=True, parse_form_data=False)
    except HTTPException:
        raise
    except Exception as error:
        # Each server has its own words for a broken chunk or a client that left.
        _log.warning("body_not_read", why=type(error).__name__)
        raise BadRequest from error


def _passes(name: str, check: ReadyCheck) -> bool:
    try:
        return check()
    except CovenError as error:
        _log.warning("not_ready", check=name, why=str(error))
    except Exception:  # noqa: BLE001 - a check that fails in any way says "not ready"
        _log.exception("not_ready", check=name)
    return False


def _refused(error: HTTPException) -> Response | tuple[Response, int]:
    if api.is_api(request.path):
        return api.refused(error)
    status = error.code or 500
    code = _CODES.get(status, (error.name or "error").lower().replace(" ", "_"))
    response = jsonify(ok=False, error=code)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response, status


def _crashed(error: Exception) -> Response | tuple[Response, int]:
    _log.error("request_crashed", path=request.path, exc_info=error)
    if api.is_api(request.path):
        return api.crashed()
    return jsonify(ok=False, error="internal"), 500


def _with_headers(response: Response) -> Response:
    if ops.is_page(request.path):
        ops.with_headers(response)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
