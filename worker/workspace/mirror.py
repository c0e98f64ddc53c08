"""Per-installation mirror caches: bare repositories that hold the commits we were asked for.

A mirror is never shared between tenants, even for the same public repository. Wanted commits are
fetched by full id and kept alive by pins (``refs/coven/pins/<sha>``); a commit that is pinned
costs no network at all. Checkouts borrow the mirror's objects, so nothing is pruned while one
exists (see :mod:`worker.workspace.upkeep`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from coven.clock import Clock
from coven.errors import WorkspaceError, WorkspaceUnavailable
from coven.governance.wire import (
    Seam,
    governed_make_dir,
    governed_remove_tree,
    governed_write,
    writing,
)
from coven.values import InstallationId, RepoId, Sha, new_token
from worker.workspace.errors import CommitNotFound, MirrorCorrupt, TooBig
from worker.workspace.git import Git, failure
from worker.workspace.locks import file_lock
from worker.workspace.names import ref_problem

PINS = "refs/coven/pins/"
_SEEN = "refs/coven/seen/"
_NEVER = "none"
_FETCH_SECS = 900.0
_LOCAL_SECS = 60.0

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Want:
    """A commit that must be in the mirror, a remote ref to look at, or both.

    With both, the ref is where the commit is expected; whether it is there now is a fact for the
    caller (:attr:`MirrorRepo.seen`), since the ref may move while we work.
    """

    sha: Sha | None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class MirrorRepo:
    """A mirror with everything wanted in it.

    ``seen`` says where the wanted refs were when this process or an earlier one last looked;
    ``fresh`` whether that was now. ``None`` means the remote has no such ref.
    """

    path: Path
    url: str
    seen: Mapping[str, Sha | None] = field(default_factory=dict)
    fresh: bool = False


class Mirrors:
    """The mirror caches below one folder."""

    def __init__(
        self,
        root: Path,
        git: Git,
        seam: Seam,
        *,
        clock: Clock,
        max_bytes: int,
        lock_secs: float = 300.0,
    ) -> None:
        """``max_bytes`` bounds one mirror; ``lock_secs`` the wait for another worker's fetch."""
        self.root = root
        self.git = git
        self.seam = seam
        self.clock = clock
        self.max_bytes = max_bytes
        self.lock_secs = lock_secs

    def path(self, installation: InstallationId, repo_id: RepoId) -> Path:
        """Where the mirror of a repository is, made or not."""
        return self.root / str(int(installation)) / f"{int(repo_id)}.git"

    def ensure(
        self,
        installation: InstallationId,
        repo_id: RepoId,
        url: str,
        token: str | None,
        wants: Sequence[Want],
        *,
        lease: Path | None = None,
        stop: Stop | None = None,
    ) -> MirrorRepo:
        """The mirror with all ``wants`` in it; no network when they are known already.

        ``lease`` is a folder that borrows from the mirror from now on: while it exists, upkeep
        deletes no object. A damaged mirror is made again once. Raises the classes of
        :mod:`worker.workspace.errors`; ``AccessRefused`` may be tried again with a fresh token.
        """
        path = self.path(installation, repo_id)
        for want in wants:
            if want.ref is not None and (problem := ref_problem(_short(want.ref))) is not None:
                raise WorkspaceError(f"the ref {want.ref[:80]!r} {problem}")
        governed_make_dir(self.seam, path.parent, point="workspace.mirror.make")
        shas = tuple(want.sha for want in wants if want.sha is not None)
        try:
            return self._ensure(path, url, token, wants, shas, lease, stop)
        except MirrorCorrupt:
            self.discard(installation, repo_id)
            borrowed = [Want(sha) for sha in self._borrowed(path)]
            mirror = self._ensure(path, url, token, wants, shas, lease, stop)
            for want in borrowed:
                # Give running sessions their objects back; what is gone upstream stays gone.
                try:
                    self._ensure(path, url, token, [want], (), None, stop)
                except CommitNotFound:
                    continue
            return mirror

    def discard(self, installation: InstallationId, repo_id: RepoId) -> None:
        """Remove a mirror; the next :meth:`ensure` makes it again."""
        path = self.path(installation, repo_id)
        with self.gate(path, exclusive=True):
            if path.exists():
                trash = path.with_name(f"{path.name}.trash-{new_token()[:8]}")
                self.seam.perform(
                    writing(path), "workspace.mirror.move", lambda: path.rename(trash)
                )
                governed_remove_tree(self.seam, trash, point="workspace.mirror.remove")

    @contextmanager
    def gate(self, path: Path, *, exclusive: bool, stop: Stop | None = None) -> Iterator[None]:
        """Shared while a mirror is used to make a checkout, exclusive while objects may vanish."""
        with file_lock(
            self.seam,
            self.clock,
            path.with_suffix(".gate"),
            exclusive=exclusive,
            timeout=self.lock_secs,
            stop=stop,
        ):
            yield

    def leases(self, path: Path) -> list[Path]:
        """Folders that borrow from this mirror now; forgets those that are gone."""
        alive = []
        for entry in _entries(_lease_dir(path)):
            borrower = _read_lease(entry)
            if borrower is not None and borrower[0].is_dir():
                alive.append(borrower[0])
            else:
                governed_remove_tree(self.seam, entry, point="workspace.lease.remove")
        return alive

    def release(self, path: Path, lease: Path) -> None:
        """The borrower is gone."""
        governed_remove_tree(self.seam, _lease_file(path, lease), point="workspace.lease.remove")

    def has(self, path: Path, sha: Sha) -> bool:
        """Whether the mirror holds this commit with its whole history."""
        return all(self._look(path, [f"{PINS}{sha}"]).values())

    def _borrowed(self, path: Path) -> list[Sha]:
        found = [_read_lease(entry) for entry in _entries(_lease_dir(path))]
        return [sha for item in found if item is not None for sha in item[1]]

    def _ensure(
        self,
        path: Path,
        url: str,
        token: str | None,
        wants: Sequence[Want],
        shas: Sequence[Sha],
        lease: Path | None,
        stop: Stop | None,
    ) -> MirrorRepo:
        with self.gate(path, exclusive=False, stop=stop):
            if lease is not None:
                self._take_lease(path, lease, shas)
            known = self._known(path, wants)
            if known is None:
                with file_lock(
                    self.seam,
                    self.clock,
                    path.with_suffix(".lock"),
                    exclusive=True,
                    timeout=self.lock_secs,
                    stop=stop,
                ):
                    # Another worker may have fetched the same while we waited.
                    known = self._known(path, wants)
                    if known is None:
                        sha256_format = any(len(sha) == 64 for sha in shas)
                        self._create(path, sha256_format=sha256_format)
                        self._fetch(path, url, token, wants, stop)
                        seen = self._known(path, wants, look_only=True)
                        if seen is None:
                            raise MirrorCorrupt("the mirror lacks what was fetched just now")
                        self._note_use(path, shas)
                        return MirrorRepo(path, url, seen, fresh=True)
            self._note_use(path, shas)
            return MirrorRepo(path, url, known, fresh=False)

    def _known(
        self, path: Path, wants: Sequence[Want], *, look_only: bool = False
    ) -> dict[str, Sha | None] | None:
        """Where wanted refs were last seen, when nothing has to be fetched; else None."""
        if not (path / "HEAD").is_file():
            return None
        self.settle(path)
        names = [_pin(want) for want in wants] + [_record(want) for want in wants]
        found = self._look(path, [name for name in names if name])
        for want in wants:
            pin, record = _pin(want), _record(want)
            if pin and found[pin] is None:
                return None
            if not pin and record and found[record] is None and not look_only:
                return None
        return {
            want.ref: found[record]
            for want in wants
            if want.ref is not None and (record := _record(want))
        }

    def _look(self, path: Path, names: Sequence[str]) -> dict[str, Sha | None]:
        out = self.git.run(
            ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
            cwd=path,
            git_dir=path,
            timeout=_LOCAL_SECS,
            stdin="".join(f"{name}\n" for name in names).encode(),
        )
        lines = out.decode("utf-8", "replace").splitlines()
        if len(lines) != len(names):
            raise MirrorCorrupt("git cat-file: fewer answers than questions")
        found: dict[str, Sha | None] = {}
        for name, line in zip(names, lines, strict=True):
            sha, _, kind = line.rpartition(" ")
            found[name] = Sha(sha) if kind == "commit" else None
        return found

    def _fetch(
        self, path: Path, url: str, token: str | None, wants: Sequence[Want], stop: Stop | None
    ) -> None:
        missing: set[str] = set()
        while True:
            specs = _refspecs(wants, missing)
            args = ["fetch", "-q", "--no-tags", "--no-recurse-submodules", "--force"]
            args += ["--no-write-fetch-head", "--end-of-options", url, *specs]
            try:
                out = self.git.call(
                    args,
                    cwd=path,
                    git_dir=path,
                    timeout=_FETCH_SECS,
                    token=token,
                    host_url=url,
                    config=(("fetch.writeCommitGraph", "true"),),
                    stop=stop,
                    watch=lambda: self._size_problem(path),
                    file_limit=self.max_bytes,
                    point="workspace.fetch",
                )
                if out.code == 0:
                    return
                gone = _missing_ref(out.stderr, wants) - missing
                if not gone or len(missing | gone) == len(wants):
                    raise failure(args, out)
                missing |= gone
            except TooBig:
                self._drop_partial(path)
                raise

    def settle(self, path: Path) -> None:
        """Make sure that git reads nothing here but what we wrote.

        A session on the ``host`` backend runs as the same user and could have changed the files.
        """
        wanted = _config_text(sha256_format=_is_sha256(path))
        for name, text in (("config", wanted), ("HEAD", f"ref: refs/heads/{_NEVER}\n")):
            file = path / name
            if (
                file.is_symlink()
                or not file.is_file()
                or file.read_text("utf-8", "replace") != text
            ):
                governed_remove_tree(self.seam, file, point="workspace.mirror.settle")
                governed_write(self.seam, file, text.encode(), point="workspace.mirror.settle")
        for name in (
            "info",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "commondir",
        ):
            if os.path.lexists(path / name):
                governed_remove_tree(self.seam, path / name, point="workspace.mirror.settle")

    def _create(self, path: Path, *, sha256_format: bool) -> None:
        if (path / "HEAD").is_file():
            return
        fresh = path.with_name(f"{path.name}.new-{new_token()[:8]}")
        kind = "sha256" if sha256_format else "sha1"
        args = ["init", "-q", "--bare", "--template=", f"--object-format={kind}", str(fresh)]
        self.git.run(args, cwd=path.parent, timeout=_LOCAL_SECS)
        self.settle(fresh)
        if path.exists():
            governed_remove_tree(self.seam, path, point="workspace.mirror.remove")
        self.seam.perform(writing(path), "workspace.mirror.create", lambda: fresh.rename(path))

    def _size_problem(self, path: Path) -> str | None:
        size = sum(_size(entry) for entry in _entries(path / "objects" / "pack"))
        if size > self.max_bytes:
            return f"the repository is larger than the limit of {self.max_bytes} bytes"
        return None

    def _drop_partial(self, path: Path) -> None:
        for entry in _entries(path / "objects" / "pack"):
            if entry.name.startswith("tmp_"):
                governed_remove_tree(self.seam, entry, point="workspace.mirror.remove")
        if self._size_problem(path):
            governed_remove_tree(self.seam, path, point="workspace.mirror.remove")

    def _take_lease(self, path: Path, lease: Path, shas: Sequence[Sha]) -> None:
        governed_make_dir(self.seam, _lease_dir(path), point="workspace.lease.make")
        body = json.dumps({"folder": str(lease), "shas": list(shas)}).encode()
        governed_write(self.seam, _lease_file(path, lease), body, point="workspace.lease.write")

    def _note_use(self, path: Path, shas: Sequence[Sha]) -> None:
        """Touch a file per commit, so upkeep knows which pins are still in use."""
        folder = uses_dir(path)
        governed_make_dir(self.seam, folder, point="workspace.mirror.make")
        for sha in shas:
            file = folder / sha
            self.seam.perform(writing(file), "workspace.mirror.use", file.touch)


