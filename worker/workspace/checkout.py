"""Workspaces: one folder per attempt, with a real checkout of exactly the pinned commit.

Layout, all 0700 and ours: ``<root>/<task id>/<attempt token>/{tree,home,out,brief.json}``. The
checkout satisfies what the runtime expects of a clone (``docs/workspace.md``).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from coven.clock import Clock
from coven.errors import WorkspaceError, WorkspaceUnavailable
from coven.governance.wire import Seam, governed_make_dir, governed_remove_tree
from coven.redaction import Redactor
from coven.settings.models import Settings
from coven.values import InstallationId, RepoId, RepoName, Sha, TaskId
from worker.workspace.changes import Changes, read_changes
from worker.workspace.errors import CommitNotFound, MirrorCorrupt, TooBig
from worker.workspace.git import Git, protocols_for, proxy_environment
from worker.workspace.mirror import MirrorRepo, Mirrors, Stop, Want
from worker.workspace.names import branch_problem, ref_problem, shown
from worker.workspace.tree import Skeleton, TreePlan, fill, in_tree, read_plan, write_skeleton

_TASK_DIR = re.compile(r"[0-9a-f]{32}\Z")
_LOCAL_SECS = 120.0


@dataclass(frozen=True, slots=True)
class CheckoutRequest:
    """What to check out. Every sha comes from GitHub's API, never from a text."""

    installation_id: InstallationId
    repo_id: RepoId
    repo: RepoName
    task_id: TaskId
    number: int
    is_pull: bool
    head_sha: Sha
    base_ref: str | None
    """Target branch of a pull request; the default branch when None."""
    base_sha: Sha | None
    default_branch: str
    branch: str
    """The reserved branch; the checkout stands on it."""
    trusted: bool
    """False: agent configuration in the tree is left out and links become text."""
    clone_url: str
    """Exactly ``<html_base_url>/<owner>/<name>.git``; built from configuration, see
    :meth:`Workspaces.clone_url`."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A checkout that is ready for a session. Paths are absolute."""

    task_id: TaskId
    attempt_dir: Path
    tree: Path
    home: Path
    engine_home: Path
    out_dir: Path
    brief_path: Path
    result_name: str
    """Unpredictable; the file does not exist yet."""
    start_sha: Sha
    merge_base: Sha | None
    """None when head and base share no history."""
    branch: str
    mirror: MirrorRepo
    default_branch: str
    base_sha: Sha
    clone_url: str
    trusted: bool
    left_out: tuple[str, ...] = ()
    """Tracked paths that were not written: agent configuration, names too long."""
    head_now: Sha | None = None
    """Where the pull request's head was when last looked at; differs after a new push."""
    notes: tuple[str, ...] = ()
    """Limits of this checkout, for the brief and for people."""
    fetched: bool = False
    """Whether the network was used."""

    @property
    def result_path(self) -> Path:
        """Where the runtime is told to write its result."""
        return self.out_dir / self.result_name


