"""The evasion corpus of the matchers: one trick per case, judged on a machine made of real links.

The modules that judge are handed in, so that a mutated copy can be judged by the same cases.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "fixtures" / "governance" / "matching"

ADDRESSES = {
    "internal.example.com": ("10.0.0.1",),
    "both.example.com": ("93.184.216.34", "192.168.0.1"),
    "mapped.example.com": ("::ffff:127.0.0.1",),
    "public.example.com": ("93.184.216.34", "2606:4700::1111"),
}
GIB = 2**30


@dataclass(frozen=True)
class Case:
    """One rule, one action, and whether the rule must fire."""

    id: str
    trick: str
    rule: Mapping[str, Any]
    action: Mapping[str, Any]
    fires: bool
    more: Mapping[str, Any]


def cases(name: str) -> list[Case]:
    """The cases of one file of the corpus."""
    rows = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    known = ("id", "trick", "rule", "action", "fires")
    return [
        Case(*(row[key] for key in known), {k: v for k, v in row.items() if k not in known})
        for row in rows
    ]


def every_case() -> dict[str, Case]:
    """All cases by id."""
    return {case.id: case for path in FOLDER.glob("*.json") for case in cases(path.stem)}


def build(root: Path) -> Path:
    """Make the files and links that the cases speak of; the resolved root."""
    root = root.resolve()
    ws, out = root / "ws", root / "out"
    for folder in (ws / "sub", ws / "inside", out / "a" / "b", root / "bin", root / "shadow"):
        folder.mkdir(parents=True)
    for link, target in {
        "link": str(out),
        "deep": str(out / "a" / "b"),
        "chain": "link",
        "rel": "../out",
        "dangling": str(out / "missing" / "none"),
        "file": str(out / "file"),
        "loop": "loop",
        "inner": "inside",
        "to-tmp": "/tmp",
        "to-tmp-deep": "/tmp/coven-no-such-folder/b",
        "mycargo": "../bin/cargo",
        "git": "../bin/cargo",
    }.items():
        (ws / link).symlink_to(target)
    (root / "alias").symlink_to(out)
    (out / "away").symlink_to(ws / "inside")
    (root / "links").mkdir()
    (root / "links" / "git").symlink_to("../bin/git")
    (out / "file").write_text("")
    for program in ("bin/cargo", "bin/git", "bin/docker", "shadow/git"):
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
    return root


def fires(case: Case, root: Path, modules: Mapping[str, Any], analyse: Any) -> bool:
    """Whether the rule of the case fires, judged by these modules."""
    world_module, rules = modules["world"], modules["rules"]
    policy_module, evaluate = modules["policy"], modules["evaluate"]
    rule = rules.Rule.read({"id": "R1", "reason": "corpus", **_filled(case.rule, root)})
    world = _world(case.more.get("machine", {}), root, world_module, analyse)
    policy = policy_module.build_policy([rule], physical=os.path.realpath)
    cwd = None if "cwd" in case.more else str(root / "ws")
    scope = world_module.Scope(
        cwd=cwd, views=tuple(map(tuple, _filled(case.more.get("views", []), root)))
    )
    decision = evaluate.decide(lambda: policy, _filled(case.action, root), scope, world)
    assert not (decision.rule_id or "").startswith("governance:"), decision
    return bool(decision.matched)


def _world(machine: Mapping[str, Any], root: Path, module: Any, analyse: Any) -> Any:
    def free(path: str) -> int:
        gib = 1 if path == machine.get("full") else machine.get("free_gib", 100)
        if gib is None:
            raise OSError("no such volume")
        return int(gib) * GIB - int(machine.get("free_minus", 0))

    def addresses(host: str) -> tuple[str, ...]:
        if host not in ADDRESSES:
            raise OSError("no such name")
        return ADDRESSES[host]

    return replace(
        module.this_machine(analyse, str(root / "bin")),
        free_bytes=free,
        addresses=addresses,
        folds_case=lambda _: bool(machine.get("folds_case")),
    )


def _filled(value: Any, root: Path) -> Any:
    if isinstance(value, str):
        places = {"{root}": root, "{ws}": root / "ws", "{out}": root / "out"}
        for name, place in places.items():
            value = value.replace(name, str(place))
        return value
    if isinstance(value, list):
        return [_filled(item, root) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, root) for key, item in value.items()}
    return value
