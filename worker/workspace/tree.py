"""A working tree made from a mirror: what may be in it, and the repository folder around it.

The repository folder is written by hand, not by ``git clone``: nothing is copied (objects are
borrowed through alternates), no template or hook exists, and every setting is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coven.governance.wire import Seam, governed_make_dir, governed_remove_tree, governed_write
from coven.values import Sha
from worker.workspace.errors import MirrorCorrupt, TooBig
from worker.workspace.git import Git, Pairs
from worker.workspace.mirror import Stop
from worker.workspace.names import decode_path, is_agent_configuration

MAX_ENTRIES = 500_000
_PATH_MAX = 4_000
_LISTING_LIMIT = 256 * 2**20
_LIST_SECS = 120.0
_CHECKOUT_SECS = 600.0


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What a commit's tree holds, before a byte of it is written."""

    files: int
    total_bytes: int
    symlinks: int
    submodules: tuple[str, ...]
    agent_paths: tuple[str, ...]
    """Instructions and settings for an agent."""
    unwritable: tuple[str, ...]
    """Paths that this file system can't hold."""


def read_plan(git: Git, mirror: Path, sha: Sha, root: Path, stop: Stop | None = None) -> TreePlan:
    """List the tree of ``sha``. Raises ``TooBig`` above ``MAX_ENTRIES`` files."""
    listing = git.run(
        ["ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", sha],
        cwd=mirror,
        git_dir=mirror,
        timeout=_LIST_SECS,
        stop=stop,
        output_limit=_LISTING_LIMIT,
    )
    return parse_plan(listing, len(str(root).encode()))


def parse_plan(listing: bytes, root_length: int) -> TreePlan:
    """Pure half of :func:`read_plan`: ``mode type object size TAB path NUL`` per entry."""
    files = total = links = 0
    submodules, agent, unwritable = [], [], []
    for entry in listing.split(b"\0"):
        if not entry:
            continue
        head, tab, raw = entry.partition(b"\t")
        fields = head.split()
        if not tab or len(fields) != 4:
            raise MirrorCorrupt("git ls-tree: an entry can't be read")
        mode, _, _, size = fields
        path = decode_path(raw)
        if mode == b"160000":
            submodules.append(path)
            continue
        files += 1
        total += int(size) if size.isdigit() else 0
        links += mode == b"120000"
        if is_agent_configuration(path):
            agent.append(path)
        if len(raw) + root_length > _PATH_MAX or any(len(p) > 255 for p in raw.split(b"/")):
            unwritable.append(path)
    if files + len(submodules) > MAX_ENTRIES:
        raise TooBig(f"the tree has more than {MAX_ENTRIES} files")
    return TreePlan(files, total, links, tuple(submodules), tuple(agent), tuple(unwritable))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What goes into the repository folder of a tree."""

    mirror: Path
    origin: str
    branch: str
    refs: Mapping[str, Sha]
    """Full ref names; the branch's own is among them."""
    symlinks: bool
    """False: links are written as small text files."""
    helper: bool = True
    """Whether the credential helper for ``origin`` is set up."""


def write_skeleton(seam: Seam, tree: Path, skeleton: Skeleton) -> None:
    """Write ``tree/.git``. Raises ``OSError``."""
    folder = tree / ".git"
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "logs"):
        governed_make_dir(seam, folder / name, point="workspace.tree.make")
    sha256_format = any(len(sha) == 64 for sha in skeleton.refs.values())
    packed = ["# pack-refs with: peeled fully-peeled sorted "]
    packed += [f"{skeleton.refs[name]} {name}" for name in sorted(skeleton.refs, key=str.encode)]
    contents = {
        "HEAD": f"ref: refs/heads/{skeleton.branch}\n",
        "config": config_text(skeleton, sha256_format=sha256_format),
        "packed-refs": "\n".join(packed) + "\n",
        "objects/info/alternates": f"{skeleton.mirror / 'objects'}\n",
    }
    for name, text in contents.items():
        governed_write(seam, folder / name, text.encode(), point="workspace.tree.write")


