"""``governance check-action`` and ``governance hook``: the rules at the boundary of a harness.

The light entry that sessions use is ``python -m coven.governance.hook``; these commands are for
people and for harnesses that an operator sets up by hand.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.governed import ask_one
from coven.cli.output import complain
from coven.clock import SystemClock
from coven.governance import hook as entry
from coven.governance.actions import Kind, action_json
from coven.governance.audit import Event, Recorder, redacted
from coven.governance.engine import Engine
from coven.governance.evaluate import Decision, refusal
from coven.governance.gate import CHECK
from coven.governance.hook_event import read_event
from coven.governance.hook_settings import Hook
from coven.governance.snapshot import CANARY_TOOL
from coven.governance.world import Origin, Scope
from coven.redaction import Redactor
from coven.settings.loader import load_settings

REFUSED = 2
USAGE = 3

hook_app = typer.Typer(help="The PreToolUse hook of a harness.", no_args_is_help=True)


def check_action(
    from_pretool_stdin: Annotated[
        bool, typer.Option("--from-pretool-stdin", help="Read a PreToolUse event.")
    ] = False,
    kind: Annotated[Kind | None, typer.Option(help="Sort of action, without an event.")] = None,
    command: Annotated[str | None, typer.Option(help="Of `bash`.")] = None,
    path: Annotated[str | None, typer.Option(help="Of `filesystem_write`.")] = None,
    host: Annotated[str | None, typer.Option(help="Of `network_request`.")] = None,
    binary: Annotated[str | None, typer.Option(help="Of `process_spawn`.")] = None,
    custom_kind: Annotated[str | None, typer.Option(help="Of `custom`.")] = None,
    snapshot: Annotated[Path | None, typer.Option(help="Policy file of a session.")] = None,
    journal: Annotated[Path | None, typer.Option(help="Journal of a session.")] = None,
    key: Annotated[str | None, typer.Option(help="Public key of the policy, hex.")] = None,
    agent_id: Annotated[str, typer.Option("--agent-id", help="Who asks, for the record.")] = "cli",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the rules about one action. Exit 0: it may happen; 2: it may not, or nobody can tell."""
    if from_pretool_stdin and snapshot is not None and journal is not None and key is not None:
        given = ["--snapshot", str(snapshot), "--journal", str(journal), "--key", key]
        raise typer.Exit(entry.main(given))
    members = {"command": command, "path": path, "host": host, "binary": binary,
               "custom_kind": custom_kind}  # fmt: skip
    asked = {name: value for name, value in members.items() if value is not None}
    if not from_pretool_stdin and (kind is None or len(asked) != 1):
        complain("give --from-pretool-stdin, or --kind with its one member")
        raise typer.Exit(USAGE)
    if kind is not None and not from_pretool_stdin:
        scope = Scope(Origin.TOOL, cwd=str(Path.cwd()))
        ask_one(config, {"kind": kind.value, **asked}, scope, agent_id, as_json)
    try:
        decisions = _decide(config)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong refuses
        raise typer.Exit(entry.answer(f"governance:unavailable: {error}")) from None
    blocking = next((one for one in decisions if one.is_blocking), None)
    refused = None if blocking is None else f"{blocking.rule_id}: {blocking.reason}"
    raise typer.Exit(entry.answer(refused))


@hook_app.command("print")
def print_hook(
    harness: Annotated[Literal["coven-code", "claude-code"], typer.Argument()] = "claude-code",
) -> None:
    """Print the settings that install the hook for all sessions of a harness on this machine."""
    print(Hook.settings(hook_command(), harness).decode("utf-8"), end="")


def hook_command() -> str:
    """What a harness runs before each tool call: by absolute path, and blocking if it is gone."""
    program = Path(sys.executable).parent / "coven-github"
    return f"{shlex.quote(str(program))} governance check-action --from-pretool-stdin || exit 2"


@hook_app.command("verify")
def verify_hook(settings: Annotated[Path, typer.Argument(help="settings.json")]) -> None:
    """Prove that every PreToolUse hook in a settings file refuses the canary. Exit 0 or 1."""
    found = hooks_in(json.loads(settings.read_text(encoding="utf-8")))
    if not found:
        complain(f"{settings} installs no PreToolUse hook that blocks")
        raise typer.Exit(1)
    for command in found:
        if os.waitstatus_to_exitcode(os.system(Hook.canary_of(command))) != REFUSED:  # noqa: TID251, S605
            complain(f"the hook does not refuse: {command}")
            raise typer.Exit(1)
    print(f"{len(found)} hook(s) refuse what they must")


def hooks_in(settings: Mapping[str, Any]) -> list[str]:
    """The commands of hooks that can block, in either harness's settings."""
    ours = settings.get("config", {}).get("hooks", {}).get("PreToolUse", [])
    theirs = settings.get("hooks", {}).get("PreToolUse", [])
    return [hook["command"] for hook in ours if hook.get("blocking") is True] + [
        hook["command"]
        for group in theirs
        if group.get("matcher", "*") in ("*", "", ".*")
        for hook in group.get("hooks", [])
        if hook.get("type") == "command"
    ]


def _decide(config: Path | None) -> list[Decision]:
    """The verdicts on an event; they are on record before they are given."""
    here = os.getcwd()  # noqa: PTH109 - as the harness gives it
    event = read_event(sys.stdin.buffer.read(entry.MAX_EVENT_BYTES + 1), here)
    if event.tool == CANARY_TOOL:
        return [refusal("canary", "the hook is at work")]
    scope = Scope(Origin.TOOL, cwd=event.cwd or here)
    settings = load_settings(config)
    with opened_store(config) as store:
        engine = Engine.of(settings, store, SystemClock())
        decisions = [engine.decide(action, scope) for action in event.actions]
        events = [
            _event(action, decision)
            for action, decision in zip(event.actions, decisions, strict=True)
        ]
        if events:
            Recorder(store, engine.keys.service()).commit(events, SystemClock().now())
    return decisions


def _event(action: Any, decision: Decision) -> Event:
    payload = {
        "action": action_json(action),
        "decision": decision.json(),
        "matched": decision.matched_json(),
        "policy_epoch": decision.policy_epoch,
        "origin": "tool",
        "namespace": "_global",
        "point": "cli.hook",
    }
    return Event(CHECK, redacted(Redactor(), payload), "harness")
