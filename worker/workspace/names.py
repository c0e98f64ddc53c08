"""Names that reach git, GitHub or a file system: which ones we make, accept and refuse. Pure."""

from __future__ import annotations

import re
import unicodedata

from coven.values import TaskId

_OURS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}\Z")
_SHA_LIKE = re.compile(r"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})\Z")
_FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
# What HFS+ ignores inside a name, so that ".g<ZWNJ>it" is ".git" there (git, utf8.c).
_HFS_IGNORED = re.compile(r"[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_NTFS_SHORT = re.compile(r"git~[0-9]+\Z")
_AGENT_FILES = frozenset({"agents.md", "agents.override.md", "claude.md", "claude.local.md"})
_AGENT_DIRS = frozenset({".coven-code", ".coven", ".claude"})


def reserved_branch(familiar_id: str, verb: str, number: int, task_id: TaskId) -> str:
    """The branch that one task may publish: ``<familiar>/<verb>-<n>-<task8>``."""
    return f"{familiar_id}/{verb}-{number}-{task_id[:8]}"


def branch_problem(name: str) -> str | None:
    """Why ``name`` may not be a branch that a run publishes, or None.

    Tighter than git: our own alphabet only, so a name is always safe in argv, URLs and Markdown.
    """
    if not _OURS.match(name):
        return (
            "must be 1 to 200 letters, digits, '.', '_', '/' or '-', "
            "and must start with a letter or digit"
        )
    if name.casefold() == "head":
        return "must not be HEAD"
    if name.startswith("refs/"):
        return "must be a short branch name, without refs/"
    return ref_problem(name)


def ref_problem(name: str) -> str | None:
    """Why ``name`` is no branch name for git and GitHub, or None (git-check-ref-format(1))."""
    checks = (
        (not name or len(name.encode("utf-8", "surrogateescape")) > 255, "is empty or too long"),
        (name.startswith("-"), "starts with '-'"),
        (name == "@" or "@{" in name, "holds '@{'"),
        (_FORBIDDEN_IN_REF.search(name) is not None, "holds a character that git forbids"),
        (".." in name, "holds '..'"),
        (name.startswith("/") or name.endswith("/") or "//" in name, "has an empty component"),
        (name.endswith("."), "ends with '.'"),
        (
            any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")),
            "has a component that starts with '.' or ends with '.lock'",
        ),
        (_SHA_LIKE.match(name) is not None, "looks like a commit id"),
        (name.startswith("refs/"), "starts with refs/"),
    )
    return next((reason for bad, reason in checks if bad), None)


def is_git_lookalike(component: str) -> bool:
    """Whether some file system takes this path component for ``.git``.

    Covers case, HFS+ ignorable characters, NTFS short names, streams and trailing dots or blanks
    (git's ``core.protectHFS`` and ``core.protectNTFS``).
    """
    folded = _HFS_IGNORED.sub("", unicodedata.normalize("NFC", component)).casefold()
    stem = folded.split(":", 1)[0].rstrip(". ")
    return stem == ".git" or _NTFS_SHORT.match(stem) is not None


def path_problem(path: str) -> str | None:
    """Why a new repository path may not be published, or None. ``path`` uses ``/``."""
    parts = path.split("/")
    checks = (
        (not path or len(path) > 1_000, "is empty or longer than 1000 characters"),
        (path.startswith("/") or any(part in {"", ".", ".."} for part in parts), "leaves the tree"),
        (any(is_git_lookalike(part) for part in parts), "looks like .git"),
        ("\\" in path, "holds a backslash"),
        (any(_is_invisible(char) for char in path), "holds a control or invisible character"),
        (any(0xD800 <= ord(char) <= 0xDFFF for char in path), "is not valid UTF-8"),
        (any(len(part.encode("utf-8", "replace")) > 255 for part in parts), "has a part too long"),
    )
    return next((reason for bad, reason in checks if bad), None)


def is_agent_configuration(path: str) -> bool:
    """Whether an agent would take this file of the tree as instructions or settings for itself."""
    parts = path.casefold().split("/")
    return parts[-1] in _AGENT_FILES or any(part in _AGENT_DIRS for part in parts)


def is_runtime_state(path: str) -> bool:
    """Whether the runtime keeps its own state there; such edits are never published."""
    return path.casefold().split("/", 1)[0] == ".coven-code"


def is_workflow(path: str) -> bool:
    """Whether GitHub Actions runs this file; pushing it needs an authority that we do not ask."""
    return path.casefold().startswith(".github/workflows/")


def shown(name: str) -> str:
    """``name`` safe for one line of text: control, invisible and odd characters escaped."""
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if _is_invisible(char) or 0xD800 <= ord(char) <= 0xDFFF or char == "\\"
        else char
        for char in name
    )


def decode_path(raw: bytes) -> str:
    """A path as git gives it; bytes that are not UTF-8 stay as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"}
