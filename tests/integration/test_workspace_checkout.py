"""Checkouts of honest repositories over real smart HTTP."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coven.errors import Retry, WorkspaceError, WorkspaceUnavailable
from coven.governance.actions import Action, MalformedAction
from coven.values import InstallationId, RepoName, Sha, new_task_id
from tests.integration.workspace_kit import TOKEN, Room, git, make_room
from worker.workspace.checkout import Workspaces, agent_files_above, changes, earlier_commits
from worker.workspace.errors import (
    AccessRefused,
    CheckoutStopped,
    CommitNotFound,
    RepositoryNotFound,
    TooBig,
)
from worker.workspace.upkeep import all_mirrors, forget_installation, maintain


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with make_room(tmp_path) as made:
        yield made


def pack_bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in (folder / ".git" / "objects").rglob("*") if f.is_file())


def test_a_pull_request_checkout_is_what_the_runtime_expects(room: Room) -> None:
    base, head = room.pull()
    request = room.request(head, base_sha=base)
    made = room.workspaces.checkout(request, TOKEN)
    tree = made.tree
    assert git(tree, "rev-parse", "HEAD") == head == made.start_sha
    assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == request.branch
    assert git(tree, "rev-parse", "main", "origin/main").split() == [base, base]
    assert git(tree, "merge-base", "origin/main", "HEAD") == base == made.merge_base
    assert git(tree, "remote", "get-url", "origin") == f"{room.remote.base}/acme/shop.git"
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "log", "--format=%H", "origin/main..HEAD") == head
    assert (tree / "a.py").read_text() == "changed\n"
    assert earlier_commits(room.workspaces, made) == (head,)


def test_issue_work_starts_on_the_default_branch(room: Room) -> None:
    base, _ = room.pull()
    request = room.request(base, is_pull=False, base_ref=None, branch="cody/fix-3-abc")
    made = room.workspaces.checkout(request, TOKEN)
    assert git(made.tree, "rev-parse", "HEAD", "main", "origin/main").split() == [base] * 3
    assert made.merge_base == base
    assert changes(room.workspaces, made).files == ()


def test_folders_are_private_and_the_result_name_is_unpredictable(room: Room) -> None:
    base, head = room.pull()
    first = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    second = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    for made in (first, second):
        for folder in (made.attempt_dir, made.tree, made.home, made.out_dir, made.engine_home):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        assert stat.S_IMODE(made.attempt_dir.parent.stat().st_mode) == 0o700
        assert list(made.out_dir.iterdir()) == []
        assert made.engine_home == made.home / ".coven-code"
        assert not made.brief_path.is_relative_to(made.tree)
    assert first.result_name != second.result_name
    assert first.attempt_dir != second.attempt_dir


def test_a_known_head_costs_no_network_at_all(room: Room) -> None:
    base, head = room.pull()
    cold = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    asked = len(room.remote.requests)
    warm = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert cold.fetched
    assert not warm.fetched
    assert len(room.remote.requests) == asked
    counts = room.seam.counts.snapshot()
    assert counts["NetworkRequest", "workspace.fetch.network"] == 1


def test_the_tree_shares_its_objects_with_the_mirror(room: Room) -> None:
    base, head = room.pull({"big.bin": os.urandom(500_000)})
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert pack_bytes(made.tree) < 1_000
    assert git(made.tree, "fsck", "--full") == ""


def test_the_token_is_in_no_file_no_argument_and_no_url(room: Room) -> None:
    base, head = room.pull()
    seen: list[tuple[str, ...]] = []

    class Watch:
        def check(self, action: Action, point: str) -> Action:
            seen.append((*getattr(action, "argv", ()), str(getattr(action, "path", ""))))
            return action

        def malformed(self, problem: MalformedAction, point: str) -> None:
            raise problem

    seam = replace(room.seam, gate=Watch())
    workspaces = Workspaces(room.settings, seam, room.workspaces.clock)
    workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert seen
    assert not [argv for argv in seen if TOKEN in " ".join(argv)]
    held = [
        path
        for path in (room.tmp / "state").rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    assert held == []
    assert room.remote.authorizations[0] is not None


def test_the_checkouts_helper_answers_for_its_own_origin_only(room: Room) -> None:
    base, head = room.pull()
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    env = {"COVEN_GIT_TOKEN": "tok", "GIT_TERMINAL_PROMPT": "0"}

    def password(url: str, **extra: str) -> str:
        try:
            asked = f"url={url}\n\n".encode()
            said = git(made.tree, "credential", "fill", stdin=asked, env=env | extra)
        except AssertionError:
            return ""
        return dict(line.split("=", 1) for line in said.splitlines()).get("password", "")

    assert password(made.clone_url) == "tok"
    assert password(made.clone_url.removesuffix(".git")) == "tok"
    assert password(f"{room.remote.base}/acme/other.git") == ""
    assert password("https://evil.example/acme/shop.git") == ""
    assert password(made.clone_url, COVEN_GIT_TOKEN="") == ""


def test_a_runtime_can_push_the_reserved_branch_with_its_own_token(room: Room) -> None:
    base, head = room.pull()
    request = room.request(head, base_sha=base)
    made = room.workspaces.checkout(request, TOKEN)
    (made.tree / "new.txt").write_text("x")
    git(made.tree, "add", "new.txt")
    git(made.tree, "commit", "-q", "-m", "New")
    git(made.tree, "push", "-q", env={"COVEN_GIT_TOKEN": TOKEN, "GIT_TERMINAL_PROMPT": "0"})
    assert git(room.bare, "rev-parse", request.branch) == git(made.tree, "rev-parse", "HEAD")
    assert room.workspaces.remote_branches(request, TOKEN, "cody") == {
        request.branch: Sha(git(made.tree, "rev-parse", "HEAD"))
    }


def test_a_moved_head_is_a_fact_while_the_pinned_commit_is_used(room: Room) -> None:
    base, head = room.pull()
    newer = room.commit({"a.py": "newer\n"}, branch="topic")
    room.publish(newer, "refs/pull/7/head")
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert made.start_sha == head
    assert made.head_now == newer


def test_a_head_that_is_gone_names_both_commits(room: Room) -> None:
    base, head = room.pull()
    lost = Sha("1" * 40)
    request = room.request(lost, base_sha=base)
    with pytest.raises(CommitNotFound, match=f"{lost}.*{head}"):
        room.workspaces.checkout(request, TOKEN)
    assert not (room.settings.workspace_root / request.task_id).exists()


def test_a_fork_head_comes_through_the_pull_ref_even_if_a_branch_has_its_name(room: Room) -> None:
    base, _ = room.pull()
    other = room.commit({"a.py": "decoy\n"}, branch="topic")
    git(room.dev, "checkout", "-q", "-b", "fork", base)
    fork = room.commit({"a.py": "fork\n"}, branch="fork")
    room.publish(other, "refs/heads/topic")
    room.publish(fork, "refs/pull/8/head")
    made = room.workspaces.checkout(room.request(fork, number=8, base_sha=base), TOKEN)
    assert (made.tree / "a.py").read_text() == "fork\n"
    assert made.head_now == fork


def test_a_base_that_is_not_the_default_branch_is_there_beside_it(room: Room) -> None:
    base, head = room.pull()
    git(room.dev, "checkout", "-q", "main")
    release = room.commit({"r.txt": "r\n"}, branch="main")
    room.publish(release, "refs/heads/Rélease/1.x")
    request = room.request(head, base_ref="Rélease/1.x", base_sha=release)
    made = room.workspaces.checkout(request, TOKEN)
    assert git(made.tree, "rev-parse", "origin/Rélease/1.x") == release
    assert git(made.tree, "rev-parse", "origin/main") == base
    assert made.merge_base == base


def test_a_default_branch_named_like_the_familiar_leaves_the_local_name_out(room: Room) -> None:
    base, head = room.pull()
    room.publish(base, "refs/heads/cody")
    request = room.request(head, default_branch="cody", base_ref="cody", base_sha=base)
    made = room.workspaces.checkout(request, TOKEN)
    assert git(made.tree, "rev-parse", "origin/cody") == base
    assert git(made.tree, "rev-parse", "--abbrev-ref", "HEAD") == request.branch


def test_histories_without_a_common_commit_are_noted(room: Room) -> None:
    base, _ = room.pull()
    git(room.dev, "checkout", "-q", "--orphan", "island")
    island = room.commit({"a.py": "island\n"}, branch="island")
    room.publish(island, "refs/pull/9/head")
    made = room.workspaces.checkout(room.request(island, number=9, base_sha=base), TOKEN)
    assert made.merge_base is None
    assert any("no history" in note for note in made.notes)
    assert [f.filename for f in changes(room.workspaces, made).files] == ["a.py"]


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (404, RepositoryNotFound, Retry.NEVER),
        (301, RepositoryNotFound, Retry.NEVER),
        (401, AccessRefused, Retry.BACKOFF),
        (403, AccessRefused, Retry.BACKOFF),
        (500, WorkspaceUnavailable, Retry.BACKOFF),
        (503, WorkspaceUnavailable, Retry.BACKOFF),
    ],
)
def test_each_answer_of_the_host_has_its_own_error(
    room: Room, status: int, kind: type[WorkspaceError], retry: Retry
) -> None:
    base, head = room.pull()
    room.remote.status = status
    request = room.request(head, base_sha=base)
    with pytest.raises(kind) as caught:
        room.workspaces.checkout(request, TOKEN)
    assert caught.value.retry is retry
    assert TOKEN not in str(caught.value)
    assert not (room.settings.workspace_root / request.task_id).exists()


def test_a_wrong_token_is_refused_and_a_fresh_one_helps(room: Room) -> None:
    base, head = room.pull()
    request = room.request(head, base_sha=base)
    with pytest.raises(AccessRefused):
        room.workspaces.checkout(request, "ghs_wrong")
    assert room.workspaces.checkout(request, TOKEN).start_sha == head


def test_a_host_that_is_down_is_worth_a_retry(tmp_path: Path) -> None:
    with make_room(tmp_path) as room:
        base, head = room.pull()
        request = room.request(head, base_sha=base)
    with pytest.raises(WorkspaceUnavailable):
        room.workspaces.checkout(request, TOKEN)


def test_an_empty_repository_is_said_to_lack_the_commit(room: Room) -> None:
    with pytest.raises(WorkspaceError):
        room.workspaces.checkout(room.request(Sha("2" * 40), is_pull=False), TOKEN)


def test_the_host_comes_from_the_configuration_and_not_from_a_payload(room: Room) -> None:
    _, head = room.pull()
    with pytest.raises(WorkspaceError, match="clone_url"):
        room.workspaces.checkout(
            room.request(head, clone_url="https://evil.example/acme/shop.git"), TOKEN
        )
    assert room.remote.requests == []


@pytest.mark.parametrize("field", ["branch", "default_branch", "base_ref"])
def test_a_ref_name_with_an_option_in_it_never_reaches_git(room: Room, field: str) -> None:
    base, head = room.pull()
    evil = f"--upload-pack=touch {room.tmp}/PWNED;"
    with pytest.raises(WorkspaceError):
        room.workspaces.checkout(room.request(head, base_sha=base, **{field: evil}), TOKEN)
    assert not (room.tmp / "PWNED").exists()
    assert room.remote.requests == []


def test_stop_ends_a_checkout_and_leaves_nothing(room: Room) -> None:
    base, head = room.pull()
    request = room.request(head, base_sha=base)
    with pytest.raises(CheckoutStopped):
        room.workspaces.checkout(request, TOKEN, lambda: True)
    assert not (room.settings.workspace_root / request.task_id).exists()
    assert (
        room.workspaces.mirrors.leases(
            room.workspaces.mirrors.path(request.installation_id, request.repo_id)
        )
        == []
    )


def test_remove_takes_everything_away_and_can_be_repeated(room: Room) -> None:
    base, head = room.pull()
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    (made.tree / "locked").mkdir()
    (made.tree / "locked" / "file").write_text("x")
    (made.tree / "locked").chmod(0)
    room.workspaces.remove(made)
    room.workspaces.remove(made)
    assert list(room.settings.workspace_root.iterdir()) == []
    assert room.workspaces.mirrors.leases(made.mirror.path) == []


def test_sweep_removes_dead_tasks_and_nothing_else(room: Room) -> None:
    base, head = room.pull()
    alive = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    dead = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    other = room.settings.workspace_root / "operators-notes"
    other.mkdir()
    assert room.workspaces.present() == {alive.task_id, dead.task_id}
    assert room.workspaces.sweep({dead.task_id}) == 1
    assert room.workspaces.sweep({dead.task_id}) == 0
    assert alive.tree.exists()
    assert not dead.attempt_dir.exists()
    assert other.exists()


def test_a_second_attempt_clears_what_the_first_one_left(room: Room) -> None:
    base, head = room.pull()
    request = room.request(head, base_sha=base)
    first = room.workspaces.checkout(request, TOKEN)
    second = room.workspaces.checkout(request, TOKEN)
    assert not first.attempt_dir.exists()
    assert second.tree.exists()


def test_installations_never_share_a_mirror(room: Room) -> None:
    base, head = room.pull()
    one = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    two = room.workspaces.checkout(
        room.request(head, base_sha=base, installation_id=InstallationId(12)), TOKEN
    )
    assert one.mirror.path != two.mirror.path
    assert two.fetched
    forget_installation(room.workspaces.mirrors, InstallationId(12))
    assert all_mirrors(room.workspaces.mirrors) == [one.mirror.path]


def test_many_workers_fetch_the_same_repository_once(room: Room) -> None:
    base, head = room.pull()
    made, failed = [], []

    def work() -> None:
        try:
            own = Workspaces(room.settings, room.seam, room.workspaces.clock)
            made.append(own.checkout(room.request(head, base_sha=base), TOKEN))
        except WorkspaceError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sum(workspace.fetched for workspace in made) == 1


@pytest.mark.parametrize("damage", ["head", "objects", "pack", "config"])
def test_a_damaged_mirror_is_made_again(room: Room, damage: str) -> None:
    files = {f"f{n}.py": f"{n}\n" * 50 for n in range(200)}
    base, head = room.pull(files)  # more than git unpacks: one pack
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    mirror = made.mirror.path
    if damage == "head":
        (mirror / "HEAD").unlink()
    elif damage == "config":
        (mirror / "config").write_text("[core\nbroken")
    elif damage == "objects":
        for file in (mirror / "objects").rglob("*"):
            if file.is_file():
                file.unlink()
    else:
        for pack in (mirror / "objects" / "pack").glob("*.pack"):
            pack.chmod(0o600)
            data = bytearray(pack.read_bytes())
            data[40 : len(data) - 40] = bytes(len(data) - 80)
            pack.write_bytes(bytes(data))
    again = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert git(again.tree, "rev-parse", "HEAD") == head
    assert (again.tree / "f7.py").read_text() == files["f7.py"]
    # The older checkout borrows from the new mirror again.
    assert git(made.tree, "cat-file", "-t", head) == "commit"


def test_configuration_planted_in_a_mirror_is_written_over(room: Room) -> None:
    base, head = room.pull()
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    mirror = made.mirror.path
    with (mirror / "config").open("a") as config:
        config.write(f'[diff]\n\texternal = "touch {room.tmp}/PWNED"\n')
    (mirror / "info").mkdir(exist_ok=True)
    (mirror / "info" / "attributes").write_text("* diff=evil\n")
    alternates = mirror / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{room.tmp}/elsewhere\n")
    room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert "external" not in (mirror / "config").read_text()
    assert not (mirror / "info").exists()
    assert not alternates.exists()
    assert not (room.tmp / "PWNED").exists()


def test_upkeep_deletes_nothing_that_a_checkout_borrows(room: Room) -> None:
    base, head = room.pull()
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    report = maintain(room.workspaces.mirrors, made.mirror.path, pin_days=-1)
    assert (report.borrowed, report.pins_dropped) == (1, 0)
    assert git(made.tree, "fsck", "--full") == ""
    warm = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    assert not warm.fetched


def test_upkeep_drops_pins_that_nobody_used(room: Room) -> None:
    base, head = room.pull()
    made = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
    room.workspaces.remove(made)
    kept = maintain(room.workspaces.mirrors, made.mirror.path)
    assert kept.pins_dropped == 0
    report = maintain(room.workspaces.mirrors, made.mirror.path, pin_days=-1)
    assert (report.borrowed, report.pins_dropped) == (0, 2)
    assert room.workspaces.checkout(room.request(head, base_sha=base), TOKEN).fetched


def test_upkeep_removes_what_dead_processes_left(room: Room) -> None:
    base, head = room.pull()
    path = room.workspaces.checkout(room.request(head, base_sha=base), TOKEN).mirror.path
    (path.parent / f"{path.name}.new-1234").mkdir()
    (path / "objects" / "pack" / "tmp_pack_x").write_bytes(b"half")
    maintain(room.workspaces.mirrors, path)
    assert not (path.parent / f"{path.name}.new-1234").exists()
    assert not (path / "objects" / "pack" / "tmp_pack_x").exists()


def test_a_repository_above_the_size_limit_is_stopped_and_its_disk_freed(tmp_path: Path) -> None:
    with make_room(tmp_path, workspace_bytes=16 * 2**20) as room:
        base, head = room.pull({"big.bin": os.urandom(20 * 2**20)})
        with pytest.raises(TooBig):
            room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)
        assert sum(f.stat().st_size for f in (tmp_path / "state").rglob("*") if f.is_file()) < 2**20


def test_a_blob_that_grows_on_checkout_is_stopped_before_it_is_written(tmp_path: Path) -> None:
    with make_room(tmp_path, workspace_bytes=16 * 2**20) as room:
        base, head = room.pull({"bomb": b"\0" * (40 * 2**20)})
        with pytest.raises(TooBig, match="workspace_bytes"):
            room.workspaces.checkout(room.request(head, base_sha=base), TOKEN)


def test_agent_files_of_the_operator_above_the_workspaces_are_found(room: Room) -> None:
    (room.tmp / "AGENTS.md").write_text("x")
    assert agent_files_above(room.settings.workspace_root) == [room.tmp / "AGENTS.md"]


def test_a_sha256_repository_works_too(room: Room) -> None:
    bare, dev = room.remote.root / "acme" / "long.git", room.tmp / "long"
    git(room.tmp, "init", "-q", "--bare", "--object-format=sha256", str(bare))
    git(room.tmp, "init", "-q", "-b", "main", "--object-format=sha256", str(dev))
    (dev / "a").write_text("x")
    git(dev, "add", "a")
    git(dev, "commit", "-q", "-m", "One")
    git(dev, "push", "-q", str(bare), "main")
    sha = Sha(git(dev, "rev-parse", "HEAD"))
    repo = RepoName("acme", "long")
    made = room.workspaces.checkout(
        room.request(
            sha, is_pull=False, base_ref=None, repo=repo, clone_url=room.workspaces.clone_url(repo)
        ),
        TOKEN,
    )
    assert git(made.tree, "rev-parse", "HEAD") == sha


def test_a_task_id_that_is_none_never_becomes_a_path(room: Room) -> None:
    base, head = room.pull()
    assert len(new_task_id()) == 32
    with pytest.raises(WorkspaceError, match="task id"):
        room.workspaces.checkout(room.request(head, base_sha=base, task_id="../../x"), TOKEN)
