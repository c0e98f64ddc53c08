"""Pull requests: list, open, change, files, commits."""

from __future__ import annotations

from coven.sandbox import changes, events, render, render_threads
from coven.sandbox.answers import Answer, ApiError, checked_body, invalid, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.state import Thread, now

FILES_LIMIT = 3_000
COMMITS_LIMIT = 250


def list_pulls(call: Call) -> Answer:
    """Filtered by state, head (``owner:branch``) and base; newest first."""
    wanted = call.query.get("state", "open")
    if wanted not in ("open", "closed", "all"):
        raise invalid("PullRequest", "state")
    head, base = call.query.get("head"), call.query.get("base")
    found = []
    for thread in call.hub.threads(call.repo):
        pull = thread.pull
        if pull is None or (wanted != "all" and thread.state != wanted):
            continue
        # Without "owner:" GitHub ignores the filter.
        if head and ":" in head:
            owner, _, branch = head.partition(":")
            if (pull.head_label_owner.casefold(), pull.head_ref) != (owner.casefold(), branch):
                continue
        if base and pull.base_ref != base:
            continue
        found.append(thread)
    if call.query.get("direction") == "asc":
        found.reverse()
    return call.page(found, lambda t: render_threads.pull_simple(call.hub, call.repo, t))


def get_pull(call: Call) -> Answer:
    return _shown(call, call.pull())


def _shown(call: Call, thread: Thread, status: int = 200) -> Answer:
    return Answer(render_threads.pull_request(call.hub, call.repo, thread), status)


def create_pull(call: Call) -> Answer:
    head, base = call.text("head", "PullRequest"), call.text("base", "PullRequest")
    assert head is not None
    assert base is not None
    hub = call.hub
    thread = changes.open_pull(
        hub,
        call.repo,
        head,
        base,
        call.bot_id,
        call.body.get("title"),
        checked_body(call.body.get("body"), "PullRequest", required=False) or None,
        draft=call.body.get("draft") is True,
        app_id=call.app_id,
        maintainer_can_modify=call.body.get("maintainer_can_modify") is True,
    )
    bot, repo = hub.account(call.bot_id), call.repo
    hub.announce("pull_request", lambda: events.pull_request(hub, repo, thread, "opened", bot))
    return _shown(call, thread, 201)


def update_pull(call: Call) -> Answer:
    """Title, body, state, base."""
    thread = call.pull()
    pull = thread.pull
    assert pull is not None
    hub, repo, body = call.hub, call.repo, call.body
    action = "edited"
    if "title" in body:
        title = call.text("title", "PullRequest")
        assert title is not None
        if len(title) > changes.TITLE_LIMIT:
            raise invalid("PullRequest", "title", "custom", "title is too long")
        thread.title = title
    if "body" in body:
        thread.body = checked_body(body["body"], "PullRequest", required=False) or None
    if "base" in body:
        base_sha = hub.git(repo).branch(str(body["base"]))
        if base_sha is None:
            raise invalid("PullRequest", "base")
        pull.base_ref, pull.base_sha = str(body["base"]), base_sha
    if "state" in body:
        if body["state"] not in ("open", "closed"):
            raise invalid("PullRequest", "state")
        if body["state"] == "closed" and thread.state == "open":
            changes.close_thread(thread, call.bot_id)
            action = "closed"
        elif body["state"] == "open" and thread.state == "closed":
            if pull.merged_at is not None:
                raise invalid("PullRequest", "state", "custom", "state cannot be changed.")
            changes.reopen_thread(thread)
            action = "reopened"
    thread.updated_at = now()
    bot = hub.account(call.bot_id)
    hub.announce("pull_request", lambda: events.pull_request(hub, repo, thread, action, bot))
    return _shown(call, thread)


def list_pull_files(call: Call) -> Answer:
    thread = call.pull()
    assert thread.pull is not None
    sha = thread.pull.head_sha
    files = render_threads.pull_files(call.hub, call.repo, thread)
    return call.page(
        files,
        lambda f: render_threads.diff_entry(call.hub, call.repo, sha, f),
        limit=FILES_LIMIT,
    )


def list_pull_commits(call: Call) -> Answer:
    thread = call.pull()
    pull = thread.pull
    assert pull is not None
    commits = call.hub.git(call.repo).log(f"{pull.base_sha}..{pull.head_sha}")
    commits.reverse()
    return call.page(commits, lambda c: render.commit(call.hub, call.repo, c), limit=COMMITS_LIMIT)


def is_merged(call: Call) -> Answer:
    thread = call.pull()
    if thread.pull is None or thread.pull.merged_at is None:
        raise not_found()
    return Answer(status=204)


def merge_pull(call: Call) -> Answer:
    bot = call.hub.account(call.bot_id)
    assert bot is not None
    thread = call.pull()
    assert thread.pull is not None
    if call.body.get("sha") not in (None, thread.pull.head_sha):
        raise ApiError(409, "Head branch was modified. Review and try the merge again.")
    sha = changes.merge_pull(call.hub, call.repo, thread, bot)
    return Answer({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


_P = "/repos/<owner>/<repo>/pulls"
_READ, _WRITE = "pull_requests=read", "pull_requests=write"
ROUTES = (
    Route("GET", _P, list_pulls, _READ),
    Route("POST", _P, create_pull, _WRITE, creates=True),
    Route("GET", f"{_P}/<number>", get_pull, _READ),
    Route("PATCH", f"{_P}/<number>", update_pull, _WRITE),
    Route("GET", f"{_P}/<number>/files", list_pull_files, _READ),
    Route("GET", f"{_P}/<number>/commits", list_pull_commits, _READ),
    Route("GET", f"{_P}/<number>/merge", is_merged, "contents=read"),
    Route("PUT", f"{_P}/<number>/merge", merge_pull, "contents=write"),
)
