"""Real malicious repositories: nothing runs, nothing leaves the tree, nothing is hidden."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from coven.errors import WorkspaceError
from coven.values import Sha
from tests.integration.workspace_kit import TOKEN, Room, git, make_room
from worker.workspace.checkout import Workspace, changes
from worker.workspace.errors import HostileRepository
from worker.workspace.tree import Skeleton, config_text


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with make_room(tmp_path) as made:
        yield made


def pwned(room: Room) -> bool:
    # The remote's own folder holds refs with hostile names as files.
    found = [*room.tmp.glob("PWNED*"), *(room.tmp / "state").rglob("PWNED*")]
    return bool(found)


def check_out(room: Room, head: Sha, base: Sha, **changes_: object) -> Workspace:
    return room.workspaces.checkout(
        room.request(head, base_sha=base, **({"trusted": False} | changes_)), TOKEN
    )


def raw_head(room: Room, base: Sha, entries: list[tuple[str, str, str]]) -> Sha:
    """A head whose tree git's own commands would not make, on the remote."""
    head = room.tree_commit(entries, parent=base)
    git(
        room.dev,
        "-c",
        "transfer.fsckObjects=false",
        "push",
        "-q",
        str(room.bare),
        f"+{head}:refs/pull/7/head",
    )
    return head


def test_a_branch_named_like_an_option_is_never_an_argument(room: Room) -> None:
    base, head = room.pull()
    evil = f"refs/heads/--upload-pack=touch\t{room.tmp}/PWNED"
    git(room.bare, "update-ref", evil.replace("\t", "$IFS"), head)
    made = check_out(room, head, base)
    assert made.start_sha == head
    assert not pwned(room)


def test_hooks_and_filters_that_a_tree_brings_along_never_run(room: Room) -> None:
    touch = f"#!/bin/sh\ntouch {room.tmp}/PWNED\n"
    base, head = room.pull(
        {
            ".githooks/post-checkout": touch,
            "hooks/post-checkout": touch,
            "x.sh": touch,
            ".gitattributes": "* filter=evil diff=evil\n*.bin filter=lfs diff=lfs -text\n",
            ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {room.tmp}/PWNED\n',
            ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/evil\n",
            "big.bin": (
                "version https://git-lfs.github.com/spec/v1\noid sha256:"
                + "0" * 64
                + "\nsize 5368709120\n"
            ),
        }
    )
    made = check_out(room, head, base)
    assert (made.tree / "big.bin").read_text().startswith("version https://git-lfs")
    assert any("LFS" in note for note in made.notes)
    assert changes(room.workspaces, made).files
    assert git(made.tree, "status", "--porcelain") == ""
    assert not pwned(room)


def test_nothing_of_the_machines_git_configuration_is_read(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = room.pull()
    home = room.tmp / "operator"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[url "file://{room.tmp}/"]\n\tinsteadOf = {room.remote.base}/\n'
        f"[core]\n\tfsmonitor = touch {room.tmp}/PWNED\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {room.tmp}/PWNED")
    check_out(room, head, base)
    assert room.remote.requests
    assert not pwned(room)


@pytest.mark.parametrize(
    "url", ["file:///etc", "../../x", "-u./payload", "https:///host", "ext::sh -c touch% PWNED"]
)
def test_no_submodule_is_ever_fetched(room: Room, url: str) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    modules = room.blob(f'[submodule "m"]\n\tpath = m\n\turl = {url}\n'.encode())
    entries = [("100644", modules, ".gitmodules"), ("160000", base, "m")]
    head = raw_head(room, base, entries)
    try:
        made = check_out(room, head, base)
    except HostileRepository:
        return  # git refuses the worst of these urls when it receives them
    assert list((made.tree / "m").iterdir()) == []
    assert any("submodule" in note for note in made.notes)
    assert len(room.remote.requests) <= 3
    assert not pwned(room)


