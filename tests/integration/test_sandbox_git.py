"""Clone, fetch and push by the real git over HTTP, behind token auth."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.integration.sandbox_kit import AFTER, BEFORE, REPO, Git, World, basic, world


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


@pytest.fixture
def github(shared: World) -> World:
    shared.fill()
    return shared


def _url(github: World, name: str = REPO) -> str:
    return f"{github.base}/{name}.git"


def _clone(github: World, folder: Path, token: str | None) -> Git:
    git = Git(folder, token)
    git.must("clone", "-q", _url(github), "tree")
    return git


def test_a_clone_with_a_reading_token_has_the_files(github: World, tmp_path: Path) -> None:
    git = _clone(github, tmp_path, github.token({"contents": "read"}))
    assert (tmp_path / "tree/app.py").read_text() == BEFORE
    assert git.must("rev-parse", "HEAD", where="tree") == github.admin.branches(REPO)["main"]


def test_a_private_repository_is_shut_to_strangers(github: World, tmp_path: Path) -> None:
    other = github.admin.create_repository("acme/other", private=True).id
    for token in (None, "ghs_wrong", github.token({"contents": "read"}, repo=other)):
        code, _ = Git(tmp_path, token)("clone", "-q", _url(github), "tree")
        assert code != 0
    refs = f"{_url(github)}/info/refs?service=git-upload-pack"
    unasked = requests.get(refs, timeout=10)
    assert unasked.status_code == 401
    assert unasked.headers["WWW-Authenticate"].startswith("Basic")
    unread = {"Authorization": basic(github.token({"checks": "write"}))}
    assert requests.get(refs, headers=unread, timeout=10).status_code == 403
    foreign = {"Authorization": basic(github.token(repo=other))}
    assert requests.get(refs, headers=foreign, timeout=10).status_code == 404


def test_a_public_repository_is_cloned_by_anybody_and_pushed_by_nobody(
    github: World, tmp_path: Path
) -> None:
    github.admin.change_repository(REPO, private=False)
    git = _clone(github, tmp_path, None)
    code, said = git("push", "origin", "HEAD:refs/heads/mine", where="tree")
    assert code != 0, said


def test_the_dumb_protocol_and_stray_files_are_not_served(github: World) -> None:
    headers = {"Authorization": basic(github.token())}
    for path in ("HEAD", "config", "objects/info/packs", "info/refs", "../1/config"):
        assert (
            requests.get(f"{_url(github)}/{path}", headers=headers, timeout=10).status_code == 404
        )


def test_a_push_needs_contents_write(github: World, tmp_path: Path) -> None:
    reader = _clone(github, tmp_path, github.token({"contents": "read"}))
    code, said = reader("push", "origin", "HEAD:refs/heads/cody/fix", where="tree")
    assert code != 0
    assert "403" in said
    writer = Git(tmp_path, github.token({"contents": "write"}))
    writer.must("push", "origin", "HEAD:refs/heads/cody/fix", where="tree")
    assert "cody/fix" in github.admin.branches(REPO)


def test_a_push_moves_the_open_pull_request(github: World, tmp_path: Path) -> None:
    number = github.open_pull()["number"]
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    git.must("checkout", "-q", "changes", where="tree")
    (tmp_path / "tree/app.py").write_text(AFTER + "\n# more\n")
    git.must("commit", "-qam", "More", where="tree")
    git.must("push", "-q", "origin", "changes", where="tree")
    head = git.must("rev-parse", "HEAD", where="tree")
    assert github.admin.pull(REPO, number)["head"]["sha"] == head
    listed = git.must("ls-remote", "origin", f"refs/pull/{number}/head", where="tree")
    assert listed.split() == [head, f"refs/pull/{number}/head"]


def test_deleting_the_branch_closes_its_pull_request(github: World, tmp_path: Path) -> None:
    number = github.open_pull()["number"]
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    git.must("push", "-q", "origin", ":changes", where="tree")
    assert github.admin.pull(REPO, number)["state"] == "closed"


def test_protected_branches_hidden_refs_and_workflows_are_refused(
    github: World, tmp_path: Path
) -> None:
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    git.must("commit", "-q", "--allow-empty", "-m", "Straight in", where="tree")
    code, said = git("push", "origin", "HEAD:main", where="tree")
    assert code != 0
    assert "GH006" in said
    code, said = git("push", "origin", "HEAD:refs/pull/9/head", where="tree")
    assert code != 0
    assert "hidden ref" in said
    flows = tmp_path / "tree/.github/workflows"
    flows.mkdir(parents=True)
    (flows / "ci.yml").write_text("on: push\n")
    git.must("add", ".", where="tree")
    git.must("commit", "-qm", "Add a workflow", where="tree")
    code, said = git("push", "origin", "HEAD:refs/heads/flow", where="tree")
    assert code != 0
    assert "workflow" in said
    assert set(github.admin.branches(REPO)) == {"main"}


def test_a_workflow_that_was_there_before_does_not_matter(github: World, tmp_path: Path) -> None:
    github.admin.push(REPO, "main", {".github/workflows/ci.yml": "on: push\n"})
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    (tmp_path / "tree/app.py").write_text(AFTER)
    git.must("commit", "-qam", "Change code", where="tree")
    git.must("push", "-q", "origin", "HEAD:refs/heads/code", where="tree")
    assert "code" in github.admin.branches(REPO)


def test_the_head_of_a_fork_is_fetched_from_the_base(github: World, tmp_path: Path) -> None:
    pull = github.open_pull(fork="sam", branch="proposal")
    git = _clone(github, tmp_path, github.token({"contents": "read"}))
    git.must("fetch", "-q", "origin", f"refs/pull/{pull['number']}/head", where="tree")
    assert git.must("rev-parse", "FETCH_HEAD", where="tree") == pull["head"]["sha"]
    assert "proposal" not in github.admin.branches(REPO)
    assert pull["head"]["label"] == "sam:proposal"


def test_one_commit_is_fetched_by_sha_shallow_and_without_blobs(
    github: World, tmp_path: Path
) -> None:
    sha = github.open_pull()["head"]["sha"]
    git = Git(tmp_path, github.token({"contents": "read"}))
    git.must("init", "-q", "tree")
    where = "tree"
    git.must("remote", "add", "origin", _url(github), where=where)
    git.must("fetch", "-q", "--depth=1", "--filter=blob:none", "origin", sha, where=where)
    assert git.must("rev-list", "--count", sha, where=where) == "1"


def test_a_large_push_arrives_whole(github: World, tmp_path: Path) -> None:
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    import random

    blob = random.Random(7).randbytes(4_000_000)
    (tmp_path / "tree/blob.bin").write_bytes(blob)
    git.must("add", ".", where="tree")
    git.must("commit", "-qm", "Large", where="tree")
    git.must("push", "-q", "origin", "HEAD:refs/heads/large", where="tree")
    other = Git(tmp_path, github.token({"contents": "read"}))
    other.must("clone", "-q", "-b", "large", _url(github), "again")
    assert (tmp_path / "again/blob.bin").read_bytes() == blob


def test_clones_run_side_by_side(github: World, tmp_path: Path) -> None:
    token = github.token({"contents": "read"})

    def one(n: int) -> int:
        return Git(tmp_path, token)("clone", "-q", _url(github), f"tree{n}")[0]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(6))) == [0] * 6


def test_a_lost_push_answer_leaves_the_branch_pushed(github: World, tmp_path: Path) -> None:
    git = _clone(github, tmp_path, github.token({"contents": "write"}))
    github.admin.fault("POST", r"git-receive-pack$", "drop", after=True)
    code, _ = git("push", "-q", "origin", "HEAD:refs/heads/once", where="tree")
    assert code != 0
    assert "once" in github.admin.branches(REPO)


def test_a_renamed_repository_is_still_fetched_by_its_old_name(
    github: World, tmp_path: Path
) -> None:
    github.admin.rename_repository(REPO, "store")
    git = Git(tmp_path, github.token({"contents": "read"}))
    git.must("-c", "http.followRedirects=true", "clone", "-q", _url(github), "tree")
    assert (tmp_path / "tree/app.py").exists()


def test_unusual_files_survive(github: World, tmp_path: Path) -> None:
    files: dict = {
        "a b/ü.txt": "spaces\n",
        "bin": bytes(range(256)),
        "run.sh": {"mode": "100755", "content": "#!/bin/sh\n"},
        "link": {"mode": "120000", "content": "app.py"},
        'quote"d\tname': "odd\n",
    }
    number = github.open_pull(files={**files, "README.md": None})["number"]
    shown = github.repo("GET", f"/pulls/{number}/files", github.token(), expect=200).json()
    found = {f["filename"]: f for f in shown}
    assert set(found) == {*files, "README.md"}
    assert found["README.md"]["status"] == "removed"
    assert "patch" not in found["bin"]
    git = _clone(github, tmp_path, github.token({"contents": "read"}))
    git.must("checkout", "-q", "changes", where="tree")
    assert (tmp_path / "tree/bin").read_bytes() == bytes(range(256))
    assert (tmp_path / "tree/link").is_symlink()
    assert (tmp_path / "tree/run.sh").stat().st_mode & 0o100
