"""What a new App is asked for is what the code uses, and what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coven.github.events import EVENTS, HANDLED, Sent
from coven.github.roles import Role
from coven.setup.manifest import (
    SIGN_IN_PATH,
    Grants,
    events,
    lacks,
    manifest,
    permissions,
    surplus,
)
from webhooks.routing import _ROUTES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "github-permissions.md").read_text()


def document(**changes: object) -> dict[str, object]:
    given = {
        "name": "Cody",
        "grants": Grants(),
        "redirect_url": "http://127.0.0.1:1/setup/callback",
        "public_url": "https://coven.example.com",
        "webhook_url": "https://coven.example.com/webhook",
    }
    return manifest(**{**given, **changes})  # type: ignore[arg-type]


def test_permissions_are_the_least_that_serves_every_role() -> None:
    rank = {"read": 1, "write": 2}
    needed: dict[str, str] = {}
    for role in Role:
        for name, level in role.permissions.items():
            if rank[level] > rank.get(needed.get(name, ""), 0):
                needed[name] = level
    assert document()["default_permissions"] == needed


def test_no_fixes_means_that_nothing_can_be_pushed() -> None:
    assert permissions(Grants(fixes=False))["contents"] == "read"
    assert Role.PUSH.permissions["contents"] == "write"


def test_events_are_those_that_the_receiver_routes() -> None:
    subscribed = set(events(Grants()))
    sent_to_all = {e.name for e in EVENTS.values() if e.sent in (Sent.ALWAYS, Sent.LISTED)}
    assert set(_ROUTES) <= subscribed
    assert subscribed | sent_to_all | set(events(Grants(member_events=True))) == set(HANDLED)
    assert not subscribed & sent_to_all


def test_every_event_has_the_permission_that_it_needs() -> None:
    for grants in (Grants(), Grants(member_events=True)):
        granted = permissions(grants)
        for name in events(grants):
            needed = EVENTS[name].permission or ""
            assert needed.lower().replace(" ", "_") in granted


def test_the_page_says_the_same() -> None:
    table = PAGE.partition("## Tokens")[0]
    asked = {
        name.lower().replace(" ", "_"): level
        for name, level in re.findall(r"^\| ([A-Z][A-Za-z ]+) \| (read|write) \|", table, re.M)
    }
    assert asked == permissions(Grants())
    subscribed = PAGE.partition("## Events")[2].partition("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", subscribed, re.M) == list(events(Grants()))


def test_people_come_back_to_the_address_that_the_dashboard_answers() -> None:
    assert document()["callback_urls"] == [f"https://coven.example.com{SIGN_IN_PATH}"]
    login = (ROOT / "webhooks" / "dashboard" / "login.py").read_text()
    assert f'}}{SIGN_IN_PATH}"' in login


def test_without_an_address_the_webhook_is_off_and_nobody_signs_in() -> None:
    shown = document(public_url=None, webhook_url=None)
    assert shown["hook_attributes"]["active"] is False  # type: ignore[index]
    assert "callback_urls" not in shown


@pytest.mark.parametrize(
    ("permission", "level", "vital"),
    [("contents", "read", False), ("contents", None, True), ("checks", None, True)],
)
def test_what_an_app_lacks_is_told_apart_by_what_stops_working(
    permission: str, level: str | None, vital: bool
) -> None:
    granted = permissions(Grants()) | {permission: level}
    (found,) = lacks(granted, events(Grants()))
    assert (permission in found.what, found.vital) == (True, vital)


def test_each_missing_event_is_named() -> None:
    wanted = events(Grants())
    for name in wanted:
        (found,) = lacks(permissions(Grants()), tuple(e for e in wanted if e != name))
        assert found.what == f"event {name}"


def test_what_nothing_uses_is_surplus() -> None:
    assert surplus(permissions(Grants(member_events=True))) == []
    assert surplus({"workflows": "write", "issues": "admin"}) == [
        "issues: admin",
        "workflows: write",
    ]
