"""The page about permissions says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coven.github.roles import Role
from webhooks.routing import HANDLED

PAGE = (Path(__file__).parents[2] / "docs" / "github-permissions.md").read_text()


@pytest.mark.parametrize("role", list(Role))
def test_the_page_lists_exactly_the_permissions_of_each_role(role: Role) -> None:
    row = re.search(rf"^\| `{role}` \| (?P<permissions>[^|]+) \|", PAGE, re.MULTILINE)
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


def test_the_page_subscribes_to_exactly_the_events_that_are_handled() -> None:
    table = PAGE.partition("## Events")[2].partition("## Tokens")[0]
    subscribed = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    # GitHub sends installation events to every App, and offers no subscription.
    assert subscribed == set(HANDLED) - {"installation"}
