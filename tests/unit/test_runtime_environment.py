"""The guest's environment is built from nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.errors import ConfigurationError
from worker.runtime.environment import (
    check_allowed,
    child_environment,
    provider_keys,
    secret_environment,
)

WORKER = {
    "ANTHROPIC_API_KEY": "sk-provider",
    "COVEN_GITHUB__GITHUB__PRIVATE_KEY": "pem",
    "GITHUB_TOKEN": "ghs",
    "DATABASE_URL": "postgresql://",
    "LD_PRELOAD": "/evil.so",
}


def _environment(**extra: str) -> dict[str, str]:
    return child_environment(
        home=Path("/a/home"),
        engine_home=Path("/a/home/.coven-code"),
        temporary=Path("/a/tmp"),
        author_name="Cody",
        author_email="cody@example.com",
        extra=extra,
    )


def test_only_documented_names_are_set() -> None:
    documented = (
        "PATH HOME COVEN_CODE_HOME XDG_CONFIG_HOME XDG_CACHE_HOME TMPDIR LANG LC_ALL TERM CI "
        "NO_COLOR NO_PROXY PAGER GIT_PAGER GIT_EDITOR GIT_TERMINAL_PROMPT GIT_CONFIG_GLOBAL "
        "GIT_CONFIG_NOSYSTEM GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME "
        "GIT_COMMITTER_EMAIL"
    )
    assert set(_environment()) == set(documented.split(" "))


def test_an_extra_name_can_not_replace_a_fixed_one() -> None:
    environment = _environment(HOME="/root", ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert environment["HOME"] == "/a/home"
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"


def test_provider_keys_are_taken_by_name_only() -> None:
    assert provider_keys(["ANTHROPIC_API_KEY", "OPENAI_API_KEY"], WORKER) == {
        "ANTHROPIC_API_KEY": "sk-provider"
    }


@pytest.mark.parametrize(
    "name",
    [
        "COVEN_GITHUB__GITHUB__PRIVATE_KEY", "COVEN_GIT_TOKEN", "COVEN_CODE_HOSTED_REVIEW",
        "GITHUB_TOKEN", "GH_TOKEN", "DATABASE_URL", "REDIS_URL", "LD_PRELOAD", "PYTHONPATH",
        "NODE_OPTIONS", "GIT_SSH_COMMAND", "BASH_ENV", "SSH_AUTH_SOCK", "PATH", "HOME", "ENV",
        "ld_preload",
    ],
)  # fmt: skip
def test_names_that_steer_a_session_or_hold_our_credentials_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"worker\.env_allow"):
        provider_keys([name], {name: "x"})


@pytest.mark.parametrize("name", ["", "A=B", "A B", "1A", "Ä", "A\n"])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert check_allowed([name])


def test_the_push_token_is_absent_when_it_is_not_given() -> None:
    assert secret_environment([], WORKER) == {}
    assert secret_environment([], WORKER, git_token="ghs_x") == {"COVEN_GIT_TOKEN": "ghs_x"}


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), max_size=8))
def test_nothing_comes_through_that_is_not_named(environ: dict[str, str]) -> None:
    assert secret_environment(["ANTHROPIC_API_KEY"], environ).keys() <= {"ANTHROPIC_API_KEY"}
