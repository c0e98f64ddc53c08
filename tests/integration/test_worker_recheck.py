"""The worker's second look: what somebody wrote is trusted as its author is now, never more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coven.errors import GitHubNotFound
from coven.github.models import Permission
from coven.github.repo_client import RepoClient
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.values import Lane, Sha, TrustScope
from tests.ledger import REPO_ID, put, take
from worker.recheck import GoOn, look_again


class GitHub:
    """A public repository, and who may do what there now."""

    def __init__(self, **rights: Permission) -> None:
        self.rights = {"ann": Permission("write", "write", 11)} | rights

    def repository(self) -> Any:
        return SimpleNamespace(
            id=REPO_ID,
            owner="octo",
            name="demo",
            default_branch="main",
            private=False,
            visibility="public",
            archived=False,
            owner_id=1,
            owner_login="octo",
        )

    def permission(self, login: str) -> Permission:
        if login not in self.rights:
            raise GitHubNotFound(login, status=404)
        return self.rights[login]

    def is_collaborator(self, login: str) -> bool:
        return login == "cam"

    def branch_head(self, _branch: str) -> Sha:
        return Sha("a" * 40)


WRITER, READER = Permission("write", "write", 12), Permission("read", "read", 12)


@pytest.mark.parametrize(
    ("rule", "was", "author", "now"),
    [
        ("a maintainer's text stays one", "maintainer", {"ben": WRITER}, "maintainer"),
        ("rights that are gone count no more", "maintainer", {"ben": READER}, "external"),
        ("a reader who is a collaborator is one", "maintainer", {"cam": READER}, "collaborator"),
        (
            "a login in other hands has no rights",
            "maintainer",
            {"ben": WRITER, "id": 99},
            "external",
        ),
        ("who is gone has no rights", "maintainer", {"gone": None}, "external"),
        ("new rights raise nothing", "external", {"ben": WRITER}, "external"),
        ("new rights raise no collaborator", "collaborator", {"ben": WRITER}, "collaborator"),
    ],
)
def test_a_text_is_trusted_as_its_author_is_now(
    sqlite_store: Store, rule: str, was: str, author: dict[str, Any], now: str
) -> None:
    assert rule
    author_id = author.pop("id", 12)
    login = next(iter(author))
    task_id = put(
        sqlite_store,
        lane=Lane.FIX,
        verb="fix",
        is_pull=False,
        automatic=False,
        actor_id=11,
        actor_login="ann",
        author_id=author_id,
        author_login=login,
        trust_scope=TrustScope.MAINTAINER,
        content_trust=TrustScope(was),
    )
    task = take(sqlite_store, task_id)
    assert task is not None
    hub = GitHub(**{name: each for name, each in author.items() if each})
    look = look_again(cast(RepoClient, hub), Settings(), task)
    assert isinstance(look, GoOn)
    assert look.facts["content_trust"] == now
    assert look.facts["trust_scope"] is TrustScope.MAINTAINER
