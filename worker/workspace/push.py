"""Publishing what a session did: only through a clean clone, only to the reserved branch.

After a session its tree is hostile: git run there would obey configuration that the session
wrote. So edits are read as plain files, copied into a clean tree from the mirror, committed and
pushed from there; and what a runtime pushed by itself is judged by asking GitHub.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from coven.errors import ContractViolation, GitHubNotFound, WorkspaceError
from coven.github.models import Comparison
from coven.governance.wire import governed_make_dir, governed_remove_tree
from coven.values import Sha, new_token
from worker.workspace.checkout import Workspace, Workspaces
from worker.workspace.edits import Edits, ImportLimits, compare, copy
from worker.workspace.errors import EditsRefused, PushRefused
from worker.workspace.git import failure
from worker.workspace.mirror import Stop
from worker.workspace.names import branch_problem, decode_path, shown
from worker.workspace.tree import Skeleton, fill, in_tree, write_skeleton

MAX_COMMITS = 250
"""GitHub compares no more in one answer, so more can't be verified."""
_LOCAL_SECS = 120.0
_PUSH_SECS = 300.0


@dataclass(frozen=True, slots=True)
class Author:
    """Who the commit is by. GitHub shows an App as ``<id>+<slug>[bot]@users.noreply.…``."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class PushedEdits:
    """What was published."""

    branch: str
    sha: Sha
    commits: tuple[Sha, ...]
    files: tuple[str, ...]
    discarded: tuple[str, ...]
    """Runtime state and left-out files that the session changed; not published."""


@dataclass(frozen=True, slots=True)
class VerifiedBranch:
    """A branch that GitHub confirms: on top of the start, with these commits, oldest first."""

    branch: str
    sha: Sha
    commits: tuple[Sha, ...]
    tolerated: tuple[str, ...] = ()


class BranchClient(Protocol):
    """The two questions to GitHub that verification needs."""

    def ref(self, branch: str, /) -> Sha | None:
        """Where the branch is, None when there is no such branch."""

    def compare(self, base: str, head: str, /) -> Comparison:
        """Commits of ``head`` that ``base`` has not."""


def import_edits(
    workspaces: Workspaces,
    workspace: Workspace,
    message: str,
    author: Author,
    token: str,
    now: datetime,
    *,
    protected: Collection[str] = (),
    allow_workflows: bool = False,
    may_replace: bool = False,
    limits: ImportLimits | None = None,
    stop: Stop | None = None,
) -> PushedEdits | None:
    """Commit the session's edits on the reserved branch and push it. None: nothing changed.

    Call it when every process of the session is gone. ``may_replace``: the branch may exist from
    an earlier attempt of the same task; without it an existing branch is refused, unless its last
    commit is ``author``'s. Raises
    ``EditsRefused``, ``TooBig``, ``PushRefused``, ``AccessRefused`` (a fresh token may help).
    """
    check_branch_name(workspace.branch, workspace.default_branch, protected)
    clean = workspace.attempt_dir.parent / f"import-{new_token()}"
    try:
        governed_make_dir(workspaces.seam, clean, point="workspace.import.make")
        _make_clean(workspaces, workspace, clean, stop)
        edits = _take_over(workspaces, workspace, clean, allow_workflows, limits or ImportLimits())
        sha = _commit(workspaces, workspace, clean, message, author, now)
        if sha is None:
            return None
        sha = _push(
            workspaces, workspace, clean, sha, author, token, may_replace=may_replace, stop=stop
        )
        return PushedEdits(
            branch=workspace.branch,
            sha=sha,
            commits=(sha,),
            files=tuple(edits.paths),
            discarded=tuple(edits.discarded),
        )
    finally:
        governed_remove_tree(workspaces.seam, clean, point="workspace.import.remove")


def verify_branch(
    client: BranchClient,
    branch: str,
    start_sha: Sha,
    *,
    reserved: str,
    familiar_id: str,
    default_branch: str,
    protected: Collection[str] = (),
    known_before: Collection[str] | None = None,
    claimed: Sequence[str] = (),
    earlier: Collection[str] = (),
) -> VerifiedBranch:
    """Believe GitHub, not the result, about a branch that a runtime pushed.

    ``known_before`` are the branches under ``<familiar>/`` from before the session: another name
    there is tolerated when it is new, and refused when nobody looked (None). ``claimed`` are the
    commits that the result names; ``earlier`` those of the pull request before the start, which
    the runtime of today lists too (tolerated). Raises ``ContractViolation``; GitHub's own
    errors pass.
    """
    check_branch_name(branch, default_branch, protected)
    tolerated = []
    if branch != reserved:
        if not branch.startswith(f"{familiar_id}/"):
            raise _violation(f"branch {shown(branch)!r} is not the reserved branch {reserved!r}")
        if known_before is None or branch in known_before:
            raise _violation(f"branch {shown(branch)!r} is not new, and not the reserved one")
        tolerated.append(f"branch: {branch} instead of the reserved {reserved}")
    sha = client.ref(branch)
    if sha is None:
        raise _violation(f"branch {branch!r} does not exist on GitHub")
    if sha == start_sha:
        raise _violation(f"branch {branch!r} holds no new commit")
    # By id, not by name: what is verified is what is used, even if the branch moves meanwhile.
    try:
        found = client.compare(start_sha, sha)
    except GitHubNotFound as error:
        # GitHub's answer for histories that have nothing in common.
        raise _violation(
            f"branch {branch!r} is not on top of the recorded start {start_sha}"
        ) from error
    if found.status != "ahead" or found.behind_by != 0 or found.merge_base != start_sha:
        raise _violation(f"branch {branch!r} is not on top of the recorded start {start_sha}")
    if not 0 < found.ahead_by <= MAX_COMMITS or len(found.commits) != found.ahead_by:
        raise _violation(
            f"branch {branch!r} is {found.ahead_by} commits ahead; 1 to {MAX_COMMITS} are allowed"
        )
    if found.commits[-1] != sha:
        raise _violation(f"branch {branch!r}: GitHub's comparison does not end at its head")
    for claim in claimed:
        if len(claim) >= 7 and any(commit.startswith(claim) for commit in earlier):
            tolerated.append(f"commits: {claim[:12]} was there before the start")
            continue
        if len(claim) < 7 or not any(commit.startswith(claim) for commit in found.commits):
            raise _violation(f"commits: {claim[:64]!r} is not on branch {branch!r}")
    return VerifiedBranch(branch, sha, found.commits, tuple(tolerated))


def refuse_pushed_to(
    client: BranchClient,
    protected: Collection[str],
    commits: Collection[str],
    earlier: Collection[str] = (),
) -> None:
    """Raises ``ContractViolation`` when a branch that no run may publish now ends in its commits.

    GitHub lets a token that may write contents push to any branch that no rule protects, so this
    can't be prevented here; it must not look like success. ``earlier`` are commits of a pull
    request from before the run. ``GitHubError`` passes.
    """
    for name in sorted(protected):
        tip = client.ref(name)
        if tip is None or tip in earlier:
            continue
        if any(len(commit) >= 7 and tip.startswith(commit) for commit in commits):
            raise ContractViolation(
                f"branch {shown(name)!r} now ends in a commit of this run ({tip})",
                public=(
                    f"The familiar pushed to the branch `{shown(name)}` itself, which no run may "
                    f"do. Look at commit {tip} there, take it back if it is not wanted, and "
                    "protect the branch."
                ),
            )


def check_branch_name(branch: str, default_branch: str, protected: Collection[str]) -> None:
    """Raises ``ContractViolation`` unless a run may publish this name."""
    if (problem := branch_problem(branch)) is not None:
        raise _violation(f"branch {shown(branch)[:80]!r} {problem}")
    folded = branch.casefold()
    if folded == default_branch.casefold():
        raise _violation(f"branch {branch!r} is the default branch")
    if folded in {name.casefold() for name in protected}:
        raise _violation(f"branch {branch!r} is protected")


def _violation(text: str) -> ContractViolation:
    return ContractViolation(text, public=f"The familiar's branch could not be used: {text}.")


def _make_clean(
    workspaces: Workspaces, workspace: Workspace, clean: Path, stop: Stop | None
) -> None:
    """A tree like the session's at its start, made from the mirror alone."""
    mirror = workspace.mirror.path
    # On the host backend the session could have touched the mirror's own files.
    workspaces.mirrors.settle(mirror)
    write_skeleton(
        workspaces.seam,
        clean,
        Skeleton(
            mirror,
            workspace.clone_url,
            workspace.branch,
            {f"refs/heads/{workspace.branch}": workspace.start_sha},
            symlinks=workspace.trusted,
            helper=False,
        ),
    )
    fill(
        workspaces.git,
        workspaces.seam,
        clean,
        workspace.start_sha,
        leave_out=workspace.left_out,
        stop=stop,
    )


