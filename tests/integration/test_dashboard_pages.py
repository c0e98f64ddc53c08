"""Every page for every role: what is shown, what is not, and that nothing of others is."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from coven.api_tokens import TokenScope
from coven.store.engine import open_store
from coven.store.tables_api import api_audit
from tests.ledger import OTHER, TENANT
from tests.support.dashboard import SECRET, SERVICE, Browser, Seeded, World
from webhooks.dashboard.asking import Page
from webhooks.dashboard.pages import PAGES


@pytest.fixture(scope="module")
def seeded(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "coven.db").write_bytes(_sqlite_file.read_bytes())
    store = open_store(f"sqlite:///{folder / 'coven.db'}")
    yield Seeded(World(store, folder))
    store.close()


@pytest.fixture(scope="module")
def operator(seeded: Seeded) -> Browser:
    return seeded.world.operator()


@pytest.fixture(scope="module")
def viewer(seeded: Seeded) -> Browser:
    return seeded.world.viewer()


def address(path: str, seeded: Seeded, tenant: int = TENANT) -> str:
    """A page's path with ids of one tenant."""
    owner = TENANT if tenant == TENANT else OTHER
    names = {
        "installation": str(owner),
        "entry_id": seeded.entries[owner].id,
        "task_id": seeded.tasks[owner],
        "delivery_id": seeded.delivery[owner],
        "escalation_id": seeded.escalation,
    }
    return "/ops" + re.sub(r"<(\w+)>", lambda match: names[match[1]], path)


GETS = [page for page in PAGES if page.method == "GET"]
NAMING = [page for page in PAGES if "<" in page.path]
POSTS = [page for page in PAGES if page.method == "POST"]


@pytest.mark.parametrize("page", GETS, ids=lambda page: page.name)
def test_every_page_is_shown_to_operators(seeded: Seeded, operator: Browser, page: Page) -> None:
    for query in ("", "?installation_id=41", "?installation_id=42"):
        found = operator.get(address(page.path, seeded) + query)
        if page.needs and query.endswith("42"):
            continue
        assert found.status_code == (400 if page.name == "memory_export" and not query else 200), (
            found.text
        )
        assert "Undefined" not in found.text


@pytest.mark.parametrize("page", GETS, ids=lambda page: page.name)
def test_a_stranger_is_sent_to_sign_in(seeded: Seeded, page: Page) -> None:
    found = seeded.world.browser().get(address(page.path, seeded))
    assert found.status_code == 303
    assert found.headers["Location"].startswith("/ops/login?next=%2Fops%2F")


@pytest.mark.parametrize("page", POSTS, ids=lambda page: page.name)
def test_a_stranger_changes_nothing(seeded: Seeded, page: Page) -> None:
    stranger = seeded.world.browser()
    token = stranger.csrf("/ops/login")
    found = stranger.post(address(page.path, seeded), csrf=token)
    assert found.status_code == 401


@pytest.mark.parametrize("page", NAMING, ids=lambda page: f"{page.method}-{page.name}")
def test_what_belongs_to_others_is_not_there(seeded: Seeded, page: Page) -> None:
    """The same answer as for what never existed, for every id in every path."""
    path = page.path
    if page.name.startswith("escalation"):
        mine = seeded.world.browser(seeded.world.token(OTHER, TokenScope.ADMIN))
        foreign, unknown = address(path, seeded), address(path, seeded).replace("E-", "E-0")
    else:
        mine = seeded.world.browser(seeded.world.token(TENANT, TokenScope.ADMIN))
        foreign = address(path, seeded, OTHER)
        unknown = "/ops" + re.sub(r"<\w+>", "9" * 32, path)
        if page.needs:
            unknown = "/ops" + re.sub(r"<\w+>", "M-00000000", path.replace("<installation>", "41"))
    send = mine.get if page.method == "GET" else mine.post
    theirs, nothing = send(foreign), send(unknown)
    assert (theirs.status_code, nothing.status_code) == (404, 404)
    assert _body(theirs.text) == _body(nothing.text)


def _body(text: str) -> str:
    return text.partition("<main")[2]


@pytest.mark.parametrize("page", GETS, ids=lambda page: page.name)
def test_pages_of_a_tenant_name_no_other(seeded: Seeded, viewer: Browser, page: Page) -> None:
    if page.operators:
        assert viewer.get(address(page.path, seeded)).status_code == 404
        return
    text = viewer.get(address(page.path, seeded)).text
    for word in ("other/secret", "of 42", seeded.tasks[OTHER], seeded.entries[OTHER].id, "worker-"):
        assert word not in text.replace("worker-1", "" if page.name == "task" else "worker-1")


