"""The rules: how long a verdict takes with 200 of them, and how that grows from 10 to 1,000.

Times are of the processor: a machine that is busy with other things makes no rule slower.

A verdict here is the pure part: facts of the action, matching, and the choice. Reading and proving
the policy is not in it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from coven.governance.actions import (
    Action,
    Bash,
    Custom,
    FilesystemWrite,
    NetworkRequest,
    ProcessSpawn,
)
from coven.governance.bash import analyse
from coven.governance.evaluate import decide
from coven.governance.policy import Policy, build_policy
from coven.governance.rules import Rule
from coven.governance.strict_json import JsonValue
from coven.governance.world import Scope, World, this_machine
from tests.bench.report import ms, ratio, table

LIMIT_SECS = 0.005
"""95 of 100 verdicts with 200 rules take less."""

GROWTH_TARGET = 100.0
"""A hundred times the rules must cost less than a hundred times the time."""


def measure(folder: Path) -> None:
    """Print the tables."""
    world = replace(this_machine(analyse), addresses=lambda _: ("93.184.216.34",))
    scope = Scope(cwd=str(folder), workspace=str(folder))
    policies = {count: policy(count) for count in (10, 200, 1000)}
    rows: list[tuple[object, ...]] = []
    for name, action in actions(folder).items():
        judge = {count: judging(found, action, scope, world) for count, found in policies.items()}
        times = [cpu_seconds(judge[200]) for _ in range(200)]
        p95 = statistics.quantiles(times, n=20)[-1]
        small = min(cpu_seconds(judge[10]) for _ in range(30))
        large = min(cpu_seconds(judge[1000]) for _ in range(30))
        rows.append(
            (
                name,
                ms(statistics.median(times)),
                f"{ms(p95)} ({'met' if p95 < LIMIT_SECS else 'MISSED'})",
                ratio(large, small, GROWTH_TARGET),
            )
        )
    table(
        "One verdict", ["ACTION", "200 RULES", "P95, TARGET 5 ms", "1,000 RULES AGAINST 10"], rows
    )


def cpu_seconds(work: Callable[[], object]) -> float:
    """How long one call keeps the processor busy."""
    began = time.process_time()
    work()
    return time.process_time() - began


def judging(policy: Policy, action: Action, scope: Scope, world: World) -> Callable[[], object]:
    """The work that is timed."""
    return lambda: decide(lambda: policy, action, scope, world)


def actions(folder: Path) -> dict[str, Action]:
    """One of each kind, and a longer command."""
    return {
        "write a file": FilesystemWrite(str(folder / "a" / "b.py")),
        "request": NetworkRequest.of("GET", "https://api.github.com/repos/a/b"),
        "start a program": ProcessSpawn(
            "git", ("-C", str(folder), "fetch", "--depth=1", "origin", "main")
        ),
        "tool call": Custom("tool_call", {"tool_name": "x", "input": {"a": [1, 2, 3]}}),
        "short command": Bash("git status --short"),
        "three commands": Bash(" && ".join(f"sed -i s/a/b/ x{n}.py > out{n}" for n in range(3))),
        "ten commands": Bash(" && ".join(f"sed -i s/a/b/ x{n}.py > out{n}" for n in range(10))),
    }


def policy(count: int) -> Policy:
    """``count`` rules that do not match, in equal parts of every kind."""
    rules = []
    for n in range(count):
        kind, matcher = _matcher(n)
        row = {"id": f"B{n:04}", "kind": kind, "matcher": matcher, "severity": "refuse"}
        rules.append(Rule.read({**row, "reason": "bench"}))
    return build_policy(rules, physical=os.path.realpath)


def _matcher(n: int) -> tuple[str, dict[str, JsonValue]]:
    secret = f"**/.secret-{n}/*.key"
    pointer = {"pointer": "/tool_name", "equals": f"tool{n}"}
    kinds: list[tuple[str, dict[str, JsonValue]]] = [
        ("filesystem_write", {"glob_any": [f"/srv/{n}/**", secret]}),
        ("network_request", {"host_any": [f"evil{n}.example.com", f"*.evil{n}.com"]}),
        ("process_spawn", {"binary": f"tool{n}"}),
        ("bash", {"argv_prefix": ["git", "push", f"remote{n}"]}),
        ("custom", {"kind": "tool_call", "where": [pointer]}),
    ]
    return kinds[n % len(kinds)]
