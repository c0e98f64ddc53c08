"""Accounts, Apps and repositories as the REST API and the webhooks show them."""

from __future__ import annotations

import base64

from coven.sandbox.gitrepo import CommitInfo
from coven.sandbox.hub import Hub
from coven.sandbox.state import JSON, App, Installation, Label, Reaction, Repo, User, stamp

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def node_id(kind: str, number: int) -> str:
    """An opaque global id; stable, and different for each kind."""
    return base64.b64encode(f"{len(kind):02d}:{kind}{number}".encode()).decode()


def user(hub: Hub, account: User | None) -> JSON | None:
    """A simple user; None for a deleted one."""
    if account is None:
        return None
    api = f"{hub.base_url}/users/{account.login}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("User", account.id),
        "avatar_url": f"{hub.base_url}/avatars/u/{account.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{hub.base_url}/{account.login}",
        "followers_url": f"{api}/followers",
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{api}/subscriptions",
        "organizations_url": f"{api}/orgs",
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events{{/privacy}}",
        "received_events_url": f"{api}/received_events",
        "type": account.type,
        "user_view_type": "public",
        "site_admin": False,
    }


def user_by_id(hub: Hub, user_id: int | None) -> JSON | None:
    """A simple user by id; None when there is none (any more)."""
    return user(hub, hub.account(user_id))


def public_user(hub: Hub, account: User) -> JSON:
    """``GET /users/{login}``."""
    shown = user(hub, account) or {}
    owned = [r for r in hub.state.repos.values() if r.owner_id == account.id and not r.private]
    return {
        **shown,
        "name": account.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": len(owned),
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": stamp(account.created_at),
        "updated_at": stamp(account.created_at),
    }


_PLAIN = "contributors deployments downloads events forks hooks languages merges stargazers"
_MORE = "subscribers subscription tags teams"
_TEMPLATED = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "statuses_url": "/statuses/{sha}",
    "trees_url": "/git/trees{/sha}",
}


def api_url(hub: Hub, repo: Repo) -> str:
    """``<base>/repos/<owner>/<name>``."""
    return f"{hub.base_url}/repos/{hub.full_name(repo)}"


def html_url(hub: Hub, repo: Repo) -> str:
    """``<base>/<owner>/<name>``."""
    return f"{hub.base_url}/{hub.full_name(repo)}"


def minimal_repo(hub: Hub, repo: Repo) -> JSON:
    """A repository as the smaller endpoints show it."""
    api, html = api_url(hub, repo), html_url(hub, repo)
    urls = {f"{name}_url": f"{api}/{name}" for name in f"{_PLAIN} {_MORE}".split()}
    urls.update({key: api + path for key, path in _TEMPLATED.items()})
    return {
        "id": repo.id,
        "node_id": node_id("Repository", repo.id),
        "name": repo.name,
        "full_name": hub.full_name(repo),
        "private": repo.private,
        "owner": user(hub, hub.owner(repo)),
        "html_url": html,
        "description": None,
        "fork": repo.fork_of is not None,
        "url": api,
        **urls,
    }


def repository(hub: Hub, repo: Repo) -> JSON:
    """A repository as webhooks and most endpoints show it."""
    html = html_url(hub, repo)
    threads = [t for t in hub.state.threads.values() if t.repo_id == repo.id and t.state == "open"]
    forks = sum(1 for r in hub.state.repos.values() if r.fork_of == repo.id and not r.deleted)
    return {
        **minimal_repo(hub, repo),
        "created_at": stamp(repo.created_at),
        "updated_at": stamp(repo.updated_at),
        "pushed_at": stamp(repo.pushed_at),
        "git_url": html.replace("http:", "git:", 1) + ".git",
        "ssh_url": f"git@localhost:{hub.full_name(repo)}.git",
        "clone_url": f"{html}.git",
        "svn_url": html,
        "homepage": None,
        "size": 1,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": None,
        "has_issues": True,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": False,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": forks,
        "mirror_url": None,
        "archived": repo.archived,
        "disabled": False,
        "open_issues_count": len(threads),
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "custom_properties": {},
        "visibility": "private" if repo.private else "public",
        "forks": forks,
        "open_issues": len(threads),
        "watchers": 0,
        "default_branch": repo.default_branch,
    }