def uses_dir(path: Path) -> Path:
    """Where the last use of each pin is noted."""
    return path.with_suffix(".uses")


def _lease_dir(path: Path) -> Path:
    return path.with_suffix(".leases")


def _lease_file(path: Path, lease: Path) -> Path:
    return _lease_dir(path) / sha256(str(lease).encode()).hexdigest()[:32]


def _read_lease(entry: Path) -> tuple[Path, list[Sha]] | None:
    try:
        body = json.loads(entry.read_text("utf-8"))
        return Path(body["folder"]), [Sha(sha) for sha in body["shas"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(entry: Path) -> int:
    try:
        return entry.lstat().st_size
    except OSError:
        return 0


def _pin(want: Want) -> str | None:
    return f"{PINS}{want.sha}" if want.sha is not None else None


def _record(want: Want) -> str | None:
    # Under a hash: a remote's branch names must not collide with each other as files here.
    if want.ref is None:
        return None
    return f"{_SEEN}{sha256(want.ref.encode()).hexdigest()[:32]}"


def _refspecs(wants: Sequence[Want], missing: set[str]) -> list[str]:
    specs: dict[str, None] = {}
    for want in wants:
        if want.sha is not None:
            specs[f"{want.sha}:{_pin(want)}"] = None
        if want.ref is not None and want.ref not in missing:
            specs[f"{want.ref}:{_record(want)}"] = None
    return list(specs)


def _missing_ref(stderr: str, wants: Sequence[Want]) -> set[str]:
    if "couldn't find remote ref" not in stderr:
        return set()
    words = stderr.split()
    return {want.ref for want in wants if want.ref is not None and want.ref in words}


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/")


def _is_sha256(path: Path) -> bool:
    try:
        return "sha256" in (path / "config").read_text("utf-8", "replace")
    except OSError as error:
        raise WorkspaceUnavailable(f"mirror: {error.strerror}") from error


def _config_text(*, sha256_format: bool) -> str:
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256_format)}", "\tbare = true"]
    lines += ["[gc]", "\tauto = 0", "\tpruneExpire = never", "[maintenance]", "\tauto = false"]
    if sha256_format:
        lines += ["[extensions]", "\tobjectformat = sha256"]
    return "\n".join(lines) + "\n"