def _take_over(
    workspaces: Workspaces,
    workspace: Workspace,
    clean: Path,
    allow_workflows: bool,
    limits: ImportLimits,
) -> Edits:
    git = workspaces.git
    listing = in_tree(git, clean, ["ls-files", "-s", "-z"], timeout=_LOCAL_SECS)
    tracked: list[str] = []
    submodules: list[str] = []
    for entry in filter(None, listing.split(b"\0")):
        head, _, raw = entry.partition(b"\t")
        (submodules if head.startswith(b"160000") else tracked).append(decode_path(raw))

    def ignored(paths: list[str]) -> set[str]:
        stdin = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
        out = git.call(
            ["check-ignore", "-z", "--stdin"],
            cwd=clean,
            git_dir=clean / ".git",
            work_tree=clean,
            timeout=_LOCAL_SECS,
            stdin=stdin,
        )
        if out.code not in {0, 1}:
            raise failure(["check-ignore"], out)
        return {decode_path(raw) for raw in out.stdout.split(b"\0") if raw}

    edits = compare(
        workspace.tree,
        clean,
        tracked,
        workspace.left_out,
        ignored,
        limits,
        submodules=submodules,
        symlinks=workspace.trusted,
        workflows=allow_workflows,
    )
    copy(workspaces.seam, workspace.tree, clean, edits)
    return edits


