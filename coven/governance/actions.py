"""The five kinds of action that rules judge, as frozen values with one JSON form each. Pure.

A value that exists is well formed: constructors refuse what no rule could judge (NUL bytes, text
that is not UTF-8, oversized commands). ``parse_action`` reads the JSON form strictly.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, TypeAlias

from coven.errors import GovernanceRefused
from coven.governance import strict_json
from coven.governance.strict_json import JsonRefused, JsonValue

COMMAND_BYTES = 64 * 1024
"""The longest shell command, in bytes of UTF-8."""

PATH_CHARS = 4096
"""The longest path."""

TEXT_CHARS = 8192
"""The longest other text member."""

ARGUMENTS = 4096
"""The most arguments of one program."""

ARGUMENT_BYTES = 128 * 1024
"""The longest single argument, as Linux has it."""


class Kind(StrEnum):
    """What sort of action; the discriminator of the JSON form and the index of the rules."""

    BASH = "bash"
    FILESYSTEM_WRITE = "filesystem_write"
    NETWORK_REQUEST = "network_request"
    PROCESS_SPAWN = "process_spawn"
    CUSTOM = "custom"


class Op(StrEnum):
    """What a write does to the path."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME = "rename"
    CHMOD = "chmod"
    SYMLINK = "symlink"


class MalformedAction(GovernanceRefused):
    """No rule can judge this; refused. ``field`` names the member that is wrong."""

    code = "governance:malformed_event"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"`{field}` {problem}", public=f"`{field}` {problem}.")
        self.field = field


@dataclass(frozen=True, slots=True)
class Bash:
    """A shell command is about to run. ``cwd`` is where; ``shell`` which one, when known."""

    kind: ClassVar[Kind] = Kind.BASH

    command: str
    cwd: str | None = None
    shell: str | None = None

    def __post_init__(self) -> None:
        _text("command", self.command, COMMAND_BYTES, "bytes; run a script file instead")
        _optional_path("cwd", self.cwd)
        _optional_text("shell", self.shell)


@dataclass(frozen=True, slots=True)
class FilesystemWrite:
    """A file or folder is about to be made, changed or removed.

    A relative path starts at ``dir_fd_root`` when that is given, else where the caller stands.
    ``byte_estimate`` is in bytes.
    """

    kind: ClassVar[Kind] = Kind.FILESYSTEM_WRITE

    path: str
    op: Op | None = None
    byte_estimate: int | None = None
    dir_fd_root: str | None = None

    def __post_init__(self) -> None:
        _path("path", self.path)
        _optional_path("dir_fd_root", self.dir_fd_root)
        _optional_count("byte_estimate", self.byte_estimate, strict_json.MAX_INTEGER)
        if self.op is not None:
            object.__setattr__(self, "op", _op(self.op))

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], op: Op | None = None, byte_estimate: int | None = None
    ) -> FilesystemWrite:
        """From a path object."""
        return cls(os.fspath(path), op, byte_estimate)


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """A request is about to leave this machine. ``path`` has no query and no fragment."""

    kind: ClassVar[Kind] = Kind.NETWORK_REQUEST

    host: str
    scheme: str = ""
    port: int | None = None
    method: str | None = None
    path: str | None = None
    purpose: str | None = None

    def __post_init__(self) -> None:
        _text("host", self.host, 1024, "characters; send the bare host name")
        _text("scheme", self.scheme, 32, "characters; send the bare scheme", empty=True)
        _optional_count("port", self.port, 65535)
        _optional_text("method", self.method, 32)
        _optional_text("path", self.path)
        _optional_text("purpose", self.purpose)

    @classmethod
    def of(cls, method: str, url: str, purpose: str | None = None) -> NetworkRequest:
        """From the URL that the client dials. Raises ``MalformedAction`` for an unclear one."""
        from coven.governance.hosts import split_url

        target = split_url(url)
        return cls(target.host, target.scheme, target.port, method, target.path, purpose)


@dataclass(frozen=True, slots=True)
class ProcessSpawn:
    """A program is about to start: ``binary`` is what is executed, ``args`` follow it.

    ``resolved`` is the absolute file that will run, when the caller has looked it up;
    ``env_names`` are names only, never values.
    """

    kind: ClassVar[Kind] = Kind.PROCESS_SPAWN

    binary: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    resolved: str | None = None
    env_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _path("binary", self.binary)
        object.__setattr__(self, "args", _texts("args", self.args))
        object.__setattr__(self, "env_names", _texts("env_names", self.env_names))
        _optional_path("cwd", self.cwd)
        _optional_path("resolved", self.resolved)

    @classmethod
    def of(
        cls,
        argv: Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        env_names: Sequence[str] = (),
        resolved: str | None = None,
    ) -> ProcessSpawn:
        """From an argument vector. Raises ``MalformedAction`` when it is empty."""
        if not argv:
            raise MalformedAction("binary", "is missing; name the program to start")
        where = None if cwd is None else os.fspath(cwd)
        return cls(argv[0], tuple(argv[1:]), where, resolved, tuple(sorted(env_names)))

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole argument vector."""
        return (self.binary, *self.args)


@dataclass(frozen=True, slots=True)
class Custom:
    """Something of the caller's own, such as ``memory_write`` or ``tool_call``."""

    kind: ClassVar[Kind] = Kind.CUSTOM

    custom_kind: str
    payload: JsonValue = field(default=None, hash=False)

    def __post_init__(self) -> None:
        _text("custom_kind", self.custom_kind, 256, "characters; use a short name")
        try:
            strict_json.require(self.payload)
            copy = strict_json.loads(strict_json.canonical(self.payload))
        except JsonRefused as refused:
            raise MalformedAction("payload", f"is not usable: {refused}") from None
        object.__setattr__(self, "payload", copy)


