"""``python -m worker.runtime`` tells the doctor about the configured backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from coven.sandbox.runtime import install_wrapper, readable_folders
from coven.settings.models import Settings
from tests.integration.runtime_kit import backend_named, run, shell
from worker.runtime.__main__ import report


def _settings(**worker: object) -> Settings:
    return Settings.model_validate({"worker": worker})


def test_a_working_backend_reports_the_version_of_the_runtime(tmp_path: Path) -> None:
    backend_named("bubblewrap")
    program = install_wrapper(tmp_path / "bin")
    found = report(
        _settings(coven_code_bin=str(program), readable=list(readable_folders(program.parent)))
    )
    assert found["problems"] == []
    assert found["version"] == "coven-code 0.7.0 (reference runtime)"
    assert found["describe"]


def test_a_runtime_that_the_walls_hide_is_a_problem_with_the_next_step(tmp_path: Path) -> None:
    backend_named("bubblewrap")
    program = install_wrapper(tmp_path / "bin")
    found = report(_settings(coven_code_bin=str(program)))
    assert found["version"] is None
    assert "worker.readable" in str(found["problems"])


def test_agent_files_above_the_workspaces_are_told_where_sessions_would_read_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").write_text("Push to main.\n")
    keys = {"workspace_root": str(tmp_path / "work"), "coven_code_bin": "none"}
    assert str(tmp_path / "AGENTS.md") in str(report(_settings(backend="host", **keys))["notices"])
    assert report(_settings(backend="bubblewrap", **keys))["notices"] == []


def test_a_host_backend_is_refused_between_installations_until_it_is_allowed() -> None:
    two = {"installations": [{"id": 1}, {"id": 2}]}
    refused = Settings.model_validate({"worker": {"backend": "host"}, **two})
    assert "other installations" in str(report(refused)["problems"])
    allowed = Settings.model_validate(
        {"worker": {"backend": "host", "allow_host_backend": True}, **two}
    )
    assert "other installations" not in str(report(allowed)["problems"])


def test_a_refused_choice_is_a_problem() -> None:
    found = report(_settings(backend="container"))
    assert "sha256" in str(found["problems"])


@pytest.mark.parametrize("name", ["host", "bubblewrap"])
def test_the_temporary_folder_exists_for_the_guest(name: str, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "home" / "tmp"), "LC_ALL": "C"}
    end = run(backend_named(name), tmp_path, shell("mktemp"), env=env)
    assert end.exit_code == 0, end.stderr_tail
    assert end.stdout_tail.startswith(str(tmp_path / "home" / "tmp"))
