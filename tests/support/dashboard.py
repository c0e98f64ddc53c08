"""A dashboard with something of everything to show, for tests and for the pictures of the docs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from flask.testing import FlaskClient
from sqlalchemy import insert, update
from werkzeug.serving import make_server
from werkzeug.test import TestResponse

from coven import api_tokens as values
from coven.api_tokens import TokenScope
from coven.clock import Clock, ManualClock
from coven.github.factory import GitHub
from coven.governance.actions import ProcessSpawn
from coven.governance.admin import Admin
from coven.governance.audit import Recorder
from coven.governance.context import Acting, acting
from coven.governance.defaults import install_defaults
from coven.governance.engine import Engine
from coven.governance.gate import RulesGate
from coven.governance.refusal import ActionRefused
from coven.governance.seeds import SEEDS
from coven.governance.wire import Seam
from coven.memory.book import Entry, NewEntry, Person, Source
from coven.memory.keys import MemoryKey
from coven.publication import CheckRunContent
from coven.redaction import Redactor
from coven.services import Services
from coven.store import api_tokens, beats, book, deliveries, escalations, recoveries
from coven.store.engine import Store, Tx
from coven.store.escalations import Escalation, Status
from coven.store.tables import attempts, surfaces, tasks
from coven.store.tables_memory import memory_activity
from coven.store.tables_tenancy import installations, usage
from coven.values import (
    Conclusion,
    DeliveryId,
    InstallationId,
    Lane,
    RepoId,
    RepoName,
    TaskId,
    TrustScope,
)
from tests.integration.receiver_kit import BellDouble, settings
from tests.ledger import NOW, OTHER, TENANT, new_task, put, received
from webhooks.app import create_app

SERVICE = "service-token-0123456789abcdef"
SECRET = "very-secret-webhook-value"
REPOS = {TENANT: RepoName("octo", "demo"), OTHER: RepoName("other", "secret")}
REPO_IDS = {TENANT: RepoId(7), OTHER: RepoId(8)}
SECOND = RepoName("octo", "tools")
_ABOUT_TMP = ("R001", "R002", "R003")
ORIGIN = "http://localhost"
HOSTILE = (
    '<script>alert("x")</script> =HYPERLINK("https://evil.example") \u202egnp.exe \u200b\U000e0041'
)


class World:
    """An application, its ledgers, and tokens of every kind."""

    def __init__(
        self, store: Store, folder: Path, *, clock: Clock | None = None, **sections: Any
    ) -> None:
        tenants = [
            {
                "token": "narrow-token-0123456789abcdef",
                "installation_id": 41,
                "repos": ["octo/demo"],
            }
        ]
        given: dict[str, Any] = {
            "api": {"service_token": SERVICE, "tenants": tenants},
            "server": {"state_dir": folder / "state", "flower_url": "http://127.0.0.1:5555"},
            "memory": {"enabled": True, "self_hosted": True},
            "governance": {"enabled": True, "mode": "signed"},
        }
        for name, section in sections.items():
            given[name] = given.get(name, {}) | section
        self.settings = settings(**given)
        self.store = store
        self.clock = clock or ManualClock(NOW)
        self.bell = BellDouble()
        engine = Engine.of(self.settings, store, self.clock)
        if not engine.keys.public_keys("operator"):
            engine.keys.generate("operator")
        recorder = Recorder(store, engine.keys.service())
        self.admin = Admin(engine, recorder)
        gate = RulesGate(engine, recorder, self.settings, Redactor)
        self.services = Services(
            settings=self.settings,
            store=store,
            github=cast(GitHub, None),
            clock=self.clock,
            seam=Seam(),
            bell=self.bell,
            redactor=Redactor([SECRET]),
            secret_key=b"k" * 32,
            rules=gate,
        )
        self.app = create_app(self.services, github=cast(Any, lambda _: None))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def token(
        self, owner: InstallationId | None, scope: TokenScope = TokenScope.READ, **changes: Any
    ) -> str:
        """A fresh token in the ledger."""
        minted = values.mint()
        row: dict[str, Any] = {
            "id": minted.id,
            "name": "test",
            "digest": values.digest_of(minted.secret),
            "installation_id": owner,
            "scope": scope,
            "created_at": self.now,
            "expires_at": self.now + timedelta(days=1),
        }
        with self.store.write() as tx:
            api_tokens.add(tx, api_tokens.Token(**(row | changes)))
        return minted.secret

    def browser(self, token: str | None = None) -> Browser:
        """A client without scripts; signed in where a token is given."""
        found = Browser(self.app.test_client())
        if token is not None:
            assert found.sign_in(token).status_code == 303
        return found

    def operator(self) -> Browser:
        return self.browser(self.token(None, TokenScope.ADMIN))

    def maintainer(self, owner: InstallationId = TENANT) -> Browser:
        return self.browser(self.token(owner, TokenScope.MEMORY_WRITE))

    def viewer(self, owner: InstallationId = TENANT) -> Browser:
        return self.browser(self.token(owner, TokenScope.READ))


class Browser:
    """What a person's browser does, without scripts: cookies, forms, the Origin header."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(path, **more)

    def csrf(self, path: str = "/ops/") -> str:
        """The token of a form on a page."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get(path).text)
        assert found is not None
        return found[1]

    def sign_in(self, token: str, wanted: str = "/ops/") -> TestResponse:
        form = {"csrf": self.csrf("/ops/login"), "token": token, "next": wanted}
        return self.client.post("/ops/login", data=form, headers={"Origin": ORIGIN})

    def post(self, path: str, origin: str | None = ORIGIN, **form: Any) -> TestResponse:
        """Send a form as our own pages would."""
        if "csrf" not in form:
            form["csrf"] = self.csrf()
        headers = {"Origin": origin} if origin is not None else {}
        return self.client.post(path, data=form, headers=headers)


@contextmanager
def served(world: World) -> Iterator[str]:
    """The address of the application on a real socket."""
    server = make_server("127.0.0.1", 0, world.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(5)


class Seeded:
    """Rows of every ledger, for two tenants."""

    def __init__(self, world: World, *, work: int = 14) -> None:
        self.world = world
        self.tasks: dict[InstallationId, TaskId] = {}
        self.entries: dict[InstallationId, Entry] = {}
        self.delivery: dict[InstallationId, DeliveryId] = {}
        # Without those that would refuse the temporary folder of a test.
        install_defaults(world.admin, [s.id for s in SEEDS if s.id not in _ABOUT_TMP])
        with world.store.write() as tx:
            for tenant, login in ((TENANT, "octo"), (OTHER, "other")):
                tx.execute(
                    insert(installations).values(
                        id=tenant,
                        account_login=login,
                        state="active",
                        first_at=world.now,
                        learned_at=world.now,
                    )
                )
        for tenant in (TENANT, OTHER):
            self._tenant(tenant, work)
        self.escalation = self._escalation()
        with world.store.write() as tx:
            for name in ("reap", "publish", "redeliver"):
                beats.take(tx, name, world.now - timedelta(seconds=20), 30)
            number = recoveries.begin(tx, "deliveries", world.now - timedelta(hours=1))
            recoveries.finish(
                tx,
                number,
                world.now - timedelta(minutes=59),
                seen=240,
                asked=2,
                watermark=world.now - timedelta(hours=1),
            )

    def _tenant(self, tenant: InstallationId, work: int) -> None:
        world, now = self.world, self.world.now
        repo, repo_id = REPOS[tenant], REPO_IDS[tenant]
        delivery = DeliveryId(f"72d3162e-cc78-11e3-81ab-4c9367dc09{tenant}")
        self.delivery[tenant] = delivery
        began = now - timedelta(minutes=12)
        self.tasks[tenant] = put(
            world.store,
            installation_id=tenant,
            repo_id=repo_id,
            repo_owner=repo.owner,
            repo_name=repo.name,
            title=f"Refuse expired sessions (of {tenant})",
            delivery_id=delivery,
            created_at=began,
            actor_login="mona",
            author_login="octocat",
            head_sha="4f1c" * 10,
            payload={"comment_body": f"@cody review {SECRET}"},
        )
        with world.store.write() as tx:
            deliveries.record(tx, _delivery(tenant, delivery, self.tasks[tenant], began))
            for n, routing in enumerate(
                ("ignored:bot", "ignored:no_trigger", "rejected:bad_payload")
            ):
                other = DeliveryId(f"ignored-{tenant}-{n}")
                at = now - timedelta(minutes=20 + n)
                deliveries.record(tx, _delivery(tenant, other, None, at, routing))
            self._complete(tx, tenant)
        for n in range(work):
            self._more(tenant, n)
        self.entries[tenant] = self.propose(
            tenant, "conventions/tests", "Tests of sessions use the clock that is passed in."
        )
        approved = self.propose(
            tenant, "build/cache", "The build caches wheels under .cache; CI restores them."
        )
        with world.store.write() as tx:
            person = Person(2001, "mona")
            book.decide(tenant, tx, approved.id, True, person, approved.text_hash, now)
            for op, entry, outcome in (
                ("supplied", approved, "accepted"),
                ("read", approved, "accepted"),
                ("proposed", self.entries[tenant], "accepted"),
                ("proposed", None, "rejected:secret"),
            ):
                tx.execute(
                    insert(memory_activity).values(
                        installation_id=tenant,
                        repo_id=repo_id,
                        task_id=self.tasks[tenant],
                        op=op,
                        ordinal=f"{op}-{entry.id if entry else 0}",
                        entry_id=entry.id if entry else None,
                        target=entry.key if entry else f"repo/{repo}/notes/credentials",
                        scope="repo",
                        outcome=outcome,
                        at=now - timedelta(minutes=4),
                    )
                )
            book.revoke(tenant, tx, f"repo/{repo}/legacy", person, now)

    def _complete(self, tx: Tx, tenant: InstallationId) -> None:
        world, task, repo = self.world, self.tasks[tenant], REPOS[tenant]
        now = world.now
        findings = [
            {
                "severity": "high",
                "file": "sessions/store.py",
                "line": 41,
                "title": "An expired session is still accepted",
                "body": "`get` compares with `<` where the last second is already over.",
                "recommendation": None,
            },
            {
                "severity": "low",
                "file": "docs/old.md",
                "line": None,
                "title": "A typing mistake",
                "body": "Nothing that this change touches.",
                "recommendation": None,
            },
        ]
        tx.execute(
            update(tasks)
            .where(tasks.c.id == task)
            .values(
                state="completed",
                outcome="success",
                result_status="success",
                summary="One finding: an expired session is still accepted.",
                started_at=now - timedelta(minutes=10),
                finished_at=now - timedelta(minutes=4),
                attempts_used=1,
                result={
                    "review": {"findings": findings},
                    "shown": [{"path": "sessions/store.py", "title": findings[0]["title"]}],
                    "withheld": {"scope": 1},
                    "memory": {"off": None, "alarms": 0},
                },
            )
        )
        tx.execute(
            insert(attempts).values(
                installation_id=tenant,
                task_id=task,
                number=1,
                round=1,
                lease_token="l" * 32,
                worker="worker-1",
                phase="done",
                started_at=now - timedelta(minutes=10),
                heartbeat_at=now - timedelta(minutes=4),
                finished_at=now - timedelta(minutes=4),
                exit_code=0,
                outcome="success",
                tolerated=["review.memory is no known key"],
                stdout_tail=f"read 4 files\n\ufffd\ufffd\nkey {SECRET}\n",
                stderr_tail="warning: one file is long\n",
            )
        )
        tx.execute(
            insert(surfaces).values(
                installation_id=tenant,
                repo_id=REPO_IDS[tenant],
                repo_owner=repo.owner,
                repo_name=repo.name,
                kind="check_run",
                subject=f"task:{task}:1",
                task_id=task,
                generation=1,
                desired=_CHECK_RUN.model_dump(mode="json"),
                desired_hash="0" * 64,
                published_hash="0" * 64,
                object_id=9,
                object_url=f"https://github.com/{repo}/runs/9",
                state="published",
                next_at=now,
                created_at=now,
                updated_at=now,
                published_at=now - timedelta(minutes=3),
            )
        )

    def _more(self, tenant: InstallationId, n: int) -> None:
        """Further work: one in flight, one failed, some queued, some done on earlier days."""
        world, now = self.world, self.world.now
        repo = SECOND if n % 3 == 2 and tenant == TENANT else REPOS[tenant]
        state = ["running", "failed", "queued", "queued", "completed", "superseded"][min(n, 5)]
        state = "completed" if n > 5 else state
        at = now - (timedelta(minutes=3 * n) if n < 5 else timedelta(days=n - 3, hours=n))
        verb, lane = ("fix", Lane.FIX) if n % 4 == 3 else ("review", Lane.REVIEW)
        task = put(
            world.store,
            installation_id=tenant,
            repo_id=REPO_IDS[tenant] + (n % 3 == 2),
            repo_owner=repo.owner,
            repo_name=repo.name,
            title=_TITLES[n % len(_TITLES)],
            thread=20 + n,
            verb=verb,
            lane=lane,
            automatic=n % 2 == 0,
            actor_login="mona",
            created_at=at,
        )
        with world.store.write() as tx:
            done = state in ("completed", "failed")
            tx.execute(
                update(tasks)
                .where(tasks.c.id == task)
                .values(
                    state=state,
                    outcome={"failed": "timeout", "completed": "success"}.get(state),
                    started_at=at if done or state == "running" else None,
                    finished_at=at + timedelta(minutes=2 + n) if done else None,
                    detail="The session ran into its deadline." if state == "failed" else None,
                )
            )
            if done or state == "running":
                tx.execute(
                    insert(attempts).values(
                        installation_id=tenant,
                        task_id=task,
                        number=1,
                        round=1,
                        lease_token="l" * 32,
                        worker=f"worker-{n % 2 + 1}",
                        phase="session" if state == "running" else "done",
                        started_at=at - timedelta(seconds=95),
                        heartbeat_at=now - timedelta(seconds=6),
                        finished_at=at + timedelta(minutes=2 + n) if done else None,
                        outcome=state if done else None,
                    )
                )
            if done:
                for kind, number, amount in (("task", 0, 1), ("attempt", 1, 60 * (2 + n))):
                    tx.execute(
                        insert(usage).values(
                            installation_id=tenant,
                            kind=kind,
                            day=at.date().isoformat(),
                            amount=amount,
                            repo_id=REPO_IDS[tenant],
                            familiar_id="cody",
                            task_id=task,
                            number=number,
                            at=at,
                        )
                    )

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
            author_login="octocat",
            author_id=2002,
            thread=3,
        )
        with self.world.store.write() as tx:
            found = book.propose(tenant, tx, new, self.world.now).entry
        assert found is not None
        return found

    def _escalation(self) -> str:
        """An action that waits, and verdicts in the record."""
        world = self.world
        assert world.services.rules is not None
        who = Acting(
            installation=TENANT,
            repo_id=REPO_IDS[TENANT],
            repo=str(REPOS[TENANT]),
            familiar="cody",
            may_wait=False,
            task_id=self.tasks[TENANT],
            head_sha="4f1c" * 10,
            attempts_root=world.settings.workspace_root / self.tasks[TENANT],
        )
        with acting(who):
            for argv in (["git", "status"], ["git", "push", "--force", "origin", "main"]):
                try:
                    world.services.rules.check(ProcessSpawn.of(argv, None, []), "session.spawn")
                except ActionRefused:
                    continue
        task = put(
            world.store,
            repo_owner="octo",
            repo_name="demo",
            title="Publish the release notes",
            state="waiting",
            waiting_for="escalation",
            created_at=world.now - timedelta(minutes=6),
        )
        wanted = Escalation(
            id=escalations.new_id(),
            installation_id=TENANT,
            task_id=task,
            repo_id=REPO_IDS[TENANT],
            namespace="_global",
            rule_id="R020",
            reason="Releases are published by people.",
            kind="network_request",
            action_digest="0" * 64,
            action_redacted='{"kind":"network_request","method":"POST","url":"https://example.com"}',
            policy_epoch=1,
            head_sha=None,
            status=Status.PENDING,
            requested_at=world.now - timedelta(minutes=5),
            expires_at=world.now + timedelta(hours=70),
        )
        with world.store.write() as tx:
            escalations.request(TENANT, tx, wanted)
        return wanted.id


_TITLES = (
    "Cache lookups of permissions",
    "Move uploads to object storage",
    "Say which rule refused a push",
    "Shorten the start of the worker",
    "Drop support for the old token format",
)


_CHECK_RUN = CheckRunContent(
    name="Cody · review",
    head_sha="4f1c" * 10,
    external_id="x:1",
    status="completed",
    conclusion=Conclusion.NEUTRAL,
    title="One finding",
    summary="An expired session is still accepted.",
)


def _delivery(
    tenant: InstallationId,
    delivery: DeliveryId,
    task: TaskId | None,
    at: datetime,
    routing: str | None = None,
) -> Any:
    return received(
        id=delivery,
        installation_id=tenant,
        repo_id=REPO_IDS[tenant],
        repo_name=str(REPOS[tenant]),
        event="issue_comment" if task else "push",
        action="created" if task else None,
        sender_login="mona",
        routing=routing or f"task:{task}",
        task_id=task,
        received_at=at,
    )


__all__ = ["HOSTILE", "SECRET", "Browser", "Seeded", "World", "new_task", "served"]
