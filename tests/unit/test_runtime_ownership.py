"""Deciding what is an orphan, which group is stale, and what a backend's exit code means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker.runtime import launch
from worker.runtime.bubblewrap import Bubblewrap
from worker.runtime.cgroup import own_group, owner_gone
from worker.runtime.orphans import is_orphaned, supervisor_mark
from worker.runtime.session import Limits
from worker.runtime.watch import DiskUse, TreeUse, disk_breach, measure_disk, tree_breach

ALIVE = {100: 5000}
ROOT = Path("/srv/workspaces")


@pytest.mark.parametrize(
    ("mark", "orphaned"),
    [
        ("100:5000:/srv/workspaces/t/tree", False),
        ("100:4999:/srv/workspaces/t/tree", True),  # the pid was given to somebody else
        ("101:5000:/srv/workspaces/t/tree", True),
        ("101:5000:/srv/other/t/tree", False),
        ("101:5000:/srv/workspaces-2/t", False),
        ("", False),
        ("abc", False),
        ("101:5000:", False),
        ("101", False),
    ],
)
def test_orphans_are_ours_and_their_supervisor_is_gone(mark: str, orphaned: bool) -> None:
    assert is_orphaned(mark, ROOT, ALIVE.get) is orphaned


def test_our_own_mark_is_of_a_living_supervisor() -> None:
    mark = supervisor_mark(ROOT / "a:b")
    assert not is_orphaned(mark, ROOT, launch.start_ticks)
    assert is_orphaned(mark, ROOT, lambda pid: None)


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("coven-session-100-5000-ab", False),
        ("coven-session-100-1-ab", True),
        ("coven-session-7-1-ab", True),
        ("coven-session-odd", False),
    ],
)
def test_groups_of_dead_supervisors_are_stale(name: str, gone: bool) -> None:
    assert owner_gone(name, ALIVE.get) is gone


def test_the_own_group_is_found_in_both_layouts() -> None:
    unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    hybrid = "31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    assert own_group(unified, "0::/user.slice/x.service\n") == Path(
        "/sys/fs/cgroup/user.slice/x.service"
    )
    assert own_group(hybrid, "4:memory:/a\n0::/\n") == Path("/sys/fs/cgroup/unified")
    assert own_group("", "0::/\n") is None
    assert own_group(unified, "4:memory:/a\n") is None


@pytest.mark.parametrize(
    ("code", "number", "stderr", "expected"),
    [
        (0, None, "", (0, None, None)),
        (1, None, "the tests failed", (1, None, None)),
        (1, None, "x\nbwrap: Can't mount proc", (None, None, "bwrap: Can't mount proc")),
        (137, None, "", (None, 9, None)),
        (143, None, "", (None, 15, None)),
        (101, None, "", (101, None, None)),
        (255, None, "", (255, None, None)),
        (None, 9, "", (None, 9, None)),
    ],
)
def test_how_bubblewrap_says_that_a_guest_ended(
    code: int | None, number: int | None, stderr: str, expected: tuple[object, ...]
) -> None:
    assert tuple(Bubblewrap().read_exit(code, number, stderr)) == expected


def test_limits_are_named() -> None:
    limits = Limits(memory_bytes=100, file_bytes=100, processes=2, workspace_bytes=100)
    assert tree_breach(TreeUse(2, 100), limits) is None
    assert tree_breach(TreeUse(3, 0), limits) == "processes"
    assert tree_breach(TreeUse(1, 101), limits) == "memory"
    assert disk_breach(DiskUse(100, 99), limits) is None
    assert disk_breach(DiskUse(101, 1), limits) == "disk"
    assert disk_breach(DiskUse(1, 100), limits) == "file size"


def test_disk_use_counts_a_hard_link_once_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").symlink_to("/usr")
    use = measure_disk([tmp_path, tmp_path / "missing"])
    assert use.largest_bytes == 100_000
    assert 100_000 <= use.total_bytes < 150_000


def test_a_process_is_not_its_own_descendant() -> None:
    assert os.getpid() not in launch.descendants(os.getpid())
    assert os.getpid() in launch.descendants(1)