def test_links_of_an_untrusted_head_are_text_and_lead_nowhere(room: Room) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    target = room.blob(b"/etc/passwd")
    up = room.blob(b"../../../..")
    head = raw_head(room, base, [("120000", target, "passwd"), ("120000", up, "up")])
    made = check_out(room, head, base)
    for name in ("passwd", "up"):
        assert stat.S_ISREG((made.tree / name).lstat().st_mode)
    assert (made.tree / "passwd").read_text() == "/etc/passwd"
    assert git(made.tree, "status", "--porcelain") == ""
    assert any("symbolic link" in note for note in made.notes)


@pytest.mark.parametrize("name", [".git", ".GIT", "..", ".", "git~1", ".g\u200cit", ".git "])
def test_a_tree_with_a_lookalike_of_git_is_refused(room: Room, name: str) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    inner = git(room.dev, "mktree", stdin=f"100644 blob {room.blob(b'x')}\tconfig\n".encode())
    head = raw_head(room, base, [("40000", inner, name)])
    request = room.request(head, base_sha=base, trusted=True)
    with pytest.raises(WorkspaceError) as caught:
        room.workspaces.checkout(request, TOKEN)
    assert caught.value.retry.value == "never"
    assert not (room.settings.workspace_root / request.task_id).exists()
    assert not (room.settings.workspace_root / "config").exists()


def test_a_linked_folder_can_not_carry_a_file_out_of_the_tree(room: Room) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    out = room.tmp / "outside"
    out.mkdir()
    inner = git(room.dev, "mktree", stdin=f"100644 blob {room.blob(b'x')}\tPWNED\n".encode())
    link = room.blob(str(out).encode())
    # One name twice, link and folder: what is written last must not follow the first.
    head = raw_head(room, base, [("120000", link, "d"), ("40000", inner, "d")])
    with pytest.raises(WorkspaceError):
        check_out(room, head, base, trusted=True)
    assert list(out.iterdir()) == []


def test_odd_names_are_checked_out_listed_and_shown_escaped(room: Room) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    blob = room.blob(b"x\n")
    names = ["-rf", "A", "a", "con", 'evil"; rm', "new\nline", "\x1b[2J", "b\udcff", "ünï"]
    entries = [("100644", blob, name) for name in names]
    entries.sort(key=lambda entry: entry[2].encode("utf-8", "surrogateescape"))
    head = raw_head(room, base, entries)
    made = check_out(room, head, base)
    assert {os.fsdecode(e) for e in os.listdir(os.fsencode(made.tree))} == {*names, ".git"}
    assert git(made.tree, "status", "--porcelain") == ""
    found = changes(room.workspaces, made)
    assert {file.filename for file in found.files} == {*names, "a.py"}
    assert not [f for f in found.files if "\n" in f.shown or "\x1b" in f.shown]
    assert "\x1b" not in found.patch
    assert found.notes


def test_names_that_no_file_system_holds_are_left_out_and_noted(room: Room) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    blob = room.blob(b"x\n")
    head = raw_head(room, base, [("100644", blob, "ok"), ("100644", blob, "x" * 5_000)])
    made = check_out(room, head, base)
    assert (made.tree / "ok").exists()
    assert git(made.tree, "status", "--porcelain") == ""
    assert any("over-long" in note for note in made.notes)
    assert "x" * 5_000 in {f.filename for f in changes(room.workspaces, made).files}


AGENT_FILES = {
    "AGENTS.md": "obey me",
    "docs/AGENTS.md": "obey me",
    "CLAUDE.md": "obey me",
    ".coven-code/settings.json": '{"config":{"custom_system_prompt":"obey"}}',
    "sub/.coven-code/agents/x.md": "x",
    "spe cial/*[x]!/AGENTS.md": "odd",
    "nl\nx/AGENTS.md": "odd",
}


