"""The page about permissions says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coven.github.events import EVENTS, Sent
from coven.github.roles import Role

PAGE = (Path(__file__).parents[2] / "docs" / "github-permissions.md").read_text()


@pytest.mark.parametrize("role", list(Role))
def test_the_page_lists_exactly_the_permissions_of_each_role(role: Role) -> None:
    tokens = PAGE.partition("## Tokens")[2]
    row = re.search(rf"^\| `{role}` \| (?P<permissions>[^|]+) \|", tokens, re.MULTILINE)
    assert row is not None
    stated = dict(part.split(": ") for part in row["permissions"].strip().split(", "))
    assert stated == role.permissions


def test_the_app_is_asked_for_no_more_than_the_roles_need() -> None:
    table = PAGE.partition("## Tokens")[0]
    asked = {
        name.lower().replace(" ", "_"): level
        for name, level in re.findall(r"^\| ([A-Z][A-Za-z ]+) \| (read|write) \|", table, re.M)
    }
    needed: dict[str, str] = {}
    for role in Role:
        for name, level in role.permissions.items():
            needed[name] = max(level, needed.get(name, ""))
    assert asked == needed


@pytest.mark.parametrize(
    ("heading", "sent"), [("## Events", Sent.SUBSCRIBED), ("### Optional", Sent.OPTIONAL)]
)
def test_the_page_subscribes_to_exactly_the_events_that_are_handled(
    heading: str, sent: Sent
) -> None:
    table = PAGE.partition(heading)[2].partition("\n#")[0]
    rows = set(re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", table, re.M))
    handled = [event for event in EVENTS.values() if event.sent is sent]
    assert rows == {(event.name, event.permission, event.without) for event in handled}


def test_every_event_needs_a_permission_that_the_app_has() -> None:
    table = PAGE.partition("## Events")[0]
    granted = set(re.findall(r"^\| ([A-Z][A-Za-z ]+) \| (?:read|write) \|", table, re.M))
    needed = {e.permission for e in EVENTS.values() if e.sent is Sent.SUBSCRIBED}
    assert needed <= granted


def test_the_page_names_what_is_sent_without_being_asked() -> None:
    table = PAGE.partition("### Optional")[2].partition("## Tokens")[0]
    for event in EVENTS.values():
        if event.sent in (Sent.ALWAYS, Sent.LISTED):
            assert f"`{event.name}`" in table
