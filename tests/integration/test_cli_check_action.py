"""``governance check-action`` and ``governance hook`` on a machine of an operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from coven.cli import check_action as commands
from coven.store.engine import Store
from tests.support.governance import Office, office


@pytest.fixture
def desk(sqlite_store: Store, tmp_path: Path) -> Office:
    made = office(sqlite_store, tmp_path)
    made.admin.add("X1", "filesystem_write", '{"glob":"/srv/**"}', "refuse", "not there")
    made.admin.add("X2", "network_request", '{"host":"evil.example"}', "escalate", "ask first")
    return made


def run(desk: Office, sqlite_url: str, *words: str, event: object = None) -> Result:
    config = desk.settings.server.state_dir.parent / "config.toml"
    config.write_text(
        f'[server]\nstate_dir = "{desk.settings.server.state_dir}"\n'
        f'[storage]\npath = "{sqlite_url.removeprefix("sqlite:///")}"\n'
        "[governance]\nenabled = true\n"
    )
    app = typer.Typer()
    app.command("check-action")(commands.check_action)
    app.add_typer(commands.hook_app, name="hook")
    return CliRunner().invoke(
        app,
        [*words, *(["--config", str(config)] if words[0] == "check-action" else [])],
        input=event if isinstance(event, str) else json.dumps(event),
    )


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["--kind", "bash", "--command", "echo x > /srv/y"], 2, "Refuse: X1 — not there"),
        (["--kind", "bash", "--command", "curl evil.example"], 2, "Escalate: X2 — ask first"),
        (["--kind", "bash", "--command", "ls"], 0, "Allow"),
        (["--kind", "filesystem_write", "--path", "/srv/a"], 2, "Refuse: X1 — not there"),
        (["--kind", "bash"], 3, ""),
        ([], 3, ""),
    ],
)
def test_one_action_is_judged(
    desk: Office, sqlite_url: str, words: list[str], code: int, shown: str
) -> None:
    result = run(desk, sqlite_url, "check-action", *words)
    assert (result.exit_code, result.stdout.strip()) == (code, shown)


def test_the_json_says_when_it_is_blocked(desk: Office, sqlite_url: str) -> None:
    words = ("check-action", "--kind", "network_request", "--host", "EVIL.example", "--json")
    found = json.loads(run(desk, sqlite_url, *words).stdout)
    assert (found["error"], found["decision"]["rule_id"]) == ("GOVERNANCE_ESCALATED", "X2")


def test_an_event_is_judged_and_on_record(desk: Office, sqlite_url: str) -> None:
    event = {"hook_event_name": "PreToolUse", "tool_name": "Write", "cwd": "/w",
             "tool_input": {"file_path": "/srv/x", "content": ""}}  # fmt: skip
    result = run(desk, sqlite_url, "check-action", "--from-pretool-stdin", event=event)
    assert result.exit_code == 2
    assert "X1: not there" in result.stderr
    event["tool_input"] = {"file_path": "/w/x", "content": ""}
    result = run(desk, sqlite_url, "check-action", "--from-pretool-stdin", event=event)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    rows = [json.loads(row["payload"]) for row in desk.events("governance.check")]
    assert [row["decision"]["decision"] for row in rows] == ["refuse", "allow"]


@pytest.mark.parametrize("event", ["", "{", '{"event":"PreToolUse"}'])
def test_a_bad_event_is_refused(desk: Office, sqlite_url: str, event: str) -> None:
    result = run(desk, sqlite_url, "check-action", "--from-pretool-stdin", event=event)
    assert result.exit_code == 2


def test_without_a_ledger_an_event_is_refused(desk: Office) -> None:
    event = {"event": "PreToolUse", "tool_name": "Read", "tool_input": {}}
    url = "sqlite:////nowhere/ledger.db"
    result = run(desk, url, "check-action", "--from-pretool-stdin", event=event)
    assert result.exit_code == 2


def test_hooks_are_printed_and_verified(desk: Office, sqlite_url: str, tmp_path: Path) -> None:
    for harness in ("coven-code", "claude-code"):
        printed = run(desk, sqlite_url, "hook", "print", harness).stdout
        [command] = commands.hooks_in(json.loads(printed))
        assert command.endswith("governance check-action --from-pretool-stdin || exit 2")
    file = tmp_path / "settings.json"
    asked = 'json.load(sys.stdin)["tool_name"]'
    good = f"python3 -c 'import json,sys; sys.exit(2 * ({asked} != \"Read\"))'"
    for command, code in ((good, 0), ("true", 1), ("exit 2", 1), ("/nowhere/hook", 1)):
        file.write_text(
            json.dumps(
                {"config": {"hooks": {"PreToolUse": [{"command": command, "blocking": True}]}}}
            )
        )
        assert run(desk, sqlite_url, "hook", "verify", str(file)).exit_code == code
    file.write_text("{}")
    assert run(desk, sqlite_url, "hook", "verify", str(file)).exit_code == 1
