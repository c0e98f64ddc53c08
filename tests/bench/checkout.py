"""A warm checkout against what else one could do to get the same files."""

from __future__ import annotations

import base64
import shutil
from functools import partial
from pathlib import Path

from coven.values import Sha
from tests.bench.history import COMMITS, FILES, make_history
from tests.bench.report import median, mib, ms, ratio, seconds, table
from tests.integration.workspace_kit import TOKEN, Room, git, make_room
from worker.workspace.checkout import Workspace, changes

ROUNDS = 5
PLAIN_TARGET = 1.3
SHALLOW_TARGET = 1.0


def measure(folder: Path) -> None:
    """Print the table."""
    with make_room(folder) as room:
        made = seconds(lambda: make_history(room.bare))
        base = Sha(git(room.bare, "rev-parse", "main"))
        head = Sha(git(room.bare, "rev-parse", "refs/pull/7/head"))
        print(f"repository: {COMMITS:,} commits, {FILES:,} files, made in {made:.0f} s", flush=True)
        _measure(folder, room, base, head)


def _measure(folder: Path, room: Room, base: Sha, head: Sha) -> None:
    full = median(1, lambda _: _clone(room, folder / "full"))
    kept: list[Workspace] = []

    def ours(_: int) -> None:
        request = room.request(head, base_sha=base, trusted=False)
        kept.append(room.workspaces.checkout(request, TOKEN))

    cold = median(1, ours)
    cold_bytes = _size(kept[0].mirror.path)
    ours(0)  # What is read from now on is in the page cache for everybody.
    asked = len(room.remote.requests)
    times: dict[str, list[float]] = {
        name: [] for name in ("warm", "plain", "parallel", "shallow", "diff")
    }
    for number in range(ROUNDS):
        # One of each in turn, so that the load of the machine hits all alike.
        plain, parallel = folder / f"plain-{number}", folder / f"parallel-{number}"
        shallow = folder / f"shallow-{number}"
        times["plain"].append(seconds(partial(_plain, kept[0].mirror.path, head, plain)))
        times["warm"].append(seconds(lambda: ours(0)))
        times["parallel"].append(
            seconds(partial(_plain, kept[0].mirror.path, head, parallel, "checkout.workers=0"))
        )
        times["diff"].append(seconds(lambda: changes(room.workspaces, kept[-1])))
        fetched = len(room.remote.requests) - asked
        times["shallow"].append(seconds(partial(_clone, room, shallow, "--depth=1")))
        asked = len(room.remote.requests)
        for path in (plain, parallel, shallow):
            shutil.rmtree(path)  # noqa: TID251 - a folder of this benchmark
        if fetched:
            raise AssertionError(f"a warm checkout sent {fetched} requests")
    best = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    warm, tree = best["warm"], _size(kept[-1].tree, skip=".git")
    table(
        "Getting the files of one commit",
        ["WHAT", "TIME", "WARM CHECKOUT COMPARED"],
        [
            ("plain checkout from the mirror", ms(best["plain"]), _plain_ratio(warm, best)),
            ("the same with parallel writing", ms(best["parallel"]), ratio(warm, best["parallel"])),
            ("fresh clone --depth 1", ms(best["shallow"]), _shallow_ratio(warm, best)),
            ("fresh full clone", ms(full), ratio(warm, full)),
            ("our first checkout (fetches everything)", ms(cold), ratio(warm, cold)),
            ("our warm checkout (0 requests, 0 objects)", ms(warm), "1.00x"),
            ("list and diff of the changes, from the mirror", ms(best["diff"]), ""),
        ],
    )
    table(
        "Disk",
        ["WHAT", "SIZE"],
        [
            ("mirror, once per installation and repository", mib(cold_bytes)),
            ("files of one checkout", mib(tree)),
            ("repository folder of one checkout", mib(_size(kept[-1].tree / ".git"))),
            ("repository folder of a full clone", mib(_size(folder / "full" / ".git"))),
        ],
    )


def _plain_ratio(warm: float, best: dict[str, float]) -> str:
    return ratio(warm, best["plain"], PLAIN_TARGET)


def _shallow_ratio(warm: float, best: dict[str, float]) -> str:
    return ratio(warm, best["shallow"], SHALLOW_TARGET)


def _clone(room: Room, target: Path, *options: str) -> None:
    basic = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    url = room.workspaces.clone_url(room.repo)
    git(
        target.parent,
        *("-c", f"http.extraHeader=Authorization: Basic {basic}", "clone", "-q"),
        *(*options, url, str(target)),
    )


def _plain(mirror: Path, head: Sha, target: Path, setting: str = "checkout.workers=1") -> None:
    """The least that git can do: this tree, from these objects, into an empty folder."""
    target.mkdir()
    git(
        target,
        *("-c", setting, "read-tree", "--reset", "-u", head),
        env={
            "GIT_DIR": str(mirror),
            "GIT_WORK_TREE": str(target),
            "GIT_INDEX_FILE": str(target) + ".index",
        },
    )


def _size(folder: Path, skip: str = "") -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not (skip and skip in path.parts)
    )
