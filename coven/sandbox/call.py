"""One API call: its arguments, its caller, and what the caller may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.auth import allows
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, App, Repo, Thread, Token

T = TypeVar("T")
MAX_PAGE = 100


@dataclass
class Call:
    """What a handler gets. The state lock is held while it runs."""

    hub: Hub
    args: dict[str, str]
    query: dict[str, str]
    body: JSON
    url: str
    """The URL asked for, without its query: what ``Link`` headers build on."""
    app: App | None = None
    token: Token | None = None
    found: Repo | None = None

    @property
    def repo(self) -> Repo:
        """The repository of the path."""
        assert self.found is not None
        return self.found

    @property
    def bot_id(self) -> int:
        """The account that writes of this token are made by."""
        return self.hub.app.bot_id

    @property
    def app_id(self) -> int:
        return self.hub.app.id

    def number(self, name: str) -> int:
        """A number of the path; 404 for anything else."""
        text = self.args[name]
        if not text.isascii() or not text.isdigit():
            raise not_found()
        return int(text)

    def require(self, needs: str) -> None:
        """403 with the header that names what is missing."""
        granted = {} if self.token is None else {"metadata": "read", **self.token.permissions}
        if not allows(granted, needs):
            raise ApiError(
                403,
                "Resource not accessible by integration",
                headers={"X-Accepted-GitHub-Permissions": needs.replace(";", "; ")},
            )

    def thread(self, level: str, name: str = "number") -> Thread:
        """The issue or pull request of the path; pull requests take either permission."""
        thread = self.hub.thread(self.repo, self.number(name))
        self.require_thread(thread, level)
        return thread

    def require_thread(self, thread: Thread, level: str) -> None:
        """The permission that a conversation needs."""
        either = f"issues={level};pull_requests={level}"
        self.require(f"issues={level}" if thread.pull is None else either)

    def pull(self) -> Thread:
        """The pull request of the path; 404 for an issue."""
        thread = self.hub.thread(self.repo, self.number("number"))
        if thread.pull is None:
            raise not_found()
        return thread

    def sha(self, reference: str) -> str:
        """The commit that a ref of the path names."""
        sha = self.hub.git(self.repo).resolve(reference)
        if sha is None:
            raise ApiError(422, f"No commit found for SHA: {reference}")
        return sha

    def text(self, name: str, resource: str, *, required: bool = True) -> str | None:
        """A string of the body."""
        value = self.body.get(name)
        if value is None and not required:
            return None
        if not isinstance(value, str) or (required and not value.strip()):
            code = "missing_field" if value is None or value == "" else "invalid"
            raise ApiError(
                422,
                "Validation Failed" if resource else "Invalid request.",
                errors=[{"resource": resource, "field": name, "code": code}],
            )
        return value

    def page(
        self, items: list[T], show: Callable[[T], Any], wrap: str | None = None, limit: int = 0
    ) -> Answer:
        """One page with its ``Link`` header; ``wrap`` names the list beside ``total_count``."""
        size = _positive(self.query.get("per_page"), 30, MAX_PAGE)
        page = _positive(self.query.get("page"), 1, 1_000_000)
        total = len(items)
        if limit:
            items = items[:limit]
        last = max(1, -(-len(items) // size))
        shown = [show(item) for item in items[(page - 1) * size : page * size]]
        headers = {}
        links = []
        if page > 1:
            links += [("prev", min(page - 1, last)), ("first", 1)]
        if page < last:
            links += [("next", page + 1), ("last", last)]
        if links:
            headers["Link"] = ", ".join(f'<{self._link(p, size)}>; rel="{r}"' for r, p in links)
        if wrap is None:
            return Answer(shown, headers=headers)
        return Answer({"total_count": total, wrap: shown}, headers=headers)

    def _link(self, page: int, size: int) -> str:
        from urllib.parse import urlencode

        query = {**self.query, "per_page": str(size), "page": str(page)}
        return f"{self.url}?{urlencode(query)}"


def _positive(text: str | None, default: int, most: int) -> int:
    try:
        value = int(text or "")
    except ValueError:
        return default
    return min(value, most) if value > 0 else default


Handler = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """One operation.

    ``path`` is a Flask rule; under ``/repos/<owner>/<repo>`` it is also served by repository id.
    ``caller``: ``app`` (JWT), ``token``, ``either`` or ``anyone``. ``creates`` marks what counts
    for the secondary limit on content.
    """

    method: str
    path: str
    handler: Handler
    needs: str = ""
    caller: str = "token"
    creates: bool = False
    writes: bool = field(default=False)

    @property
    def name(self) -> str:
        """The operation's name in the request log."""
        return self.handler.__name__
