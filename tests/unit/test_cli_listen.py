"""What is said about an address that can't be listened on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import typer

from coven.cli import exits, listen, running
from coven.settings.loader import Loaded
from coven.settings.models import Settings


def test_a_free_address_is_fine_and_stays_free() -> None:
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port = finder.getsockname()[1]
    for _ in range(2):
        assert listen.problem(f"127.0.0.1:{port}") is None


def test_a_taken_port_and_a_foreign_address_are_told_apart() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = listen.problem(f"127.0.0.1:{holder.getsockname()[1]}")
    assert taken is not None
    assert taken.passes
    assert "in use by another process; stop that one, or choose another port" in taken.text
    foreign = listen.problem("203.0.113.1:8080")
    assert foreign is not None
    assert not foreign.passes
    assert "no such address" in foreign.text


@pytest.mark.parametrize(
    ("command", "app"), [("up", {}), ("web", {}), ("web", {"app_id": 1})], ids=str
)
def test_a_taken_port_ends_the_start_with_one_line(
    command: str,
    app: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        bind = f"127.0.0.1:{holder.getsockname()[1]}"
        settings = Settings.model_validate(
            {"server": {"bind": bind, "state_dir": str(tmp_path / "state")}, "github": app}
        )
        monkeypatch.setattr(running, "load", lambda *_: Loaded(settings, (), None))
        monkeypatch.setattr(running, "usable", lambda *_, **__: settings)
        monkeypatch.setattr(running, "ADDRESS_SECS", 0.0)
        with pytest.raises(typer.Exit) as ended:
            getattr(running, command)(None)
    assert ended.value.exit_code == exits.UNAVAILABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert f"server.bind: {bind} is in use" in line
    assert not (tmp_path / "state").exists()
