"""What a new App asks GitHub for: derived from the roles and events that the code uses. Pure.

https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coven.github.events import EVENTS, Sent
from coven.github.roles import Role

WEBHOOK_PATH = "/webhook"
SIGN_IN_PATH = "/ops/login/github/callback"
"""Where people come back to who sign in on the dashboard."""
HOMEPAGE = "https://github.com/OpenCoven/coven-github"
"""The homepage that GitHub insists on, for an App whose server has no public address yet."""
NOWHERE = "https://example.com/webhook"
"""Stands in for a webhook address while the webhook is switched off; nothing is sent there."""

_RANK = {"read": 1, "write": 2}


@dataclass(frozen=True, slots=True)
class Grants:
    """What the operator wants beyond reviews."""

    fixes: bool = True
    """Familiars may push branches: contents: write instead of read."""
    member_events: bool = False
    """Hear of changed rights at once: needs the organization permission members: read."""


def permissions(grants: Grants) -> dict[str, str]:
    """The least that serves every role in use, by GitHub's name of each permission."""
    needed: dict[str, str] = {}
    for role in Role:
        if role is Role.PUSH and not grants.fixes:
            continue
        for name, level in role.permissions.items():
            needed[name] = max(level, needed.get(name, ""), key=lambda word: _RANK.get(word, 0))
    if grants.member_events:
        needed["members"] = "read"
    return dict(sorted(needed.items()))


def events(grants: Grants) -> tuple[str, ...]:
    """What to subscribe to; what GitHub sends to every App is not subscribed to."""
    wanted = {Sent.SUBSCRIBED} | ({Sent.OPTIONAL} if grants.member_events else set())
    return tuple(event.name for event in EVENTS.values() if event.sent in wanted)


@dataclass(frozen=True, slots=True)
class Lack:
    """Something the App has not. ``vital``: without it the App is no use; else one part is off."""

    what: str
    vital: bool


def lacks(granted: Mapping[str, Any], subscribed: tuple[str, ...]) -> list[Lack]:
    """What an App with these permissions and events lacks."""
    found = []
    reviews = permissions(Grants(fixes=False))
    for name, level in permissions(Grants()).items():
        have = _RANK.get(str(granted.get(name, "")), 0)
        if have < _RANK[level]:
            found.append(Lack(f"permission {name}: {level}", have < _RANK[reviews[name]]))
    for name in events(Grants()):
        if name not in subscribed:
            found.append(Lack(f"event {name}", name in ("pull_request", "issue_comment")))
    return found


def surplus(granted: Mapping[str, Any]) -> list[str]:
    """Permissions that nothing here uses, as ``name: level``."""
    used = permissions(Grants(member_events=True))
    return [
        f"{name}: {level}"
        for name, level in sorted(granted.items())
        if _RANK.get(str(level), 9) > _RANK.get(used.get(name, ""), 0)
    ]


def manifest(
    *,
    name: str,
    grants: Grants,
    redirect_url: str,
    public_url: str | None,
    webhook_url: str | None,
    public: bool = False,
) -> dict[str, Any]:
    """The document for GitHub's form. Without ``webhook_url`` the webhook is off to begin with."""
    shown: dict[str, Any] = {
        "name": name,
        "description": "A familiar that reviews pull requests and works on issues.",
        "url": public_url or HOMEPAGE,
        "hook_attributes": {"url": webhook_url or NOWHERE, "active": webhook_url is not None},
        "redirect_url": redirect_url,
        "public": public,
        "default_permissions": permissions(grants),
        "default_events": list(events(grants)),
    }
    if public_url is not None:
        shown["callback_urls"] = [f"{public_url}{SIGN_IN_PATH}"]
    return shown
