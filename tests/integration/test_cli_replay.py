"""``deliveries replay``: a payload reaches a real receiver, and nothing runs twice."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from coven.cli import exits
from coven.cli.main import main
from coven.store.engine import Store
from tests.integration.receiver_kit import FIXTURES, SECRET, Bench, payload, settings


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store)


@pytest.fixture
def address(bench: Bench) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, bench.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str, address: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(
        f'[server]\nbind = "{address}"\n'
        f'[storage]\npath = "{sqlite_url.removeprefix("sqlite:///")}"\n'
        f'[github]\nwebhook_secret = "{SECRET.decode()}"\n'
    )
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["coven-github", "deliveries", "replay", *words])
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def test_a_file_becomes_a_delivery_and_its_repetition_none(
    bench: Bench, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (str(FIXTURES / "issues.labeled.json"), "--event", "issues", "--id", "mine")
    assert run(monkeypatch, *words, "--config", str(config), "--json") == exits.DONE
    (task,) = bench.tasks()
    out = capsys.readouterr().out
    said = json.loads(out[out.rindex("\n{") :])  # the receiver's log comes first
    assert json.loads(said["body"]) == {"ok": True, "task": task.id}
    assert run(monkeypatch, "mine", "--known", "--config", str(config)) == exits.DONE
    assert '"duplicate":true' in capsys.readouterr().out.replace(" ", "")
    assert len(bench.tasks()) == 1


def test_what_was_ignored_is_routed_anew(
    bench: Bench, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = settings(review={"pull_request": False})
    receiver = Bench(bench.store, off)
    receiver.deliver("pull_request", payload("pull_request.opened"), "first")
    assert bench.tasks() == []
    assert run(monkeypatch, "first", "--known", "--config", str(config)) == exits.DONE
    assert [task.verb for task in bench.tasks()] == ["review"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing-there", "--known"), exits.NOT_FOUND, "no delivery nothing-there is known"),
        (("nothing-there.json", "--event", "issues"), exits.NOT_FOUND, "can't be read"),
        (("nothing-there.json",), exits.UNUSABLE, "--event"),
    ],
)
def test_what_can_not_be_sent_is_said(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert run(monkeypatch, *words, "--config", str(config)) == code
    assert said in capsys.readouterr().err
