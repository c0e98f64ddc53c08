from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from coven.errors import ConfigurationError
from coven.settings.models import Server, Settings
from coven.settings.secret_key import FILE_NAME, resolve_secret_key


def settings_in(path: Path, key: str | None = None) -> Settings:
    return Settings(server=Server.model_validate({"state_dir": path, "secret_key": key}))


def test_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "deep" / "state")
    key = resolve_secret_key(settings)
    assert len(key) == 32
    assert resolve_secret_key(settings) == key
    path = settings.server.state_dir / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(p.name for p in path.parent.iterdir()) == [FILE_NAME]


def test_two_state_dirs_have_two_keys(tmp_path: Path) -> None:
    assert resolve_secret_key(settings_in(tmp_path / "a")) != resolve_secret_key(
        settings_in(tmp_path / "b")
    )


def test_a_configured_key_wins_and_writes_nothing(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "state", "configured-key")
    assert resolve_secret_key(settings) == b"configured-key"
    assert not (tmp_path / "state").exists()


def test_everybody_who_races_gets_the_same_key(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "state")
    keys: list[bytes] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        keys.append(resolve_secret_key(settings))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


@pytest.mark.parametrize("content", ["", "zz", "00" * 31, "00" * 33, "secret"])
def test_a_damaged_key_file_is_refused_without_its_content(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(ConfigurationError, match="damaged"):
        resolve_secret_key(settings_in(tmp_path))


def test_a_readable_key_file_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("ab" * 32)
    path.chmod(0o644)
    resolve_secret_key(settings_in(tmp_path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_state_dir_that_is_a_file_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(ConfigurationError, match=r"server\.state_dir"):
        resolve_secret_key(settings_in(tmp_path / "state"))