class Workspaces:
    """Makes, finds and removes workspaces. One per worker process."""

    def __init__(
        self, settings: Settings, seam: Seam, clock: Clock, redactor: Redactor | None = None
    ) -> None:
        """Raises ``ConfigurationError`` when ``github.html_base_url`` is no safe place to fetch."""
        self._root = settings.workspace_root
        self._base = settings.github.html_base_url
        self._max_bytes = settings.worker.workspace_bytes
        self._file_bytes = settings.worker.file_bytes
        self.seam = seam
        self.clock = clock
        self._git_home = settings.mirror_root / "git-home"
        self.git = Git(
            seam,
            self._git_home,
            protocols_for(self._base),
            clock=clock,
            redactor=redactor or Redactor(),
            proxy_env=proxy_environment(os.environ),
            swept_below=self._root.absolute(),
        )
        self.mirrors = Mirrors(
            settings.mirror_root, self.git, seam, clock=clock, max_bytes=self._max_bytes
        )

    def clone_url(self, repo: RepoName) -> str:
        """The only URL that code of ``repo`` is fetched from; payloads are not asked."""
        return f"{self._base}/{repo.owner}/{repo.name}.git"

    def checkout(
        self, request: CheckoutRequest, token: str | None, stop: Stop | None = None
    ) -> Workspace:
        """A workspace at exactly ``request.head_sha``, proven; removed again on any error.

        Raises the classes of :mod:`worker.workspace.errors`. ``AccessRefused`` may be tried once
        more with a fresh token. A damaged mirror is made again once.
        """
        _check(request, self.clone_url(request.repo))
        self._prepare_roots(request.task_id)
        attempt_dir = self._root / request.task_id / secrets.token_hex(8)
        try:
            try:
                return self._checkout(request, attempt_dir, token, stop)
            except MirrorCorrupt:
                governed_remove_tree(self.seam, attempt_dir, point="workspace.remove")
                self.mirrors.discard(request.installation_id, request.repo_id)
                return self._checkout(request, attempt_dir, token, stop)
        except OSError as error:
            self._forget(request, attempt_dir)
            raise WorkspaceUnavailable(f"workspace: {error.strerror or error}") from error
        except BaseException:
            self._forget(request, attempt_dir)
            raise

    def remove(self, workspace: Workspace) -> None:
        """Remove a workspace with everything in it; absent is fine."""
        governed_remove_tree(self.seam, workspace.attempt_dir, point="workspace.remove")
        self.mirrors.release(workspace.mirror.path, workspace.attempt_dir)
        self._remove_if_empty(workspace.attempt_dir.parent)

    def present(self) -> set[TaskId]:
        """Tasks that have a folder here."""
        if not self._root.is_dir():
            return set()
        # Only what we named: an operator may keep other things beside.
        return {TaskId(f.name) for f in self._root.iterdir() if _TASK_DIR.match(f.name)}

    def sweep(self, dead: Collection[TaskId]) -> int:
        """Remove the folders of ``dead`` tasks; how many there were."""
        found = sorted(self.present() & set(dead))
        for task_id in found:
            governed_remove_tree(self.seam, self._root / task_id, point="workspace.sweep")
        return len(found)

    def remote_branches(
        self, request: CheckoutRequest, token: str | None, prefix: str
    ) -> dict[str, Sha]:
        """Branches on the remote whose names start with ``prefix/``, and where they are.

        Ask before a session that pushes by itself: what existed then is not *new* afterwards.
        """
        if (problem := ref_problem(f"{prefix}/x")) is not None:
            raise WorkspaceError(f"the branch prefix {prefix[:80]!r} {problem}")
        governed_make_dir(self.seam, self._git_home, point="workspace.make")
        url = self.clone_url(request.repo)
        out = self.git.run(
            ["ls-remote", "--refs", "--end-of-options", url, f"refs/heads/{prefix}/*"],
            cwd=self._git_home,
            timeout=_LOCAL_SECS,
            token=token,
            host_url=url,
            point="workspace.ls_remote",
        )
        found: dict[str, Sha] = {}
        for line in out.decode("utf-8", "replace").splitlines():
            sha, _, ref = line.partition("\t")
            found[ref.removeprefix("refs/heads/")] = Sha(sha)
        return found

    def _prepare_roots(self, task_id: TaskId) -> None:
        if not _TASK_DIR.match(task_id):
            raise WorkspaceError(f"not a task id: {task_id[:64]!r}")
        task_dir = self._root / task_id
        # The lease is ours, so whatever an earlier attempt left here is dead.
        governed_remove_tree(self.seam, task_dir, point="workspace.remove")
        for folder in (self._git_home, self._root, task_dir):
            governed_make_dir(self.seam, folder, point="workspace.make")

    def _checkout(
        self, request: CheckoutRequest, attempt_dir: Path, token: str | None, stop: Stop | None
    ) -> Workspace:
        tree, home, out_dir = (attempt_dir / name for name in ("tree", "home", "out"))
        engine_home = home / ".coven-code"
        for folder in (attempt_dir, tree, home, engine_home, out_dir):
            governed_make_dir(self.seam, folder, point="workspace.make")
        mirror = self._mirror(request, token, attempt_dir, stop)
        base_sha, refs = _refs(request, mirror)
        merge_base = self._merge_base(mirror.path, base_sha, request.head_sha, stop)
        plan = read_plan(self.git, mirror.path, request.head_sha, tree, stop)
        if plan.total_bytes > self._max_bytes:
            raise TooBig(
                f"the tree needs {plan.total_bytes} bytes, the limit is {self._max_bytes} "
                "(worker.workspace_bytes)"
            )
        left_out = left_out_paths(plan, trusted=request.trusted)
        write_skeleton(
            self.seam,
            tree,
            Skeleton(mirror.path, request.clone_url, request.branch, refs, request.trusted),
        )
        fill(
            self.git,
            self.seam,
            tree,
            request.head_sha,
            leave_out=left_out,
            stop=stop,
            file_limit=self._file_bytes,
        )
        self._prove(tree, request.head_sha)
        return Workspace(
            task_id=request.task_id,
            attempt_dir=attempt_dir,
            tree=tree,
            home=home,
            engine_home=engine_home,
            out_dir=out_dir,
            brief_path=attempt_dir / "brief.json",
            result_name=f"result-{secrets.token_hex(8)}.json",
            start_sha=request.head_sha,
            merge_base=merge_base,
            branch=request.branch,
            mirror=mirror,
            default_branch=request.default_branch,
            base_sha=base_sha,
            clone_url=request.clone_url,
            trusted=request.trusted,
            left_out=left_out,
            head_now=mirror.seen.get(_pull_ref(request)) if request.is_pull else None,
            notes=_notes(plan, tree, request, merge_base),
            fetched=mirror.fresh,
        )

    def _mirror(
        self, request: CheckoutRequest, token: str | None, attempt_dir: Path, stop: Stop | None
    ) -> MirrorRepo:
        def ensure(wants: list[Want]) -> MirrorRepo:
            return self.mirrors.ensure(
                request.installation_id,
                request.repo_id,
                request.clone_url,
                token,
                wants,
                lease=attempt_dir,
                stop=stop,
            )

        try:
            return ensure(_wants(request))
        except CommitNotFound as error:
            if not request.is_pull:
                raise
            ref = _pull_ref(request)
            found = ensure([Want(None, ref)]).seen.get(ref)
            if found is None or found == request.head_sha:
                raise
            raise CommitNotFound(
                f"pull request #{request.number} moved: wanted {request.head_sha}, "
                f"its head is {found} now"
            ) from error

    def _merge_base(self, mirror: Path, base: Sha, head: Sha, stop: Stop | None) -> Sha | None:
        if base == head:
            return head
        args = ["merge-base", "--end-of-options", base, head]
        out = self.git.call(args, cwd=mirror, git_dir=mirror, timeout=_LOCAL_SECS, stop=stop)
        if out.code == 1 and not out.stderr:
            return None
        if out.code != 0:
            raise MirrorCorrupt(f"git merge-base: {out.stderr[:200]}")
        return Sha(out.stdout.decode("ascii", "replace").strip())

    def _prove(self, tree: Path, sha: Sha) -> None:
        out = in_tree(
            self.git, tree, ["rev-parse", "--verify", "HEAD^{commit}"], timeout=_LOCAL_SECS
        )
        if out.decode("ascii", "replace").strip() != sha:
            raise WorkspaceError(f"the checkout is not at {sha}")

    def _forget(self, request: CheckoutRequest, attempt_dir: Path) -> None:
        governed_remove_tree(self.seam, attempt_dir, point="workspace.remove")
        mirror = self.mirrors.path(request.installation_id, request.repo_id)
        self.mirrors.release(mirror, attempt_dir)
        self._remove_if_empty(attempt_dir.parent)

    def _remove_if_empty(self, folder: Path) -> None:
        if folder.is_dir() and not any(folder.iterdir()):
            governed_remove_tree(self.seam, folder, point="workspace.remove")


