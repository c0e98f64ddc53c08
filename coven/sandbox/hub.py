"""The sandbox's core: who exists, who may what, and where the repositories are."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from coven.sandbox.answers import ApiError, not_found
from coven.sandbox.faults import Faults, RequestLog
from coven.sandbox.gitrepo import GitRepo
from coven.sandbox.state import (
    JSON,
    App,
    Installation,
    RateLimit,
    Repo,
    Role,
    State,
    Thread,
    Token,
    User,
    now,
)

PRE_RECEIVE = """#!/bin/sh
# Protected branches and workflow files, as GitHub guards them.
zero=0000000000000000000000000000000000000000
status=0
while read -r old new ref; do
  case "$ref" in
    refs/heads/*) ;;
    refs/tags/*) ;;
    *) echo "deny updating a hidden ref: $ref" >&2; status=1; continue ;;
  esac
  for name in $SANDBOX_PROTECTED; do
    if [ "$ref" = "refs/heads/$name" ]; then
      echo "GH006: Protected branch update failed for $ref." >&2
      status=1
    fi
  done
  if [ "$SANDBOX_WORKFLOWS" != 1 ] && [ "$new" != "$zero" ]; then
    if git log --format= --name-only "$new" --not --all -- .github/workflows | grep -q .; then
      echo "refusing to allow a GitHub App to create or update workflow files" \\
        "without \\`workflows\\` permission" >&2
      status=1
    fi
  fi
done
exit $status
"""

Event = tuple[str, JSON]
"""Name and payload of a webhook event."""


class Hub:
    """State, repositories on disk, request log and faults. Methods expect ``state.lock`` held."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder = folder.absolute()
        self.base_url = base_url
        self.state = State()
        self.faults = Faults()
        self.log = RequestLog()
        self.outbox: Callable[[Event], None] = _nowhere
        """Where events go that nobody waits for; the deliverer sets it."""
        self.deliverer: Any = None
        """Set by the server; typed loosely, since deliveries build on the hub."""
        self._repos: dict[int, GitRepo] = {}
        self.hooks = self.folder / "hooks"
        self.hooks.mkdir(parents=True, exist_ok=True)
        hook = self.hooks / "pre-receive"
        hook.write_text(PRE_RECEIVE, encoding="utf-8")
        hook.chmod(hook.stat().st_mode | stat.S_IXUSR)

    # Accounts

    def user(self, login: str) -> User:
        """The account with this login, compared without case; 404 otherwise."""
        key = login.casefold()
        for user in self.state.users.values():
            if user.login.casefold() == key and not user.deleted:
                return user
        raise not_found()

    def ensure_user(self, login: str, type: str = "User", name: str | None = None) -> User:
        """That account, made when it is not there."""
        try:
            return self.user(login)
        except ApiError:
            user = User(self.state.new_id(), login, type, name)
            self.state.users[user.id] = user
            return user

    def account(self, user_id: int | None) -> User | None:
        """An account by id; None when it is deleted."""
        user = self.state.users.get(user_id or 0)
        return None if user is None or user.deleted else user

    # Repositories

    def owner(self, repo: Repo) -> User:
        return self.state.users[repo.owner_id]

    def full_name(self, repo: Repo) -> str:
        return f"{self.owner(repo).login}/{repo.name}"

    def repo(self, name: str | int) -> Repo:
        """A repository by ``owner/name`` or id; 404 otherwise. Old names do not count."""
        if isinstance(name, int):
            repo = self.state.repos.get(name)
            if repo is None or repo.deleted:
                raise not_found()
            return repo
        key = name.casefold()
        for repo in self.state.repos.values():
            if not repo.deleted and self.full_name(repo).casefold() == key:
                return repo
        raise not_found()

    def git(self, repo: Repo) -> GitRepo:
        """The bare repository on disk."""
        if repo.id not in self._repos:
            self._repos[repo.id] = GitRepo(self.folder / "repos" / f"{repo.id}.git")
        return self._repos[repo.id]

    def role(self, repo: Repo, user: User) -> Role:
        """The role that this person has here: owner, collaborator, or a stranger's."""
        if user.id == repo.owner_id:
            return Role("admin", "admin")
        role = repo.roles.get(user.id)
        if role is not None:
            return role
        return Role("none", "none") if repo.private else Role("read", "read")

    def association(self, repo: Repo, user_id: int) -> str:
        """``author_association``; as on GitHub it says little about trust."""
        if user_id == repo.owner_id:
            return "OWNER"
        if user_id in repo.roles:
            owner = self.owner(repo)
            return "MEMBER" if owner.type == "Organization" else "COLLABORATOR"
        return "NONE"

    def thread(self, repo: Repo, number: int) -> Thread:
        """An issue or pull request; 410 for a deleted one, 404 otherwise."""
        if (repo.id, number) in self.state.deleted_threads:
            raise ApiError(410, "This issue was deleted")
        thread = self.state.threads.get((repo.id, number))
        if thread is None:
            raise not_found()
        return thread

    def threads(self, repo: Repo) -> list[Thread]:
        """All threads of a repository, newest first."""
        found = [t for t in self.state.threads.values() if t.repo_id == repo.id]
        return sorted(found, key=lambda t: -t.number)

    # Apps, installations, tokens

    @property
    def app(self) -> App:
        """The App under test: the newest one with a key."""
        return next(a for a in reversed(self.state.apps.values()) if a.public_key is not None)

    def add_app(self, app_id: int, slug: str, name: str, public_key: bytes | None) -> App:
        """Register an App with its bot account."""
        owner = self.ensure_user("coven-apps", "Organization")
        bot = self.ensure_user(f"{slug}[bot]", "Bot")
        app = App(app_id, slug, name, f"Iv23li{app_id:014d}", owner.id, bot.id, public_key)
        self.state.apps[app_id] = app
        return app

    def installation(self, installation_id: int) -> Installation:
        """A live installation of the App under test; 404 otherwise."""
        found = self.state.installations.get(installation_id)
        if found is None or found.deleted or found.app_id != self.app.id:
            raise not_found()
        return found

    def installation_of(self, repo: Repo) -> Installation | None:
        """The installation that covers a repository."""
        for found in self.state.installations.values():
            if found.deleted or found.account_id != repo.owner_id:
                continue
            if found.repo_ids is None or repo.id in found.repo_ids:
                return found
        return None

    def covered(self, installation: Installation) -> list[Repo]:
        """Repositories that an installation may see."""
        return [
            r
            for r in self.state.repos.values()
            if not r.deleted
            and r.owner_id == installation.account_id
            and (installation.repo_ids is None or r.id in installation.repo_ids)
        ]

    def mint(
        self,
        installation: Installation,
        repo_ids: set[int] | None,
        permissions: dict[str, str],
        *,
        long: bool = True,
    ) -> Token:
        """A new installation token; ``long`` gives the form that GitHub mints since 2026."""
        if long:
            parts = (
                secrets.token_urlsafe(27),
                secrets.token_urlsafe(200),
                secrets.token_urlsafe(64),
            )
            value = f"ghs_{self.app.id}_" + ".".join(parts)
        else:
            value = "ghs_" + "".join(secrets.choice(_ALNUM) for _ in range(36))
        token = Token(
            id=self.state.new_id(),
            value=value,
            installation_id=installation.id,
            repo_ids=repo_ids,
            permissions=permissions,
            expires_at=now() + self.state.token_lifetime,
        )
        self.state.tokens[value] = token
        return token

    def live_token(self, value: str) -> Token:
        """The token behind a value; 401 when it never was, is over, or is revoked."""
        token = self.state.tokens.get(value)
        if token is None or token.revoked or token.expires_at <= now():
            raise ApiError(401, "Bad credentials")
        installation = self.state.installations[token.installation_id]
        if installation.deleted:
            raise ApiError(401, "Bad credentials")
        if installation.suspended_at is not None:
            raise ApiError(403, "This installation has been suspended")
        return token

    def token_sees(self, token: Token, repo: Repo) -> bool:
        """Whether a repository is in the token's scope, as things stand now."""
        installation = self.state.installations[token.installation_id]
        if repo.owner_id != installation.account_id:
            return False
        if installation.repo_ids is not None and repo.id not in installation.repo_ids:
            return False
        return token.repo_ids is None or repo.id in token.repo_ids

    def limit(self, installation_id: int) -> RateLimit:
        """The primary rate limit of an installation, renewed when its hour is over."""
        limit = self.state.limits.setdefault(installation_id, RateLimit())
        if limit.reset_at <= now():
            limit.used, limit.reset_at = 0, now() + timedelta(hours=1)
        return limit

    def announce(self, event: str, payload: Callable[[], JSON]) -> None:
        """Send an event in the background when the switch for it is on."""
        wanted = self.state.auto_events
        if event in wanted or "*" in wanted:
            self.outbox((event, payload()))


_ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _nowhere(_: Event) -> None:
    """Where events go before there is a deliverer."""
