"""From a PreToolUse event of coven-code or Claude Code to the actions it means. Pure.

Both send JSON with ``tool_name`` and ``tool_input``; the event's name stands in ``event`` or in
``hook_event_name``, and only Claude Code sends ``cwd`` and ``tool_use_id``.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coven.governance.actions import (
    Action,
    Bash,
    Custom,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
)
from coven.governance.strict_json import JsonRefused, loads

EVENT = "PreToolUse"
TOOL_CALL = "tool_call"

READ_ONLY = frozenset(
    {"Read", "Grep", "Glob", "LS", "NotebookRead", "TodoRead", "TodoWrite", "ToolSearch", "Sleep",
     "AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "BashOutput", "TaskOutput", "TaskList",
     "TaskGet"}
)  # fmt: skip
"""Tools that change nothing outside the conversation: allowed without a rule."""

MAX_FILES = 1000


@dataclass(frozen=True)
class Event:
    """One tool call that asks to be allowed."""

    tool: str
    actions: tuple[Action, ...]
    cwd: str | None = None
    told_cwd: bool = False
    """Whether the harness said where its shell stands."""
    background: bool = False
    """Whether the command leaves the harness's own shell as it is."""
    apart: bool = False
    """Whether it runs in a shell of its own that lives on, so that nobody knows where."""
    tool_use_id: str | None = None
    session: str | None = None


def read_event(data: bytes, cwd: str) -> Event:
    """The event of one text. Raises ``MalformedAction`` for anything unclear.

    ``cwd`` is where the hook stands, for a harness that does not say.
    """
    try:
        value = loads(data)
    except JsonRefused as refused:
        raise MalformedAction("event", f"is not usable: {refused}") from None
    if not isinstance(value, Mapping):
        raise MalformedAction("event", "is not an object")
    named = [value[key] for key in ("event", "hook_event_name") if key in value]
    if named != [EVENT] and named != [EVENT, EVENT]:
        raise MalformedAction("event", f"is not {EVENT}; install the hook for {EVENT} only")
    tool = _text(value, "tool_name")
    given = value.get("tool_input")
    if not isinstance(given, Mapping):
        raise MalformedAction("tool_input", "is not an object")
    place = value.get("cwd", cwd)
    if not isinstance(place, str) or not place.startswith("/"):
        raise MalformedAction("cwd", "is not an absolute path")
    reader = _TOOLS.get(tool)
    if tool in READ_ONLY:
        actions: tuple[Action, ...] = ()
    elif reader is not None:
        actions = tuple(reader(given, place))
    else:
        actions = (Custom(TOOL_CALL, {"tool_name": tool, "input": dict(given)}),)
    return Event(
        tool,
        actions,
        place,
        "cwd" in value,
        given.get("run_in_background") is True,
        tool == "REPL",
        _optional(value, "tool_use_id"),
        _optional(value, "session_id"),
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise MalformedAction(name, "is missing or is no text")
    return found


def _optional(value: Mapping[str, Any], name: str) -> str | None:
    found = value.get(name)
    return found[:200] if isinstance(found, str) else None


def _shell(given: Mapping[str, Any], cwd: str) -> list[Action]:
    return [Bash(_text(given, "command"), cwd)]


_LANGUAGES = {
    "bash": None,
    "": None,
    "python": "python3 -c",
    "python3": "python3 -c",
    "javascript": "node -e",
    "node": "node -e",
}


def _repl(given: Mapping[str, Any], cwd: str) -> list[Action]:
    """An interpreter that lives on; without a language it is bash."""
    code = _text(given, "code")
    language = given.get("language") or ""
    if not isinstance(language, str) or language.lower() not in _LANGUAGES:
        raise MalformedAction("language", "is not known")
    program = _LANGUAGES[language.lower()]
    return [Bash(code if program is None else f"{program} {shlex.quote(code)}", cwd)]


def _powershell(given: Mapping[str, Any], cwd: str) -> list[Action]:
    return [Bash(f"pwsh -c {shlex.quote(_text(given, 'command'))}", cwd)]


def _file(given: Mapping[str, Any], cwd: str) -> list[Action]:
    path = given.get("file_path", given.get("notebook_path", given.get("path")))
    if not isinstance(path, str) or not path:
        raise MalformedAction("file_path", "is missing or is no text")
    content = given.get("content")
    size = len(content.encode("utf-8", "surrogatepass")) if isinstance(content, str) else None
    op = Op.CREATE if size is not None else Op.MODIFY
    return [FilesystemWrite(_absolute(path, cwd), op, size)]


def _batch(given: Mapping[str, Any], cwd: str) -> list[Action]:
    edits = given.get("edits")
    if not isinstance(edits, list) or not edits or len(edits) > MAX_FILES:
        raise MalformedAction("edits", "is not a list with edits")
    paths = []
    for edit in edits:
        if not isinstance(edit, Mapping):
            raise MalformedAction("edits", "holds something else than edits")
        paths.append(
            _text({"file_path": edit.get("file_path", given.get("file_path"))}, "file_path")
        )
    return [FilesystemWrite(_absolute(path, cwd), Op.MODIFY) for path in dict.fromkeys(paths)]


def _multi(given: Mapping[str, Any], cwd: str) -> list[Action]:
    return _file(given, cwd) if "file_path" in given else _batch(given, cwd)


_PATCHED = re.compile(r"(?:\+\+\+|---) (.+)|\*\*\* (?:Add|Update|Delete) File: (.+)|"
                      r"\*\*\* Move to: (.+)|rename (?:from|to) (.+)")  # fmt: skip


def _patch(given: Mapping[str, Any], cwd: str) -> list[Action]:
    text = given.get("patch", given.get("input", given.get("diff")))
    if not isinstance(text, str) or not text:
        raise MalformedAction("patch", "is missing or is no text")
    paths: dict[str, None] = {}
    for line in text.split("\n"):
        match = _PATCHED.match(line)
        if match is not None:
            named = next(group for group in match.groups() if group)
            for path in (named, named.partition("\t")[0]):
                paths |= dict.fromkeys(_stripped(path.strip()))
    paths.pop("", None)
    paths.pop("/dev/null", None)
    if not paths or len(paths) > MAX_FILES:
        raise MalformedAction("patch", "names no file, or too many")
    return [FilesystemWrite(_absolute(path, cwd), Op.MODIFY) for path in paths]


def _stripped(path: str) -> Iterator[str]:
    """Readers of patches take ``a/`` and ``b/`` off, some of them again and again."""
    yield path
    while path[:2] in ("a/", "b/"):
        path = path[2:]
        yield path


def _fetch(given: Mapping[str, Any], _cwd: str) -> list[Action]:
    return [NetworkRequest.of("GET", _text(given, "url"), "WebFetch")]


def _absolute(path: str, cwd: str) -> str:
    return path if path.startswith("/") else posixpath.join(cwd, path)


_TOOLS: Mapping[str, Callable[[Mapping[str, Any], str], list[Action]]] = {
    "Bash": _shell,
    "PtyBash": _shell,
    "Shell": _shell,
    "monitor": _shell,
    "Monitor": _shell,
    "PowerShell": _powershell,
    "REPL": _repl,
    "Write": _file,
    "Edit": _file,
    "MultiEdit": _multi,
    "NotebookEdit": _file,
    "BatchEdit": _batch,
    "ApplyPatch": _patch,
    "WebFetch": _fetch,
}
