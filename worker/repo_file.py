"""``.github/coven.yml`` of the repository that work is for: read, obeyed, and judged when changed.

It counts as it stands on the default branch, so that a pull request can't free itself of it. It
only narrows: what it does not say, or can't be read, switches nothing off.
"""

from __future__ import annotations

from coven import texts_tenancy
from coven.errors import WorkspaceError
from coven.github.repo_client import RepoClient
from coven.publication import Annotation
from coven.store.tasks import Task
from coven.tenancy import repo_file
from coven.tenancy.repo_file import PATH, Read, RepoFile
from worker.recheck import Decline
from worker.session import Prepared

_SECS = 30.0
_LANES = (("assigned", "assignment"), ("labeled", "labels"))


def narrowed(client: RepoClient, task: Task, default_branch: str) -> Decline | None:
    """Why the repository itself does not want this task, or None. Raises ``GitHubError``."""
    found = client.file(PATH, default_branch)
    asked = repo_file.read(found[1]).file if found is not None else None
    return declined(asked, task) if asked is not None else None


def declined(asked: RepoFile, task: Task) -> Decline | None:
    """What the file says about a task. Pure."""
    lane = lane_of(task)
    if not asked.allows(lane):
        return Decline(
            "off_by_repo_file",
            f"`{PATH}` on the default branch switches this off ({lane}).",
            f"Change `{PATH}` on the default branch if it should start here.",
        )
    if not asked.wants(task.familiar_id):
        return Decline(
            "familiar_not_wanted",
            f"`{PATH}` on the default branch names other familiars for this repository.",
            f"Ask one of them, or add this one to `{PATH}` on the default branch.",
        )
    return None


def lane_of(task: Task) -> str:
    """Which lane of the policy a task came through, by why it was made. Pure."""
    for word, lane in _LANES:
        if word in task.reason.split(":")[0]:
            return lane
    return "reviews" if task.automatic else "commands"


def problems_of_change(prepared: Prepared) -> Read | None:
    """What is wrong with the file at the reviewed commit; None when it was not changed."""
    if not any(
        changed.filename == PATH and changed.status != "removed"
        for changed in prepared.changes.files
    ):
        return None
    mirror = prepared.workspace.mirror.path
    try:
        data = prepared.workspaces.git.run(
            ["cat-file", "blob", f"{prepared.workspace.start_sha}:{PATH}"],
            cwd=mirror,
            git_dir=mirror,
            timeout=_SECS,
        )
    except WorkspaceError:
        return None  # a folder, a link, or nothing that can be read
    return repo_file.read(data)


def marks(read: Read | None) -> list[Annotation]:
    """The problems as annotations of the file. Pure."""
    return [
        Annotation(
            path=PATH,
            start_line=problem.line or 1,
            end_line=problem.line or 1,
            level="failure",
            title=texts_tenancy.REPO_FILE_TITLE,
            message=problem.text,
        )
        for problem in (read.problems if read is not None else ())
    ]


def section(read: Read | None) -> str | None:
    """The problems as a part of the Check Run's summary; None when there are none. Pure."""
    if read is None or not read.problems:
        return None
    return texts_tenancy.repo_file_problems(PATH, [(p.text, p.line) for p in read.problems])
