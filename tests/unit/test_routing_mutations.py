"""Every rule is needed: without it, some row of the table fails."""

from __future__ import annotations

import pytest

from tests.support.mutations import Mutation, without
from tests.support.routing import Case, holds, outcome
from tests.support.routing_cases import CASES
from tests.support.routing_mutations import MUTATIONS


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda m: f"{m.module}-{m.rule}".replace(" ", "-")
)
def test_a_missing_rule_breaks_a_case(mutation: Mutation) -> None:
    with without(mutation) as modules:
        routing, payloads = modules["webhooks.routing"], modules["webhooks.payloads"]
        assert any(broken(routing, payloads, case) for case in CASES)


def test_nothing_breaks_while_every_rule_is_there() -> None:
    same = Mutation("none", "payloads", "class Facts", "class Facts")
    with without(same) as modules:
        routing, payloads = modules["webhooks.routing"], modules["webhooks.payloads"]
        assert [case.rule for case in CASES if broken(routing, payloads, case)] == []


def broken(routing: object, payloads: object, case: Case) -> bool:
    """Whether these modules get the case wrong, be it by a crash."""
    try:
        return not holds(case, outcome(routing, payloads, case))  # type: ignore[arg-type]
    except Exception:
        return True
