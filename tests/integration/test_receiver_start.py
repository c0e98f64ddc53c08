"""The receiver's process when it can't do its work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_receiver_without_its_schema_says_so_in_one_line_and_ends(tmp_path: Path) -> None:
    (tmp_path / "coven-github.toml").write_text(
        f'[server]\nstate_dir = "{tmp_path}/state"\n[github]\nwebhook_secret = "not so secret"\n'
    )
    ended = subprocess.run(  # noqa: TID251 - the real server
        [
            *(sys.executable, "-m", "gunicorn", "webhooks.wsgi:app_from_environment()"),
            *("--bind=127.0.0.1:0", "--workers=1"),
            "--config=python:webhooks.gunicorn_conf",
        ],
        env={**os.environ, "COVEN_GITHUB_CONFIG": str(tmp_path / "coven-github.toml")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in ended.stderr.splitlines() if line.startswith("coven-github:")]
    assert len(said) == 1
    assert "run `coven-github db upgrade`" in said[0]
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 3