Action: TypeAlias = Bash | FilesystemWrite | NetworkRequest | ProcessSpawn | Custom

_CLASSES: Mapping[Kind, type[Action]] = {
    Kind.BASH: Bash,
    Kind.FILESYSTEM_WRITE: FilesystemWrite,
    Kind.NETWORK_REQUEST: NetworkRequest,
    Kind.PROCESS_SPAWN: ProcessSpawn,
    Kind.CUSTOM: Custom,
}
_REQUIRED = {
    Kind.BASH: "command",
    Kind.FILESYSTEM_WRITE: "path",
    Kind.NETWORK_REQUEST: "host",
    Kind.PROCESS_SPAWN: "binary",
    Kind.CUSTOM: "custom_kind",
}


def action_json(action: Action) -> dict[str, JsonValue]:
    """The JSON form: ``kind`` and every member that is set; a ``null`` optional is left out."""
    found: dict[str, JsonValue] = {"kind": action.kind.value}
    for member in fields(action):
        value = getattr(action, member.name)
        if value is not None:
            found[member.name] = list(value) if isinstance(value, tuple) else value
    return found


def load_action(text: str | bytes) -> Action:
    """The action of one JSON text. Raises ``MalformedAction``."""
    try:
        value = strict_json.loads(text)
    except JsonRefused as refused:
        raise MalformedAction("action", f"is not usable: {refused}") from None
    return parse_action(value)


def parse_action(value: JsonValue) -> Action:
    """The action of one JSON object. Raises ``MalformedAction`` for anything that is not exact."""
    if not isinstance(value, Mapping):
        raise MalformedAction("action", "is not an object; send an object with `kind`")
    if "kind" not in value:
        raise MalformedAction("kind", f"is missing; use one of {', '.join(Kind)}")
    name = value["kind"]
    if not isinstance(name, str) or name not in set(Kind):
        raise MalformedAction("kind", f"is not known; use one of {', '.join(Kind)}")
    kind = Kind(name)
    shape = _CLASSES[kind]
    members = {key: item for key, item in value.items() if key != "kind"}
    known = {member.name for member in fields(shape)}
    for key in members:
        if key not in known:
            raise MalformedAction(
                str(key)[:80], f"is not a member of `{kind}`; use {', '.join(sorted(known))}"
            )
    if _REQUIRED[kind] not in members:
        raise MalformedAction(_REQUIRED[kind], f"is missing; `{kind}` needs it")
    for key in ("args", "env_names"):
        if key in members and not isinstance(members[key], list | tuple):
            raise MalformedAction(key, "is not a list; send a list of texts")
    if members.get("scheme", "") is None:
        del members["scheme"]
    return shape(**members)  # type: ignore[arg-type]


def _text(name: str, value: object, limit: int, fix: str, *, empty: bool = False) -> None:
    if not isinstance(value, str):
        raise MalformedAction(name, f"is {_type(value)}; send a text")
    if not value and not empty:
        raise MalformedAction(name, "is empty; send a text")
    if "\0" in value:
        raise MalformedAction(name, "holds a NUL byte; remove it")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise MalformedAction(name, "is not UTF-8; use a UTF-8 text") from None
    if size > limit:
        raise MalformedAction(name, f"has {size} bytes, more than {limit} {fix}")


def _path(name: str, value: object) -> None:
    _text(name, value, PATH_CHARS, "bytes; use a shorter path")


def _optional_path(name: str, value: object) -> None:
    if value is not None:
        _path(name, value)


def _optional_text(name: str, value: object, limit: int = TEXT_CHARS) -> None:
    if value is not None:
        _text(name, value, limit, "bytes; send a shorter text", empty=True)


def _optional_count(name: str, value: object, limit: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedAction(name, f"is {_type(value)}; send a whole number")
    if not 0 <= value <= limit:
        raise MalformedAction(name, f"is out of range; send a number from 0 to {limit}")


def _texts(name: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise MalformedAction(name, f"is {_type(values)}; send a list of texts")
    if len(values) > ARGUMENTS:
        raise MalformedAction(name, f"has {len(values)} items; send at most {ARGUMENTS}")
    for n, value in enumerate(values):
        place = f"{name}[{n}]"
        _text(place, value, ARGUMENT_BYTES, "bytes; pass a file instead", empty=True)
    return tuple(values)


def _op(value: object) -> Op:
    if not isinstance(value, str) or value not in set(Op):
        raise MalformedAction("op", f"is not known; use one of {', '.join(Op)}")
    return Op(value)


def _type(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a fraction", type(None): "null"}
    return names.get(type(value), "a list" if isinstance(value, list | tuple) else "an object")
