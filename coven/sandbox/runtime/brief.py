"""Reading the brief as the real runtime does: unknown keys are fine, wrong types are not."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACCEPTED = ("2", "3")

_TASKS: dict[str, dict[str, type]] = {
    "fix_issue": {"issue_number": int, "issue_title": str, "issue_body": str},
    "address_review_comment": {"pr_number": int, "comment_body": str},
    "respond_to_mention": {"issue_number": int, "comment_body": str},
}


class BadBrief(Exception):
    """The brief can't be used; the program exits 1 without a result."""


@dataclass(frozen=True)
class Brief:
    """What the session works on."""

    version: str
    trigger: str
    owner: str
    name: str
    default_branch: str
    kind: str
    number: int
    text: str
    """Everything that people wrote about the task: title, body or comment."""
    title: str
    diff_hunk: str | None
    familiar: str
    display_name: str
    model: str | None
    skills: tuple[str, ...]
    root: Path
    review_kind: str | None
    files: tuple[str, ...]
    instruction: str
    memory_policy: dict[str, Any] | None = field(default=None)

    @property
    def mode(self) -> str:
        """``pull_request``, ``review_comment`` or ``none``."""
        if self.kind == "address_review_comment":
            return "review_comment"
        return "pull_request" if self.review_kind == "pull_request" else "none"


def read_brief(path: Path) -> Brief:
    """Parse the brief at ``path``. Raises :class:`BadBrief` with one line for stderr."""
    try:
        raw = json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=_no_duplicates)
    except OSError as error:
        raise BadBrief(f"cannot read session brief: {error.strerror}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise BadBrief(f"cannot parse session brief: {error}") from None
    root = _typed(raw, "brief", dict)
    version = root.get("contract_version", "3")
    if version not in ACCEPTED:
        raise BadBrief(f"unsupported contract_version {version!r}: this runtime speaks 2 and 3")
    repo = _typed(root.get("repo"), "repo", dict)
    task = _typed(root.get("task"), "task", dict)
    familiar = _typed(root.get("familiar"), "familiar", dict)
    workspace = _typed(root.get("workspace"), "workspace", dict)
    kind = task.get("kind")
    if kind not in _TASKS:
        raise BadBrief(f"unknown task kind {str(kind)[:60]!r}")
    for name, wanted in _TASKS[kind].items():
        _typed(task.get(name), f"task.{name}", wanted)
    _typed(repo.get("clone_url"), "repo.clone_url", str)
    context = root.get("review_context") or {}
    files = _typed(_typed(context, "review_context", dict).get("files", []), "files", list)
    memory = root.get("memory_policy")
    return Brief(
        version=version,
        trigger=_typed(root.get("trigger"), "trigger", str),
        owner=_typed(repo.get("owner"), "repo.owner", str),
        name=_typed(repo.get("name"), "repo.name", str),
        default_branch=_typed(repo.get("default_branch"), "repo.default_branch", str),
        kind=kind,
        number=task.get("issue_number") or task.get("pr_number") or 0,
        text="\n".join(
            task[name] for name in ("issue_title", "issue_body", "comment_body") if task.get(name)
        ),
        title=task.get("issue_title") or "",
        diff_hunk=_typed(task.get("diff_hunk") or "", "task.diff_hunk", str) or None,
        familiar=_typed(familiar.get("id"), "familiar.id", str),
        display_name=_typed(familiar.get("display_name"), "familiar.display_name", str),
        model=_typed(familiar.get("model") or "", "familiar.model", str) or None,
        skills=tuple(_typed(familiar.get("skills", []), "familiar.skills", list)),
        root=Path(_typed(workspace.get("root"), "workspace.root", str)),
        review_kind=context.get("kind"),
        files=tuple(
            _typed(_typed(entry, "files[]", dict).get("filename"), "files[].filename", str)
            for entry in files
        ),
        instruction=_typed(root.get("audit_instruction") or "", "audit_instruction", str),
        memory_policy=memory if isinstance(memory, dict) else None,
    )


def _typed(value: Any, name: str, wanted: type) -> Any:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise BadBrief(f"invalid type for {name}: expected {wanted.__name__}")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate field")
    return found
