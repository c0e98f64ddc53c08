"""Signing in through GitHub: state, PKCE, and what the rights there let one do here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from sqlalchemy import insert

from coven.api_tokens import TokenScope
from coven.clock import ManualClock, SystemClock
from coven.memory.book import EntryState, NewEntry, Source
from coven.memory.keys import MemoryKey
from coven.sandbox.oauth import CLIENT_SECRET
from coven.sandbox.process import launch_sandbox
from coven.store import book, escalations
from coven.store.engine import Store, open_store
from coven.store.escalations import Escalation, Status
from coven.store.tables_tenancy import installation_repositories
from coven.values import InstallationId, RepoId, RepoName, TrustScope
from tests.integration import sandbox_kit
from tests.ledger import put
from tests.support.dashboard import Browser, World

REPO = RepoName("acme", "shop")
OTHER = RepoName("acme", "vault")


class Github:
    """A GitHub on localhost, and a dashboard that trusts it."""

    def __init__(self, store: Store, folder: Path, sandbox: sandbox_kit.World) -> None:
        self.sandbox = sandbox
        handle = sandbox.handle
        self.clock = ManualClock(SystemClock().now())
        self.world = World(
            store,
            folder,
            clock=self.clock,
            github={
                "client_id": handle.client_id,
                "client_secret": CLIENT_SECRET,
                "api_base_url": handle.base_url,
                "html_base_url": handle.base_url,
            },
        )
        self.tenant = InstallationId(sandbox.installation)
        self.repo_id = RepoId(sandbox.repo_id)
        for repo, number in ((REPO, self.repo_id), (OTHER, RepoId(self.repo_id + 1))):
            put(
                store,
                installation_id=self.tenant,
                repo_id=number,
                repo_owner=repo.owner,
                repo_name=repo.name,
                title=f"Work in {repo.name}",
            )
            with store.write() as tx:
                tx.execute(
                    insert(installation_repositories).values(
                        installation_id=self.tenant,
                        repo_id=number,
                        owner=repo.owner,
                        name=repo.name,
                        state="present",
                        learned_at=self.clock.now(),
                    )
                )

    def propose(self, repo: RepoName, author: str = "sam", author_id: int = 1) -> str:
        new = NewEntry(
            repo_id=self.repo_id if repo == REPO else RepoId(self.repo_id + 1),
            repo=repo,
            key=MemoryKey.parse(f"repo/{repo}/notes/one"),
            summary="One thing.",
            source=Source.RUN,
            trust=TrustScope.MAINTAINER,
            author_login=author,
            author_id=author_id,
        )
        with self.world.store.write() as tx:
            found = book.propose(self.tenant, tx, new, self.clock.now()).entry
        assert found is not None
        return found.id

    def escalate(self, repo: RepoName) -> str:
        """An action of work in this repository that waits."""
        number = self.repo_id if repo == REPO else RepoId(self.repo_id + 1)
        task = put(
            self.world.store,
            installation_id=self.tenant,
            repo_id=number,
            repo_owner=repo.owner,
            repo_name=repo.name,
        )
        wanted = Escalation(
            id=escalations.new_id(),
            installation_id=self.tenant,
            task_id=task,
            repo_id=number,
            namespace="_global",
            rule_id="R106",
            reason="deleting a branch needs a person",
            kind="network_request",
            action_digest="0" * 64,
            action_redacted="{}",
            policy_epoch=1,
            head_sha=None,
            status=Status.PENDING,
            requested_at=self.clock.now(),
            expires_at=self.clock.now() + timedelta(hours=70),
        )
        with self.world.store.write() as tx:
            escalations.request(self.tenant, tx, wanted)
        return wanted.id

    def begin(self, browser: Browser, wanted: str = "/ops/tasks") -> str:
        """Where the browser is sent."""
        done = browser.get(f"/ops/login/github?next={wanted}")
        assert done.status_code == 303
        return done.headers["Location"]

    def back(self, address: str, login: str) -> str:
        """The path that GitHub sends the browser back to, once the person has chosen."""
        answer = requests.get(f"{address}&login={login}", allow_redirects=False, timeout=5)
        assert answer.status_code == 302
        where = urlsplit(answer.headers["Location"])
        return f"{where.path}?{where.query}"

    def sign_in(self, login: str) -> Browser:
        browser = self.world.browser()
        done = browser.get(self.back(self.begin(browser), login))
        assert done.status_code == 303, done.text
        assert done.headers["Location"] == "/ops/tasks"
        return browser


@pytest.fixture(scope="module")
def github(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Github]:
    folder = tmp_path_factory.mktemp("oauth")
    (folder / "coven.db").write_bytes(_sqlite_file.read_bytes())
    store = open_store(f"sqlite:///{folder / 'coven.db'}")
    handle = launch_sandbox(folder / "sandbox")
    try:
        yield Github(store, folder, sandbox_kit.World(handle))
    finally:
        handle.stop()
        store.close()


def test_write_access_makes_a_maintainer_of_that_repository(github: Github) -> None:
    browser = github.sign_in("mira")
    tasks = browser.get("/ops/tasks").text
    assert "maintainer" in tasks
    assert "Work in shop" in tasks
    assert "Work in vault" not in tasks
    mine, other = github.propose(REPO), github.propose(OTHER)
    page = f"/ops/memory/{github.tenant}/{mine}"
    with github.world.store.read() as tx:
        shown = book.entry(github.tenant, tx, mine)
    assert shown is not None
    assert browser.post(f"{page}/approve", text_hash=shown.text_hash).status_code == 303
    with github.world.store.read() as tx:
        found = book.entry(github.tenant, tx, mine)
    assert found is not None
    assert (found.state, found.decided_by_login) == (EntryState.APPROVED, "mira")
    assert found.decided_by_id is not None
    assert browser.get(f"/ops/memory/{github.tenant}/{other}").status_code == 404
    assert browser.post(f"/ops/memory/{github.tenant}/{other}/deny").status_code == 404
    assert browser.get("/ops/settings").status_code == 404


def test_triage_lets_look_and_nothing_more(github: Github) -> None:
    browser = github.sign_in("rex")
    assert "viewer" in browser.get("/ops/tasks").text
    entry = github.propose(REPO)
    path = f"/ops/memory/{github.tenant}/{entry}"
    assert browser.get(path).status_code == 200
    assert browser.post(f"{path}/deny").status_code == 403


def test_who_has_no_rights_stays_outside(github: Github) -> None:
    browser = github.world.browser()
    done = browser.get(github.back(github.begin(browser), "sam"))
    assert done.status_code == 403
    assert "installed nowhere that you have rights in" in done.text
    assert browser.get("/ops/tasks").status_code == 303


def test_an_answer_that_nobody_asked_for_signs_nobody_in(github: Github) -> None:
    theirs = github.world.browser()
    answer = github.back(github.begin(theirs), "mira")
    victim = github.world.browser()
    assert victim.get(answer).status_code == 403
    github.begin(victim)
    assert victim.get(answer).status_code == 403
    assert victim.get("/ops/tasks").status_code == 303


def test_an_answer_works_once_and_in_its_own_browser(github: Github) -> None:
    browser = github.world.browser()
    answer = github.back(github.begin(browser), "mira")
    assert browser.get(answer).status_code == 303
    # The session that waited for it is over.
    assert browser.get(answer).status_code == 403


def test_a_code_of_another_browser_has_another_verifier(github: Github) -> None:
    stolen = parse_qs(urlsplit(github.back(github.begin(github.world.browser()), "mira")).query)
    browser = github.world.browser()
    state = parse_qs(urlsplit(github.begin(browser)).query)["state"][0]
    done = browser.get(f"/ops/login/github/callback?code={stolen['code'][0]}&state={state}")
    assert done.status_code == 503
    assert browser.get("/ops/tasks").status_code == 303


def test_a_refusal_at_github_is_told(github: Github) -> None:
    browser = github.world.browser()
    done = browser.get(github.back(github.begin(browser), "nobody-of-that-name"))
    assert done.status_code == 403


def test_nobody_is_led_elsewhere_afterwards(github: Github) -> None:
    browser = github.world.browser()
    done = browser.get(github.back(github.begin(browser, "//evil.example"), "mira"))
    assert done.headers["Location"] == "/ops/"


def test_rights_are_asked_for_again_within_the_hour(github: Github) -> None:
    browser = github.sign_in("mira")
    assert browser.get("/ops/tasks").status_code == 200
    github.clock.advance(timedelta(hours=1).total_seconds())
    assert browser.get("/ops/tasks").status_code == 303


def test_without_a_client_there_is_no_such_way_in(tmp_path: Path, sqlite_store: Store) -> None:
    browser = World(sqlite_store, tmp_path).browser()
    assert "Sign in with GitHub" not in browser.get("/ops/login").text
    assert browser.get("/ops/login/github").status_code == 404


def test_the_user_token_is_kept_nowhere(github: Github) -> None:
    browser = github.sign_in("mira")
    cookie = browser.client.get_cookie("coven_ops", path="/ops")
    assert cookie is not None
    session = github.world.app.extensions["coven_dashboard"].cookies.read(
        cookie.value, github.clock.now()
    )
    assert session.github.login == "mira"
    assert "ghu_" not in repr(session)
    assert session.github.grants[0].scope == TokenScope.MEMORY_WRITE


def test_write_access_decides_about_actions_of_that_repository_only(github: Github) -> None:
    browser = github.sign_in("mira")
    mine = github.escalate(REPO)
    other = github.escalate(OTHER)
    page = browser.get("/ops/rules").text
    assert mine in page
    assert other not in page
    assert browser.post(f"/ops/rules/escalations/{other}/deny").status_code == 404
    assert browser.post(f"/ops/rules/escalations/{mine}/deny").status_code == 303
    with github.world.store.read() as tx:
        found = escalations.get(github.tenant, tx, mine)
        left = escalations.get(github.tenant, tx, other)
    assert found is not None
    assert (found.status, found.decided_by) == (Status.DENIED, "mira")
    assert left is not None
    assert left.status is Status.PENDING
    assert github.sign_in("rex").post(f"/ops/rules/escalations/{mine}/approve").status_code == 403
