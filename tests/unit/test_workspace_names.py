"""Names of branches, refs and paths: what is ours, what is refused."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.values import TaskId
from worker.workspace.names import (
    branch_problem,
    is_agent_configuration,
    is_git_lookalike,
    is_workflow,
    path_problem,
    ref_problem,
    reserved_branch,
    shown,
)


def test_the_reserved_branch_names_familiar_verb_thread_and_task() -> None:
    name = reserved_branch("cody", "fix", 42, TaskId("0123456789abcdef0123456789abcdef"))
    assert name == "cody/fix-42-01234567"
    assert branch_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "--upload-pack=touch x",
        "-x",
        "../x",
        "a/../b",
        "refs/heads/x",
        "cody/x.lock",
        "cody/x.lock/y",
        "a b",
        "a" * 300,
        "a@{b",
        "a//b",
        "a/",
        "a.",
        "a/.b",
        "HEAD",
        "head",
        "",
        "a\nb",
        "a\n",
        "0" * 40,
        "a:b",
        "cödy/x",
        "a\u200bb",
    ],
)
def test_a_dangerous_branch_name_is_refused_with_a_reason(name: str) -> None:
    assert branch_problem(name)


@pytest.mark.parametrize("name", ["Main/ünïcode", "release-1.2", "a/b/c", "@x", "v1.0"])
def test_foreign_branch_names_that_git_allows_are_accepted(name: str) -> None:
    assert ref_problem(name) is None


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(codec="ascii"), max_size=12))
def test_no_name_is_accepted_that_git_refuses(name: str) -> None:
    if ref_problem(name) is None:
        done = subprocess.run(  # noqa: TID251 - git itself is the judge here
            ["git", "check-ref-format", "--branch", name], capture_output=True
        )
        assert done.returncode == 0, name


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        "GIT~1",
        "git~2",
        ".git.",
        ".git ",
        ".git. .",
        ".git::$INDEX_ALLOCATION",
        ".git:stream",
        ".g\u200cit",
        ".gi\u200dt",
        "\ufeff.git",
    ],
)
def test_lookalikes_of_the_repository_folder_are_seen(name: str) -> None:
    assert is_git_lookalike(name)
    assert path_problem(f"sub/{name}/hooks/x")


@pytest.mark.parametrize("name", [".gitignore", ".gitmodules", ".github", "git", "git~x", "a.git"])
def test_ordinary_names_with_git_in_them_are_no_lookalikes(name: str) -> None:
    assert not is_git_lookalike(name)
    assert path_problem(name) is None


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "a/../b", "..", "a//b", "./a", "a\\b", "a\nb", "a\x1b[2J", "a\u202eb",
     "a\udcff", "x" * 300, "a/" * 600 + "b"],
)  # fmt: skip
def test_paths_that_may_not_be_published_are_refused(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize(
    ("path", "agent"),
    [
        ("AGENTS.md", True),
        ("docs/agents.MD", True),
        ("CLAUDE.md", True),
        (".coven-code/settings.json", True),
        ("sub/.Coven-Code/x", True),
        (".claude/settings.json", True),
        ("src/agents.py", False),
        ("AGENTS.md.txt", False),
        ("coven-code/x", False),
    ],
)
def test_agent_configuration_is_known_by_name_at_any_depth(path: str, agent: bool) -> None:
    assert is_agent_configuration(path) is agent


def test_workflows_are_known_in_any_letter_case() -> None:
    assert is_workflow(".github/workflows/ci.yml")
    assert is_workflow(".GitHub/Workflows/ci.yml")
    assert not is_workflow(".github/dependabot.yml")


@given(st.text(max_size=60))
@settings(deadline=None)
def test_a_shown_name_is_one_visible_line(name: str) -> None:
    text = shown(name)
    assert "\n" not in text
    assert "\x1b" not in text
    text.encode("utf-8")


def test_a_shown_name_escapes_what_could_move_a_cursor() -> None:
    assert shown("a\x1b[2J\nb\u202ec\udcff") == "a\\x1b[2J\\nb\\u202ec\\udcff"
