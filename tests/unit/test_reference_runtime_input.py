"""Flags, brief and scenario are read as the real program reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coven.sandbox.runtime.brief import BadBrief, read_brief
from coven.sandbox.runtime.flags import BadFlags, parse
from coven.sandbox.runtime.scenario import NAMES, UnknownScenario, parse_scenario

FLAGS = ["--headless", "--context", "b.json", "--output", "r.json"]


def test_the_documented_flags_are_taken() -> None:
    more = ["--max-turns", "60", "--max-budget-usd", "1.5", "--model", "m", "--agent", "build"]
    more += ["--system-prompt", "s", "--append-system-prompt=a", "--no-claude-md"]
    flags = parse([*FLAGS, *more, "--hosted-repair"], {})
    assert (flags.max_turns, flags.model, flags.hosted_repair) == (60, "m", True)


@pytest.mark.parametrize(
    "args",
    [
        [*FLAGS, "--bogus"],
        [*FLAGS, "positional"],
        ["--headless", "--output", "r.json"],
        [*FLAGS, "--max-turns", "many"],
        [*FLAGS, "--max-turns"],
        [*FLAGS, "--max-budget-usd", "a lot"],
        [*FLAGS, "--hosted-repair", "--hosted-review"],
        ["--context", "b.json", "--output", "r.json", "--hosted-repair"],
        ["--headless", "--context", "b.json", "--hosted-repair"],
    ],
)
def test_a_bad_flag_is_refused(args: list[str]) -> None:
    with pytest.raises(BadFlags):
        parse(args, {})


def test_a_boolean_variable_takes_true_and_false_only() -> None:
    assert parse(FLAGS, {"COVEN_CODE_HOSTED_REVIEW": "true"}).hosted_review
    with pytest.raises(BadFlags):
        parse(FLAGS, {"COVEN_CODE_HOSTED_REVIEW": "1"})


def _brief(**changes: Any) -> dict[str, Any]:
    brief: dict[str, Any] = {
        "contract_version": "2",
        "trigger": "issue_assigned",
        "repo": {"owner": "o", "name": "r", "clone_url": "u", "default_branch": "main"},
        "task": {"kind": "fix_issue", "issue_number": 1, "issue_title": "t", "issue_body": ""},
        "familiar": {"id": "cody", "display_name": "Cody", "model": None, "skills": []},
        "workspace": {"root": "/w"},
        "review_context": None,
        "audit_instruction": None,
    }
    return {**brief, **changes}


def _read(tmp_path: Path, value: Any) -> Any:
    path = tmp_path / "brief.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return read_brief(path)


@pytest.mark.parametrize("version", ["2", "3"])
def test_both_versions_are_spoken_and_unknown_keys_are_fine(tmp_path: Path, version: str) -> None:
    brief = _read(tmp_path, _brief(contract_version=version, anything={"goes": 1}))
    assert (brief.version, brief.mode, brief.number) == (version, "none", 1)


def test_a_missing_version_means_three(tmp_path: Path) -> None:
    value = _brief()
    del value["contract_version"]
    assert _read(tmp_path, value).version == "3"


@pytest.mark.parametrize(
    "value",
    [
        "not json", "[]", '{"a": 1, "a": 2}',
        _brief(contract_version="2.0"), _brief(contract_version=2), _brief(trigger=None),
        _brief(task={"kind": "unknown"}), _brief(workspace={}), _brief(familiar={"id": "x"}),
        _brief(task={"kind": "fix_issue", "issue_number": 1, "issue_title": "t",
                     "issue_body": None}),
        _brief(review_context={"kind": "pull_request", "files": [{}]}),
        _brief(audit_instruction=5),
    ],
)  # fmt: skip
def test_a_bad_brief_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(BadBrief):
        _read(tmp_path, value)


def test_a_missing_brief_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBrief):
        read_brief(tmp_path / "missing.json")


@pytest.mark.parametrize("model", [None, "", "claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"])
def test_any_other_model_is_honest_work(model: str | None) -> None:
    scenario = parse_scenario(model)
    assert scenario.chosen == {}
    assert scenario.exit_code is None


def test_scenarios_take_arguments_and_stand_together() -> None:
    scenario = parse_scenario("sandbox:contract-v2,slow:2.5,exit-3")
    assert scenario.has("contract-v2", "slow")
    assert scenario.number("slow", 1) == 2.5
    assert scenario.exit_code == 3
    assert parse_scenario("sandbox:flaky,2").number("flaky", 1) == 2
    assert parse_scenario("sandbox:flaky").number("flaky", 1) == 1


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_scenario_is_known(name: str) -> None:
    assert parse_scenario(f"sandbox:{name}").has(name)


@pytest.mark.parametrize("model", ["sandbox:", "sandbox:nonsense", "sandbox:exit-3,nonsense"])
def test_an_unknown_scenario_is_refused(model: str) -> None:
    with pytest.raises(UnknownScenario):
        parse_scenario(model)
