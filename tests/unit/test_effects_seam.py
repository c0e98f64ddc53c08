"""Every effect asks, passes its fault points, and is counted."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coven.errors import GovernanceRefused
from coven.governance.actions import (
    Action,
    Custom,
    FilesystemWrite,
    MalformedAction,
    NetworkRequest,
    Op,
    ProcessSpawn,
)
from coven.governance.faults import InjectedFault, NoFaults, ScriptedFaults, faults_from
from coven.governance.wire import (
    EffectCounts,
    Seam,
    governed_remove_tree,
    governed_request,
    governed_spawn,
    governed_write,
)


class Refusing:
    def __init__(self) -> None:
        self.asked: list[Action] = []

    def check(self, action: Action, point: str) -> Action:
        self.asked.append(action)
        raise GovernanceRefused("no")

    def malformed(self, problem: MalformedAction, point: str) -> None:
        raise problem


class Recording:
    def __init__(self) -> None:
        self.hits: list[str] = []

    def hit(self, point: str) -> None:
        self.hits.append(point)


def test_a_refused_write_leaves_no_file(tmp_path: Path) -> None:
    gate = Refusing()
    with pytest.raises(GovernanceRefused):
        governed_write(Seam(gate=gate), tmp_path / "x", b"data", point="p")
    assert list(tmp_path.iterdir()) == []
    assert gate.asked == [FilesystemWrite(str(tmp_path / "x"), Op.MODIFY, 4)]


def test_a_refused_spawn_starts_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(GovernanceRefused):
        governed_spawn(
            Seam(gate=Refusing()),
            [sys.executable, "-c", f"open({str(marker)!r}, 'w')"],
            point="p",
            env={},
        )
    assert not marker.exists()


def test_a_refused_request_is_not_sent() -> None:
    sent: list[int] = []
    with pytest.raises(GovernanceRefused):
        governed_request(
            Seam(gate=Refusing()), "GET", "https://x.example", lambda: sent.append(1), point="p"
        )
    assert sent == []


def test_a_refused_removal_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(GovernanceRefused):
        governed_remove_tree(Seam(gate=Refusing()), tmp_path / "d", point="p")
    assert (tmp_path / "d").exists()


def test_fault_points_stand_before_and_after(tmp_path: Path) -> None:
    faults = Recording()
    counts = EffectCounts()
    governed_write(Seam(faults=faults, counts=counts), tmp_path / "x", b"1", point="brief.write")
    assert faults.hits == ["brief.write.before", "brief.write.after"]
    assert counts.snapshot() == {("FilesystemWrite", "brief.write"): 1}


def test_a_write_is_whole_private_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "x"
    governed_write(Seam(), target, b"one", point="p")
    governed_write(Seam(), target, b"two", point="p")
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_write_does_not_follow_a_link_at_its_place(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("keep")
    (tmp_path / "x").symlink_to(outside)
    governed_write(Seam(), tmp_path / "x", b"new", point="p")
    assert outside.read_text() == "keep"
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_tree_without_permissions_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("1")
    tree = tmp_path / "tree"
    (tree / "locked").mkdir(parents=True)
    (tree / "locked" / "file").write_text("1")
    (tree / "link").symlink_to(outside)
    os.chmod(tree / "locked", 0o000)
    governed_remove_tree(Seam(), tree, point="p")
    assert not tree.exists()
    assert (outside / "keep").exists()


def test_a_tree_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    governed_remove_tree(Seam(), top, point="p")
    assert list(tmp_path.iterdir()) == []


def test_two_removers_of_one_tree_both_succeed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for number in range(60):
        (tree / f"{number}" / "a" / "b").mkdir(parents=True)
        (tree / f"{number}" / "a" / "file").write_text("1")
    with ThreadPoolExecutor(4) as pool:
        ends = [
            pool.submit(governed_remove_tree, Seam(), tree, point="workspace.remove")
            for _ in range(4)
        ]
        assert [end.result() for end in ends] == [None] * 4
    assert list(tmp_path.iterdir()) == []


def test_an_absent_tree_is_fine_and_a_link_is_unlinked(tmp_path: Path) -> None:
    governed_remove_tree(Seam(), tmp_path / "absent", point="p")
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    governed_remove_tree(Seam(), tmp_path / "link", point="p")
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_a_shell_is_refused() -> None:
    with pytest.raises(ValueError, match="shell"):
        governed_spawn(Seam(), ["true"], point="p", env={}, shell=True)


def test_the_child_gets_exactly_the_given_environment(tmp_path: Path) -> None:
    out = tmp_path / "env"
    process = governed_spawn(
        Seam(),
        [
            sys.executable,
            "-I",
            "-c",
            f"import os;open({str(out)!r},'w').write(repr(dict(os.environ)))",
        ],
        point="p",
        env={"ONLY": "this"},
    )
    assert process.wait(20) == 0
    seen = eval(out.read_text())
    assert {k: v for k, v in seen.items() if k != "LC_CTYPE"} == {"ONLY": "this"}


def test_actions_name_what_they_are_about() -> None:
    assert ProcessSpawn.of(("git", "fetch"), env_names=["B", "A"]).env_names == ("A", "B")
    request = NetworkRequest.of("GET", "https://h/x?token=1")
    assert (request.host, request.path, request.method) == ("h", "/x", "GET")


class Rewriting:
    """The verdict *Modify*: another action may happen instead."""

    def __init__(self, other: Action) -> None:
        self.other = other

    def check(self, action: Action, point: str) -> Action:
        return self.other

    def malformed(self, problem: MalformedAction, point: str) -> None:
        raise problem


def test_a_rewritten_write_goes_to_the_other_place(tmp_path: Path) -> None:
    gate = Rewriting(FilesystemWrite(str(tmp_path / "safe")))
    governed_write(Seam(gate=gate), tmp_path / "asked", b"data", point="p")
    assert [entry.name for entry in tmp_path.iterdir()] == ["safe"]


def test_a_rewritten_spawn_runs_the_other_program(tmp_path: Path) -> None:
    gate = Rewriting(ProcessSpawn.of([sys.executable, "-c", "raise SystemExit(7)"]))
    process = governed_spawn(Seam(gate=gate), ["asked-for"], point="p", env={})
    assert process.wait(20) == 7


@pytest.mark.parametrize("other", [Custom("x"), FilesystemWrite("/elsewhere")])
def test_what_can_not_be_rewritten_is_refused(other: Action) -> None:
    sent: list[int] = []
    with pytest.raises(GovernanceRefused):
        governed_request(
            Seam(gate=Rewriting(other)),
            "GET",
            "https://x.example",
            lambda: sent.append(1),
            point="p",
        )
    with pytest.raises(GovernanceRefused):
        governed_spawn(Seam(gate=Rewriting(other)), ["true"], point="p", env={})
    assert sent == []


def test_an_action_that_no_rule_can_judge_is_asked_about_as_such(tmp_path: Path) -> None:
    odd = tmp_path / "a\udcff"
    with pytest.raises(MalformedAction):
        governed_write(Seam(gate=Refusing()), odd, b"data", point="p")
    assert list(tmp_path.iterdir()) == []
    governed_write(Seam(), odd, b"data", point="p")
    assert odd.read_bytes() == b"data"


def test_without_a_plan_nothing_happens() -> None:
    assert isinstance(faults_from({}), NoFaults)


def test_a_plan_strikes_at_the_named_time_only() -> None:
    faults = ScriptedFaults("a=raise@2")
    faults.hit("a")
    faults.hit("b")
    with pytest.raises(InjectedFault):
        faults.hit("a")
    faults.hit("a")


def test_a_plan_strikes_once_over_restarts(tmp_path: Path) -> None:
    with pytest.raises(InjectedFault):
        ScriptedFaults("a=raise", tmp_path).hit("a")
    ScriptedFaults("a=raise", tmp_path).hit("a")


@pytest.mark.parametrize("plan", ["a", "a=explode", "a=raise@x", "a=raise@"])
def test_an_unreadable_plan_is_refused(plan: str) -> None:
    with pytest.raises(ValueError, match="COVEN_GITHUB_FAULTS"):
        ScriptedFaults(plan)
