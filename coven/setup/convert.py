"""The exchange of the code that GitHub sends back for the new App and its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from coven import __version__
from coven.clock import Clock
from coven.errors import CovenError, GitHubError, GitHubNotFound
from coven.github.keys import parse_app_key
from coven.github.rest import Rest, understood
from coven.github.transport import Request, Transport
from coven.github.urls import path
from coven.governance.wire import Seam
from coven.settings.models import GitHub as GitHubSettings
from coven.setup.choices import Site

CODE_SECS = 3_600
"""GitHub takes a code for one hour, and once."""
_CODE = re.compile(r"[A-Za-z0-9_.-]{8,200}\Z")
_SLUG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,98}[A-Za-z0-9])?\Z")


class BadCode(CovenError):
    """The code is none, was used before, or is older than an hour: register anew."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The new App. The secrets are never part of ``repr``."""

    id: int
    slug: str
    client_id: str
    html_url: str
    pem: str = field(repr=False)
    webhook_secret: str | None = field(repr=False)
    client_secret: str | None = field(repr=False)


def convert(site: Site, code: str, seam: Seam, clock: Clock) -> Registered:
    """Ask GitHub for the App behind ``code``. It answers once: keep what comes back.

    Raises ``BadCode`` when the code is worth nothing, other ``GitHubError`` when it still is.
    """
    if not _CODE.match(code):
        raise BadCode("setup: this is no code from GitHub; start again with `coven-github setup`")
    defaults = GitHubSettings()
    transport = Transport(
        site.api,
        user_agent=f"coven-github/{__version__}",
        api_version=defaults.api_version,
        clock=clock,
        seam=seam,
    )
    rest = Rest(transport, clock, defaults.timeout_secs)
    request = Request(
        "convert_manifest", "POST", path("app-manifests", code, "conversions"), body={}
    )
    try:
        body = rest.call(request, None, rest.deadline()).body
    except GitHubNotFound:
        raise BadCode(
            "setup: GitHub does not know this code: it was used before or is older than an hour; "
            "start again with `coven-github setup` (an App that was made meanwhile can be deleted "
            "on its page)"
        ) from None
    except GitHubError as error:
        shown = str(error).replace(code, "CODE")
        raise type(error)(shown, status=error.status, retry_after=error.retry_after) from None
    return understood("convert_manifest", lambda: _read(site, body))


def _read(site: Site, body: Any) -> Registered:
    slug = str(body["slug"])
    if not _SLUG.match(slug):
        raise ValueError("slug: not usable")
    parse_app_key(str(body["pem"]), "pem")
    html_url = str(body.get("html_url") or "")
    if not html_url.startswith(f"{site.html}/"):
        # A link that the operator is told to open must lead to the GitHub they chose.
        html_url = f"{site.html}/apps/{slug}"
    return Registered(
        id=int(body["id"]),
        slug=slug,
        client_id=str(body.get("client_id") or ""),
        html_url=html_url,
        pem=str(body["pem"]),
        webhook_secret=body.get("webhook_secret") or None,
        client_secret=body.get("client_secret") or None,
    )
