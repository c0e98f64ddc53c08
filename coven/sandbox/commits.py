"""Commits, comparisons and file contents."""

from __future__ import annotations

import base64
from urllib.parse import quote

from coven.sandbox import render, render_threads
from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.gitrepo import GitRepo
from coven.sandbox.state import JSON

COMPARE_COMMITS = 250
COMPARE_FILES = 300
"""What a comparison shows at most; files stand on its first page only."""


def list_commits(call: Call) -> Answer:
    git = call.hub.git(call.repo)
    start = call.query.get("sha") or call.repo.default_branch
    sha = git.resolve(start)
    if sha is None:
        raise not_found()
    commits = git.log("-n", "1000", sha)
    return call.page(commits, lambda info: render.commit(call.hub, call.repo, info))


def get_commit(call: Call) -> Answer:
    """A commit with its statistics and files."""
    sha = call.sha(call.args["ref"])
    git = call.hub.git(call.repo)
    info = git.info(sha)
    shown = render.commit(call.hub, call.repo, info)
    base = info.parents[0] if info.parents else _empty_tree(git)
    files = git.diff(base, sha)
    plus, minus = sum(f.additions for f in files), sum(f.deletions for f in files)
    shown["stats"] = {"total": plus + minus, "additions": plus, "deletions": minus}
    shown["files"] = [
        render_threads.diff_entry(call.hub, call.repo, sha, f) for f in files[:COMPARE_FILES]
    ]
    return Answer(shown)


def _empty_tree(git: GitRepo) -> str:
    return git.run("mktree", stdin=b"").decode().strip()


def list_pulls_of_commit(call: Call) -> Answer:
    """Pull requests whose head this commit is."""
    sha = call.sha(call.args["ref"])
    found = [t for t in call.hub.threads(call.repo) if t.pull and t.pull.head_sha == sha]
    return call.page(found, lambda t: render_threads.pull_simple(call.hub, call.repo, t))


def compare(call: Call) -> Answer:
    """``base...head``; both may be branches, shas or ``owner:branch`` of a fork."""
    base_name, dots, head_name = call.args["basehead"].partition("...")
    git = call.hub.git(call.repo)
    base, head = _revision(call, base_name), _revision(call, head_name)
    if not dots or base is None or head is None:
        raise not_found()
    start = git.merge_base(base, head)
    if start is None:
        raise ApiError(404, f"No common ancestor between {base_name} and {head_name}.")
    ahead, behind = git.count(f"{base}..{head}"), git.count(f"{head}..{base}")
    status = "identical"
    if ahead or behind:
        status = "diverged" if ahead and behind else "ahead" if ahead else "behind"
    commits = list(reversed(git.log(f"{base}..{head}")))
    files = git.diff(start, head)
    hub, repo = call.hub, call.repo
    api, html = render.api_url(hub, repo), render.html_url(hub, repo)
    spec = quote(call.args["basehead"])
    # Without paging a comparison shows the newest 250 commits (REST, "Compare two commits").
    paged = "page" in call.query or "per_page" in call.query
    page = call.page(commits, lambda info: render.commit(hub, repo, info))
    shown = page.data
    if not paged:
        shown = [render.commit(hub, repo, info) for info in commits[-COMPARE_COMMITS:]]
        page.headers.clear()
    data: JSON = {
        "url": f"{api}/compare/{spec}",
        "html_url": f"{html}/compare/{spec}",
        "permalink_url": f"{html}/compare/{base[:7]}...{head[:7]}",
        "diff_url": f"{html}/compare/{spec}.diff",
        "patch_url": f"{html}/compare/{spec}.patch",
        "base_commit": render.commit(hub, repo, git.info(base)),
        "merge_base_commit": render.commit(hub, repo, git.info(start)),
        "status": status,
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": shown,
    }
    if call.query.get("page", "1") == "1":
        data["files"] = [
            render_threads.diff_entry(hub, repo, head, f) for f in files[:COMPARE_FILES]
        ]
    return Answer(data, headers=page.headers)


def _revision(call: Call, name: str) -> str | None:
    owner, colon, branch = name.partition(":")
    if not colon:
        return call.hub.git(call.repo).resolve(name)
    for other in call.hub.state.repos.values():
        if other.deleted or call.hub.owner(other).login.casefold() != owner.casefold():
            continue
        if other.id == call.repo.id:
            return call.hub.git(other).branch(branch)
        if call.repo.id in (other.fork_of, other.id):
            sha = call.hub.git(other).branch(branch)
            if sha is not None:  # objects of a fork network are shared on github.com
                call.hub.git(call.repo).fetch_from(
                    call.hub.git(other), sha, f"refs/forks/{other.id}/{branch}"
                )
            return sha
    return None


def get_contents(call: Call) -> Answer:
    """A file with its content, or the listing of a folder."""
    hub, repo = call.hub, call.repo
    git = hub.git(repo)
    ref = call.query.get("ref") or repo.default_branch
    sha = git.resolve(ref)
    if sha is None:
        raise ApiError(404, f"No commit found for the ref {ref}")
    path = call.args.get("path", "").strip("/")
    found = git.read(sha, path) if path else None
    if found is not None:
        blob, data = found
        encoded = base64.encodebytes(data).decode()
        entry = _entry(call, "file", blob, path, len(data), ref)
        return Answer({**entry, "encoding": "base64", "content": encoded})
    listing = git.listing(sha, path)
    if not listing:
        raise not_found()
    kinds = {"blob": "file", "tree": "dir", "commit": "submodule"}
    return Answer(
        [_entry(call, kinds[k], blob, name, size, ref) for k, blob, name, size in listing]
    )


def _entry(call: Call, kind: str, blob: str, path: str, size: int, ref: str) -> JSON:
    api, html = render.api_url(call.hub, call.repo), render.html_url(call.hub, call.repo)
    name = quote(path)
    here = f"{api}/contents/{name}?ref={quote(ref)}"
    git_url = f"{api}/git/{'trees' if kind == 'dir' else 'blobs'}/{blob}"
    page = f"{html}/{'tree' if kind == 'dir' else 'blob'}/{quote(ref)}/{name}"
    return {
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": blob,
        "size": size,
        "url": here,
        "html_url": page,
        "git_url": git_url,
        "download_url": None if kind == "dir" else f"{html}/raw/{quote(ref)}/{name}",
        "type": kind,
        "_links": {"self": here, "git": git_url, "html": page},
    }


_R = "/repos/<owner>/<repo>"
ROUTES = (
    Route("GET", f"{_R}/commits", list_commits, "contents=read"),
    Route("GET", f"{_R}/commits/<path:ref>", get_commit, "contents=read"),
    Route("GET", f"{_R}/commits/<ref>/pulls", list_pulls_of_commit, "pull_requests=read"),
    Route("GET", f"{_R}/compare/<path:basehead>", compare, "contents=read"),
    Route("GET", f"{_R}/contents/", get_contents, "contents=read"),
    Route("GET", f"{_R}/contents/<path:path>", get_contents, "contents=read"),
)