@pytest.mark.parametrize("path", ["/ops/", "/ops/tasks", "/ops/memory", "/ops/audit", "/ops/usage"])
def test_naming_another_installation_is_answered_as_nothing(viewer: Browser, path: str) -> None:
    assert viewer.get(f"{path}?installation_id=42").status_code == 404
    assert viewer.get(f"{path}?installation_id=999").status_code == 404
    assert viewer.get(f"{path}?installation_id=4x1").status_code == 404


def test_viewers_have_no_buttons_and_no_output(seeded: Seeded, viewer: Browser) -> None:
    task = address("/tasks/<task_id>", seeded)
    for path in (task, "/ops/memory", address("/memory/<installation>/<entry_id>", seeded)):
        text = viewer.get(path).text
        # Signing out is the only thing to send.
        assert text.count('method="post"') == 1
    text = viewer.get(task).text
    assert "read 4 files" not in text
    assert "What the delivery said" not in text
    assert "read 4 files" in seeded.world.maintainer().get(task).text


def test_no_secret_is_on_any_page(seeded: Seeded, operator: Browser) -> None:
    for page in GETS:
        text = operator.get(address(page.path, seeded) + "?installation_id=41").text
        assert SECRET not in text
        assert SERVICE not in text
        assert "It&#39;s a Secret" not in text
    assert "set (hidden)" in operator.get("/ops/settings").text


def test_a_token_of_some_repositories_sees_them_only(seeded: Seeded) -> None:
    narrow = seeded.world.browser("narrow-token-0123456789abcdef")
    tasks = narrow.get("/ops/tasks").text
    assert "octo/demo" in tasks
    assert "octo/tools" not in tasks
    assert "octo/tools" not in narrow.get("/ops/tasks.csv").text
    assert "octo/tools" not in narrow.get("/ops/").text
    assert "octo/tools" not in narrow.get("/ops/usage").text
    assert narrow.get("/ops/memory").status_code == 200
    assert narrow.get("/ops/memory?repo=octo/tools").text.count("M-") == 0
    assert "you see your own acts" in narrow.get("/ops/audit").text


def test_pages_say_which_memory_shaped_a_run_and_which_runs_an_entry(
    seeded: Seeded, operator: Browser
) -> None:
    task = html.unescape(operator.get(address("/tasks/<task_id>/memory", seeded)).text)
    for heading in ("Supplied (1)", "Used (1)", "Proposed (1)", "Refused (1)"):
        assert heading in task
    assert "held a credential" in task
    entry = html.unescape(operator.get(address("/memory/<installation>/<entry_id>", seeded)).text)
    assert "Which reviews did this entry shape?" in entry
    assert "review octo/demo#3" in entry


def test_the_list_goes_on_where_it_ended_and_keeps_its_filter(operator: Browser) -> None:
    seen: list[str] = []
    path: str | None = "/ops/tasks?installation_id=41&verb=review&limit=5"
    while path:
        text = operator.get(path).text
        seen += re.findall(r'href="/ops/tasks/([0-9a-f]{32})"', text)
        after = re.search(r'rel="next" href="([^"]+)"', text)
        path = html.unescape(after[1]) if after else None
        assert path is None or "verb=review" in path
    assert len(seen) == len(set(seen)) == 13


def test_a_made_up_place_in_a_list_is_refused(operator: Browser) -> None:
    assert operator.get("/ops/tasks?cursor=AAAA").status_code == 400
    first = re.search(r'cursor=([^"&]+)', operator.get("/ops/tasks?limit=2").text)
    assert first is not None
    assert operator.get(f"/ops/tasks?limit=2&cursor={first[1]}").status_code == 200
    assert operator.get(f"/ops/tasks?state=failed&cursor={first[1]}").status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "state=x",
        "repo=a",
        "since=never",
        "limit=0",
        "limit=9999",
        "thread=x",
        "q=%00",
        "verb=a%20b",
    ],
)
def test_a_bad_filter_is_told_not_a_crash(operator: Browser, query: str) -> None:
    found = operator.get(f"/ops/tasks?{query}")
    assert found.status_code == 400
    assert "can&#39;t be read" in found.text