def agent_files_above(root: Path) -> list[Path]:
    """Agent configuration in ``root`` and its parents, which a runtime would read too."""
    folders = [root, *root.parents]
    names = ("AGENTS.md", "CLAUDE.md", ".coven-code", ".claude")
    return [folder / name for folder in folders for name in names if (folder / name).exists()]


def changes(workspaces: Workspaces, workspace: Workspace) -> Changes:
    """What the head changes since the merge base, from the mirror. Raises ``WorkspaceError``."""
    base = workspace.merge_base or workspace.base_sha
    return read_changes(workspaces.git, workspace.mirror.path, base, workspace.start_sha)


def earlier_commits(workspaces: Workspaces, workspace: Workspace) -> tuple[Sha, ...]:
    """The pull request's own commits up to the start, newest first, 250 at most."""
    base = workspace.merge_base or workspace.base_sha
    mirror = workspace.mirror.path
    args = ["rev-list", "--max-count=250", "--end-of-options", workspace.start_sha, f"^{base}"]
    out = workspaces.git.run(args, cwd=mirror, git_dir=mirror, timeout=_LOCAL_SECS)
    return tuple(Sha(line) for line in out.decode("ascii", "replace").split())


def left_out_paths(plan: TreePlan, *, trusted: bool) -> tuple[str, ...]:
    """Tracked paths that are not written into a checkout."""
    agent = () if trusted else plan.agent_paths
    return tuple(dict.fromkeys((*agent, *plan.unwritable)))