def config_text(skeleton: Skeleton, *, sha256_format: bool) -> str:
    """The local configuration of a tree; credential-free, hooks and helpers of others off."""
    origin = skeleton.origin
    sections: list[tuple[str, list[tuple[str, str]]]] = [
        (
            "core",
            [
                ("repositoryformatversion", str(int(sha256_format))),
                ("filemode", "true"),
                ("bare", "false"),
                ("logallrefupdates", "true"),
                ("hooksPath", "/dev/null"),
                ("fsmonitor", "false"),
                ("untrackedCache", "false"),
                ("symlinks", "true" if skeleton.symlinks else "false"),
                ("protectHFS", "true"),
                ("protectNTFS", "true"),
                ("attributesFile", "/dev/null"),
            ],
        ),
        ('remote "origin"', [("url", origin), ("fetch", "+refs/heads/*:refs/remotes/origin/*")]),
        ("push", [("default", "current"), ("autoSetupRemote", "true")]),
        ("submodule", [("recurse", "false")]),
        ("fetch", [("recurseSubmodules", "false"), ("fsckObjects", "true")]),
        ("transfer", [("fsckObjects", "true")]),
        ('protocol "file"', [("allow", "never")]),
        ('protocol "ext"', [("allow", "never")]),
        (
            'filter "lfs"',
            [("smudge", ""), ("clean", ""), ("process", ""), ("required", "false")],
        ),
        ("gc", [("auto", "0")]),
        ("maintenance", [("auto", "false")]),
        ("commit", [("gpgSign", "false")]),
        # An empty entry cuts off every helper of the machine.
        ("credential", [("helper", ""), ("useHttpPath", "true")]),
    ]
    if sha256_format:
        sections.append(("extensions", [("objectformat", "sha256")]))
    if skeleton.helper:
        for url in (origin, origin.removesuffix(".git")):
            sections.append((f'credential "{_escaped(url)}"', [("helper", HELPER)]))
    lines = []
    for name, pairs in sections:
        lines.append(f"[{name}]")
        lines += [f'\t{key} = "{_escaped(value)}"' for key, value in pairs]
    return "\n".join(lines) + "\n"


HELPER = (
    '!f() { test "$1" = get && test -n "$COVEN_GIT_TOKEN" && '
    "printf 'username=x-access-token\\npassword=%s\\n' \"$COVEN_GIT_TOKEN\"; }; f"
)
"""Answers from the child's own environment, for one URL; the token is stored nowhere."""


def fill(
    git: Git,
    seam: Seam,
    tree: Path,
    sha: Sha,
    *,
    leave_out: Sequence[str],
    stop: Stop | None = None,
    file_limit: int | None = None,
) -> None:
    """Write the files of ``sha`` and an index that calls them clean.

    ``leave_out`` are tracked paths that are not written and do not show as changes
    (``skip-worktree``). Only for trees that no session has touched. Raises ``WorkspaceError``.
    """
    config: list[tuple[str, str]] = [("checkout.workers", "0")]
    patterns = tree / ".git" / "info" / "sparse-checkout"
    if leave_out:
        text = "/*\n" + "".join(f"!{sparse_pattern(path)}\n" for path in leave_out)
        governed_write(
            seam, patterns, text.encode("utf-8", "surrogateescape"), point="workspace.tree.write"
        )
        config += [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", "false")]
    in_tree(
        git,
        tree,
        ["read-tree", "--reset", "-u", sha],
        timeout=_CHECKOUT_SECS,
        config=config,
        stop=stop,
        file_limit=file_limit,
    )
    if leave_out:
        governed_remove_tree(seam, patterns, point="workspace.tree.write")


def in_tree(
    git: Git,
    tree: Path,
    args: Sequence[str],
    *,
    timeout: float,
    config: Pairs = (),
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    file_limit: int | None = None,
) -> bytes:
    """Run git in a tree of ours. Never call it on a tree that a session could write."""
    return git.run(
        args,
        cwd=tree,
        git_dir=tree / ".git",
        work_tree=tree,
        timeout=timeout,
        config=config,
        stdin=stdin,
        env=env,
        stop=stop,
        file_limit=file_limit,
    )


def sparse_pattern(path: str) -> str:
    """A pattern for exactly this path (gitignore(5)); a newline can only be met by ``?``."""
    return "/" + "".join(
        "?" if char in "\r\n" else f"\\{char}" if char in "*?[]\\ !#" else char for char in path
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