def _commit(
    workspaces: Workspaces,
    workspace: Workspace,
    clean: Path,
    message: str,
    author: Author,
    now: datetime,
) -> Sha | None:
    git = workspaces.git

    def ask(args: Sequence[str], stdin: bytes | None = None) -> str:
        out = in_tree(git, clean, args, timeout=_LOCAL_SECS, stdin=stdin, env=identity)
        return out.decode("ascii", "replace").strip()

    stamp = f"{int(now.timestamp())} +0000"
    identity = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (
            ("NAME", _one_line(author.name)),
            ("EMAIL", _one_line(author.email)),
            ("DATE", stamp),
        )
    }
    try:
        ask(["add", "--all", "--", "."])
        tree = ask(["write-tree"])
    except WorkspaceError as error:
        if isinstance(error, EditsRefused) or error.retry is not error.retry.NEVER:
            raise
        raise EditsRefused(f"git does not take the edits: {error}") from error
    if tree == ask(["rev-parse", "--verify", f"{workspace.start_sha}^{{tree}}"]):
        return None
    text = message.replace("\0", "").strip()[:10_000] + "\n"
    sha = Sha(ask(["commit-tree", tree, "-p", workspace.start_sha, "-F", "-"], text.encode()))
    ask(["update-ref", f"refs/heads/{workspace.branch}", sha, workspace.start_sha])
    return sha


