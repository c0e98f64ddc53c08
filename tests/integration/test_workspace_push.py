"""Publishing edits of a hostile session: only plain edits, only the reserved branch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coven.errors import ContractViolation, WorkspaceError
from coven.governance.actions import Action
from coven.governance.wire import Gate
from coven.values import Sha
from tests.integration.workspace_kit import TOKEN, Room, git, make_room
from worker.workspace.checkout import Workspace
from worker.workspace.edits import ImportLimits
from worker.workspace.errors import AccessRefused, EditsRefused, PushRefused, TooBig
from worker.workspace.push import Author, PushedEdits, import_edits

AUTHOR = Author("cody-familiar[bot]", "123+cody-familiar[bot]@users.noreply.github.com")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with make_room(tmp_path) as made:
        yield made


@pytest.fixture
def work(room: Room) -> Workspace:
    return start(room)


def start(
    room: Room, files: dict[str, str | bytes | None] | None = None, **changes: object
) -> Workspace:
    base, _ = room.pull()
    if files:
        git(room.dev, "checkout", "-q", "main")
        base = room.commit(files)
        room.publish(base, "refs/heads/main")
    request = room.request(base, is_pull=False, base_ref=None, **changes)
    return room.workspaces.checkout(request, TOKEN)


def publish(room: Room, work: Workspace, **options: object) -> PushedEdits | None:
    values: dict[str, object] = {"message": "Fix it", "author": AUTHOR, "token": TOKEN, "now": NOW}
    return import_edits(room.workspaces, work, **(values | options))  # type: ignore[arg-type]


def on_remote(room: Room, work: Workspace) -> str:
    return git(room.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{work.branch}")


def test_edits_become_one_commit_on_the_reserved_branch(room: Room, work: Workspace) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    (work.tree / "new").mkdir()
    (work.tree / "new" / "c.py").write_text("new\n")
    (work.tree / "lib" / "b.py").unlink()
    run = work.tree / "run.sh"
    run.write_text("#!/bin/sh\n")
    run.chmod(0o755)
    done = publish(room, work)
    assert done is not None
    assert done.files == ("a.py", "lib/b.py", "new/c.py", "run.sh")
    assert on_remote(room, work) == done.sha
    said = git(room.bare, "log", "-1", "--format=%an|%ae|%ct|%P|%s", done.sha)
    assert said == f"{AUTHOR.name}|{AUTHOR.email}|{int(NOW.timestamp())}|{work.start_sha}|Fix it"
    assert git(room.bare, "show", f"{done.sha}:a.py") == "fixed"
    assert git(room.bare, "ls-tree", done.sha, "run.sh").startswith("100755")
    assert git(room.bare, "rev-parse", "main") == work.start_sha
    assert list(work.attempt_dir.parent.iterdir()) == [work.attempt_dir]


def test_no_edit_means_no_branch(room: Room, work: Workspace) -> None:
    assert publish(room, work) is None
    assert on_remote(room, work) == ""


def test_no_git_configuration_of_the_session_is_ever_obeyed(room: Room, work: Workspace) -> None:
    evil = work.tree / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {room.tmp}/PWNED\n")
    evil.chmod(0o755)
    with (work.tree / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {evil}\n\tsshCommand = {evil}\n\thooksPath = {work.tree}\n"
            f'[diff]\n\texternal = {evil}\n[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n'
            f"[credential]\n\thelper = {evil}\n[include]\n\tpath = {room.tmp}/more\n"
            f'[url "http://127.0.0.1:9/"]\n\tinsteadOf = {room.remote.base}/\n'
            f"[gpg]\n\tprogram = {evil}\n"
        )
    (work.tree / ".git" / "hooks").mkdir()
    for hook in ("pre-push", "pre-commit", "post-checkout", "reference-transaction"):
        (work.tree / ".git" / "hooks" / hook).symlink_to(evil)
    (work.tree / ".git" / "objects" / "info" / "alternates").write_text("/etc\n")
    (work.tree / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (work.tree / "a.py").write_text("fixed\n")
    done = publish(room, work)
    assert done is not None
    assert git(room.bare, "show", f"{done.sha}:a.py") == "fixed"
    assert not (room.tmp / "PWNED").exists()


def test_state_of_the_runtime_is_never_published(room: Room) -> None:
    work = start(room, {".coven-code/AGENTS.md": "tracked\n"})
    folder = work.tree / ".coven-code"
    (folder / "AGENTS.md").write_text("learned something\n")
    (folder / "memory-candidates").mkdir()
    (folder / "memory-candidates" / "1.json").write_text("{}")
    assert publish(room, work) is None
    (work.tree / "a.py").write_text("fixed\n")
    done = publish(room, work)
    assert done is not None
    assert done.files == ("a.py",)
    assert done.discarded == (".coven-code/AGENTS.md", ".coven-code/memory-candidates/1.json")
    assert git(room.bare, "show", f"{done.sha}:.coven-code/AGENTS.md") == "tracked"


def test_files_left_out_of_an_untrusted_checkout_stay_as_they_were(room: Room) -> None:
    work = start(room, {"AGENTS.md": "theirs\n"}, trusted=False)
    assert not (work.tree / "AGENTS.md").exists()
    (work.tree / "a.py").write_text("fixed\n")
    (work.tree / "AGENTS.md").write_text("mine\n")
    done = publish(room, work)
    assert done is not None
    assert done.files == ("a.py",)
    assert git(room.bare, "show", f"{done.sha}:AGENTS.md") == "theirs"


def test_ignored_files_are_not_published(room: Room) -> None:
    work = start(room, {".gitignore": "build/\n*.log\n"})
    (work.tree / "build").mkdir()
    (work.tree / "build" / "x.o").write_bytes(b"\0")
    (work.tree / "run.log").write_text("x")
    (work.tree / "a.py").write_text("fixed\n")
    done = publish(room, work)
    assert done is not None
    assert done.files == ("a.py",)


def test_line_end_conversion_is_no_edit(room: Room) -> None:
    work = start(room, {".gitattributes": "*.txt eol=crlf\n", "t.txt": "one\ntwo\n"})
    assert (work.tree / "t.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert publish(room, work) is None


def link_out(tree: Path) -> None:
    (tree / "leak").symlink_to("/etc/passwd")


def link_up(tree: Path) -> None:
    (tree / "lib" / "leak").symlink_to("../../brief.json")


def link_into_git(tree: Path) -> None:
    (tree / "leak").symlink_to(".git/config")


def folder_becomes_link(tree: Path) -> None:
    (tree / "lib" / "b.py").unlink()
    (tree / "lib").rmdir()
    (tree / "lib").symlink_to("/etc")


def file_becomes_link(tree: Path) -> None:
    (tree / "a.py").unlink()
    (tree / "a.py").symlink_to("/etc/passwd")


def pipe(tree: Path) -> None:
    os.mkfifo(tree / "pipe")


def unix_socket(tree: Path) -> None:
    here = Path.cwd()
    os.chdir(tree)  # the path of a socket is limited to about 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.chdir(here)


def hard_link(tree: Path) -> None:
    os.link(tree.parent.parent.parent.parent / "outside.txt", tree / "leak")


def inner_repository(tree: Path) -> None:
    (tree / "sub" / ".git").mkdir(parents=True)
    (tree / "sub" / ".git" / "HEAD").write_text("ref: refs/heads/x\n")


def git_file(tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / ".git").write_text("gitdir: /etc\n")


def lookalike(tree: Path) -> None:
    (tree / ".GIT").mkdir()
    (tree / ".GIT" / "config").write_text("x")


def short_name(tree: Path) -> None:
    (tree / "git~1").write_text("x")


def control_character(tree: Path) -> None:
    (tree / "a\x1b[2Jb").write_text("x")


def newline(tree: Path) -> None:
    (tree / "a\nb").write_text("x")


def not_utf8(tree: Path) -> None:
    (tree / os.fsdecode(b"a\xff")).write_text("x")


def case_collision(tree: Path) -> None:
    (tree / "A.PY").write_text("x")


def workflow(tree: Path) -> None:
    (tree / ".github" / "workflows").mkdir(parents=True)
    (tree / ".github" / "workflows" / "ci.yml").write_text("on: push\n")


def modules_link(tree: Path) -> None:
    (tree / ".gitmodules").symlink_to("a.py")


def bad_encoding(tree: Path) -> None:
    (tree / ".gitattributes").write_text("*.py working-tree-encoding=UTF-16\n")
    (tree / "a.py").write_text("odd")


@pytest.mark.parametrize(
    "attack",
    [
        link_out,
        link_up,
        link_into_git,
        folder_becomes_link,
        file_becomes_link,
        pipe,
        unix_socket,
        hard_link,
        inner_repository,
        git_file,
        lookalike,
        short_name,
        control_character,
        newline,
        not_utf8,
        case_collision,
        workflow,
        modules_link,
        bad_encoding,
    ],
)
def test_edits_that_could_harm_a_reader_stop_the_import(
    room: Room, work: Workspace, attack: Callable[[Path], None]
) -> None:
    (room.settings.server.state_dir / "outside.txt").write_text("secret of the host")
    (work.tree / "ok.py").write_text("fine\n")
    attack(work.tree)
    with pytest.raises(EditsRefused) as caught:
        publish(room, work)
    assert caught.value.public.startswith("The familiar's edits could not be published")
    assert "\x1b" not in caught.value.public
    assert on_remote(room, work) == ""
    assert list(work.attempt_dir.parent.iterdir()) == [work.attempt_dir]


def test_a_tree_replaced_by_a_link_is_refused(room: Room, work: Workspace) -> None:
    work.tree.rename(work.attempt_dir / "moved")
    work.tree.symlink_to("/etc")
    with pytest.raises(EditsRefused, match="replaced"):
        publish(room, work)


def test_links_inside_the_tree_are_fine(room: Room, work: Workspace) -> None:
    (work.tree / "lib" / "alias").symlink_to("../a.py")
    done = publish(room, work)
    assert done is not None
    assert git(room.bare, "ls-tree", done.sha, "lib/").startswith("120000")


def test_workflows_are_published_where_the_policy_allows_it(room: Room, work: Workspace) -> None:
    workflow(work.tree)
    done = publish(room, work, allow_workflows=True)
    assert done is not None
    assert done.files == (".github/workflows/ci.yml",)


@pytest.mark.parametrize(
    "limits",
    [
        ImportLimits(files=2),
        ImportLimits(file_bytes=10),
        ImportLimits(total_bytes=150),
        ImportLimits(entries=3),
    ],
)
def test_limits_stop_an_import(room: Room, work: Workspace, limits: ImportLimits) -> None:
    for number in range(3):
        (work.tree / f"n{number}").write_text("x" * 100)
    with pytest.raises(TooBig):
        publish(room, work, limits=limits)
    assert on_remote(room, work) == ""


def test_a_very_deep_folder_is_refused_and_removed(room: Room, work: Workspace) -> None:
    folder = os.open(work.tree, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d" * 5, dir_fd=folder)
        inner = os.open("d" * 5, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    with pytest.raises(EditsRefused, match="deep"):
        publish(room, work)
    room.workspaces.remove(work)
    assert not work.attempt_dir.exists()


def test_a_branch_that_exists_is_not_overwritten(room: Room, work: Workspace) -> None:
    foreign = room.commit({"x": "y"}, branch="topic")
    room.publish(foreign, f"refs/heads/{work.branch}")
    (work.tree / "a.py").write_text("fixed\n")
    with pytest.raises(PushRefused):
        publish(room, work)
    assert on_remote(room, work) == foreign
    done = publish(room, work, may_replace=True)
    assert done is not None
    assert on_remote(room, work) == done.sha


def test_publishing_the_same_again_is_the_same_commit(room: Room, work: Workspace) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    first = publish(room, work)
    again = publish(room, work, may_replace=True)
    assert first == again


def test_the_same_work_of_a_forgotten_attempt_is_taken_as_it_stands(
    room: Room, work: Workspace
) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    first = publish(room, work, now=EARLIER)
    again = publish(room, work)
    assert first is not None
    assert first == again
    assert on_remote(room, work) == first.sha


def test_other_work_of_a_forgotten_attempt_is_replaced_and_a_persons_is_not(
    room: Room, work: Workspace
) -> None:
    (work.tree / "a.py").write_text("half\n")
    publish(room, work)
    (work.tree / "a.py").write_text("fixed\n")
    done = publish(room, work)
    assert done is not None
    assert on_remote(room, work) == done.sha
    persons = room.commit({"x": "y"}, branch="topic")
    room.publish(persons, f"refs/heads/{work.branch}")
    (work.tree / "a.py").write_text("fixed again\n")
    with pytest.raises(PushRefused):
        publish(room, work)
    assert on_remote(room, work) == persons


def test_a_hook_of_the_host_that_says_no_is_reported(room: Room, work: Workspace) -> None:
    hook = room.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho protected >&2\nexit 1\n")
    hook.chmod(0o755)
    (work.tree / "a.py").write_text("fixed\n")
    with pytest.raises(PushRefused):
        publish(room, work)


def test_an_expired_token_is_told_apart_and_never_shown(room: Room, work: Workspace) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    with pytest.raises(AccessRefused) as caught:
        publish(room, work, token="ghs_expiredExpiredExpired1234")
    assert "ghs_expired" not in str(caught.value)
    assert publish(room, work) is not None


def test_default_and_protected_names_are_never_pushed(room: Room, work: Workspace) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    with pytest.raises(ContractViolation, match="protected"):
        publish(room, work, protected=[work.branch.upper()])
    with pytest.raises(ContractViolation, match="default"):
        publish(room, replace(work, branch="Main"))
    assert git(room.bare, "rev-parse", "main") == work.start_sha


def test_a_linked_folder_of_the_start_may_become_a_real_one(room: Room) -> None:
    base, _ = room.pull()
    entries = [("100644", room.blob(b"x\n"), "a.py"), ("120000", room.blob(b"lib"), "d")]
    head = room.tree_commit(entries, parent=base)
    room.publish(head, "refs/heads/main")
    work = room.workspaces.checkout(room.request(head, is_pull=False, base_ref=None), TOKEN)
    (work.tree / "d").unlink()
    (work.tree / "d").mkdir()
    (work.tree / "d" / "f.py").write_text("real\n")
    done = publish(room, work)
    assert done is not None
    assert git(room.bare, "show", f"{done.sha}:d/f.py") == "real"


def test_the_token_is_in_no_file_and_no_argument_of_a_push(room: Room, work: Workspace) -> None:
    (work.tree / "a.py").write_text("fixed\n")
    seen: list[str] = []
    perform = type(room.seam.gate).check

    def watch(gate: Gate, action: Action, point: str) -> Action:
        seen.append(f"{getattr(action, 'argv', '')} {getattr(action, 'url', '')}")
        return perform(gate, action, point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(room.seam.gate), "check", watch)
        publish(room, work)
    assert any("push" in line for line in seen)
    assert TOKEN not in "\n".join(seen)
    state = room.settings.server.state_dir
    assert not [f for f in state.rglob("*") if f.is_file() and TOKEN.encode() in f.read_bytes()]


def test_a_submodule_stays_as_it_was(room: Room) -> None:
    base, _ = room.pull()
    blob = room.blob(b'[submodule "m"]\n\tpath = m\n\turl = https://github.com/o/m.git\n')
    a = room.blob(b"one\n")
    head = room.tree_commit(
        [("100644", blob, ".gitmodules"), ("100644", a, "a.py"), ("160000", base, "m")]
    )
    room.publish(head, "refs/heads/main")
    work = room.workspaces.checkout(room.request(head, is_pull=False, base_ref=None), TOKEN)
    (work.tree / "a.py").write_text("fixed\n")
    done = publish(room, work)
    assert done is not None
    assert done.files == ("a.py",)
    assert git(room.bare, "ls-tree", done.sha, "m").startswith("160000")
    (work.tree / "m" / "x").write_text("inside")
    with pytest.raises(EditsRefused, match="submodule"):
        publish(room, work, may_replace=True)


def test_a_start_that_is_unknown_to_the_mirror_is_an_error(room: Room, work: Workspace) -> None:
    with pytest.raises(WorkspaceError):
        publish(room, replace(work, start_sha=Sha("3" * 40)))
