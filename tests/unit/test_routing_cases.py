"""Every rule of routing and grammar, by a table in which each row names its rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from coven.github.events import HANDLED
from tests.support.routing import ABSENT, Case, body_of, holds, outcome, settings_of
from tests.support.routing_cases import CASES, ON
from webhooks import payloads, routing


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


FIXED = sorted({case.fixture for case in CASES})
ODD = st.sampled_from(
    [ABSENT, None, 0, -1, 10**30, True, "", "x", "\x00\ud800", [], [None], {}, {"id": 0}, 1.5]
)
STEPS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(st.sampled_from(FIXED), st.lists(st.tuples(STEPS, ODD), min_size=1, max_size=3))
@given_settings(deadline=None, max_examples=400)
def test_an_odd_payload_is_taken_or_refused_by_name(
    fixture: str, changes: list[tuple[list[int], object]]
) -> None:
    case = Case("odd", fixture, "", config=ON)
    body = body_of(case)
    for steps, value in changes:
        _spoil(body, steps, value)
    facts = payloads.facts_of(body)
    refused = None
    try:
        routing.route(fixture.split(".")[0], body, facts, settings_of(ON), 9001)
    except payloads.BadPayload as error:
        refused = error.reason
    assert refused is None or refused.startswith(("bad_field:", "missing_field:"))


def _spoil(body: Any, steps: list[int], value: object) -> None:
    """Walk down by the numbers of the keys, and put ``value`` there."""
    for number, step in enumerate(steps):
        if not isinstance(body, dict) or not body:
            return
        key = sorted(body)[step % len(body)]
        if number < len(steps) - 1 and isinstance(body[key], dict) and body[key]:
            body = body[key]
        elif value is ABSENT:
            del body[key]
            return
        else:
            body[key] = value
            return


def named(case: Case) -> str:
    return case.fixture.split(".")[1] if "." in case.fixture else ""