def _push(
    workspaces: Workspaces,
    workspace: Workspace,
    clean: Path,
    sha: Sha,
    author: Author,
    token: str,
    *,
    may_replace: bool,
    stop: Stop | None,
) -> Sha:
    """Bring ``sha`` onto the reserved branch; the commit that stands there then.

    A branch from an earlier life of this task (a retry, or ledgers restored from a backup) is
    taken as it stands when it says the same, and replaced when nobody else has committed to it.
    """
    expected = ""
    if may_replace:
        expected = _on_remote(workspaces, workspace, clean, token)
        if expected and _look(workspaces, workspace, clean, expected, sha, author, token).same:
            return Sha(expected)
    refused = _try_push(workspaces, workspace, clean, sha, token, expected, stop)
    if refused is not None and not may_replace:
        expected = _on_remote(workspaces, workspace, clean, token)
        if expected:
            there = _look(workspaces, workspace, clean, expected, sha, author, token)
            if there.same:
                return Sha(expected)
            if there.by_us:
                refused = _try_push(workspaces, workspace, clean, sha, token, expected, stop)
    if refused is not None:
        raise refused
    return sha


@dataclass(frozen=True, slots=True)
class _There:
    """The commit at the tip of the branch on GitHub, compared with the one to push."""

    by_us: bool
    same: bool
    """By us, with the same files on the same start."""


def _look(
    workspaces: Workspaces,
    workspace: Workspace,
    clean: Path,
    tip: str,
    sha: Sha,
    author: Author,
    token: str,
) -> _There:
    url = workspace.clone_url
    workspaces.git.run(
        [
            *("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"),
            *("--end-of-options", url, f"refs/heads/{workspace.branch}"),
        ],
        cwd=clean,
        git_dir=clean / ".git",
        timeout=_PUSH_SECS,
        token=token,
        host_url=url,
        point="workspace.fetch",
    )

    def facts(commit: str) -> list[str]:
        args = ["log", "-1", "--format=%ae%n%ce%n%T%n%P", "--end-of-options", commit]
        return in_tree(workspaces.git, clean, args, timeout=_LOCAL_SECS).decode().splitlines()

    theirs, ours = facts(tip), facts(sha)
    email = _one_line(author.email)
    by_us = theirs[:2] == [email, email]
    return _There(by_us, by_us and theirs[2:] == ours[2:])


def _on_remote(workspaces: Workspaces, workspace: Workspace, clean: Path, token: str) -> str:
    """Where the branch is on GitHub; empty when there is none."""
    url = workspace.clone_url
    out = workspaces.git.run(
        ["ls-remote", "--refs", "--end-of-options", url, f"refs/heads/{workspace.branch}"],
        cwd=clean,
        git_dir=clean / ".git",
        timeout=_LOCAL_SECS,
        token=token,
        host_url=url,
        point="workspace.ls_remote",
    )
    return out.decode("ascii", "replace").partition("\t")[0].strip()


def _try_push(
    workspaces: Workspaces,
    workspace: Workspace,
    clean: Path,
    sha: Sha,
    token: str,
    expected: str,
    stop: Stop | None,
) -> PushRefused | None:
    """Push unless the branch is elsewhere than ``expected``; the refusal of GitHub, if any."""
    ref, url = f"refs/heads/{workspace.branch}", workspace.clone_url
    args = ["push", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{expected}"]
    result = workspaces.git.call(
        [*args, "--end-of-options", url, f"{sha}:{ref}"],
        cwd=clean,
        git_dir=clean / ".git",
        timeout=_PUSH_SECS,
        token=token,
        host_url=url,
        stop=stop,
        point="workspace.push",
    )
    if result.code == 0:
        return None
    said = result.stdout.decode("utf-8", "replace")
    if "[rejected]" in said or "[remote rejected]" in said:
        reason = "; ".join(line for line in said.splitlines() if "rejected]" in line)[:300]
        return PushRefused(
            f"git push: {workspaces.git.redacted(reason, token)}",
            public=(
                f"GitHub did not accept the branch `{workspace.branch}`: it exists already, or a "
                "rule of the repository forbids the push."
            ),
        )
    raise failure(args, result)


def _one_line(text: str) -> str:
    return " ".join("".join(char for char in text if char not in "<>\0").split())[:200] or "coven"
