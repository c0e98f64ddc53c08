"""Issues, pull requests, comments, reviews and checks as REST and webhooks show them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from coven.sandbox.gitrepo import FileDiff, GitFailed
from coven.sandbox.hub import Hub
from coven.sandbox.render import (
    api_url,
    app,
    html_url,
    label,
    minimal_repo,
    node_id,
    repository,
    rollup,
    user,
    user_by_id,
)
from coven.sandbox.state import (
    JSON,
    CheckRun,
    CheckSuite,
    Comment,
    Labelling,
    Repo,
    Review,
    ReviewComment,
    Thread,
    stamp,
)


def _labels(hub: Hub, repo: Repo, thread: Thread) -> list[JSON]:
    return [label(hub, repo, repo.labels[k]) for k in thread.labels if k in repo.labels]


def _assignees(hub: Hub, thread: Thread) -> list[JSON]:
    shown = (user_by_id(hub, a) for a in thread.assignees)
    return [s for s in shown if s is not None]


def comment_count(hub: Hub, thread: Thread) -> int:
    """How many comments the conversation holds."""
    key = (thread.repo_id, thread.number)
    return sum(1 for c in hub.state.comments.values() if (c.repo_id, c.number) == key)


def issue(hub: Hub, repo: Repo, thread: Thread) -> JSON:
    """A thread in the shape of an issue; pull requests have one too."""
    api, html = api_url(hub, repo), html_url(hub, repo)
    here = f"{api}/issues/{thread.number}"
    kind = "issues" if thread.pull is None else "pull"
    assignees = _assignees(hub, thread)
    shown: JSON = {
        "url": here,
        "repository_url": api,
        "labels_url": f"{here}/labels{{/name}}",
        "comments_url": f"{here}/comments",
        "events_url": f"{here}/events",
        "html_url": f"{html}/{kind}/{thread.number}",
        "id": thread.id,
        "node_id": node_id("Issue", thread.id),
        "number": thread.number,
        "title": thread.title,
        "user": user_by_id(hub, thread.user_id),
        "labels": _labels(hub, repo, thread),
        "state": thread.state,
        "state_reason": thread.state_reason,
        "locked": thread.locked,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": comment_count(hub, thread),
        "created_at": stamp(thread.created_at),
        "updated_at": stamp(thread.updated_at),
        "closed_at": stamp(thread.closed_at),
        "closed_by": user_by_id(hub, thread.closed_by),
        "author_association": hub.association(repo, thread.user_id),
        "active_lock_reason": None,
        "draft": False,
        "body": thread.body,
        "reactions": rollup(here, thread.reactions),
        "timeline_url": f"{here}/timeline",
        "performed_via_github_app": app(hub, hub.state.apps.get(thread.app_id or 0)),
    }
    if thread.pull is not None:
        page = f"{html}/pull/{thread.number}"
        shown["draft"] = thread.pull.draft
        shown["pull_request"] = {
            "url": f"{api}/pulls/{thread.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": stamp(thread.pull.merged_at),
        }
    return shown


def _side(hub: Hub, repo: Repo | None, owner: str, ref: str, sha: str, who: Any) -> JSON:
    shown = None if repo is None or repo.deleted else repository(hub, repo)
    return {"label": f"{owner}:{ref}", "ref": ref, "sha": sha, "user": who, "repo": shown}


def pull_simple(hub: Hub, repo: Repo, thread: Thread) -> JSON:
    """A pull request as lists and webhooks of reviews show it."""
    pull = thread.pull
    assert pull is not None
    api, html = api_url(hub, repo), html_url(hub, repo)
    here, as_issue = f"{api}/pulls/{thread.number}", f"{api}/issues/{thread.number}"
    page = f"{html}/pull/{thread.number}"
    head_repo = hub.state.repos.get(pull.head_repo_id or 0)
    owner = hub.owner(repo)
    assignees = _assignees(hub, thread)
    head_user = next(
        (u for u in hub.state.users.values() if u.login == pull.head_label_owner), None
    )
    links = {
        "self": here,
        "html": page,
        "issue": as_issue,
        "comments": f"{as_issue}/comments",
        "review_comments": f"{here}/comments",
        "review_comment": f"{api}/pulls/comments{{/number}}",
        "commits": f"{here}/commits",
        "statuses": f"{api}/statuses/{pull.head_sha}",
    }
    return {
        "url": here,
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": as_issue,
        "number": thread.number,
        "state": thread.state,
        "locked": thread.locked,
        "title": thread.title,
        "user": user_by_id(hub, thread.user_id),
        "body": thread.body,
        "created_at": stamp(thread.created_at),
        "updated_at": stamp(thread.updated_at),
        "closed_at": stamp(thread.closed_at),
        "merged_at": stamp(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "requested_reviewers": [],
        "requested_teams": [],
        "labels": _labels(hub, repo, thread),
        "milestone": None,
        "draft": pull.draft,
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "head": _side(
            hub,
            head_repo,
            pull.head_label_owner,
            pull.head_ref,
            pull.head_sha,
            user(hub, head_user),
        ),
        "base": _side(hub, repo, owner.login, pull.base_ref, pull.base_sha, user(hub, owner)),
        "_links": {key: {"href": url} for key, url in links.items()},
        "author_association": hub.association(repo, thread.user_id),
        "auto_merge": None,
        "active_lock_reason": None,
    }


def pull_files(hub: Hub, repo: Repo, thread: Thread) -> list[FileDiff]:
    """Changed files of a pull request, from where it left its base."""
    pull = thread.pull
    assert pull is not None
    git = hub.git(repo)
    base = pull.base_sha if pull.merged_at else git.branch(pull.base_ref) or pull.base_sha
    start = git.merge_base(base, pull.head_sha)
    return [] if start is None else git.diff(start, pull.head_sha)


def pull_request(hub: Hub, repo: Repo, thread: Thread) -> JSON:
    """One pull request with its counts."""
    pull = thread.pull
    assert pull is not None
    git = hub.git(repo)
    files = pull_files(hub, repo, thread)
    key = (repo.id, thread.number)
    try:
        commits = git.count(f"{pull.base_sha}..{pull.head_sha}")
    except GitFailed:
        commits = 0
    open_now = thread.state == "open"
    return {
        **pull_simple(hub, repo, thread),
        "merged": pull.merged_at is not None,
        "mergeable": True if open_now else None,
        "rebaseable": True if open_now else None,
        "mergeable_state": ("draft" if pull.draft else "clean") if open_now else "unknown",
        "merged_by": user_by_id(hub, pull.merged_by),
        "comments": comment_count(hub, thread),
        "review_comments": sum(
            1 for c in hub.state.review_comments.values() if (c.repo_id, c.number) == key
        ),
        "maintainer_can_modify": pull.maintainer_can_modify,
        "commits": commits,
        "additions": sum(f.additions for f in files),
        "deletions": sum(f.deletions for f in files),
        "changed_files": len(files),
    }


def diff_entry(hub: Hub, repo: Repo, sha: str, found: FileDiff) -> JSON:
    """One changed file; ``patch`` is missing where GitHub leaves it out."""
    api, html = api_url(hub, repo), html_url(hub, repo)
    path = quote(found.filename)
    shown: JSON = {
        "sha": found.blob,
        "filename": found.filename,
        "status": found.status,
        "additions": found.additions,
        "deletions": found.deletions,
        "changes": found.additions + found.deletions,
        "blob_url": f"{html}/blob/{sha}/{path}",
        "raw_url": f"{html}/raw/{sha}/{path}",
        "contents_url": f"{api}/contents/{path}?ref={sha}",
    }
    if found.patch is not None:
        shown["patch"] = found.patch
    if found.previous is not None:
        shown["previous_filename"] = found.previous
    return shown


def labelling(hub: Hub, repo: Repo, found: Labelling) -> JSON:
    """An event of a thread: a label that was set or taken off."""
    label = repo.labels[found.label]
    return {
        "id": found.id,
        "node_id": node_id("LabeledEvent", found.id),
        "url": f"{api_url(hub, repo)}/issues/events/{found.id}",
        "actor": user_by_id(hub, found.actor_id),
        "event": found.event,
        "commit_id": None,
        "commit_url": None,
        "created_at": stamp(found.created_at),
        "performed_via_github_app": app(hub, hub.state.apps.get(found.app_id or 0)),
        "label": {"name": label.name, "color": label.color},
    }


def comment(hub: Hub, found: Comment) -> JSON:
    """A comment of the conversation."""
    repo = hub.state.repos[found.repo_id]
    thread = hub.state.threads[(found.repo_id, found.number)]
    api, html = api_url(hub, repo), html_url(hub, repo)
    here = f"{api}/issues/comments/{found.id}"
    kind = "issues" if thread.pull is None else "pull"
    return {
        "url": here,
        "html_url": f"{html}/{kind}/{found.number}#issuecomment-{found.id}",
        "issue_url": f"{api}/issues/{found.number}",
        "id": found.id,
        "node_id": node_id("IssueComment", found.id),
        "user": user_by_id(hub, found.user_id),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "author_association": hub.association(repo, found.user_id),
        "body": found.body,
        "reactions": rollup(here, found.reactions),
        "performed_via_github_app": app(hub, hub.state.apps.get(found.app_id or 0)),
    }


def review(hub: Hub, found: Review) -> JSON:
    """A review of a pull request."""
    repo = hub.state.repos[found.repo_id]
    page = f"{html_url(hub, repo)}/pull/{found.number}#pullrequestreview-{found.id}"
    here = f"{api_url(hub, repo)}/pulls/{found.number}"
    shown: JSON = {
        "id": found.id,
        "node_id": node_id("PullRequestReview", found.id),
        "user": user_by_id(hub, found.user_id),
        "body": found.body,
        "state": found.state,
        "html_url": page,
        "pull_request_url": here,
        "author_association": hub.association(repo, found.user_id),
        "_links": {"html": {"href": page}, "pull_request": {"href": here}},
        "commit_id": found.commit_id,
    }
    if found.submitted_at is not None:
        shown["submitted_at"] = stamp(found.submitted_at)
    return shown


def review_comment(hub: Hub, found: ReviewComment) -> JSON:
    """A comment on lines of a diff. ``line`` is null once the head moved on (outdated)."""
    repo = hub.state.repos[found.repo_id]
    thread = hub.state.threads[(found.repo_id, found.number)]
    api, html = api_url(hub, repo), html_url(hub, repo)
    here = f"{api}/pulls/comments/{found.id}"
    page = f"{html}/pull/{found.number}#discussion_r{found.id}"
    current = thread.pull is not None and thread.pull.head_sha == found.commit_id
    position = 1 if found.subject_type == "line" else None
    shown: JSON = {
        "url": here,
        "pull_request_review_id": found.review_id,
        "id": found.id,
        "node_id": node_id("PullRequestReviewComment", found.id),
        "diff_hunk": found.diff_hunk,
        "path": found.path,
        "position": position if current else None,
        "original_position": 1,
        "commit_id": found.commit_id,
        "original_commit_id": found.commit_id,
        "user": user_by_id(hub, found.user_id),
        "body": found.body,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "html_url": page,
        "pull_request_url": f"{api}/pulls/{found.number}",
        "author_association": hub.association(repo, found.user_id),
        "_links": {
            "self": {"href": here},
            "html": {"href": page},
            "pull_request": {"href": f"{api}/pulls/{found.number}"},
        },
        "reactions": rollup(here, found.reactions),
        "start_line": found.start_line if current else None,
        "original_start_line": found.start_line,
        "start_side": found.start_side,
        "line": found.line if current else None,
        "original_line": found.line,
        "side": found.side,
        "subject_type": found.subject_type,
    }
    if found.in_reply_to_id is not None:
        shown["in_reply_to_id"] = found.in_reply_to_id
    return shown


def pulls_of_sha(hub: Hub, repo: Repo, sha: str) -> list[JSON]:
    """Open same-repository pull requests whose head this is; forks are left out, as on GitHub."""
    found = []
    for thread in hub.threads(repo):
        pull = thread.pull
        if pull is None or thread.state != "open" or pull.head_sha != sha:
            continue
        if pull.head_repo_id != repo.id:
            continue
        where = {"id": repo.id, "url": api_url(hub, repo), "name": repo.name}
        found.append(
            {
                "id": pull.id,
                "number": thread.number,
                "url": f"{api_url(hub, repo)}/pulls/{thread.number}",
                "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": where},
                "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": where},
            }
        )
    return found


def check_run(hub: Hub, found: CheckRun) -> JSON:
    """A check run."""
    repo = hub.state.repos[found.repo_id]
    here = f"{api_url(hub, repo)}/check-runs/{found.id}"
    page = f"{html_url(hub, repo)}/runs/{found.id}"
    return {
        "id": found.id,
        "name": found.name,
        "node_id": node_id("CheckRun", found.id),
        "head_sha": found.head_sha,
        "external_id": found.external_id,
        "url": here,
        "html_url": page,
        "details_url": found.details_url or f"{hub.base_url}/coven-apps",
        "status": found.status,
        "conclusion": found.conclusion,
        "started_at": stamp(found.started_at),
        "completed_at": stamp(found.completed_at),
        "output": {
            "title": found.title,
            "summary": found.summary,
            "text": found.text,
            "annotations_count": len(found.annotations),
            "annotations_url": f"{here}/annotations",
        },
        "check_suite": {"id": found.suite_id},
        "app": app(hub, hub.state.apps.get(found.app_id)),
        "pull_requests": pulls_of_sha(hub, repo, found.head_sha),
    }


def suite_runs(hub: Hub, suite: CheckSuite) -> list[CheckRun]:
    """Runs of a suite, oldest first."""
    return [r for r in hub.state.runs.values() if r.suite_id == suite.id]


_WORST = ("action_required", "timed_out", "failure", "cancelled", "success", "neutral", "skipped")


def suite_state(runs: list[CheckRun]) -> tuple[str, str | None]:
    """Status and conclusion of a suite: the worst of the latest run of each name."""
    latest = list({run.name: run for run in runs}.values())
    if not latest:
        return "queued", None
    if any(run.status != "completed" for run in latest):
        return "in_progress", None
    ends = {run.conclusion for run in latest}
    return "completed", next((word for word in _WORST if word in ends), None)


def check_suite(hub: Hub, suite: CheckSuite, *, small: bool = False) -> JSON:
    """A check suite; ``small`` is the form inside a ``check_run`` webhook."""
    repo = hub.state.repos[suite.repo_id]
    runs = suite_runs(hub, suite)
    status, conclusion = suite_state(runs)
    here = f"{api_url(hub, repo)}/check-suites/{suite.id}"
    shown: JSON = {
        "id": suite.id,
        "node_id": node_id("CheckSuite", suite.id),
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": here,
        "before": "0" * 40,
        "after": suite.head_sha,
        "pull_requests": pulls_of_sha(hub, repo, suite.head_sha),
        "app": app(hub, hub.state.apps.get(suite.app_id)),
        "created_at": stamp(suite.created_at),
        "updated_at": stamp(suite.updated_at),
    }
    if small:
        return shown
    info = hub.git(repo).info(suite.head_sha)
    return {
        **shown,
        "rerequestable": True,
        "runs_rerequestable": True,
        "repository": minimal_repo(hub, repo),
        "latest_check_runs_count": len({run.name for run in runs}),
        "check_runs_url": f"{here}/check-runs",
        "head_commit": {
            "id": info.sha,
            "tree_id": info.tree,
            "message": info.message,
            "timestamp": info.committer[2],
            "author": {"name": info.author[0], "email": info.author[1]},
            "committer": {"name": info.committer[0], "email": info.committer[1]},
        },
    }
