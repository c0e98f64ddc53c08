from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from coven import api_tokens as values
from coven.api_tokens import TokenScope
from coven.cli import exits
from coven.cli.main import main
from coven.clock import SystemClock
from coven.settings.models import Api
from coven.store import api_audit, sweeps
from coven.store.engine import Store
from webhooks.api.auth import Tokens, Unauthorized

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    sqlite_store: Store,
) -> Run:
    """The ``tokens`` commands on the store of this test."""
    path = tmp_path / "c.toml"
    path.write_text(f'[storage]\npath = "{sqlite_store.engine.url.database}"\n')

    def call(*words: str) -> tuple[int, str, str]:
        argv = ["coven-github", "tokens", *words, "--config", str(path)]
        monkeypatch.setattr(sys, "argv", argv)
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


def made(run: Run, *words: str) -> dict[str, str]:
    code, out, _ = run("create", "--name", "dash", *words, "--json")
    assert code == exits.DONE
    told: dict[str, str] = json.loads(out)
    return told


def test_a_token_is_shown_once_and_works(run: Run, sqlite_store: Store) -> None:
    code, out, _ = run("create", "--name", "dash", "--installation", "41", "--scope", "admin")
    assert code == exits.DONE
    secret = out.splitlines()[0]
    caller = Tokens(Api(), sqlite_store).caller(secret, SystemClock().now())
    assert (caller.installation, caller.scope) == (41, TokenScope.ADMIN)
    for words in (["list"], ["list", "--json"]):
        _, out, _ = run(*words)
        assert str(values.id_of(secret)) in out
        assert secret not in out
        assert values.digest_of(secret) not in out


@pytest.mark.parametrize("words", [[], ["--service", "--installation", "41"]])
def test_whose_data_a_token_sees_must_be_said(run: Run, words: list[str]) -> None:
    code, out, err = run("create", "--name", "x", *words)
    assert (code, out) == (exits.UNUSABLE, "")
    assert "--installation" in err


def test_a_rotated_token_works_on_for_the_grace_and_its_successor_at_once(
    run: Run, sqlite_store: Store
) -> None:
    old = made(run, "--installation", "41", "--scope", "memory:write")
    code, out, _ = run("rotate", old["id"], "--grace-hours", "2", "--json")
    assert code == exits.DONE
    new = json.loads(out)
    assert new["replaces"] == old["id"]
    tokens, now = Tokens(Api(), sqlite_store), SystemClock().now()
    assert tokens.caller(new["token"], now).scope is TokenScope.MEMORY_WRITE
    assert tokens.caller(old["token"], now + timedelta(hours=1)).installation == 41
    with pytest.raises(Unauthorized, match="expired"):
        tokens.caller(old["token"], now + timedelta(hours=3))


def test_rotating_never_prolongs_the_old_token(run: Run, sqlite_store: Store) -> None:
    old = made(run, "--service", "--days", "1")
    run("rotate", old["id"], "--grace-hours", "720")
    later = SystemClock().now() + timedelta(days=2)
    with pytest.raises(Unauthorized, match="expired"):
        Tokens(Api(), sqlite_store).caller(old["token"], later)


def test_a_revoked_token_is_worthless_and_has_no_successor(run: Run, sqlite_store: Store) -> None:
    token = made(run, "--service")
    assert run("revoke", token["id"])[0] == exits.DONE
    with pytest.raises(Unauthorized, match="revoked"):
        Tokens(Api(), sqlite_store).caller(token["token"], SystemClock().now())
    assert "before" in run("revoke", token["id"])[1]
    assert run("rotate", token["id"])[0] == exits.FAILED
    assert "revoked" in run("list")[1]


def test_an_unknown_token_is_not_found(run: Run) -> None:
    for command in ("revoke", "rotate"):
        assert run(command, "0123456789ab")[0] == exits.NOT_FOUND


def test_what_the_operator_does_with_tokens_is_recorded(run: Run, sqlite_store: Store) -> None:
    token = made(run, "--installation", "41")
    run("rotate", token["id"])
    run("revoke", token["id"])
    with sqlite_store.read() as tx:
        found = sweeps.audit_page(tx, api_audit.Wanted(caller="operator"), 10)
    assert [entry.action for entry in reversed(found)] == [
        "create_token",
        "rotate_token",
        "revoke_token",
    ]
