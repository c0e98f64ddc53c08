"""One bare repository on disk, by the real git."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATCH_LINES = 20_000
PATCH_BYTES = 1_000_000
"""Above either, GitHub leaves ``patch`` out."""

STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied"}
ZERO = "0" * 40

GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "gc.auto",
    "GIT_CONFIG_VALUE_1": "0",
    "GIT_CONFIG_KEY_2": "receive.autogc",
    "GIT_CONFIG_VALUE_2": "false",
}


class GitFailed(Exception):
    """git said no; the message is its standard error."""


@dataclass(frozen=True)
class CommitInfo:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: tuple[str, str, str]
    """Name, address, ISO stamp."""
    committer: tuple[str, str, str]
    message: str


@dataclass(frozen=True)
class FileDiff:
    """One changed file, in the words of the REST API."""

    filename: str
    status: str
    additions: int
    deletions: int
    blob: str | None
    patch: str | None
    previous: str | None = None


class GitRepo:
    """A bare repository. Every method is one or two short git processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._diffs: dict[tuple[str, str], list[FileDiff]] = {}
        # Between two commits these never change, and processes are dear.
        self._bases: dict[tuple[str, str], str | None] = {}
        self._counts: dict[str, int] = {}

    def run(self, *args: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> bytes:
        """Run git here and return what it printed."""
        done = subprocess.run(  # noqa: TID251 - the sandbox is not the receiver or a worker
            ["git", f"--git-dir={self.path}", *args],
            input=stdin,
            capture_output=True,
            env=GIT_ENV,
            timeout=60,
            check=False,
        )
        if done.returncode not in ok:
            raise GitFailed(done.stderr.decode(errors="replace").strip())
        return done.stdout

    def init(self, default_branch: str, hooks: Path) -> None:
        """Make the repository, open for reads by sha and partial clones."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.run("init", "-q", "--bare", "--template=", f"--initial-branch={default_branch}")
        self.configure(hooks)

    def configure(self, hooks: Path) -> None:
        """What github.com allows over the wire."""
        settings = (
            "[http]\n\treceivepack = true\n[uploadpack]\n\tallowAnySHA1InWant = true\n"
            "\tallowFilter = true\n[core]\n"
            f'\thooksPath = "{hooks}"\n\tlogAllRefUpdates = false\n'
            "[receive]\n\tfsckObjects = true\n\tdenyDeleteCurrent = refuse\n"
        )
        with (self.path / "config").open("a", encoding="utf-8") as config:
            config.write(settings)

    def clone_from(self, other: GitRepo, hooks: Path) -> None:
        """Become a copy of ``other``'s branches (a fork)."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.run("init", "-q", "--bare", "--template=")
        self.run("fetch", "-q", str(other.path), "+refs/heads/*:refs/heads/*")
        head = other.run("symbolic-ref", "HEAD").decode().strip()
        self.run("symbolic-ref", "HEAD", head)
        self.configure(hooks)

    def branches(self) -> dict[str, str]:
        """Branch name to head sha."""
        out = self.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
        pairs = (line.split(" ", 1) for line in out.decode().splitlines())
        return {ref.removeprefix("refs/heads/"): sha for sha, ref in pairs}

    def resolve(self, revision: str) -> str | None:
        """The commit that a branch, tag, ref or sha names."""
        if not revision or "\0" in revision or revision.startswith("-"):
            return None
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            try:
                out = self.run(
                    "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
                )
            except GitFailed:
                continue
            return out.decode().strip()
        return None

    def branch(self, name: str) -> str | None:
        """Head of one branch."""
        return self.resolve_ref(f"refs/heads/{name}")

    def resolve_ref(self, ref: str) -> str | None:
        """What a full ref name points at."""
        if "\0" in ref:
            return None
        try:
            out = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        except GitFailed:
            return None
        return out.decode().strip()

    def update_ref(self, ref: str, sha: str) -> None:
        """Point ``ref`` at ``sha``."""
        self.run("update-ref", ref, sha)

    def delete_ref(self, ref: str) -> None:
        """Remove ``ref``; quiet when it is not there."""
        self.run("update-ref", "-d", ref)

    def fetch_from(self, other: GitRepo, sha: str, ref: str) -> None:
        """Bring ``sha`` from another repository and keep it alive by ``ref``."""
        self.run("fetch", "-q", "--no-tags", str(other.path), f"+{sha}:{ref}")

    def commit_files(
        self,
        branch: str,
        files: dict[str, Any],
        message: str,
        author: tuple[str, str],
        seconds: int,
        parent: str | None = None,
    ) -> str:
        """Put a commit on ``branch``.

        ``files`` maps paths to text, bytes, None (delete) or ``{"mode": "100755", "content": …}``;
        ``parent`` None means the branch as it stands (or a root commit).
        """
        ref = f"refs/heads/{branch}"
        parent = parent or self.resolve_ref(ref)
        who = f"{author[0]} <{author[1]}> {seconds} +0000".encode()
        text = message.encode("utf-8", "surrogateescape")
        lines = [
            b"commit " + ref.encode(),
            b"author " + who,
            b"committer " + who,
            b"data %d" % len(text),
            text,
        ]
        if parent:
            lines.append(b"from " + parent.encode())
        for path, content in files.items():
            name = _quoted(path)
            if content is None:
                lines.append(b"D " + name)
                continue
            mode = "100644"
            if isinstance(content, dict):
                mode, content = content.get("mode", mode), content["content"]
            data = (
                content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
            )
            lines += [b"M %s inline %s" % (mode.encode(), name), b"data %d" % len(data), data]
        stream = b"\n".join(lines) + b"\n\n"
        self.run("fast-import", "--quiet", "--force", "--date-format=raw", stdin=stream)
        sha = self.resolve_ref(ref)
        if sha is None:
            raise GitFailed("the commit did not arrive")
        return sha

    def info(self, sha: str) -> CommitInfo:
        """One commit."""
        return self.log("-1", sha)[0]

    def log(self, *args: str) -> list[CommitInfo]:
        """Commits, newest first, as ``git log`` takes them."""
        shape = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
        out = self.run("log", "-z", f"--format={shape}", *args, "--").decode(errors="replace")
        fields = out.split("\0")  # ten for each commit: no field of a commit can hold a NUL
        found = []
        for at in range(0, len(fields) - 9, 10):
            sha, tree, parents, an, ae, ad, cn, ce, cd, body = fields[at : at + 10]
            author, committer = (an, ae, _z(ad)), (cn, ce, _z(cd))
            found.append(
                CommitInfo(sha, tree, tuple(parents.split()), author, committer, body.rstrip("\n"))
            )
        return found

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor, or None for unrelated histories."""
        key = (one, other)
        if key not in self._bases:
            out = self.run("merge-base", one, other, ok=(0, 1))
            self._bases[key] = out.decode().strip() or None
        return self._bases[key]

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether ``new`` contains ``old``."""
        return self.merge_base(old, new) == old

    def count(self, spec: str) -> int:
        """How many commits a range of two full shas holds."""
        if spec not in self._counts:
            self._counts[spec] = int(self.run("rev-list", "--count", spec, "--"))
        return self._counts[spec]

    def diff(self, base: str, head: str) -> list[FileDiff]:
        """Changed files between two commits, renames found, with patches as GitHub cuts them."""
        key = (base, head)
        if key not in self._diffs:
            self._diffs[key] = self._diff(base, head)
        return self._diffs[key]

    def _diff(self, base: str, head: str) -> list[FileDiff]:
        common = ("--no-color", "--no-ext-diff", "--no-textconv", "-M", base, head, "--")
        raw = self.run("diff", "--raw", "--abbrev=40", "-z", *common).split(b"\0")
        numbers = self.run("diff", "--numstat", "-z", *common).split(b"\0")
        patches = _sections(self.run("diff", "-p", "--full-index", *common))
        found = []
        at, num = 0, 0
        while at < len(raw) and raw[at]:
            _, _, _, blob, code = raw[at].decode().split(" ")
            two = code[0] in "RC"
            first = _text(raw[at + 1])
            name = _text(raw[at + 2]) if two else first
            at += 3 if two else 2
            plus, minus, _ = numbers[num].decode(errors="replace").split("\t", 2)
            num += 3 if two else 1
            patch = next(patches, None)
            if code[0] == "T":  # a change of type prints as one removal and one addition
                next(patches, None)
            found.append(
                FileDiff(
                    filename=name,
                    status=STATUS.get(code[0], "changed"),
                    additions=0 if plus == "-" else int(plus),
                    deletions=0 if minus == "-" else int(minus),
                    blob=None if blob == ZERO else blob,
                    patch=patch,
                    previous=first if two else None,
                )
            )
        return found

    def read(self, sha: str, path: str) -> tuple[str, bytes] | None:
        """Blob id and content of a file at a commit."""
        try:
            out = self.run("ls-tree", "-z", "--full-tree", "--end-of-options", sha, path)
        except GitFailed:
            return None
        entry = out.split(b"\0")[0]
        if not entry or b" blob " not in entry:
            return None
        blob = entry.split(b"\t")[0].split(b" ")[2].decode()
        return blob, self.run("cat-file", "blob", blob)

    def listing(self, sha: str, path: str) -> list[tuple[str, str, str, int]]:
        """``(kind, blob, path, size)`` of a folder at a commit."""
        where = f"{path.rstrip('/')}/" if path else ""
        args = ("ls-tree", "-z", "-l", "--full-tree", sha, *([where] if where else []))
        found = []
        for entry in self.run(*args).split(b"\0"):
            if not entry:
                continue
            meta, name = entry.split(b"\t", 1)
            _, kind, blob, size = meta.split()
            number = 0 if size == b"-" else int(size)
            found.append((kind.decode(), blob.decode(), _text(name), number))
        return found

    def merge(self, base: str, head: str, message: str, who: tuple[str, str]) -> str | None:
        """A merge commit of two heads, or None on conflict; moves no ref."""
        try:
            tree = self.run("merge-tree", "--write-tree", base, head).decode().split("\n")[0]
        except GitFailed:
            return None
        names = ("-c", f"user.name={who[0]}", "-c", f"user.email={who[1]}")
        args = ("commit-tree", tree, "-p", base, "-p", head, "-m", message)
        return self.run(*names, *args).decode().strip()


def _z(iso: str) -> str:
    return re.sub(r"\+00:00$", "Z", iso)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _quoted(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    if raw[:1] == b'"' or any(byte < 32 for byte in raw):
        inner = "".join(
            f"\\{byte:03o}" if byte < 32 or byte in b'"\\' else chr(byte) for byte in raw
        )
        return b'"' + inner.encode("latin-1") + b'"'
    return raw


def _sections(patch: bytes) -> Any:
    """The hunks of each file in turn; None where there is no textual patch."""
    current: list[bytes] | None = None
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            if current is not None:
                yield _hunks(current)
            current = []
        elif current is not None:
            current.append(line)
    if current is not None:
        yield _hunks(current)


def _hunks(lines: list[bytes]) -> str | None:
    start = next((i for i, line in enumerate(lines) if line.startswith(b"@@ ")), None)
    if start is None:
        return None
    body = lines[start:]
    while body and body[-1] == b"":
        body.pop()
    text = b"\n".join(body)
    if len(body) > PATCH_LINES or len(text) > PATCH_BYTES:
        return None
    return _text(text)