def _check(request: CheckoutRequest, clone_url: str) -> None:
    """Raises ``WorkspaceError`` for names that may not reach git."""
    if request.clone_url != clone_url:
        raise WorkspaceError("clone_url: must be the configured host's URL of this repository")
    if (problem := branch_problem(request.branch)) is not None:
        raise WorkspaceError(f"the reserved branch {request.branch[:80]!r} {problem}")
    for name in (request.default_branch, request.base_ref):
        if name is not None and (problem := ref_problem(name)) is not None:
            raise WorkspaceError(f"the branch {name[:80]!r} {problem}")
        if name == request.branch:
            raise WorkspaceError(f"the reserved branch may not be {name[:80]!r}")


def _pull_ref(request: CheckoutRequest) -> str:
    return f"refs/pull/{int(request.number)}/head"


def _wants(request: CheckoutRequest) -> list[Want]:
    default = f"refs/heads/{request.default_branch}"
    if not request.is_pull:
        return [Want(request.head_sha, default)]
    base_ref = request.base_ref or request.default_branch
    wants = [
        Want(request.head_sha, _pull_ref(request)),
        Want(request.base_sha, f"refs/heads/{base_ref}"),
    ]
    if base_ref != request.default_branch:
        wants.append(Want(None, default))
    return wants


def _refs(request: CheckoutRequest, mirror: MirrorRepo) -> tuple[Sha, dict[str, Sha]]:
    """The base commit, and the refs of the checkout."""
    default = request.default_branch
    if not request.is_pull:
        base = request.head_sha
        tips = {default: base}
    else:
        base_ref = request.base_ref or default
        found = request.base_sha or mirror.seen.get(f"refs/heads/{base_ref}")
        if found is None:
            raise CommitNotFound(f"the base branch {shown(base_ref)[:80]!r} is not on the remote")
        base = found
        tips = {base_ref: base}
        if base_ref != default:
            # A default branch that is gone leaves the pull request's own base as the best one.
            tips[default] = mirror.seen.get(f"refs/heads/{default}") or base
    refs = {f"refs/remotes/origin/{name}": sha for name, sha in tips.items()}
    own = f"refs/heads/{request.branch}"
    local = f"refs/heads/{default}"
    if not own.startswith(f"{local}/") and not local.startswith(f"{own}/"):
        refs[local] = tips[default]
    refs[own] = request.head_sha
    return base, refs


def _notes(
    plan: TreePlan, tree: Path, request: CheckoutRequest, merge_base: Sha | None
) -> tuple[str, ...]:
    notes = []
    if not request.trusted and plan.agent_paths:
        notes.append(f"{len(plan.agent_paths)} agent configuration file(s) were left out")
    if plan.unwritable:
        notes.append(f"{len(plan.unwritable)} file(s) with over-long names were left out")
    if plan.submodules:
        notes.append(f"{len(plan.submodules)} submodule(s) were not fetched")
    if plan.symlinks and not request.trusted:
        notes.append(f"{plan.symlinks} symbolic link(s) are shown as text files")
    if _uses_lfs(tree):
        notes.append("files stored with Git LFS are present as pointers only")
    if merge_base is None:
        notes.append("head and base share no history; the diff is against the base itself")
    return tuple(notes)


def _uses_lfs(tree: Path) -> bool:
    attributes = tree / ".gitattributes"
    try:
        if attributes.is_symlink() or attributes.stat().st_size > 2**20:
            return False
        return b"filter=lfs" in attributes.read_bytes()
    except OSError:
        return False
