"""The REST calls on one repository. One method is one call (or its pages); none of them retries.

A 401 means that nothing was executed, so the token is forgotten and the call sent once more with
a fresh one, whatever its method.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from coven.errors import GitHubNotFound, GitHubRejected, GitHubUnauthorised
from coven.github.models import (
    NO_PERMISSION,
    ChangedFile,
    Comment,
    Comparison,
    Json,
    LabelledIssue,
    Labelling,
    ObjectRef,
    Permission,
    PullRequest,
    PullReview,
    Reaction,
    Repository,
)
from coven.github.rest import Rest, each, understood
from coven.github.tokens import TokenKey, Tokens
from coven.github.transport import Request, Response
from coven.github.urls import next_query, path
from coven.values import RepoName, Sha

PAGE = 100
MAX_FILES = 3000
"""GitHub lists no more files of one pull request."""
MAX_ITEMS = 10_000
MAX_COMPARED = 1000
_REACTION_PATHS: Mapping[str, tuple[str, ...]] = {
    "issue_comment": ("issues", "comments"),
    "review_comment": ("pulls", "comments"),
    "issue": ("issues",),
}


class RepoClient:
    """GitHub as one role sees one repository. All methods raise subclasses of ``GitHubError``."""

    def __init__(
        self,
        rest: Rest,
        tokens: Tokens,
        key: TokenKey,
        repo: RepoName,
        timeout_secs: float | None = None,
        heard: Callable[[Response], None] = lambda _: None,
    ) -> None:
        self._rest = rest
        self._heard = heard
        self._tokens = tokens
        self._key = key
        self._repo = repo
        self._timeout_secs = timeout_secs

    # --- the repository and its people

    def repository(self) -> Repository:
        """The repository. Raises ``GitHubNotFound`` when the name belongs to another one now."""
        body = self._get("repository").body
        found = understood("repository", lambda: Repository.from_json(body))
        self._same_repository("repository", found.id)
        return found

    def permission(self, login: str) -> Permission:
        """What this login may do here; a login that is not a user (a bot) may do nothing."""
        try:
            body = self._get("permission", "collaborators", login, "permission").body
        except GitHubNotFound as error:
            if "not a user" in str(error):
                return NO_PERMISSION
            raise
        return understood("permission", lambda: Permission.from_json(body))

    def is_collaborator(self, login: str) -> bool:
        """Whether this login is a collaborator, which ``read`` on a public repository is not."""
        try:
            self._get("is_collaborator", "collaborators", login)
        except GitHubNotFound:
            return False
        return True

    # --- git

    def branch_head(self, name: str) -> Sha:
        """The commit that a branch points to. Raises ``GitHubNotFound``."""
        body = self._get("branch_head", "branches", name).body
        return understood("branch_head", lambda: Sha(body["commit"]["sha"]))

    def ref(self, branch: str) -> Sha | None:
        """The commit that exactly this branch points to, or None when there is no such branch."""
        parts = branch.split("/")
        if any(part in {"", ".", ".."} for part in parts):  # git has no such name
            return None
        try:
            body = self._get("ref", "git", "ref", "heads", *parts).body
        except GitHubNotFound:
            return None
        except GitHubRejected as error:
            if error.status == 409:  # an empty repository
                return None
            raise
        if not isinstance(body, dict) or body.get("ref") != f"refs/heads/{branch}":
            return None
        return understood("ref", lambda: Sha(body["object"]["sha"]))

    def file(self, name: str, ref: str) -> tuple[str, bytes] | None:
        """The blob sha and content of a file at a ref; None when there is no such file.

        A file too large for this call comes without its content, as empty bytes.
        """
        try:
            body = self._get("file", "contents", *name.split("/"), query={"ref": ref}).body
        except GitHubNotFound:
            return None
        if not isinstance(body, dict) or body.get("type") != "file":
            return None
        return understood(
            "file", lambda: (str(body["sha"]), base64.b64decode(body.get("content") or ""))
        )

    def open_pulls(self) -> Iterator[PullRequest]:
        """Open pull requests, those that changed last first."""
        query = {"state": "open", "sort": "updated", "direction": "desc"}
        for response in self._pages("open_pulls", "pulls", query=query):
            yield from each("open_pulls", response.body, PullRequest.from_json)

    def compare(self, base: str, head: str) -> Comparison:
        """Commits of ``head`` that are not in ``base``; both are branch names or commit ids."""
        commits: list[Sha] = []
        first: Json = {}
        for response in self._pages("compare", "compare", f"{base}...{head}"):
            body = response.body
            first = first or body
            commits += each("compare", body, lambda commit: Sha(commit["sha"]), "commits")
            if len(commits) >= MAX_COMPARED:
                break
        return understood(
            "compare",
            lambda: Comparison(
                status=str(first["status"]),
                ahead_by=int(first["ahead_by"]),
                behind_by=int(first["behind_by"]),
                commits=tuple(commits),
                merge_base=Sha(first["merge_base_commit"]["sha"]),
            ),
        )

    # --- threads

    def issue(self, number: int) -> Json:
        """An issue or pull request as GitHub writes it."""
        body = self._get("issue", "issues", number).body
        return understood("issue", lambda: dict(body))

    def open_issues(self, label: str, since: datetime) -> Iterator[LabelledIssue]:
        """Open issues (no pull requests) with a label, of those that changed since then."""
        query = {
            "labels": label,
            "state": "open",
            "since": f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "sort": "updated",
            "direction": "desc",
        }
        for response in self._pages("open_issues", "issues", query=query):
            for issue in each("open_issues", response.body, LabelledIssue.from_json):
                if not issue.is_pull:
                    yield issue

    def labelled_by(self, number: int, label: str) -> Labelling | None:
        """Who set a label on an issue last, and when; None when GitHub does not say."""
        found: Labelling | None = None
        for response in self._pages("issue_events", "issues", number, "events"):
            for event in each("issue_events", response.body, Labelling.from_json):
                if event.event == "labeled" and event.label.casefold() == label.casefold():
                    found = event
        return found

    def list_comments(self, thread: int) -> Iterator[Comment]:
        """The comments of a thread, oldest first, page by page as they are read."""
        return self._comments("list_comments", "issues", thread, "comments")

    def get_comment(self, comment_id: int) -> Comment:
        """One comment of a thread."""
        body = self._get("get_comment", "issues", "comments", comment_id).body
        return understood("get_comment", lambda: Comment.from_json(body))

    def create_comment(self, thread: int, body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        return self._write_comment("create_comment", "POST", body, "issues", thread, "comments")

    def update_comment(self, comment_id: int, body: str) -> Comment:
        """Replace the text of our comment."""
        return self._write_comment(
            "update_comment", "PATCH", body, "issues", "comments", comment_id
        )

    def reply_to_review_comment(self, pull: int, comment_id: int, body: str) -> Comment:
        """Answer in the thread of a comment on the diff."""
        return self._write_comment(
            "reply_to_review_comment",
            "POST",
            body,
            "pulls",
            pull,
            "comments",
            comment_id,
            "replies",
        )

    def review_comments(self, pull: int) -> Iterator[Comment]:
        """All comments on the diff, oldest first, page by page as they are read."""
        return self._comments("review_comments", "pulls", pull, "comments")

    def add_reaction(self, comment_id: int, kind: str, content: str) -> int:
        """React to an ``issue_comment``, a ``review_comment`` or an ``issue`` (by its number).

        The same reaction again changes nothing. Returns its id. Raises ``ValueError`` for another
        ``kind``.
        """
        place = _reactions(comment_id, kind)
        body = self._write("add_reaction", "POST", {"content": content}, *place).body
        return understood("add_reaction", lambda: int(body["id"]))

    def reactions(self, comment_id: int, kind: str) -> list[Reaction]:
        """Everybody's reactions; ``kind`` as for :meth:`add_reaction`."""
        found: list[Reaction] = []
        for response in self._pages("reactions", *_reactions(comment_id, kind)):
            found += each("reactions", response.body, Reaction.from_json)
        return found

    def remove_reaction(self, comment_id: int, kind: str, reaction_id: int) -> None:
        """Take a reaction of ours away. Raises ``GitHubNotFound`` when it is not there."""
        place = _reactions(comment_id, kind)
        self._write("remove_reaction", "DELETE", {}, *place, reaction_id)

    # --- Check Runs

    def create_check_run(self, body: Mapping[str, Any]) -> ObjectRef:
        """Create a Check Run from the documented request body."""
        return self._write_object("create_check_run", "POST", body, "check-runs")

    def update_check_run(self, check_run_id: int, body: Mapping[str, Any]) -> ObjectRef:
        """Change a Check Run; annotations are added to the ones that are there."""
        return self._write_object("update_check_run", "PATCH", body, "check-runs", check_run_id)

    def get_check_run(self, check_run_id: int) -> ObjectRef:
        """One Check Run."""
        body = self._get("get_check_run", "check-runs", check_run_id).body
        return understood("get_check_run", lambda: ObjectRef.from_json(body))

    def check_runs(self, sha: str, name: str) -> list[ObjectRef]:
        """All Check Runs of this name on a commit, replaced ones too."""
        query = {"check_name": name, "filter": "all"}
        found: list[ObjectRef] = []
        for response in self._pages("check_runs", "commits", sha, "check-runs", query=query):
            found += each("check_runs", response.body, ObjectRef.from_json, "check_runs")
        return found

    # --- pull requests

    def pull(self, number: int) -> PullRequest:
        """A pull request of this repository."""
        body = self._get("pull", "pulls", number).body
        found = understood("pull", lambda: PullRequest.from_json(body))
        if found.base_repo_id is not None:
            self._same_repository("pull", found.base_repo_id)
        return found

    def pull_files(self, number: int, limit: int = MAX_FILES) -> tuple[list[ChangedFile], bool]:
        """Changed files, and whether there are (or may be) more than the ones listed."""
        files: list[ChangedFile] = []
        for response in self._pages("pull_files", "pulls", number, "files"):
            files += each("pull_files", response.body, ChangedFile.from_json)
            more = next_query(response.headers.get("link")) is not None
            if len(files) > limit or (len(files) == limit and more):
                return files[:limit], True
        return files, len(files) >= MAX_FILES

    def create_pull(self, title: str, head: str, base: str, body: str, draft: bool) -> PullRequest:
        """Open a pull request from a branch of this repository."""
        fields = {"title": title, "head": head, "base": base, "body": body, "draft": draft}
        answer = self._write("create_pull", "POST", fields, "pulls").body
        return understood("create_pull", lambda: PullRequest.from_json(answer))

    def pulls_from(self, head_owner: str, branch: str, state: str = "all") -> list[PullRequest]:
        """Pull requests whose head is exactly ``head_owner:branch``, newest first."""
        wanted = f"{head_owner}:{branch}"
        found: list[PullRequest] = []
        query = {"head": wanted, "state": state}
        for response in self._pages("pulls_from", "pulls", query=query):
            found += each("pulls_from", response.body, PullRequest.from_json)
        # A filter that GitHub can't read is ignored by it and lists every pull request.
        return [pull for pull in found if _is_head(pull, wanted)]

    def update_pull(self, number: int, **fields: Any) -> PullRequest:
        """Change title, body, state or base."""
        answer = self._write("update_pull", "PATCH", fields, "pulls", number).body
        return understood("update_pull", lambda: PullRequest.from_json(answer))

    # --- reviews

    def list_reviews(self, pull: int) -> Iterator[PullReview]:
        """Reviews of a pull request, oldest first, page by page as they are read."""
        for response in self._pages("list_reviews", "pulls", pull, "reviews"):
            yield from each("list_reviews", response.body, PullReview.from_json)

    def create_review(self, pull: int, body: Mapping[str, Any]) -> PullReview:
        """Write one review from the documented request body; all of its comments or nothing."""
        return self._write_review("create_review", "POST", body, "pulls", pull, "reviews")

    def update_review(self, pull: int, review_id: int, body: str) -> PullReview:
        """Replace the text of our review; its comments stay."""
        place = ("pulls", pull, "reviews", review_id)
        return self._write_review("update_review", "PUT", {"body": body}, *place)

    def dismiss_review(self, pull: int, review_id: int, message: str) -> PullReview:
        """Withdraw our request for changes; the message is shown."""
        place = ("pulls", pull, "reviews", review_id, "dismissals")
        return self._write_review("dismiss_review", "PUT", {"message": message}, *place)

    # --- how a call is made

    def _comments(self, operation: str, *place: str | int) -> Iterator[Comment]:
        for response in self._pages(operation, *place):
            yield from each(operation, response.body, Comment.from_json)

    def _write_comment(self, operation: str, method: str, body: str, *place: str | int) -> Comment:
        answer = self._write(operation, method, {"body": body}, *place).body
        return understood(operation, lambda: Comment.from_json(answer))

    def _write_review(
        self, operation: str, method: str, body: Mapping[str, Any], *place: str | int
    ) -> PullReview:
        answer = self._write(operation, method, body, *place).body
        return understood(operation, lambda: PullReview.from_json(answer))

    def _write_object(
        self, operation: str, method: str, body: Mapping[str, Any], *place: str | int
    ) -> ObjectRef:
        answer = self._write(operation, method, body, *place).body
        return understood(operation, lambda: ObjectRef.from_json(answer))

    def _get(
        self, operation: str, *place: str | int, query: Mapping[str, str] | None = None
    ) -> Response:
        return self._call(Request(operation, "GET", self._path(*place), query))

    def _write(
        self, operation: str, method: str, body: Mapping[str, Any], *place: str | int
    ) -> Response:
        return self._call(Request(operation, method, self._path(*place), body=body))

    def _pages(
        self, operation: str, *place: str | int, query: Mapping[str, str] | None = None
    ) -> Iterator[Response]:
        asked = dict(query or {}) | {"per_page": str(PAGE)}
        for _ in range(MAX_ITEMS // PAGE):
            response = self._get(operation, *place, query=asked)
            yield response
            following = next_query(response.headers.get("link"))
            if following is None or (asked | following) == asked:
                return
            asked |= following

    def _path(self, *place: str | int) -> str:
        try:
            return path("repos", self._repo.owner, self._repo.name, *place)
        except ValueError as error:
            raise GitHubRejected(f"github: {error}") from error

    def _call(self, request: Request) -> Response:
        deadline = self._rest.deadline(self._timeout_secs)
        token = self._tokens.get(self._key, deadline)
        try:
            return self._listened(self._rest.call(request, token.value, deadline))
        except GitHubUnauthorised:
            self._tokens.forget(self._key, token.value)
        fresh = self._tokens.get(self._key, deadline)
        return self._listened(self._rest.call(request, fresh.value, deadline))

    def _listened(self, response: Response) -> Response:
        self._heard(response)
        return response

    def _same_repository(self, operation: str, found: int) -> None:
        if found != self._key.repo_id:
            raise GitHubNotFound(
                f"github.{operation}: {self._repo} is repository {found} now, "
                f"not {self._key.repo_id}",
                status=404,
            )


def _reactions(comment_id: int, kind: str) -> tuple[str | int, ...]:
    place = _REACTION_PATHS.get(kind)
    if place is None:
        raise ValueError(f"no reactions on {kind!r}; use one of {sorted(_REACTION_PATHS)}")
    return (*place, comment_id, "reactions")


def _is_head(pull: PullRequest, wanted: str) -> bool:
    owner, _, branch = wanted.partition(":")
    label_owner = (pull.head_label or "").partition(":")[0]
    if not label_owner and pull.head_repo_full_name:
        label_owner = pull.head_repo_full_name.partition("/")[0]
    return pull.head_ref == branch and label_owner.casefold() == owner.casefold()
