"""Actions have one JSON form; what no rule could judge never becomes an action."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coven.governance import strict_json
from coven.governance.actions import (
    Action,
    Bash,
    Custom,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
    action_json,
    load_action,
    parse_action,
)

EVERY_KIND: list[Action] = [
    Bash("ls", "/x", "bash"),
    FilesystemWrite("/a", Op.RENAME, 0, "/"),
    NetworkRequest("a.com", "https", 443, "GET", "/x", "clone"),
    ProcessSpawn("git", ("push", ""), "/x", "/usr/bin/git", ("HOME",)),
    Custom("tool_call", {"b": [1, 2.5, None, {"c": "é"}], "a": True}),
]


@pytest.mark.parametrize("action", EVERY_KIND, ids=lambda action: action.kind)
def test_the_json_form_leads_back(action: Action) -> None:
    assert parse_action(action_json(action)) == action
    assert load_action(strict_json.canonical(action_json(action))) == action


def test_an_absent_optional_is_left_out() -> None:
    assert action_json(Bash("ls")) == {"kind": "bash", "command": "ls"}
    assert parse_action({"kind": "bash", "command": "ls", "cwd": None}) == Bash("ls")


def test_equal_payloads_have_equal_bytes_whatever_their_order() -> None:
    one, other = Custom("x", {"a": 1, "b": 2.0}), Custom("x", {"b": 2, "a": 1})
    assert strict_json.canonical(action_json(one)) == strict_json.canonical(action_json(other))


def test_a_payload_is_copied() -> None:
    payload: dict[str, Any] = {"a": [1]}
    action = Custom("x", payload)
    payload["a"].append(2)
    assert action.payload == {"a": [1]}


def test_convenient_constructors() -> None:
    assert FilesystemWrite.of(Path("/a/b"), Op.CREATE, 3) == FilesystemWrite("/a/b", Op.CREATE, 3)
    assert ProcessSpawn.of(["git", "x"], Path("/w"), ["B", "A"]).env_names == ("A", "B")
    assert NetworkRequest.of("GET", "HTTPS://API.github.com:443/repos?x=1#y") == NetworkRequest(
        "API.github.com", "https", 443, "GET", "/repos"
    )
    with pytest.raises(MalformedAction, match="`binary` is missing"):
        ProcessSpawn.of([])


def custom(payload: str) -> str:
    return f'{{"kind":"custom","custom_kind":"x","payload":{payload}}}'


def write(path: str) -> str:
    return json.dumps({"kind": "filesystem_write", "path": path})


BAD = [
    ("no object", "[]", "action", "is not an object"),
    ("no JSON", "{", "action", "is not usable"),
    ("no kind", "{}", "kind", "is missing"),
    ("an unknown kind", '{"kind":"reboot"}', "kind", "is not known"),
    ("a kind that is no text", '{"kind":["bash"]}', "kind", "is not known"),
    ("an unknown member", '{"kind":"bash","command":"ls","x":1}', "x", "is not a member"),
    ("a member of another kind", '{"kind":"bash","command":"ls","path":"/"}', "path", "not a mem"),
    ("a missing member", '{"kind":"bash"}', "command", "is missing"),
    ("an empty command", '{"kind":"bash","command":""}', "command", "is empty"),
    ("a list as a command", '{"kind":"bash","command":["ls"]}', "command", "is a list"),
    ("null as a command", '{"kind":"bash","command":null}', "command", "is null"),
    ("a NUL byte", '{"kind":"bash","command":"a\\u0000b"}', "command", "NUL"),
    ("a NUL byte in a path", '{"kind":"filesystem_write","path":"\\u0000"}', "path", "NUL"),
    ("half a surrogate", '{"kind":"filesystem_write","path":"/\\udcff"}', "action", "not UTF-8"),
    ("a key that stands twice", '{"kind":"bash","command":"a","command":"b"}', "action", "twice"),
    (
        "a key that stands twice deep down",
        '{"kind":"custom","custom_kind":"x","payload":[{"a":1,"a":1}]}',
        "action",
        "twice",
    ),
    (
        "a fraction",
        '{"kind":"filesystem_write","path":"/","byte_estimate":1.0}',
        "byte_estimate",
        "is a fraction",
    ),
    (
        "true as a number",
        '{"kind":"filesystem_write","path":"/","byte_estimate":true}',
        "byte_estimate",
        "true or false",
    ),
    (
        "a negative size",
        '{"kind":"filesystem_write","path":"/","byte_estimate":-1}',
        "byte_estimate",
        "out of range",
    ),
    ("a huge port", '{"kind":"network_request","host":"a","port":65536}', "port", "out of range"),
    ("an unknown op", '{"kind":"filesystem_write","path":"/","op":"eat"}', "op", "is not known"),
    ("a text as arguments", '{"kind":"process_spawn","binary":"a","args":"b"}', "args", "list"),
    ("a number as argument", '{"kind":"process_spawn","binary":"a","args":[1]}', "args[0]", "numb"),
    ("NaN", custom("NaN"), "action", "NaN"),
    ("infinity", custom("1e999"), "action", "finite"),
    ("a huge integer", custom("9007199254740992"), "action", "too large"),
    ("a number of many digits", custom("9" * 5000), "action", "too large"),
    ("deep nesting", custom("[" * 70 + "]" * 70), "action", "nests"),
    ("very deep nesting", "[" * 100_000, "action", "nests"),
    ("a long path", write("/" + "a" * 4096), "path", "4096"),
    (
        "an oversized command",
        json.dumps({"kind": "bash", "command": "é" * 32769}),
        "command",
        "65538",
    ),
    (
        "too many arguments",
        json.dumps({"kind": "process_spawn", "binary": "a", "args": ["x"] * 4097}),
        "args",
        "4097",
    ),
    ("an oversized text", '{"kind":"bash","command":"ls"}' + " " * 4 * 2**20, "action", "bytes"),
]


@pytest.mark.parametrize(
    ("text", "field", "words"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_bad_input_is_refused_with_the_field_and_the_fix(text: str, field: str, words: str) -> None:
    with pytest.raises(MalformedAction) as caught:
        load_action(text)
    assert caught.value.field == field
    assert caught.value.code == "governance:malformed_event"
    assert words in str(caught.value)
    assert "; " in caught.value.public, "the sentence names no next step"


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(MalformedAction, match="not UTF-8"):
        load_action(b'{"kind":"filesystem_write","path":"/\xff"}')
    with pytest.raises(MalformedAction, match="`path` is not UTF-8"):
        FilesystemWrite("/" + b"\xff".decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    "url",
    [
        "https://user@a.com/",
        "https://user:pw@a.com/",
        "https://a.com\\@b.com/",
        "https://a.com\\/x",
        "https://a.com/\nx",
        "https://a .com/",
        "https:/a.com",
        "//a.com/x",
        "https://a.com:port/",
        "https://a.com:99999/",
        "https://[::1/",
        "https://::1/",
        "",
    ],
)
def test_a_url_that_readers_split_apart_is_refused(url: str) -> None:
    with pytest.raises(MalformedAction):
        NetworkRequest.of("GET", url)
