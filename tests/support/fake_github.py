"""A GitHub in memory behind the interface of ``RepoClient``, with GitHub's own limits.

Every call passes ``trouble`` twice, as ``<operation>.before`` and ``<operation>.after``; a test
raises there what a network, GitHub or a dying process would bring. What happened before ``after``
has happened, as with an answer that got lost.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from coven.errors import GitHubForbidden, GitHubNotFound, GitHubRejected
from coven.github.models import AppInfo, Comment, ObjectRef, PullRequest, Reaction
from coven.github.roles import Role
from coven.values import InstallationId, RepoId, RepoName, Sha

APP = AppInfo(id=99, slug="cody-familiar", bot_login="cody-familiar[bot]", bot_user_id=990)
OWNER = "octo"


def rejected(message: str) -> GitHubRejected:
    return GitHubRejected(f"github: 422: {message}", status=422)


def gone(message: str = "Not Found") -> GitHubNotFound:
    return GitHubNotFound(f"github: 404: {message}", status=404)


@dataclass
class FakeGitHub:
    """Stands for ``coven.github.factory.GitHub`` with one repository."""

    trouble: Callable[[str], None] = lambda point: None
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, tuple[int, Comment]] = field(default_factory=dict)
    review_comments: dict[int, tuple[int, Comment]] = field(default_factory=dict)
    reactions: dict[int, Reaction] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    secrets: tuple[str, ...] = ()
    drafts: bool = True
    closed_threads: set[int] = field(default_factory=set)
    read_only: str | None = None
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1001))

    def for_repo(
        self,
        installation: InstallationId,
        repo_id: RepoId,
        repo: RepoName,
        role: Role,
        *,
        timeout_secs: float | None = None,
    ) -> FakeClient:
        assert role is Role.PUBLISH
        return FakeClient(self)

    def app_info(self) -> AppInfo:
        return APP

    def live_secrets(self) -> tuple[str, ...]:
        return self.secrets

    # --- what a person does

    def stranger_writes(self, thread: int, body: str) -> int:
        return self._add(self.comments, thread, body, 5, "mallory", None)

    def deletes(self, comment_id: int) -> None:
        self.comments.pop(comment_id, None)
        self.review_comments.pop(comment_id, None)

    def writes_on_diff(self, pull: int, body: str) -> int:
        return self._add(self.review_comments, pull, body, 5, "mallory", None)

    # --- what a test reads

    def bodies(self, thread: int) -> list[str]:
        return [c.body for t, c in self.comments.values() if t == thread and c.author_id == 990]

    def _add(
        self,
        place: dict[int, tuple[int, Comment]],
        thread: int,
        body: str,
        author: int,
        login: str,
        app_id: int | None,
    ) -> int:
        number = next(self.ids)
        url = f"https://github.example/octo/demo/issues/{thread}#c{number}"
        place[number] = (thread, Comment(number, body, author, login, app_id, url))
        return number


class FakeClient:
    """The calls that the publisher makes."""

    def __init__(self, github: FakeGitHub) -> None:
        self._github = github

    # --- reactions, all on one comment

    def add_reaction(self, comment_id: int, kind: str, content: str) -> int:
        with _call(self._github, "add_reaction", write=True):
            known = self._github.reactions
            for found in known.values():
                if (found.user_id, found.content) == (APP.bot_user_id, content):
                    return found.id
            number = next(self._github.ids)
            known[number] = Reaction(number, content, APP.bot_user_id, APP.bot_login)
            return number

    def reactions(self, comment_id: int, kind: str) -> list[Reaction]:
        with _call(self._github, "reactions"):
            return list(self._github.reactions.values())

    def remove_reaction(self, comment_id: int, kind: str, reaction_id: int) -> None:
        with _call(self._github, "remove_reaction", write=True):
            found = self._github.reactions.get(reaction_id)
            if found is None or found.user_id != APP.bot_user_id:
                raise gone()
            del self._github.reactions[reaction_id]

    # --- Check Runs

    def create_check_run(self, body: dict[str, Any]) -> ObjectRef:
        with _call(self._github, "create_check_run", write=True):
            for name in ("name", "head_sha"):
                if not body.get(name):
                    raise rejected(f"{name} wasn't supplied")
            run: dict[str, Any] = {
                "id": next(self._github.ids),
                "html_url": "https://github.example/run",
                "app": {"id": APP.id},
                "status": "queued",
                "conclusion": None,
                "annotations": [],
                "actions": [],
                "output": {},
            }
            _apply(run, body)
            self._github.check_runs[run["id"]] = run
        return _ref(run)

    def update_check_run(self, run_id: int, body: dict[str, Any]) -> ObjectRef:
        with _call(self._github, "update_check_run", write=True):
            run = self._github.check_runs.get(run_id)
            if run is None:
                raise gone()
            _apply(run, body)
        return _ref(run)

    def get_check_run(self, run_id: int) -> ObjectRef:
        with _call(self._github, "get_check_run"):
            run = self._github.check_runs.get(run_id)
            if run is None:
                raise gone()
        return _ref(run)

    def check_runs(self, sha: str, name: str) -> list[ObjectRef]:
        with _call(self._github, "check_runs"):
            runs = list(self._github.check_runs.values())
        return [_ref(run) for run in runs if run["head_sha"] == sha and run["name"] == name]

    # --- comments

    def list_comments(self, thread: int) -> Iterator[Comment]:
        yield from self._list("list_comments", self._github.comments, thread)

    def review_comments(self, pull: int) -> Iterator[Comment]:
        yield from self._list("review_comments", self._github.review_comments, pull)

    def create_comment(self, thread: int, body: str) -> Comment:
        with _call(self._github, "create_comment", write=True):
            _check_body(body)
            if thread in self._github.closed_threads:
                raise GitHubNotFound("github.create_comment: 410: issue was deleted", status=410)
            number = self._ours(self._github.comments, thread, body)
        return self._github.comments[number][1]

    def update_comment(self, comment_id: int, body: str) -> Comment:
        with _call(self._github, "update_comment", write=True):
            _check_body(body)
            if comment_id not in self._github.comments:
                raise gone()
            thread, old = self._github.comments[comment_id]
            self._github.comments[comment_id] = (thread, replace(old, body=body))
        return self._github.comments[comment_id][1]

    def reply_to_review_comment(self, pull: int, comment_id: int, body: str) -> Comment:
        with _call(self._github, "reply_to_review_comment", write=True):
            _check_body(body)
            if comment_id not in self._github.review_comments:
                raise gone()
            number = self._ours(self._github.review_comments, pull, body)
        return self._github.review_comments[number][1]

    # --- pull requests

    def create_pull(self, title: str, head: str, base: str, body: str, draft: bool) -> PullRequest:
        with _call(self._github, "create_pull", write=True):
            _check_body(body)
            if len(title) > 256:
                raise rejected("title is too long (maximum is 256 characters)")
            if any(p.head_ref == head and p.state == "open" for p in self._github.pulls.values()):
                raise rejected(f"A pull request already exists for {OWNER}:{head}.")
            if head not in self._github.branches:
                raise rejected("PullRequest.head invalid")
            if self._github.branches[head] == self._github.branches.get(base):
                raise rejected(f"No commits between {base} and {head}")
            if draft and not self._github.drafts:
                raise rejected("Draft pull requests are not supported in this repository.")
            pull = self.pull_of(next(self._github.ids), title, head, base, body, draft=draft)
            self._github.pulls[pull.number] = pull
        return pull

    def pulls_from(self, head_owner: str, branch: str, state: str = "all") -> list[PullRequest]:
        with _call(self._github, "pulls_from"):
            found = [
                pull
                for pull in self._github.pulls.values()
                if pull.head_ref == branch and head_owner == OWNER
            ]
        return list(reversed(found))

    def update_pull(self, number: int, **fields: Any) -> PullRequest:
        with _call(self._github, "update_pull", write=True):
            if number not in self._github.pulls:
                raise gone()
            _check_body(fields.get("body", ""))
            self._github.pulls[number] = replace(self._github.pulls[number], **fields)
        return self._github.pulls[number]

    def pull_of(
        self,
        number: int,
        title: str,
        head: str,
        base: str,
        body: str,
        *,
        draft: bool = True,
        author_id: int = 990,
    ) -> PullRequest:
        return PullRequest(
            number=number,
            title=title,
            body=body,
            state="open",
            draft=draft,
            merged=False,
            head_sha=Sha(self._github.branches.get(head, "e" * 40)),
            head_ref=head,
            head_repo_id=RepoId(7),
            head_repo_full_name=f"{OWNER}/demo",
            base_sha=Sha("b" * 40),
            base_ref=base,
            author_id=author_id,
            author_login=APP.bot_login if author_id == 990 else "mallory",
            html_url=f"https://github.example/octo/demo/pull/{number}",
            updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        )

    def _ours(self, place: dict[int, tuple[int, Comment]], thread: int, body: str) -> int:
        return self._github._add(place, thread, body, 990, APP.bot_login, APP.id)

    def _list(
        self, operation: str, place: dict[int, tuple[int, Comment]], thread: int
    ) -> Iterator[Comment]:
        with _call(self._github, operation):
            found = list(place.values())
        yield from (comment for t, comment in found if t == thread)


class _call:
    def __init__(self, github: FakeGitHub, operation: str, *, write: bool = False) -> None:
        self._github = github
        self._operation = operation
        self._write = write

    def __enter__(self) -> None:
        self._github.calls[self._operation] += 1
        self._github.trouble(f"{self._operation}.before")
        if self._write and self._github.read_only:
            raise GitHubForbidden(f"github: 403: {self._github.read_only}", status=403)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._github.trouble(f"{self._operation}.after")


def _ref(run: dict[str, Any]) -> ObjectRef:
    shown = {key: value for key, value in run.items() if key != "annotations"}
    shown["output"] = dict(run["output"], annotations_count=len(run["annotations"]))
    return ObjectRef(run["id"], run["html_url"], shown)


def _apply(run: dict[str, Any], body: dict[str, Any]) -> None:
    output = body.get("output", {})
    added = output.get("annotations", [])
    if len(added) > 50:
        raise rejected("Only 50 annotations are allowed")
    for name in ("summary", "text"):
        if len((output.get(name) or "").encode()) > 65_535:
            raise rejected(f"{name} exceeds a maximum bytesize of 65535")
    if output and not (output.get("title") and output.get("summary")):
        raise rejected("title and summary are required")
    for annotation in added:
        if len(annotation["title"]) > 255 or not annotation["message"]:
            raise rejected("annotation is not acceptable")
        if annotation["path"].startswith("/"):
            raise rejected("annotation path is not relative")
    if len(body.get("actions", [])) > 3:
        raise rejected("No more than 3 actions")
    if body.get("status") == "completed" and not body.get("conclusion"):
        raise rejected("conclusion wasn't supplied")
    if run["status"] == "completed" and body.get("status") in {"queued", "in_progress"}:
        raise AssertionError("a completed run was reopened; its conclusion would stay")
    changes = {key: value for key, value in body.items() if key != "output"}
    run.update(changes)
    if body.get("conclusion"):
        run["status"] = "completed"
    run["output"] = {**run["output"], **{k: v for k, v in output.items() if k != "annotations"}}
    run["annotations"] = run["annotations"] + added


def _check_body(body: str) -> None:
    if len(body) > 65_536:
        raise rejected("Body is too long (maximum is 65536 characters)")
