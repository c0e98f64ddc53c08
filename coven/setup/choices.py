"""What the operator decides before an App is registered: which GitHub, whose App, which name."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from coven.errors import ConfigurationError
from coven.github.urls import api_root
from coven.setup.manifest import WEBHOOK_PATH, Grants

GITHUB = "github.com"
DEFAULT_NAME = "cody-familiar"
MAX_NAME = 34
"""GitHub's limit for the name of an App."""

_LOCAL = {"127.0.0.1", "localhost", "::1"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*\Z")
_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?\Z")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Site:
    """One GitHub: where its pages are, and its API."""

    html: str
    api: str

    @property
    def is_dotcom(self) -> bool:
        return self.html == f"https://{GITHUB}"


def parse_site(text: str) -> Site:
    """``github.com``, ``SUB.ghe.com``, the host of a server, or its URL. Raises
    ``ConfigurationError``."""
    given = text.strip().rstrip("/")
    parts = _split(given if "://" in given else f"https://{given}")
    host = (parts.hostname or "").casefold()
    local = host in _LOCAL
    if parts.path or (not _HOST.match(host) and not local):
        raise _wrong("GitHub host", text, "write github.com, SUB.ghe.com or the host of a server")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise _wrong("GitHub host", text, "https is needed (http works for this machine only)")
    host = host.removeprefix("www.")
    if host == f"api.{GITHUB}" or (host.startswith("api.") and host.endswith(".ghe.com")):
        host = host.removeprefix("api.")
    name = f"[{host}]" if ":" in host else host
    html = f"{parts.scheme}://{name}" + (f":{parts.port}" if parts.port else "")
    return Site(html, api_root(html))


def parse_name(text: str) -> str:
    """A name that GitHub takes and that works as a handle. Raises ``ConfigurationError``."""
    name = " ".join(text.split())
    if not _NAME.match(name) or len(name) > MAX_NAME:
        step = f"use at most {MAX_NAME} letters, digits, spaces and hyphens, such as {DEFAULT_NAME}"
        raise _wrong("name", text, step)
    return name


def parse_owner(text: str | None) -> str | None:
    """The organisation; None for the App of the person. Raises ``ConfigurationError``."""
    owner = (text or "").strip().removeprefix("@")
    if not owner:
        return None
    if not _OWNER.match(owner):
        raise _wrong("organisation", owner, "write its login, or leave it empty for your own App")
    return owner


def parse_public_url(text: str | None) -> str | None:
    """The address where GitHub and people reach this server. Raises ``ConfigurationError``."""
    given = (text or "").strip().rstrip("/")
    return _reachable("public URL", given) if given else None


def parse_webhook_url(text: str | None) -> str | None:
    """The whole address for deliveries. Raises ``ConfigurationError``."""
    given = (text or "").strip()
    return _reachable("webhook URL", given) if given else None


@dataclass(frozen=True, slots=True)
class Choices:
    """Everything that is decided before GitHub is asked."""

    site: Site
    name: str
    owner: str | None = None
    """Login of the organisation; None: the App belongs to whoever registers it."""
    public_url: str | None = None
    webhook_url: str | None = None
    grants: Grants = field(default_factory=Grants)

    @property
    def deliveries_to(self) -> str | None:
        """Where GitHub sends events; None while nobody could be reached."""
        if self.webhook_url is not None:
            return self.webhook_url
        return f"{self.public_url}{WEBHOOK_PATH}" if self.public_url is not None else None

    def form_url(self, state: str) -> str:
        """Where the manifest is posted to."""
        home = f"/organizations/{quote(self.owner, safe='')}" if self.owner else ""
        return f"{self.site.html}{home}/settings/apps/new?{urlencode({'state': state})}"

    def to_json(self) -> dict[str, Any]:
        return {
            "host": self.site.html,
            "name": self.name,
            "owner": self.owner,
            "public_url": self.public_url,
            "webhook_url": self.webhook_url,
            "fixes": self.grants.fixes,
            "member_events": self.grants.member_events,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Choices:
        """Raises ``ConfigurationError`` and ``KeyError``."""
        return cls(
            site=parse_site(str(data["host"])),
            name=parse_name(str(data["name"])),
            owner=parse_owner(data.get("owner")),
            public_url=parse_public_url(data.get("public_url")),
            webhook_url=parse_webhook_url(data.get("webhook_url")),
            grants=Grants(bool(data.get("fixes", True)), bool(data.get("member_events", False))),
        )


def _reachable(what: str, given: str) -> str:
    parts = _split(given)
    host = (parts.hostname or "").casefold()
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise _wrong(what, given, "write it like https://coven.example.com")
    if host in _LOCAL or _is_private(host):
        raise _wrong(
            what,
            given,
            "GitHub can't reach this address; use a public one, a tunnel "
            "(docs/getting-started.md), or leave it empty for now",
        )
    return given


def _is_private(host: str) -> bool:
    # A server inside a company may well be reached at a private address; a loopback one never.
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified or address.is_link_local


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _wrong("address", url, "write it like https://HOST") from None
    if parts.username or parts.password or any(char.isspace() for char in url):
        raise _wrong("address", "", "write it like https://HOST, without a user name")
    return parts


def _wrong(what: str, given: str, step: str) -> ConfigurationError:
    shown = "".join(char if char.isprintable() else "?" for char in given)[:80]
    return ConfigurationError(f"setup: {shown!r} is no usable {what}; {step}")
