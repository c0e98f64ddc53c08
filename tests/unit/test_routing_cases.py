"""Every rule of routing and grammar, by a table in which each row names its rule."""

from __future__ import annotations

import pytest

from tests.support.routing import Case, holds, outcome
from tests.support.routing_cases import CASES
from webhooks import payloads, routing
from webhooks.events import HANDLED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule.replace(" ", "-"))
def test_a_delivery_becomes_what_its_rule_says(case: Case) -> None:
    got = outcome(routing, payloads, case)
    assert holds(case, got), (case.wanted, got)


def test_every_event_and_action_has_a_case() -> None:
    covered = {
        (case.event or case.fixture.split(".")[0], case.changes.get("action") or named(case))
        for case in CASES
    }
    handled = {(event, action) for event, actions in HANDLED.items() for action in actions}
    assert handled - covered == set()


def named(case: Case) -> str:
    return case.fixture.split(".")[1] if "." in case.fixture else ""