def test_days_and_empty_fields_of_a_form_are_understood(operator: Browser) -> None:
    found = operator.get("/ops/tasks?since=2025-12-25&until=2026-01-03&q=&state=&repo=")
    assert found.status_code == 200
    assert 'value="2025-12-25"' in found.text


def test_every_view_is_on_record(seeded: Seeded) -> None:
    token = seeded.world.token(TENANT)
    browser = seeded.world.browser(token)
    browser.get("/ops/tasks")
    browser.get(address("/tasks/<task_id>", seeded))
    browser.get("/ops/settings")
    name = f"token:{token.split('_')[1]}"
    with seeded.world.store.read() as tx:
        rows = tx.execute(
            select(api_audit.c.action, api_audit.c.result, api_audit.c.installation_id)
            .where(api_audit.c.caller == name)
            .order_by(api_audit.c.id)
        ).all()
    assert [tuple(row) for row in rows] == [
        ("ops.login", "ok", TENANT),
        ("ops.tasks", "ok", TENANT),
        ("ops.task", "ok", TENANT),
    ]


def test_an_operator_who_looks_at_a_tenants_task_is_on_the_tenants_record(
    seeded: Seeded, operator: Browser
) -> None:
    assert operator.get(address("/tasks/<task_id>", seeded, OTHER)).status_code == 200
    seen = seeded.world.viewer(OTHER).get("/ops/audit")
    assert seen.status_code == 200
    assert "<code>ops.task</code>" in seen.text


def test_what_refreshes_by_itself_is_counted_by_the_minute(seeded: Seeded) -> None:
    browser = seeded.world.viewer()
    for _ in range(5):
        assert browser.get("/ops/live", headers={"HX-Request": "true"}).status_code == 200
    with seeded.world.store.read() as tx:
        times = tx.execute(
            select(func.max(api_audit.c.times)).where(api_audit.c.action == "ops.now_live")
        ).scalar_one()
    assert times == 5


def test_the_export_is_the_books_and_complete(seeded: Seeded, operator: Browser) -> None:
    found = operator.get("/ops/memory/export?installation_id=41")
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert {line["repo"] for line in lines} == {"octo/demo"}
    assert all("decisions" in line for line in lines)
    assert "attachment" in found.headers["Content-Disposition"]


def test_the_live_part_of_a_session_that_is_over_leads_to_signing_in(seeded: Seeded) -> None:
    found = seeded.world.browser().get("/ops/live", headers={"HX-Request": "true"})
    assert (found.status_code, found.headers["HX-Redirect"]) == (401, "/ops/login")


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.mark.parametrize("path", ["/ops/", "/ops/login", "/ops/nothing", "/ops/static/ops.css"])
def test_every_answer_has_the_headers(operator: Browser, path: str) -> None:
    found = operator.get(path)
    assert {name: found.headers[name] for name in HEADERS} == HEADERS
    stored = "no-store" if "static" not in path else "public, max-age=31536000, immutable"
    assert found.headers["Cache-Control"] == stored
    found.close()


@pytest.mark.parametrize("page", GETS, ids=lambda page: page.name)
def test_no_page_has_a_script_or_style_of_its_own(
    seeded: Seeded, operator: Browser, page: Page
) -> None:
    text = operator.get(address(page.path, seeded) + "?installation_id=41").text
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vals=.js", text)
    assert set(re.findall(r"<script[^>]*src=\"([^\"?]+)", text)) <= {
        "/ops/static/htmx-2.0.11.min.js"
    }
    assert len(re.findall("<script", text)) == len(re.findall("<script[^>]*src=", text))
    for link in re.findall(r'(?:src|href|action)="(https?:[^"]+)"', text):
        assert link.startswith(("https://github.com/", "http://127.0.0.1:5555"))


def test_unknown_pages_and_methods_are_told_as_pages(operator: Browser) -> None:
    found = operator.get("/ops/nothing")
    assert (found.status_code, found.mimetype) == (404, "text/html")
    found = operator.client.post("/ops/tasks")
    assert (found.status_code, found.mimetype) == (405, "text/html")
    assert "GET" in found.headers["Allow"]
    assert operator.get("/ops").headers["Location"].endswith("/ops/")
    assert operator.get("/webhook").mimetype == "application/json"


def test_no_get_changes_anything(seeded: Seeded, operator: Browser) -> None:
    for page in POSTS:
        assert operator.get(address(page.path, seeded)).status_code in (404, 405)
