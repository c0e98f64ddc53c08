"""The rules over real standard input and output, asked by the official client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from coven.governance.mcp import CHECK_TOOL, LIST_TOOL, MUTATIONS, NOT_AVAILABLE, PROBE, Desk
from coven.store.engine import Store
from tests.support.governance import Office, office

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def made(sqlite_store: Store, tmp_path: Path) -> Office:
    found = office(sqlite_store, tmp_path)
    found.admin.add("X1", "bash", '{"argv_prefix":["rm"]}', "refuse", "no rm")
    found.admin.add("X2", "network_request", '{"host":"evil.example"}', "escalate", "ask first")
    return found


@pytest.fixture
def desk(made: Office) -> Desk:
    return Desk(made.engine, made.admin.recorder, "mcp:test")


def told(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


def test_a_real_client_asks_lists_and_changes_nothing(made: Office, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    state = made.settings.server.state_dir
    config.write_text(
        f'[server]\nstate_dir = "{state}"\n[governance]\nenabled = true\n'
        f'[storage]\npath = "{made.store.engine.url.database}"\n'
    )
    entry = "from coven.cli.main import main; main()"
    words = ["-c", entry, "governance", "serve-mcp", "--config", str(config)]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def talk() -> dict[str, Any]:
        async with (
            stdio_client(server) as (incoming, outgoing),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            tools = await session.list_tools()
            rm = {"kind": "bash", "command": "rm -rf x", "agent_id": "root"}
            return {
                "tools": sorted(tool.name for tool in tools.tools),
                "refused": await session.call_tool(CHECK_TOOL, rm),
                "allowed": await session.call_tool(CHECK_TOOL, {"kind": "bash", "command": "ls"}),
                "rules": await session.call_tool(LIST_TOOL, {"enabled_only": True}),
                "add": await session.call_tool("governance_rule_add", {"id": "X"}),
            }

    found = anyio.run(talk)
    assert found["tools"] == [CHECK_TOOL, LIST_TOOL]
    refused = told(found["refused"])
    assert refused["error"] == "GOVERNANCE_REFUSED"
    assert refused["decision"] == {"decision": "refuse", "rule_id": "X1", "reason": "no rm"}
    assert refused["agent_id"] == "mcp:mcp", "who asks is not the caller's to say"
    assert told(found["allowed"])["decision"] == {"decision": "allow"}
    listed = told(found["rules"])
    assert (listed["count"], [rule["id"] for rule in listed["rules"]]) == (2, ["X1", "X2"])
    assert "matcher" not in listed["rules"][0], "agents are not handed the map of the fence"
    assert found["add"].is_error
    assert found["add"].content[0].text.startswith(NOT_AVAILABLE)
    checks = made.events("governance.check")
    assert [json.loads(row["payload"])["point"] for row in checks] == ["mcp.check"] * 2
    assert len(made.events(PROBE)) == 1
    assert made.proven().ok


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_no_name_changes_a_rule(made: Office, desk: Desk, name: str) -> None:
    before = [dict(row) for row in made.events("governance.policy_advanced")]
    result = desk.call(name, {"id": "X1", "enabled": False})
    assert result.is_error
    assert result.content[0].text.startswith(NOT_AVAILABLE)  # type: ignore[union-attr]
    assert made.events("governance.policy_advanced") == before
    assert json.loads(made.events(PROBE)[-1]["payload"])["tool"] == name


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown tool": ("delete_everything", {}, "there is no tool"),
    "an unknown kind in a list": (LIST_TOOL, {"kind": "telepathy"}, "one of bash"),
    "an unknown key in a list": (LIST_TOOL, {"all": True}, "takes kind"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_call_that_can_t_be_understood_is_an_error_and_says_what_to_do(
    desk: Desk, name: str
) -> None:
    tool, arguments, words = BAD[name]
    result = desk.call(tool, arguments)
    assert result.is_error
    assert words in result.content[0].text  # type: ignore[union-attr]


MALFORMED: dict[str, dict[str, Any]] = {
    "no kind": {"command": "ls"},
    "an unknown kind": {"kind": "telepathy"},
    "a NUL byte": {"kind": "bash", "command": "a\0"},
    "too long": {"kind": "bash", "command": "x" * 70_000},
    "not UTF-8": {"kind": "filesystem_write", "path": "/a\udcff"},
    "another member": {"kind": "bash", "command": "ls", "namespace": "_global"},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_action_that_can_t_be_judged_is_refused(made: Office, desk: Desk, name: str) -> None:
    found = told(desk.call(CHECK_TOOL, MALFORMED[name]))
    assert found["error"] == "GOVERNANCE_REFUSED"
    assert found["decision"]["rule_id"] == "governance:malformed_event"
    assert made.proven().ok


def _no_key(made: Office) -> None:
    (made.engine.keys.folder / "operator.pub").unlink()


def _no_chain(made: Office) -> None:
    with made.store.write() as tx:
        tx.exec_driver_sql("DELETE FROM chain_head")


def _edited(made: Office) -> None:
    with made.store.write() as tx:
        tx.exec_driver_sql("UPDATE governance_rules SET enabled = 0 WHERE id = 'X1'")


@pytest.mark.parametrize("damage", [_no_key, _no_chain, _edited])
def test_damage_is_never_an_allowed_answer(
    made: Office, desk: Desk, damage: Callable[[Office], None]
) -> None:
    damage(made)
    made.engine._kept = None
    result = desk.call(CHECK_TOOL, {"kind": "bash", "command": "ls"})
    assert result.is_error or told(result)["error"] == "GOVERNANCE_REFUSED"


@pytest.mark.parametrize(
    ("namespace", "seen"),
    [
        ("_global", {"X1", "X2", "Y41", "Y41R", "Y41S", "Y42"}),
        ("installation/41", {"X1", "X2", "Y41", "Y41R", "Y41S"}),
        ("installation/41/repo/Octo/demo/familiar/cody", {"X1", "X2", "Y41", "Y41R"}),
        ("installation/4", {"X1", "X2"}),
    ],
)
def test_rules_of_others_are_not_told(made: Office, namespace: str, seen: set[str]) -> None:
    for name, place in (
        ("Y41", "installation/41"),
        ("Y41R", "installation/41/repo/octo/demo"),
        ("Y41S", "installation/41/repo/octo/secret"),
        ("Y42", "installation/42"),
    ):
        made.admin.add(
            name, "bash", '{"argv_prefix":["dd"]}', "refuse", f"of {name}", namespace=place
        )
    desk = Desk(made.engine, made.admin.recorder, "mcp:test", namespace)
    found = told(desk.call(LIST_TOOL, {}))
    ids = {each["id"] for each in found["rules"]}
    assert {each for each in ids if each[0] in "XY"} == seen
    assert found["count"] == len(ids)
