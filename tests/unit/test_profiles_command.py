"""Which command and authority a profile gives a lane."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coven.settings.models import Container, Familiar, Settings, Worker
from coven.values import Lane
from tests.unit.test_brief_lanes import FAMILIAR, WORKSPACE
from worker.profiles import model_id, profile_for

REPAIR = ["--hosted-repair", "--max-turns", "60", "--agent", "build"]


def configured(profile: str, **worker: object) -> Settings:
    return Settings(worker=Worker(profile=profile, **worker))  # type: ignore[arg-type]


def test_contract_v2_is_the_letter_of_the_contract() -> None:
    settings = configured("contract-v2")
    argv = profile_for(settings, Lane.FIX).command(settings, WORKSPACE, FAMILIAR)
    assert argv == [
        "coven-code",
        "--headless",
        "--context",
        "/w/0/a/brief.json",
        "--output",
        "/w/0/a/out/result-1.json",
    ]


@pytest.mark.parametrize(
    ("profile", "lane", "mode", "token", "repair"),
    [
        ("contract-v2", Lane.REVIEW, "review", False, False),
        ("contract-v2", Lane.FIX, "edit", True, False),
        ("coven-code", Lane.REVIEW, "review", False, False),
        ("coven-code", Lane.FIX, "repair", False, True),
    ],
)
def test_only_a_writing_lane_of_contract_v2_gets_the_token(
    profile: str, lane: Lane, mode: str, token: bool, repair: bool
) -> None:
    found = profile_for(configured(profile), lane)
    assert (found.mode, found.hands_token, found.hosted_repair) == (mode, token, repair)


def test_the_runtime_of_today_edits_with_file_tools_only() -> None:
    settings = configured("coven-code")
    argv = profile_for(settings, Lane.FIX).command(settings, WORKSPACE, memory_reads=True)
    assert argv[6:] == REPAIR


def test_the_runtime_of_today_reviews_read_only() -> None:
    settings = configured("coven-code", max_turns=5)
    argv = profile_for(settings, Lane.REVIEW).command(settings, WORKSPACE, FAMILIAR)
    assert "--hosted-review" in argv
    assert "--hosted-repair" not in argv
    assert argv[argv.index("--max-turns") + 1] == "5"
    assert argv[argv.index("--model") + 1] == "claude-sonnet-4-6"


def test_an_untrusted_head_gets_none_of_its_own_instructions() -> None:
    settings = configured("coven-code")
    profile = profile_for(settings, Lane.FIX)
    fork = replace(WORKSPACE, trusted=False)
    assert "--no-claude-md" in profile.command(settings, fork, memory_reads=True)
    assert "--no-claude-md" in profile.command(settings, WORKSPACE)
    assert "--no-claude-md" not in profile.command(settings, WORKSPACE, memory_reads=True)


def test_a_container_has_its_own_binary() -> None:
    settings = configured(
        "contract-v2", backend="container", container=Container(coven_code_bin="/opt/coven-code")
    )
    assert profile_for(settings, Lane.FIX).command(settings, WORKSPACE)[0] == "/opt/coven-code"


def test_the_control_lane_has_no_session() -> None:
    with pytest.raises(ValueError, match="control"):
        profile_for(configured("coven-code"), Lane.CONTROL)


@pytest.mark.parametrize(
    ("model", "bare"),
    [
        ("anthropic/claude-x", "claude-x"),
        ("claude-x", "claude-x"),
        ("sandbox:fix", "sandbox:fix"),
        ("anthropic/", None),
        (None, None),
    ],
)
def test_the_provider_prefix_is_cut_for_the_runtime_of_today(
    model: str | None, bare: str | None
) -> None:
    familiar = Familiar(id="cody", display_name="Cody", bot_username="cody[bot]", model=model)
    assert model_id(configured("coven-code"), familiar) == bare
    assert model_id(configured("contract-v2"), familiar) == model