def full_repository(hub: Hub, repo: Repo) -> JSON:
    """``GET /repos/{owner}/{repo}``."""
    shown = {**repository(hub, repo), "subscribers_count": 0, "network_count": 0}
    parent = hub.state.repos.get(repo.fork_of or 0)
    if parent is not None and not parent.deleted:
        shown["parent"] = shown["source"] = repository(hub, parent)
    owner = hub.owner(repo)
    if owner.type == "Organization":
        shown["organization"] = user(hub, owner)
    return shown


def app(hub: Hub, found: App | None) -> JSON | None:
    """A GitHub App."""
    if found is None:
        return None
    return {
        "id": found.id,
        "slug": found.slug,
        "node_id": node_id("App", found.id),
        "client_id": found.client_id,
        "owner": user_by_id(hub, found.owner_id),
        "name": found.name,
        "description": "",
        "external_url": f"{hub.base_url}/coven-apps",
        "html_url": f"{hub.base_url}/apps/{found.slug}",
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.created_at),
        "permissions": dict(found.permissions),
        "events": list(found.events),
    }


def installation(hub: Hub, found: Installation) -> JSON:
    """An installation of the App."""
    account = hub.account(found.account_id)
    return {
        "id": found.id,
        "account": user(hub, account),
        "repository_selection": "all" if found.repo_ids is None else "selected",
        "access_tokens_url": f"{hub.base_url}/app/installations/{found.id}/access_tokens",
        "repositories_url": f"{hub.base_url}/installation/repositories",
        "html_url": f"{hub.base_url}/settings/installations/{found.id}",
        "app_id": found.app_id,
        "app_slug": hub.state.apps[found.app_id].slug,
        "target_id": found.account_id,
        "target_type": "User" if account is None else account.type,
        "permissions": dict(found.permissions),
        "events": list(hub.state.apps[found.app_id].events),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": None,
        "suspended_at": stamp(found.suspended_at),
    }


def label(hub: Hub, repo: Repo, found: Label) -> JSON:
    """A label of a repository."""
    return {
        "id": found.id,
        "node_id": node_id("Label", found.id),
        "url": f"{api_url(hub, repo)}/labels/{found.name}",
        "name": found.name,
        "color": found.color,
        "default": False,
        "description": found.description or "",
    }


def reaction(hub: Hub, found: Reaction) -> JSON:
    """One reaction."""
    return {
        "id": found.id,
        "node_id": node_id("Reaction", found.id),
        "user": user_by_id(hub, found.user_id),
        "content": found.content,
        "created_at": stamp(found.created_at),
    }


def rollup(url: str, found: list[Reaction]) -> JSON:
    """Counts of reactions by kind."""
    counts = {kind: sum(1 for r in found if r.content == kind) for kind in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(found), **counts}


def _git_user(who: tuple[str, str, str]) -> JSON:
    return {"name": who[0], "email": who[1], "date": who[2]}


def _account_of(hub: Hub, address: str) -> JSON | None:
    for account in hub.state.users.values():
        if account.email == address:
            return user(hub, account)
    return None


def commit(hub: Hub, repo: Repo, info: CommitInfo) -> JSON:
    """A commit with its authors, matched to accounts by address."""
    api, html = api_url(hub, repo), html_url(hub, repo)
    return {
        "sha": info.sha,
        "node_id": node_id("Commit", repo.id) + info.sha[:8],
        "url": f"{api}/commits/{info.sha}",
        "html_url": f"{html}/commit/{info.sha}",
        "comments_url": f"{api}/commits/{info.sha}/comments",
        "commit": {
            "url": f"{api}/git/commits/{info.sha}",
            "author": _git_user(info.author),
            "committer": _git_user(info.committer),
            "message": info.message,
            "tree": {"sha": info.tree, "url": f"{api}/git/trees/{info.tree}"},
            "comment_count": 0,
            "verification": {
                "verified": False,
                "reason": "unsigned",
                "signature": None,
                "payload": None,
                "verified_at": None,
            },
        },
        "author": _account_of(hub, info.author[1]),
        "committer": _account_of(hub, info.committer[1]),
        "parents": [
            {"sha": p, "url": f"{api}/commits/{p}", "html_url": f"{html}/commit/{p}"}
            for p in info.parents
        ],
    }
