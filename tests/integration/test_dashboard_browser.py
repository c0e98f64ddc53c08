"""The dashboard in a real browser: every page, every action, the keyboard, and what axe finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from coven.api_tokens import TokenScope
from coven.memory.book import EntryState
from coven.store import book
from coven.store.engine import open_store
from coven.values import TaskState
from tests.ledger import TENANT, look, put
from tests.services import missing
from tests.support.dashboard import HOSTILE, Seeded, World, served

CHROMIUM = os.environ.get("COVEN_TEST_CHROMIUM", "/usr/bin/chromium")
WIDTHS = (360, 768, 1280)
SERIOUS = {"serious", "critical"}


@dataclass
class Site:
    """A running dashboard and a browser that is signed in as an operator."""

    base: str
    seeded: Seeded
    context: BrowserContext
    bare: BrowserContext
    """Nobody is signed in here."""
    problems: list[str]
    """What pages complained about: errors, refused by the policy, failed requests."""

    def page(self) -> Page:
        return self.context.pages[0]

    def open(self, path: str) -> Page:
        page = self.page()
        page.goto(self.base + path)
        return page

    def paths(self) -> dict[str, str]:
        """Every page, by name."""
        seeded = self.seeded
        task, entry = seeded.tasks[TENANT], seeded.entries[TENANT].id
        return {
            "now": "/ops/?installation_id=41&refresh=off",
            "tasks": "/ops/tasks?installation_id=41",
            "task": f"/ops/tasks/{task}",
            "task memory": f"/ops/tasks/{task}/memory",
            "deliveries": "/ops/deliveries?installation_id=41",
            "delivery": "/ops/deliveries/ignored-41-0",
            "memory": "/ops/memory?installation_id=41",
            "choose": "/ops/memory",
            "entry": f"/ops/memory/41/{entry}",
            "revocations": "/ops/memory/revocations?installation_id=41",
            "rules": "/ops/rules?installation_id=41",
            "usage": "/ops/usage?installation_id=41",
            "audit": "/ops/audit",
            "settings": "/ops/settings",
            "error": "/ops/nothing",
        }


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        missing("chromium", f"there is no {CHROMIUM}; apt-get install chromium")
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(
    browser: Browser, _sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "coven.db").write_bytes(_sqlite_file.read_bytes())
    store = open_store(f"sqlite:///{folder / 'coven.db'}")
    world = World(store, folder)
    seeded = Seeded(world, work=6)
    seeded.propose(TENANT, "notes/hostile", HOSTILE)
    problems: list[str] = []
    with served(world) as base:
        # axe is put into the page from outside, which our policy would refuse.
        context = browser.new_context(reduced_motion="reduce", bypass_csp=True)
        bare = browser.new_context()
        for each in (context, bare):
            each.on("weberror", lambda error: problems.append(str(error.error)))
            each.on(
                "console",
                lambda said: problems.append(said.text) if said.type == "error" else None,
            )
            each.on(
                "request",
                lambda sent: (
                    None
                    if sent.url.startswith((base, "data:"))
                    else problems.append(f"asked {sent.url}")
                ),
            )
        page = context.new_page()
        sign_in(page, base, world.token(None, TokenScope.ADMIN))
        yield Site(base, seeded, context, bare, problems)
        for each in (context, bare):
            each.close()
    store.close()


def sign_in(page: Page, base: str, token: str) -> None:
    """As a person does it, with the keyboard."""
    page.context.clear_cookies()
    page.goto(f"{base}/ops/login")
    page.get_by_label("Token").focus()
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/ops/")


@pytest.fixture(autouse=True)
def _quiet(site: Site) -> Iterator[None]:
    """Nothing on a page goes wrong unseen. That a page answers 4xx is no fault of the page."""
    site.problems.clear()
    yield
    assert not [text for text in site.problems if "the server responded with a status" not in text]


NAMES = [
    *["now", "tasks", "task", "task memory", "deliveries", "delivery", "memory", "choose"],
    *["entry", "revocations", "rules", "usage", "audit", "settings", "error"],
]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_and_axe_finds_nothing_serious(site: Site, name: str) -> None:
    page = site.open(site.paths()[name])
    for details in page.locator("details").all()[:8]:
        details.evaluate("each => each.open = true")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
        options = {"resultTypes": ["violations"], **rules}
        found = Axe().run(page, options=options).response["violations"]
        serious = [
            f"{scheme}: {each['id']}: {node['html']}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]
        assert not serious, "\n".join(serious)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide at {width}"
    assert page.locator("main").count() == page.locator("h1").count() == 1


def test_the_policy_lets_our_own_files_work(site: Site) -> None:
    """Without a bypass: styles apply, the script runs and refreshes the page by itself."""
    page = site.bare.new_page()
    sign_in(page, site.base, site.seeded.world.token(TENANT))
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius") != "0px"
    with page.expect_response(lambda got: "/ops/live" in got.url, timeout=15_000) as got:
        page.wait_for_function("window.htmx !== undefined")
    assert got.value.status == 200
    assert page.locator("#live .tiles").count() == 1
    page.get_by_role("link", name="Stop refreshing").click()
    assert page.locator("[hx-get]").count() == 0
    page.close()


def test_nothing_that_is_put_into_a_page_runs(site: Site) -> None:
    page = site.bare.new_page()
    sign_in(page, site.base, site.seeded.world.token(TENANT))
    page.goto(f"{site.base}/ops/memory")
    assert page.get_by_text('<script>alert("x")</script>').count() >= 1
    ran, refused = page.evaluate(INJECTED)
    assert ran is None
    assert {"script-src-elem", "script-src-attr", "style-src-attr", "connect-src"} <= set(refused)
    page.close()
    site.problems.clear()


INJECTED = """() => new Promise(done => {
  const refused = [];
  addEventListener("securitypolicyviolation", event => refused.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "window.ran = 1";
  const other = document.createElement("div");
  other.innerHTML = '<img src="/ops/none" onerror="window.ran = 2"><b style="color: red">x</b>';
  document.body.append(script, other);
  fetch("https://example.com/").catch(
    () => setTimeout(() => done([window.ran ?? null, refused]), 300));
})"""


def test_a_proposal_is_approved_with_the_keyboard_alone(site: Site) -> None:
    entry = site.seeded.propose(TENANT, "notes/keyboard", "The keyboard is enough.")
    page = site.open("/ops/memory?installation_id=41")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if entry.id in page.evaluate("document.activeElement.textContent") and page.evaluate(
            "document.activeElement.tagName === 'BUTTON'"
        ):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.get_by_role("status").get_by_text(f"{entry.id} is approved").wait_for()
    with site.seeded.world.store.read() as tx:
        found = book.entry(TENANT, tx, entry.id)
    assert found is not None
    assert found.state is EntryState.APPROVED


def test_a_proposal_is_denied_then_revoked_and_redacted(site: Site) -> None:
    entry = site.seeded.propose(TENANT, "notes/mouse", "To be taken back.")
    page = site.open(f"/ops/memory/41/{entry.id}")
    page.get_by_role("button", name=f"Deny {entry.id}").click()
    page.get_by_text(f"{entry.id} is turned down").wait_for()
    page.get_by_text("Revoke this place").click()
    page.get_by_role("button", name=f"Revoke {entry.id}").click()
    page.get_by_text("is revoked and stays closed").wait_for()
    page.get_by_text("Redact the text").click()
    page.get_by_role("button", name=f"Redact {entry.id}").click()
    page.get_by_text(f"{entry.id} has no text any more").wait_for()
    assert page.locator("blockquote").inner_text() == "[redacted]"


def test_a_place_is_closed_and_opened_again(site: Site) -> None:
    page = site.open("/ops/memory/revocations?installation_id=41")
    page.get_by_label("Key, id, or what keys begin with").fill("repo/octo/demo/old")
    page.get_by_label("What is meant").select_option("everything below it")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("repo/octo/demo/old is revoked").wait_for()
    page.get_by_role("button", name="Lift repo/octo/demo/old").click()
    page.get_by_text("repo/octo/demo/old is open again").wait_for()


def test_the_book_is_exported(site: Site) -> None:
    page = site.open("/ops/memory?installation_id=41")
    with page.expect_download() as got:
        page.get_by_role("link", name="Export as JSON Lines").click()
    assert got.value.suggested_filename == "memory-41.jsonl"


def test_tasks_are_filtered_by_an_address_that_can_be_saved(site: Site) -> None:
    page = site.open("/ops/tasks?installation_id=41")
    page.get_by_label("State").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**state=failed**")
    assert {text.strip() for text in page.locator("tbody .state").all_inner_texts()} == {"failed"}
    with page.expect_download() as got:
        page.get_by_role("link", name="Download as CSV").click()
    assert got.value.suggested_filename == "tasks.csv"


def test_a_task_is_cancelled_and_a_failed_one_runs_again(site: Site) -> None:
    store = site.seeded.world.store
    task = put(store, title="To be cancelled")
    page = site.open(f"/ops/tasks/{task}")
    page.get_by_label("Why").fill("not needed any more")
    page.get_by_role("button", name="Cancel this task").click()
    page.get_by_text("The task will not start").wait_for()
    assert look(store, task).cancel_requested_at is not None
    site.open("/ops/tasks?installation_id=41&state=failed")
    page.locator("tbody a").first.click()
    page.get_by_role("button", name="Run it again").click()
    page.get_by_text("The task runs again").wait_for()
    assert look(store, page.url.rpartition("/")[2]).state is TaskState.QUEUED  # type: ignore[arg-type]


def test_an_ignored_delivery_is_replayed(site: Site) -> None:
    page = site.open("/ops/deliveries/ignored-41-1")
    page.get_by_role("button", name="Replay this delivery").click()
    page.get_by_text("Routed again").wait_for()


def test_an_action_is_tried_and_an_escalation_decided(site: Site) -> None:
    page = site.open("/ops/rules?installation_id=41")
    page.get_by_role("button", name="Ask the rules").click()
    page.get_by_text("Verdict: escalate").wait_for()
    page.goto(f"{site.base}/ops/rules?installation_id=41")
    page.get_by_role("button", name=f"Deny {site.seeded.escalation}").click()
    page.get_by_text("is denied").first.wait_for()


def test_an_installation_is_chosen(site: Site) -> None:
    page = site.open("/ops/")
    page.get_by_label("Installation").select_option("other")
    page.get_by_role("button", name="Switch").click()
    page.wait_for_url("**installation_id=42")
    page.get_by_role("link", name="Tasks").click()
    assert "octo/" not in page.locator("main").inner_text()


def test_signing_out_ends_it(site: Site) -> None:
    page = site.bare.new_page()
    sign_in(page, site.base, site.seeded.world.token(TENANT))
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ops/login")
    page.goto(f"{site.base}/ops/tasks")
    assert page.url.endswith("/ops/login?next=%2Fops%2Ftasks")
    page.close()
