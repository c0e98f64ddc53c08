"""``coven-github memory``: what an operator sees and decides, and what the book says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coven.cli import exits
from coven.cli.main import main
from coven.memory.book import EntryState
from coven.store import book
from coven.store.engine import Store
from coven.values import InstallationId, RepoId
from tests.ledger import NOW, OTHER, TENANT, put
from tests.memory_book import again, approved, denied, new_entry, pending

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sqlite_url: str
) -> Run:
    """The console entry in this process: exit code, stdout, stderr."""
    monkeypatch.setenv("COVEN_GITHUB__STORAGE__PATH", sqlite_url.removeprefix("sqlite:///"))
    monkeypatch.setattr("getpass.getuser", lambda: "opal")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coven-github", "memory", *words])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


def test_an_operator_sees_approves_and_rejects(run: Run, sqlite_store: Store) -> None:
    put(sqlite_store)
    one, two = (
        pending(sqlite_store, place, text, keep=None)
        for place, text in (("conv/x", "Round\u200b up."), ("conv/y", "Round down."))
    )
    code, out, _ = run("list", "--state", "pending")
    assert code == 0
    assert one.id in out
    assert "Round\\u{200b} up." in out
    assert run("list", "--repo", "octo/demo", "--text", "CONV/Y")[1].count("M-") == 1
    assert run("list", "--installation", str(OTHER))[1] == "No entries.\n"

    code, out, _ = run("approve", one.id.lower())
    assert (code, out) == (0, f"{one.id} is approved: Round\\u{{200b}} up.\n")
    assert again(sqlite_store, one).decided_by_login == "operator:opal"
    assert again(sqlite_store, one).decided_by_id is None
    assert run("deny", two.id)[0] == run("reject", two.id)[0] == 0
    assert again(sqlite_store, two).state is EntryState.REJECTED
    code, _, err = run("approve", two.id)
    assert code == exits.FAILED
    assert f"coven-github memory show {two.id}" in err

    code, out, _ = run("show", one.id)
    assert code == 0
    assert "operator:opal" in out
    assert "repo/octo/demo/conv/x" in out
    facts = json.loads(run("show", one.id, "--json")[1])
    assert [line["act"] for line in facts["decisions"]] == ["approved", "proposed"]


def test_revoke_lift_and_redact(run: Run, sqlite_store: Store) -> None:
    put(sqlite_store)
    entry = approved(sqlite_store)
    code, out, _ = run("revoke", "repo/octo/demo/conv", "--why", "wrong")
    assert (code, out) == (
        0,
        f"repo/octo/demo/conv is revoked. Taken out of use: {entry.id}.\n",
    )
    assert run("revoke", "repo/octo/demo/conv")[1] == "repo/octo/demo/conv was revoked before.\n"
    assert "operator:opal" in run("list", "--revoked")[1]
    assert denied(sqlite_store) == ("repo/octo/demo/conv",)
    assert run("lift", "repo/octo/demo/conv/x")[0] == exits.NOT_FOUND
    assert run("lift", "repo/octo/demo/conv")[1] == "repo/octo/demo/conv is open again.\n"
    assert denied(sqlite_store) == ()
    assert run("redact", entry.id)[0] == 0
    assert "Round" not in run("export", "--installation", str(TENANT))[1]


def test_what_is_shared_reaches_every_repository_until_it_is_not(
    run: Run, sqlite_store: Store
) -> None:
    put(sqlite_store)
    mine = pending(sqlite_store, "conv/x", "Round up.", keep=None)
    assert run("approve", mine.id)[0] == 0
    waits = pending(sqlite_store, "conv/y", "Round down.", keep=None)
    elsewhere = RepoId(99)

    def known() -> list[str]:
        with sqlite_store.read() as tx:
            return [each.key for each in book.usable(TENANT, tx, elsewhere, NOW, shared=True)]

    assert run("share", waits.id)[0] == exits.FAILED  # nobody has approved it
    assert run("unshare", mine.id)[0] == exits.FAILED  # it is not shared
    assert known() == []
    code, out, _ = run("share", mine.id)
    assert (code, out.endswith(" is what all repositories share: Round up.\n")) == (0, True)
    assert run("share", mine.id)[1] == out  # once more changes nothing
    assert known() == [f"tenant/{TENANT}/conv/x"]
    shared_id = out.split()[0]
    log = run("show", shared_id)[1]
    assert f"from {mine.id}" in log
    assert "operator:opal" in log
    assert f"as {shared_id}" in run("show", mine.id)[1]
    code, out, _ = run("unshare", mine.id)
    assert (code, shared_id in out) == (0, True)
    assert known() == []
    assert again(sqlite_store, mine).state is EntryState.APPROVED  # the repository keeps its own
    assert run("share", mine.id)[0] == exits.FAILED  # its place was revoked
    assert run("lift", f"tenant/{TENANT}/conv/x")[0] == 0
    assert run("share", mine.id)[0] == 0


def test_what_several_installations_know_must_be_told_apart(run: Run, sqlite_store: Store) -> None:
    put(sqlite_store)
    put(sqlite_store, installation_id=OTHER, repo_id=RepoId(8))
    code, _, err = run("revoke", "repo/octo/demo")
    assert code == exits.NOT_FOUND
    assert "--installation" in err
    assert run("revoke", "repo/octo/demo", "--installation", str(OTHER))[0] == 0
    assert denied(sqlite_store) == ()
    with sqlite_store.read() as tx:
        assert len(book.revocations(OTHER, tx)) == 1


def test_an_export_is_json_lines_of_one_installation(run: Run, sqlite_store: Store) -> None:
    put(sqlite_store)
    mine = approved(sqlite_store)
    with sqlite_store.write() as tx:
        book.propose(InstallationId(77), tx, new_entry(), NOW)
    code, out, _ = run("export", "--installation", str(TENANT), "--repo", "octo/demo")
    assert code == 0
    (row,) = map(json.loads, out.splitlines())
    assert (row["id"], row["key"], row["installation_id"]) == (mine.id, mine.key, TENANT)
    assert run("export")[0] == exits.UNUSABLE


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "M-00000000"), exits.NOT_FOUND),
        (("approve", "../x"), exits.NOT_FOUND),
        (("revoke", "repo/octo/../demo"), exits.FAILED),
        (("revoke", "repo/octo/nowhere"), exits.NOT_FOUND),
        (("lift", "tenant/999/x"), exits.FAILED),
        (("list", "--repo", "octo"), exits.UNUSABLE),
        (("list", "--repo", "octo/nowhere"), exits.NOT_FOUND),
    ],
)
def test_what_is_not_there_is_said_with_the_next_step(
    run: Run, sqlite_store: Store, words: tuple[str, ...], code: int
) -> None:
    put(sqlite_store)
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert err


def test_help_names_every_command(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name in ("list", "show", "approve", "reject", "revoke", "lift", "export", "redact"):
        assert f" {name} " in out
