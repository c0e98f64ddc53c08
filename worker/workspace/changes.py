"""What a pull request changes, computed from the mirror: no git ever runs in a session's tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coven.values import Sha
from worker.workspace.errors import MirrorCorrupt
from worker.workspace.git import Git
from worker.workspace.names import decode_path, shown

MAX_FILES = 3_000
"""GitHub lists no more either; rules about files must fail closed above."""
PATCH_BYTES = 128 * 1024
_BIG_BLOB = 2**20
_LIST_LIMIT = 32 * 2**20
_DIFF_SECS = 120.0
_NULL_MODES = {b"160000"}

Status = Literal["added", "removed", "modified", "renamed", "copied", "changed"]
_STATUS: dict[str, Status] = {
    "A": "added",
    "D": "removed",
    "M": "modified",
    "R": "renamed",
    "C": "copied",
    "T": "changed",
}


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """One changed file. ``additions`` and ``deletions`` are None for binary files.

    ``filename`` is exact when it is UTF-8; other bytes stay as surrogate escapes, and
    :attr:`shown` is the form for texts.
    """

    filename: str
    status: Status
    additions: int | None = None
    deletions: int | None = None
    previous_filename: str | None = None
    submodule: bool = False

    @property
    def binary(self) -> bool:
        """Whether git has no line counts for it."""
        return self.additions is None and not self.submodule

    @property
    def shown(self) -> str:
        """The name with everything odd escaped; safe in one line of text."""
        return shown(self.filename)

    @property
    def representable(self) -> bool:
        """Whether the name can be sent to GitHub and JSON as it is."""
        return not any(0xD800 <= ord(char) <= 0xDFFF for char in self.filename)


@dataclass(frozen=True, slots=True)
class Changes:
    """The files and the patch between merge base (or base) and head."""

    files: tuple[ChangedPath, ...] = ()
    patch: str = ""
    truncated: bool = False
    """The patch was cut at ``PATCH_BYTES``."""
    too_many: bool = False
    """More than ``MAX_FILES`` files; the list holds the first ones only."""
    total_files: int = 0
    notes: tuple[str, ...] = ()


def read_changes(git: Git, mirror: Path, base: Sha, head: Sha) -> Changes:
    """Compare two commits of a mirror. Raises ``WorkspaceError``."""
    if base == head:
        return Changes()
    common = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"]
    common += ["-M", "-l1000", "--end-of-options"]
    # Above this size git calls a blob binary instead of reading it into memory.
    config = (("core.bigFileThreshold", str(_BIG_BLOB)), ("diff.renameLimit", "1000"))
    listing = git.run(
        [common[0], "--raw", "--numstat", "--abbrev=40", "-z", *common[1:], base, head],
        cwd=mirror,
        git_dir=mirror,
        timeout=_DIFF_SECS,
        config=config,
        output_limit=_LIST_LIMIT,
    )
    files = parse_listing(listing)
    patch = git.call(
        [
            common[0],
            "--patch",
            "-U3",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            *common[1:],
            base,
            head,
        ],
        cwd=mirror,
        git_dir=mirror,
        timeout=_DIFF_SECS,
        config=config,
        output_limit=PATCH_BYTES,
        cut_output=True,
    )
    if patch.code != 0:
        raise MirrorCorrupt(f"git diff: {patch.stderr[:200]}")
    notes = []
    if patch.cut:
        notes.append(f"the patch is cut at {PATCH_BYTES} bytes")
    if len(files) > MAX_FILES:
        notes.append(f"{len(files)} files changed; the first {MAX_FILES} are listed")
    if odd := sum(not file.representable for file in files):
        notes.append(f"{odd} file name(s) are not UTF-8 and are shown escaped")
    return Changes(
        files=tuple(files[:MAX_FILES]),
        patch=whole_lines(patch.stdout, cut=patch.cut),
        truncated=patch.cut,
        too_many=len(files) > MAX_FILES,
        total_files=len(files),
        notes=tuple(notes),
    )


def whole_lines(raw: bytes, *, cut: bool) -> str:
    """Text of a patch; a last half line is dropped. Bytes that are not UTF-8 are replaced."""
    if cut:
        raw = raw[: raw.rfind(b"\n") + 1]
    return raw.decode("utf-8", "replace")


def parse_listing(listing: bytes) -> list[ChangedPath]:
    """Read ``git diff --raw --numstat -z``. Raises ``MirrorCorrupt`` for anything else."""
    fields = iter(listing.split(b"\0"))
    raws: list[tuple[Status, str, str | None, bool]] = []
    counts: dict[str, tuple[int | None, int | None]] = {}
    try:
        for field in fields:
            if not field:
                continue
            if field.startswith(b":"):
                parts = field[1:].split()
                letter = parts[4][:1].decode("ascii")
                first = decode_path(next(fields))
                name, previous = (
                    (decode_path(next(fields)), first) if letter in "RC" else (first, None)
                )
                module = bool({parts[0], parts[1]} & _NULL_MODES)
                raws.append((_STATUS[letter], name, previous, module))
                continue
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                # A rename: the old and the new name follow as fields of their own.
                next(fields)
                path = next(fields)
            counts[decode_path(path)] = (_count(added), _count(deleted))
    except (StopIteration, ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise MirrorCorrupt("git diff: the listing can't be read") from error
    return [
        ChangedPath(name, status, *counts.get(name, (None, None)), previous, module)
        for status, name, previous, module in raws
    ]


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
