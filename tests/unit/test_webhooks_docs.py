"""The page about webhooks says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from coven.github.events import EVENTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "webhooks.md").read_text()


def test_the_table_of_events_is_the_one_in_the_code() -> None:
    table = PAGE.partition("## What becomes of an event")[2].partition("\n## ")[0]
    written = {
        (event, action): meaning
        for event, actions, meaning in re.findall(
            r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", table, re.M
        )
        for action in re.findall(r"`(\w+)`", actions) or [""]
    }
    meant = {(e.name, action): text for e in EVENTS.values() for action, text in e.actions.items()}
    assert written == meant


def test_every_reason_that_the_code_gives_is_explained() -> None:
    table = PAGE.partition("## Reasons for `ignored`")[2].partition("\n## ")[0]
    explained = set(re.findall(r"`([a-z_]+)[:`]", table))
    code = "".join(path.read_text() for path in (ROOT / "webhooks").glob("*.py"))
    given = set(re.findall(r'Ignored\(\s*f?"([a-z_]+)', code))
    given |= set(re.findall(r'mark\("([a-z_]+)"', code))
    assert given - explained == set()
