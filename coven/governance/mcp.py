"""The rules over MCP on standard input and output: agents may ask, and never change anything.

Tools as in the seed: ``memory_check_agent_action`` and ``memory_rule_list``. Who asks and for which
namespace is said by whoever starts the server, never by an argument. Names that would change rules
are not tools; whoever calls one is refused with ``governance.not_available_over_mcp``, on record.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from coven import __version__
from coven.errors import CovenError
from coven.governance.actions import Kind
from coven.governance.admin import listed, status
from coven.governance.asking import Asker, ask
from coven.governance.audit import Event, Recorder, redacted
from coven.governance.engine import Engine
from coven.governance.rules import namespace_segments
from coven.governance.world import Origin, Scope
from coven.redaction import Redactor

NOT_AVAILABLE = "governance.not_available_over_mcp"
PROBE = "governance.mcp_mutation_probe"
CHECK_TOOL = "memory_check_agent_action"
LIST_TOOL = "memory_rule_list"
MUTATIONS = frozenset(
    f"{prefix}_{verb}"
    for prefix in ("governance_rule", "memory_rule")
    for verb in ("add", "enable", "disable", "remove", "resign", "update", "delete")
)
"""Names that an agent might try. None of them is a tool."""

_MEMBERS = {
    "command": {"type": "string"},
    "cwd": {"type": "string"},
    "path": {"type": "string"},
    "byte_estimate": {"type": "integer", "minimum": 0},
    "host": {"type": "string"},
    "scheme": {"type": "string"},
    "binary": {"type": "string"},
    "args": {"type": "array", "items": {"type": "string"}},
    "custom_kind": {"type": "string"},
    "payload": {},
}
_KIND = {"type": "string", "enum": [kind.value for kind in Kind]}
TOOLS = (
    types.Tool(
        name=CHECK_TOOL,
        description="Ask whether an action may happen, before doing it. The question is recorded.",
        input_schema={
            "type": "object",
            "properties": {"kind": _KIND, **_MEMBERS, "agent_id": {"type": "string"}},
            "required": ["kind"],
            "additionalProperties": False,
        },
    ),
    types.Tool(
        name=LIST_TOOL,
        description="List the rules that are there. They can't be changed from here.",
        input_schema={
            "type": "object",
            "properties": {"kind": _KIND, "enabled_only": {"type": "boolean"}},
            "additionalProperties": False,
        },
    ),
)


class Desk:
    """Answers calls; blocking, one at a time per call. Raises nothing that we know of."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        agent: str,
        namespace: str = "_global",
        *,
        matchers: bool = False,
    ) -> None:
        self._engine = engine
        self._recorder = recorder
        self._agent = agent
        self._namespace = namespace
        self._matchers = matchers
        self._tools: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            CHECK_TOOL: self.check,
            LIST_TOOL: self.rules,
        }

    def call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """What a tool says. Anything wrong is an error result, which never reads as allowed."""
        tool = self._tools.get(name)
        try:
            if name in MUTATIONS:
                self._probed(name)
                return _failed(
                    f"{NOT_AVAILABLE}: rules are changed by the operator only: "
                    "coven-github rules … --sign"
                )
            if tool is None:
                return _failed(f"there is no tool {name[:80]!r}; use {CHECK_TOOL} or {LIST_TOOL}")
            return _result(tool(arguments))
        except CovenError as error:
            return _failed(f"governance:unavailable: {error}")

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The check envelope. ``agent_id`` as an argument is not believed."""
        action = {key: value for key, value in arguments.items() if key != "agent_id"}
        scope = Scope(Origin.TOOL, self._namespace, cwd=str(Path.cwd()))
        asker = Asker(self._agent, "mcp.check")
        return ask(self._engine, self._recorder, Redactor(), action, scope, asker).json()

    def rules(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """``{count, rules, policy_epoch}`` of what may bind in the namespace of this server.

        What rules match is told only if the server exposes it.
        """
        kind, enabled_only = arguments.get("kind"), arguments.get("enabled_only") is True
        unknown = set(arguments) - {"kind", "enabled_only"}
        if unknown or kind not in (None, *(each.value for each in Kind)):
            raise CovenError(f"{LIST_TOOL} takes kind (one of {', '.join(Kind)}) and enabled_only")
        found = [
            {name: rule[name] for name in self._members}
            for rule in listed(self._engine)
            if kind in (None, rule["kind"])
            and (rule["enabled"] or not enabled_only)
            and self._may_bind(str(rule["namespace"]))
        ]
        epoch = status(self._engine)["policy_epoch"]
        return {"count": len(found), "rules": found, "policy_epoch": epoch}

    def _may_bind(self, namespace: str) -> bool:
        # One lies within the other: rules of another tenant or repository are not told.
        own, other = namespace_segments(self._namespace), namespace_segments(namespace)
        return all(a == b for a, b in zip(own, other, strict=False))

    @property
    def _members(self) -> tuple[str, ...]:
        shown = ("id", "kind", "severity", "reason", "namespace", "enabled", "enforcement_state")
        return (*shown, "matcher") if self._matchers else shown

    def _probed(self, name: str) -> None:
        facts = redacted(Redactor(), {"tool": name})
        self._recorder.commit([Event(PROBE, facts, self._agent)], self._engine.clock.now())


def server_of(desk: Desk) -> Server[Any]:
    """The MCP server around a desk."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(TOOLS))

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = functools.partial(desk.call, params.name, dict(params.arguments or {}))
        return await anyio.to_thread.run_sync(call)

    return Server(
        "coven-github-governance",
        version=__version__,
        instructions="Ask memory_check_agent_action before each action, and honour the answer.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(
    engine: Engine, recorder: Recorder, agent: str, namespace: str, *, matchers: bool = False
) -> None:
    """Serve until standard input ends."""
    server = server_of(Desk(engine, recorder, agent, namespace, matchers=matchers))

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def _result(value: dict[str, Any]) -> types.CallToolResult:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