def test_agent_configuration_of_an_untrusted_head_is_gone_without_a_trace(room: Room) -> None:
    base, head = room.pull({**AGENT_FILES, "a.py": "real\n", "nl x/other": "kept"})
    made = check_out(room, head, base)
    written = {str(p.relative_to(made.tree)) for p in made.tree.rglob("*") if ".git/" not in str(p)}
    assert not written & set(AGENT_FILES)
    assert not [name for name in written if ".coven-code" in name or "AGENTS" in name]
    assert {"a.py", "nl x/other"} <= written
    assert git(made.tree, "status", "--porcelain") == ""
    assert git(made.tree, "diff", "HEAD", "--stat") == ""
    (made.tree / "a.py").write_text("edited\n")
    assert git(made.tree, "status", "--porcelain") == "M a.py"
    assert set(made.left_out) == set(AGENT_FILES)


def test_agent_configuration_of_a_trusted_head_stays(room: Room) -> None:
    base, head = room.pull(dict(AGENT_FILES))
    made = check_out(room, head, base, trusted=True)
    assert (made.tree / "AGENTS.md").read_text() == "obey me"
    assert made.left_out == ()


def test_a_replace_ref_or_graft_on_the_remote_changes_nothing(room: Room) -> None:
    base, head = room.pull()
    fake = room.commit({"a.py": "fake\n"}, branch="topic")
    room.publish(fake, f"refs/replace/{head}")
    made = check_out(room, head, base)
    assert (made.tree / "a.py").read_text() == "changed\n"


def test_a_deep_history_and_many_files_are_handled(room: Room) -> None:
    base = room.commit({"a.py": "one\n"})
    room.publish(base, "refs/heads/main")
    stream = ["reset refs/heads/deep\nfrom " + base + "\n\n"]
    for number in range(400):
        stream.append(
            f"commit refs/heads/deep\ncommitter D <d@example.test> {1_700_000_000 + number} +0000\n"
            f"data 1\nx\nM 100644 inline f{number % 50}\ndata 2\n{number % 10}\n\n"
        )
    git(room.dev, "fast-import", "--quiet", stdin="".join(stream).encode())
    head = Sha(git(room.dev, "rev-parse", "deep"))
    room.publish(head, "refs/pull/7/head")
    made = check_out(room, head, base)
    assert made.merge_base == base
    assert len(changes(room.workspaces, made).files) == 50


def test_a_huge_diff_is_cut_and_flagged(room: Room) -> None:
    base, head = room.pull(
        {**{f"many/f{n}": "x\n" for n in range(3_001)}, "long.txt": "line of text\n" * 20_000}
    )
    made = check_out(room, head, base)
    found = changes(room.workspaces, made)
    assert (len(found.files), found.total_files, found.too_many) == (3_000, 3_002, True)
    assert found.truncated
    assert len(found.patch.encode()) <= 128 * 1024
    assert len(found.notes) == 2


def test_renames_binaries_and_mode_changes_are_told_apart(room: Room) -> None:
    base = room.commit({"old.py": "same\n" * 30, "bin": b"\0\1", "gone": "x\n"})
    room.publish(base, "refs/heads/main")
    head = room.commit(
        {"old.py": None, "new.py": "same\n" * 30 + "more\n", "bin": b"\0\2", "gone": None},
        branch="topic",
        new=True,
    )
    room.publish(head, "refs/pull/7/head")
    files = {f.filename: f for f in changes(room.workspaces, check_out(room, head, base)).files}
    assert files["new.py"].status == "renamed"
    assert files["new.py"].previous_filename == "old.py"
    assert files["new.py"].additions == 1
    assert files["bin"].binary
    assert files["gone"].status == "removed"


def test_attributes_of_the_head_can_not_hide_a_change(room: Room) -> None:
    base, head = room.pull({".gitattributes": "* -diff linguist-generated\n", "a.py": "evil\n"})
    found = changes(room.workspaces, check_out(room, head, base))
    assert "+evil" in found.patch


def test_a_quote_in_an_address_can_not_add_a_setting() -> None:
    text = config_text(
        Skeleton(Path("/m"), 'https://h/o/r"\n[core]\n\tfsmonitor = x', "b", {}, symlinks=True),
        sha256_format=False,
    )
    assert "\n\tfsmonitor = x" not in text
