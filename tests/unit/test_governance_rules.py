"""Rules are read strictly, inert ones are refused, and each knows whom it binds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coven.governance.bash import analyse
from coven.governance.policy import PolicyCorrupt, build_policy
from coven.governance.rules import Rule, Severity, compile_rule, namespace_segments
from coven.governance.seeds import SEEDS
from coven.governance.selftest import failed_examples
from coven.governance.shapes import InvalidMatcher, Templates
from coven.governance.world import Origin, Scope, no_machine

TEMPLATES = Templates.of(
    workspace="/srv/ws/",
    state_dir="/srv",
    github_hosts=["github.com", "api.github.com"],
    model_hosts=["model.example.com"],
    programs=["python"],
)


def rule(kind: str, matcher: Any, /, **more: Any) -> Rule:
    row = {"id": "R1", "kind": kind, "matcher": matcher, "severity": "refuse", "reason": "why"}
    return Rule.read({**row, **more})


INERT = [
    ("bash", {}, "can never match"),
    ("bash", {"command_substring": ""}, "empty"),
    ("bash", {"command_regex": "rm .*"}, "literal text"),
    ("bash", {"argv_prefix": []}, "not a list with words"),
    ("bash", {"argv_prefix": "rm"}, "not a list with words"),
    ("bash", {"argv_prefix": [[]]}, "empty list"),
    ("bash", {"argv_prefix": [1]}, "not a text"),
    ("bash", {"unanalyzable": False}, "must be true"),
    ("bash", {"opaque_code": "yes"}, "must be true"),
    ("bash", {"glob": "/x"}, "not a key"),
    ("filesystem_write", {"op": ["create"]}, "can never match"),
    ("filesystem_write", {"glob": "tmp/**"}, "can never match"),
    ("filesystem_write", {"glob": "*.yml"}, "can never match"),
    ("filesystem_write", {"glob": "~/x"}, "can never match"),
    ("filesystem_write", {"glob": "/a/../b"}, "can never match"),
    ("filesystem_write", {"glob": "/a/./b"}, "can never match"),
    ("filesystem_write", {"glob": "/a/**b"}, "whole segment"),
    ("filesystem_write", {"glob": "/a/[b"}, "closes it"),
    ("filesystem_write", {"glob": "/a/[z-a]"}, "backwards"),
    ("filesystem_write", {"glob": "/a\0"}, "NUL"),
    ("filesystem_write", {"glob": ["/a"]}, "not a text"),
    ("filesystem_write", {"glob_any": "/a"}, "not a list"),
    ("filesystem_write", {"glob_any": []}, "empty"),
    ("filesystem_write", {"glob_not_in": ["/**"]}, "can never match"),
    ("filesystem_write", {"glob_not_in": ["**"]}, "can never match"),
    ("filesystem_write", {"glob": "/a", "op": ["eat"]}, "op"),
    ("filesystem_write", {"max_bytes": -1}, "out of range"),
    ("filesystem_write", {"max_bytes": True}, "whole number"),
    ("filesystem_write", {"glob": "${home}/x"}, "unknown"),
    ("network_request", {"path_glob": "/x"}, "can never match"),
    ("network_request", {"host": "a b"}, "host"),
    ("network_request", {"host": "a.com:443"}, "host"),
    ("network_request", {"host": "https://a.com"}, "host"),
    ("network_request", {"host_not_in": ["*"]}, "anybody"),
    ("network_request", {"host_not_in": ["10.*"]}, "anybody"),
    ("network_request", {"host_not_in": ["github.*"]}, "anybody"),
    ("network_request", {"port_in": ["443"]}, "whole number"),
    ("network_request", {"port_in": []}, "not a list"),
    ("network_request", {"private_address": False}, "must be true"),
    ("network_request", {"host": "a.com", "path_glob": "repos/*"}, "can never match"),
    ("process_spawn", {"disk_path": "/"}, "can never match"),
    ("process_spawn", {"binary": "cargo", "disk_path": "/"}, "means nothing alone"),
    ("process_spawn", {"binary": "cargo", "disk_free_min_gib": 0}, "out of range"),
    ("process_spawn", {"binary": "${Programs}"}, "unknown"),
    ("process_spawn", {"binary": "bin/cargo"}, "can never match"),
    ("process_spawn", {"binary": "/usr/bin/"}, "folder"),
    ("process_spawn", {"binary": "git", "paths": ["git"]}, "absolute"),
    ("process_spawn", {"binary": ["cargo"]}, "not a text"),
    ("custom", {}, "can never match"),
    ("custom", {"where": [{"pointer": "/a", "equals": 1}]}, "can never match"),
    ("custom", {"kind": "x", "where": []}, "not a list"),
    ("custom", {"kind": "x", "where": [{"pointer": "a", "equals": 1}]}, "JSON pointer"),
    ("custom", {"kind": "x", "where": [{"pointer": "/~2", "equals": 1}]}, "escape"),
    ("custom", {"kind": "x", "where": [{"pointer": "/a"}]}, "has one of"),
    ("custom", {"kind": "x", "where": [{"pointer": "/a", "equals": 1, "in": [1]}]}, "has one of"),
    ("custom", {"kind": "x", "where": [{"pointer": "/a", "regex": "x"}]}, "has one of"),
    ("custom", {"kind": "x", "where": [{"pointer": "/a", "in": []}]}, "not a list"),
    ("custom", {"kind": "x", "where": [{"pointer": "/a", "contains": ""}]}, "always matches"),
    ("custom", {"kind": "x", "where": ["x"]}, "not an object"),
    ("custom", {"kind": "x", "origin": "robot"}, "origin"),
]


@pytest.mark.parametrize(("kind", "matcher", "words"), INERT, ids=lambda value: str(value)[:60])
def test_a_rule_that_can_never_match_is_refused(kind: str, matcher: Any, words: str) -> None:
    read = rule(kind, matcher)
    with pytest.raises(InvalidMatcher, match=words) as caught:
        compile_rule(read, TEMPLATES)
    assert caught.value.code == "governance.invalid_matcher"
    with pytest.raises(PolicyCorrupt, match="rule R1") as corrupt:
        build_policy([read], templates=TEMPLATES)
    assert corrupt.value.code == "governance:policy_tampered"


UNREADABLE = [
    ({"id": "a b"}, "id"),
    ({"id": "governance:x"}, "id"),
    ({"kind": "read_action"}, "kind"),
    ({"severity": "fatal"}, "severity"),
    ({"severity": "REFUSE"}, "severity"),
    ({"reason": "  "}, "reason"),
    ({"namespace": "team/x"}, "namespace"),
    ({"namespace": "installation/0"}, "namespace"),
    ({"namespace": "installation/1/repo/a"}, "namespace"),
    ({"namespace": "installation/1/familiar/a"}, "namespace"),
    ({"revision": 0}, "revision"),
    ({"enabled": 2}, "enabled"),
    ({"matcher": "[]"}, "matcher"),
    ({"matcher": '{"glob":"/a","glob":"/b"}'}, "twice"),
    ({"matcher": '{"max_bytes":1.5}'}, "fraction"),
    ({"matcher": '{"max_bytes":9007199254740992}'}, "too large"),
    ({"matcher": None}, "matcher"),
    ({"examples": "[]"}, "examples"),
]


@pytest.mark.parametrize(("change", "words"), UNREADABLE, ids=str)
def test_a_row_that_can_not_be_read_is_corrupt(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMatcher, match=words):
        rule("filesystem_write", {"glob": "/a"}, **change)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.id)
def test_shipped_rules_are_disabled_and_can_be_used(seed: Any) -> None:
    read = Rule.read(seed.row())
    assert not read.live
    assert (read.created_at, read.created_by, read.signature) == (0, "system:seed", None)
    compile_rule(read, TEMPLATES)


def test_a_rule_that_is_off_or_removed_is_not_compiled() -> None:
    broken = rule("filesystem_write", {"glob": "nowhere"}, enabled=0)
    build_policy([broken, dataclasses.replace(broken, enabled=True, removed_at=5)])


def test_severities_are_in_order() -> None:
    assert sorted(Severity, key=lambda severity: severity.rank) == [
        Severity.LOG, Severity.WARN, Severity.ESCALATE, Severity.REFUSE,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "acting", "binds"),
    [
        ("_global", "_global", True),
        ("_global", "installation/7/repo/a/b/familiar/f", True),
        ("installation/7", "installation/7", True),
        ("installation/7", "installation/7/repo/a/b", True),
        ("installation/7", "installation/70", False),
        ("installation/7", "_global", False),
        ("installation/7/repo/a/b", "installation/7/repo/a/b/familiar/f", True),
        ("installation/7/repo/a/b", "installation/7/repo/A/B", True),
        ("installation/7/repo/a/b", "installation/7/repo/a/bc", False),
        ("installation/7/repo/a/b", "installation/7", False),
        ("installation/7/repo/a/b/familiar/f", "installation/7/repo/a/b/familiar/g", False),
    ],
)
def test_a_rule_binds_its_namespace_and_all_below(mine: str, acting: str, binds: bool) -> None:
    compiled = compile_rule(rule("custom", {"kind": "x"}, namespace=mine))
    assert compiled.binds(Scope(namespace=acting), namespace_segments(acting)) is binds


def test_a_rule_may_bind_one_origin_only() -> None:
    compiled = compile_rule(rule("custom", {"kind": "x", "origin": "tool"}))
    assert compiled.binds(Scope(origin=Origin.TOOL), ())
    assert not compiled.binds(Scope(origin=Origin.ADAPTER), ())


def test_templates_stand_for_all_their_values() -> None:
    compiled = compile_rule(rule("network_request", {"host_any": ["${github_hosts}"]}), TEMPLATES)
    good = {"kind": "network_request", "host": "api.github.com"}
    examples = {"match": [good, {**good, "host": "github.com"}], "no_match": []}
    tested = dataclasses.replace(
        compiled, rule=dataclasses.replace(compiled.rule, examples=examples)
    )
    assert failed_examples(tested, no_machine()) == ()


TMP = {"kind": "filesystem_write", "path": "/tmp/x"}
HOME = {"kind": "filesystem_write", "path": "/home/x"}


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        ({"match": [HOME]}, "example 1 of `match` does not match"),
        ({"match": [TMP, HOME]}, "example 2 of `match` does not match"),
        ({"no_match": [TMP]}, "example 1 of `no_match` matches"),
        ({"match": [{"kind": "bash", "command": "ls"}]}, "does not match"),
        ({"matches": []}, "use match and no_match"),
        ({"match": TMP}, "not a list"),
        ({"match": [{"kind": "bash"}]}, "can't be read"),
        ({"match": [TMP] * 51}, "more than 50"),
    ],
    ids=str,
)
def test_a_rule_whose_examples_fail_is_corrupt(examples: Any, words: str) -> None:
    broken = rule("filesystem_write", {"glob": "/tmp/**"}, examples=examples)
    with pytest.raises(PolicyCorrupt, match=words):
        build_policy([broken], world=no_machine(analyse))


def test_examples_that_hold_pass() -> None:
    written = {"kind": "bash", "command": "echo hi > /tmp/x"}
    good = rule(
        "filesystem_write",
        {"glob": "/tmp/**"},
        examples={"match": [TMP, written], "no_match": [HOME]},
        namespace="installation/1",
    )
    build_policy([good], world=no_machine(analyse))
