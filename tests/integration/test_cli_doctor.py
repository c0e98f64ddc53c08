"""``coven-github doctor`` as a program: exit codes, table and JSON, and no secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coven.cli.probe import backend_problems
from coven.settings.loader import load_settings

SECRET = "a-very-private-webhook-secret"


def doctor(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(  # noqa: TID251 - a process of this test
        [sys.executable, "-c", "from coven.cli.main import main; main()", "doctor", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_all_mistakes_are_in_one_table_with_exit_code_one(tmp_path: Path) -> None:
    (tmp_path / "coven-github.toml").write_text(
        f"[servr]\n[github]\nwebhook_secret = '{SECRET}'\napi_base_url = 'ftp://x'\n"
        "[worker]\nmax_retries = 99\nbackend = 'host'\n"
    )
    code, text = doctor(tmp_path)
    assert code == 1
    for key in ("servr", "github.api_base_url", "worker.max_retries", "worker.backend"):
        assert key in text
    assert "did you mean 'server'?" in text
    assert "errors" in text
    assert SECRET not in text


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    (tmp_path / "coven-github.toml").write_text(f"[github]\nwebhook_secret = '{SECRET}'\n")
    code, text = doctor(tmp_path, "--json")
    answer = json.loads(text)
    assert code == 1
    assert answer["config"] == str(tmp_path / "coven-github.toml")
    assert answer["errors"] == sum(f["level"] == "error" for f in answer["findings"])
    assert all(f["next_step"] for f in answer["findings"] if f["level"] != "ok")
    assert SECRET not in text


@pytest.mark.parametrize("text", ["[github\n", None])
def test_what_cannot_be_read_is_exit_code_two(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "c.toml").write_text(text)
    assert doctor(tmp_path, "--config", "c.toml")[0] == 2


def test_the_backend_is_asked_in_a_process_of_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[worker]\nbackend = "container"\n[worker.container]\ndocker_bin = "./none"\n')
    problems = backend_problems(path, load_settings(path, {}, tmp_path))
    assert problems
    assert not any("can't be tried" in problem for problem in problems)
