"""Registering an App from a manifest: GitHub's page for it, and the exchange of the code.

https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import json
import re
import secrets
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from flask import Flask, Response, redirect, request

from coven.sandbox import render
from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.hub import Hub
from coven.sandbox.pages import Pages
from coven.sandbox.state import JSON, Hook, ManifestCode, now

LIFETIME = timedelta(hours=1)
LOCAL = {"localhost", "127.0.0.1", "::1"}
PERMISSION_OF_EVENT = {
    "check_run": "checks",
    "check_suite": "checks",
    "issue_comment": "issues",
    "issues": "issues",
    "member": "members",
    "membership": "members",
    "organization": "members",
    "pull_request": "pull_requests",
    "pull_request_review": "pull_requests",
    "pull_request_review_comment": "pull_requests",
    "pull_request_review_thread": "pull_requests",
    "push": "contents",
    "repository": "metadata",
    "team": "members",
}
LEVELS = ("read", "write", "admin")


class ManifestPages:
    """Where a manifest is posted to, and where the person confirms it."""

    def __init__(self, hub: Hub, pages: Pages) -> None:
        self.hub = hub
        self._pages = pages
        self._waiting: dict[str, tuple[JSON, str, str | None]] = {}

    def register(self, flask: Flask) -> None:
        for prefix in ("", "/organizations/<org>"):
            rule = f"{prefix}/settings/apps/new"
            flask.add_url_rule(rule, f"new_app{prefix}", self.ask, methods=["POST"])
        flask.add_url_rule("/settings/apps", "create_app", self.create, methods=["POST"])

    def ask(self, org: str | None = None) -> Response:
        """The page on which the person sees the name and confirms."""
        try:
            manifest = json.loads(request.form.get("manifest", ""))
            problem = problem_with(manifest)
        except ValueError:
            problem = "The manifest is not JSON."
        if problem is not None:
            return self._pages.show("new_app.html", 422, title="Not valid", problem=problem)
        key = secrets.token_hex(8)
        with self.hub.state.lock:
            self._waiting[key] = (manifest, request.args.get("state", ""), org)
        back = urlsplit(manifest["redirect_url"])
        return self._pages.show(
            "new_app.html",
            title=f"Create GitHub App for {org or 'you'}",
            problem=None,
            key=key,
            name=manifest.get("name", ""),
            form_action=f"'self' {back.scheme}://{back.netloc}",
        )

    def create(self) -> Response:
        """Confirmed: back to whoever asked, with a code."""
        with self.hub.state.lock:
            found = self._waiting.pop(request.form.get("key", ""), None)
            if found is None:
                return self._pages.show("new_app.html", 404, title="Gone", problem="Not found.")
            manifest, state, org = found
            name = request.form.get("name") or manifest["name"]
            if any(app.slug == slug_of(name) for app in self.hub.state.apps.values()):
                problem = "Name is already taken"
                return self._pages.show("new_app.html", 422, title="Taken", problem=problem)
            code = secrets.token_hex(20)
            self.hub.state.manifests[code] = ManifestCode({**manifest, "name": name}, org, now())
        query = urlencode({"code": code, "state": state})
        return redirect(f"{manifest['redirect_url']}?{query}", 302)  # type: ignore[return-value]


def problem_with(manifest: Any) -> str | None:
    """What GitHub's form would say against a manifest."""
    if not isinstance(manifest, dict) or not manifest.get("url"):
        return "url wasn't supplied"
    if not str(manifest.get("redirect_url", "")).startswith(("http://", "https://")):
        return "redirect_url must be a valid URL"
    hook = manifest.get("hook_attributes", {})
    host = urlsplit(str(hook.get("url", ""))).hostname
    if not host:
        return "Hook url wasn't supplied"
    if host in LOCAL:
        return f"Hook url is not supported because it isn't reachable ({host})"
    permissions = manifest.get("default_permissions", {})
    if not all(level in LEVELS for level in permissions.values()):
        return "Default permission records resource is not included in the list"
    for event in manifest.get("default_events", []):
        if PERMISSION_OF_EVENT.get(event) not in permissions:
            return f"Default events unsupported: {event}"
    if len(manifest.get("callback_urls", [])) > 10:
        return "Too many callback URLs"
    return None


def slug_of(name: str) -> str:
    """What a name becomes in addresses and logins."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def convert(call: Call) -> Answer:
    """``POST /app-manifests/{code}/conversions``: once, within the hour, and for everybody."""
    hub = call.hub
    known = hub.state.manifests.pop(call.args["code"], None)
    if known is None or known.created_at + LIFETIME < now():
        raise not_found()
    manifest = known.manifest
    slug = slug_of(manifest["name"])
    if any(app.slug == slug for app in hub.state.apps.values()):
        raise ApiError(422, "Validation Failed")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    app = hub.add_app(hub.state.new_id(), slug, manifest["name"], public)
    if known.org is not None:
        app.owner_id = hub.ensure_user(known.org, "Organization").id
    app.permissions = {"metadata": "read", **manifest.get("default_permissions", {})}
    app.events = tuple(manifest.get("default_events", ()))
    secret = secrets.token_hex(20)
    hook = manifest["hook_attributes"]
    url = hook["url"] if hook.get("active", True) else None
    hub.state.hook = Hook(hub.state.new_id(), url, secret)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
    shown = {
        **(render.app(hub, app) or {}),
        "client_secret": secrets.token_hex(20),
        "webhook_secret": secret,
        "pem": pem,
    }
    return Answer(shown, 201)


def hook_config(call: Call) -> Answer:
    """``GET /app/hook/config``."""
    hook = call.hub.state.hook
    shown = {"content_type": "json", "insecure_ssl": "0", "url": hook.url or ""}
    if hook.secret:
        shown["secret"] = "********"  # noqa: S105 - as GitHub shows it
    return Answer(shown)


ROUTES = (
    Route("POST", "/app-manifests/<code>/conversions", convert, caller="anyone"),
    Route("GET", "/app/hook/config", hook_config, caller="app"),
)
