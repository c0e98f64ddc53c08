"""What the reviewed commit holds, read from the mirror: no git ever runs in a session's tree."""

from __future__ import annotations

from collections.abc import Collection

from worker.session import Prepared

_SECS = 60.0
_MOST = 200
"""Names that are looked up; more supporting files with findings are not believed."""


def existing_files(prepared: Prepared, names: Collection[str]) -> frozenset[str]:
    """Which of these paths are files at the start commit. Raises ``WorkspaceError``."""
    asked = sorted(name for name in names if _may_exist(name))[:_MOST]
    if not asked:
        return frozenset()
    mirror = prepared.workspace.mirror.path
    out = prepared.workspaces.git.run(
        ["ls-tree", "-z", "--full-tree", prepared.workspace.start_sha, "--", *asked],
        cwd=mirror,
        git_dir=mirror,
        timeout=_SECS,
    )
    found = set()
    for entry in out.split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        if b" blob " in facts:
            found.add(name.decode("utf-8", "surrogateescape"))
    return frozenset(found & set(asked))


def _may_exist(name: str) -> bool:
    parts = name.split("/")
    return bool(name) and "\0" not in name and not {"", ".", ".."} & set(parts)
