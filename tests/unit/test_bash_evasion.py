"""No spelling gets past a rule, and no look-alike is stopped (fixtures/governance/bash.toml)."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

import pytest

from coven.governance.bash import analyse
from coven.governance.evaluate import Decision, decide
from coven.governance.policy import Policy, build_policy
from coven.governance.rules import Rule
from coven.governance.world import Origin, Scope, no_machine

CASES = tomllib.loads(
    Path(__file__).parents[1].joinpath("fixtures/governance/bash.toml").read_text()
)

GOALS = {
    "removal": [("bash", {"argv_prefix": ["rm", "-rf", "/"]}),
                ("filesystem_write", {"glob": "/etc/**", "op": ["delete"]})],
    "removal words": [("bash", {"argv_prefix": ["rm", "-rf", "/"]})],
    "write": [("filesystem_write", {"glob": "/tmp/**"})],
    "fetch": [("network_request", {"host": "evil.example"})],
    "push": [("bash", {"argv_prefix": ["git", "push"], "argv_contains_all": ["--force"]})],
}  # fmt: skip
UNREAD = [("bash", {"unanalyzable": True})]


def policy(*groups: list) -> Policy:
    rules = [
        Rule.read(
            {"id": f"X{n}", "kind": kind, "matcher": matcher, "severity": "refuse", "reason": "no"}
        )
        for n, (kind, matcher) in enumerate(rule for group in groups for rule in group)
    ]
    return build_policy(rules)


POLICIES = {goal: policy(rules) for goal, rules in GOALS.items()}
ONLY_RULE = {
    goal: policy(rules, [("bash", {"unanalyzable": True})]) for goal, rules in GOALS.items()
}
SCOPE = Scope(origin=Origin.TOOL, cwd="/srv/repo", workspace="/srv/repo")
WORLD = no_machine(partial(analyse, home="/home/u"))


def judge(policy: Policy, command: str) -> Decision:
    return decide(lambda: policy, {"kind": "bash", "command": command}, SCOPE, WORLD)


def fired(case: dict) -> set[str]:
    """Which of the two answers a case got: ``rule``, ``unread``."""
    goal, command = case["goal"], case["command"]
    decision = judge(ONLY_RULE[goal], command)
    if decision.rule_id == "governance:malformed_event":
        return {"unread"}
    last = f"X{len(GOALS[goal])}"
    ids = {match.rule_id for match in decision.matched}
    return {"unread" if one == last else "rule" for one in ids}


@pytest.mark.parametrize("case", CASES["case"], ids=lambda case: f"{case['goal']}: {case['trick']}")
def test_no_spelling_gets_past_its_rule(case: dict) -> None:
    assert case.get("found", "rule") in fired(case)


@pytest.mark.parametrize("case", CASES["harmless"], ids=lambda case: case["why"])
def test_a_look_alike_passes(case: dict) -> None:
    decision = judge(policy(*GOALS.values(), UNREAD), case["command"])
    assert (decision.verdict, decision.rule_id) == ("allow", None)


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES["case"]) >= 150
    assert len({(case["goal"], case["command"]) for case in CASES["case"]}) == len(CASES["case"])


def test_a_case_settles_for_unread_only_where_the_rule_does_not_fire() -> None:
    assert [
        case["trick"]
        for case in CASES["case"]
        if case.get("found") == "unread" and fired(case) == {"rule"}
    ] == []
