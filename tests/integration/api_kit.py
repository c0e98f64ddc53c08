"""Two tenants with something of everything, tokens for them, and a client of the API."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from coven import api_tokens as values
from coven.api_tokens import TokenScope
from coven.clock import ManualClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.memory.book import Entry, NewEntry, Source
from coven.memory.keys import MemoryKey
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.store import api_tokens, book, deliveries
from coven.store.engine import Store, open_store
from coven.values import DeliveryId, InstallationId, RepoId, RepoName, TaskId, TrustScope
from tests.integration.receiver_kit import BellDouble, settings
from tests.ledger import NOW, OTHER, TENANT, put, received
from webhooks.app import create_app

BASE = "/api/github"
SERVICE = "service-token-0123456789abcdef"
NARROW = "narrow-token-0123456789abcdef"
OTHER_NARROW = "other-narrow-token-0123456789abcdef"
REPOS = {TENANT: RepoName("octo", "demo"), OTHER: RepoName("other", "secret")}
REPO_IDS = {TENANT: RepoId(7), OTHER: RepoId(8)}


class Api:
    """The application, its ledger, and one token of every kind."""

    def __init__(self, store: Store, *, seed: bool = True, **sections: Any) -> None:
        tenants = [
            {"token": NARROW, "installation_id": int(TENANT), "repos": ["Octo/Demo"]},
            {"token": OTHER_NARROW, "installation_id": int(TENANT), "repos": ["octo/two"]},
        ]
        given: dict[str, Any] = {"api": {"service_token": SERVICE, "tenants": tenants}} | sections
        self.settings: Settings = settings(**given)
        self.store = store
        self.clock = ManualClock(NOW)
        self.bell = BellDouble()
        self.services = Services(
            settings=self.settings,
            store=store,
            github=cast(GitHub, None),
            clock=self.clock,
            seam=Seam(),
            bell=self.bell,
            redactor=Redactor(),
            secret_key=b"k" * 32,
        )
        self.app: Flask = create_app(self.services, github=cast(Any, lambda _: None))
        self.client: FlaskClient = self.app.test_client()
        self.tasks: dict[InstallationId, TaskId] = {}
        self.entries: dict[InstallationId, Entry] = {}
        self.tokens: dict[InstallationId | None, dict[TokenScope, str]] = {}
        if seed:
            for tenant in (TENANT, OTHER):
                self._seed(tenant)
        for owner in (TENANT, OTHER, None):
            self.tokens[owner] = {scope: self.token(owner, scope) for scope in TokenScope}

    def _seed(self, tenant: InstallationId) -> None:
        repo, repo_id = REPOS[tenant], REPO_IDS[tenant]
        delivery = DeliveryId(f"delivery-{tenant}")
        self.tasks[tenant] = put(
            self.store,
            installation_id=tenant,
            repo_id=repo_id,
            repo_owner=repo.owner,
            repo_name=repo.name,
            title=f"Title of {tenant}",
            delivery_id=delivery,
        )
        with self.store.write() as tx:
            deliveries.record(
                tx,
                received(
                    id=delivery,
                    installation_id=tenant,
                    repo_id=repo_id,
                    repo_name=str(repo),
                    routing=f"task:{self.tasks[tenant]}",
                    task_id=self.tasks[tenant],
                ),
            )
        self.entries[tenant] = self.propose(tenant, "conventions/tests", f"Text of {tenant}")

    def propose(self, tenant: InstallationId, place: str, text: str) -> Entry:
        """A proposal that waits."""
        repo = REPOS[tenant]
        new = NewEntry(
            repo_id=REPO_IDS[tenant],
            repo=repo,
            key=MemoryKey.parse(f"repo/{repo}/{place}"),
            summary=text,
            source=Source.RUN,
            trust=TrustScope.MAINTAINER,
            task_id=self.tasks.get(tenant),
        )
        with self.store.write() as tx:
            found = book.propose(tenant, tx, new, NOW).entry
        assert found is not None
        return found

    def token(
        self,
        owner: InstallationId | None,
        scope: TokenScope = TokenScope.READ,
        **changes: Any,
    ) -> str:
        """A fresh token in the ledger."""
        minted = values.mint()
        row: dict[str, Any] = {
            "id": minted.id,
            "name": "test",
            "digest": values.digest_of(minted.secret),
            "installation_id": owner,
            "scope": scope,
            "created_at": NOW,
            "expires_at": NOW + timedelta(days=1),
        }
        with self.store.write() as tx:
            api_tokens.add(tx, api_tokens.Token(**(row | changes)))
        return minted.secret

    def get(self, path: str, token: str | None = None, **headers: str) -> TestResponse:
        """GET below the prefix."""
        return self.client.get(f"{BASE}{path}", headers=_headers(token, headers))

    def post(
        self, path: str, token: str | None = None, body: Any = None, **headers: str
    ) -> TestResponse:
        """POST below the prefix; bytes go out as they are."""
        given = _headers(token, headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        return self.client.post(f"{BASE}{path}", data=body, headers=given)

    def reader(self, owner: InstallationId | None = TENANT) -> str:
        return self.tokens[owner][TokenScope.READ]

    def admin(self, owner: InstallationId | None = TENANT) -> str:
        return self.tokens[owner][TokenScope.ADMIN]


@contextmanager
def shared_api(template: Path, folder: Path) -> Iterator[Api]:
    """One for many tests whose point is what is refused."""
    shutil.copyfile(template, folder / "coven.db")
    store = open_store(f"sqlite:///{folder / 'coven.db'}")
    try:
        yield Api(store)
    finally:
        store.close()


def _headers(token: str | None, more: dict[str, str]) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in more.items()}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    return given
