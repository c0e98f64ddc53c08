"""What may be changed from a page, by whom, from where, and that it is the book's own rule."""

from __future__ import annotations

import copy
import csv
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from coven.api_tokens import TokenScope
from coven.errors import StoreUnavailable
from coven.memory.book import EntryState
from coven.store import api_tokens, book, escalations
from coven.store.engine import open_store
from coven.store.tables import attempts, surfaces, tasks
from coven.store.tables_api import api_audit
from coven.store.tables_governance import signed_events
from coven.values import TaskState
from tests.ledger import OTHER, TENANT, look, put
from tests.support.dashboard import HOSTILE, ORIGIN, Browser, Seeded, World
from webhooks.dashboard.sessions import BY_TOKEN


@pytest.fixture(scope="module")
def model(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Seeded, Path]:
    """Seeded once; each test has a copy of the ledgers."""
    folder = tmp_path_factory.mktemp("model")
    file = folder / "coven.db"
    shutil.copyfile(_sqlite_file, file)
    store = open_store(f"sqlite:///{file}")
    found = Seeded(World(store, folder), work=2)
    store.close()  # the last one out writes everything into the file
    return found, folder


@pytest.fixture
def seeded(model: tuple[Seeded, Path], tmp_path: Path) -> Iterator[Seeded]:
    made, folder = model
    shutil.copyfile(folder / "coven.db", tmp_path / "coven.db")
    shutil.copytree(folder / "state", tmp_path / "state")
    store = open_store(f"sqlite:///{tmp_path / 'coven.db'}")
    found = copy.copy(made)
    found.world = World(store, tmp_path)
    yield found
    store.close()


def entry_path(seeded: Seeded, word: str = "") -> str:
    return f"/ops/memory/41/{seeded.entries[TENANT].id}" + (f"/{word}" if word else "")


def state_of(seeded: Seeded) -> EntryState:
    with seeded.world.store.read() as tx:
        found = book.entry(TENANT, tx, seeded.entries[TENANT].id)
    assert found is not None
    return found.state


@pytest.mark.parametrize(
    ("word", "state"), [("approve", EntryState.APPROVED), ("deny", EntryState.REJECTED)]
)
def test_a_maintainer_decides_a_proposal(seeded: Seeded, word: str, state: EntryState) -> None:
    browser = seeded.world.maintainer()
    done = browser.post(entry_path(seeded, word), text_hash=seeded.entries[TENANT].text_hash)
    assert (done.status_code, done.headers["Location"]) == (303, entry_path(seeded))
    assert state_of(seeded) is state
    page = browser.get(entry_path(seeded)).text
    assert (
        seeded.entries[TENANT].id + (" is approved" if word == "approve" else " is turned down")
        in page
    )
    assert "flash good" not in browser.get(entry_path(seeded)).text


def test_an_answer_counts_for_the_text_that_was_shown(seeded: Seeded) -> None:
    browser = seeded.world.maintainer()
    done = browser.post(entry_path(seeded, "approve"), text_hash="0" * 64)
    assert done.status_code == 409
    assert "read it again" in done.text
    assert browser.post(entry_path(seeded, "approve"), text_hash="").status_code == 400
    assert state_of(seeded) is EntryState.PENDING


def test_a_text_that_was_changed_meanwhile_is_not_approved(seeded: Seeded) -> None:
    shown = seeded.entries[TENANT]
    seeded.propose(TENANT, "conventions/tests", "Another text")
    done = seeded.world.maintainer().post(entry_path(seeded, "approve"), text_hash=shown.text_hash)
    assert done.status_code == 409


def test_revoking_lifting_and_redacting(seeded: Seeded) -> None:
    browser = seeded.world.maintainer()
    assert browser.post(entry_path(seeded, "redact")).status_code == 303
    assert "clock that is passed in" not in browser.get(entry_path(seeded)).text
    other = seeded.propose(TENANT, "conventions/docs", "Docs are short.")
    assert browser.post(f"/ops/memory/41/{other.id}/revoke").status_code == 303
    standing = browser.get("/ops/memory/revocations").text
    assert "repo/octo/demo/conventions/docs" in standing
    place = "repo/octo/demo/conventions/docs"
    assert browser.post("/ops/memory/lift", target=place).status_code == 303
    assert place not in browser.get("/ops/memory/revocations").text.partition("<table")[2]
    assert place in browser.get("/ops/memory/revocations?all=1").text
    assert browser.post("/ops/memory/lift", target=place).status_code == 404


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"as": "key", "target": "repo/octo/demo/build/cache"}, 303),
        ({"as": "prefix", "target": "repo/octo/demo"}, 303),
        ({"as": "key", "target": "repo/octo/demo"}, 400),
        ({"as": "key", "target": "nonsense"}, 400),
        ({"as": "key", "target": ""}, 400),
        ({"as": "prefix", "target": "repo/other/secret"}, 404),
        ({"as": "installation_id", "target": "42"}, 400),
        ({"as": "repo", "target": "octo/demo"}, 400),
    ],
)
def test_a_place_is_closed_by_key_or_prefix(
    seeded: Seeded, form: dict[str, str], status: int
) -> None:
    done = seeded.world.maintainer().post("/ops/memory/revoke", **form)
    assert done.status_code in ({404, 400} if status == 404 else {status}), done.text
    with seeded.world.store.read() as tx:
        assert len(book.revocations(OTHER, tx)) == 1


ACTIONS = ("approve", "deny", "redact", "revoke")


@pytest.mark.parametrize("word", ACTIONS)
def test_a_viewer_decides_nothing(seeded: Seeded, word: str) -> None:
    done = seeded.world.viewer().post(
        entry_path(seeded, word), text_hash=seeded.entries[TENANT].text_hash
    )
    assert done.status_code == 403
    assert state_of(seeded) is EntryState.PENDING


@pytest.mark.parametrize(
    ("origin", "csrf"),
    [
        ("https://evil.example", None),
        ("null", None),
        (None, None),
        (ORIGIN, ""),
        (ORIGIN, "0" * 64),
        (ORIGIN + ":81", None),
    ],
)
def test_a_form_of_another_site_changes_nothing(
    seeded: Seeded, origin: str | None, csrf: str | None
) -> None:
    browser = seeded.world.maintainer()
    form: dict[str, Any] = {"text_hash": seeded.entries[TENANT].text_hash}
    if csrf is not None:
        form["csrf"] = csrf
    done = browser.post(entry_path(seeded, "approve"), origin, **form)
    assert done.status_code == 403
    assert state_of(seeded) is EntryState.PENDING


def test_a_form_of_another_session_changes_nothing(seeded: Seeded) -> None:
    theirs = seeded.world.maintainer().csrf()
    done = seeded.world.maintainer().post(entry_path(seeded, "deny"), csrf=theirs)
    assert done.status_code == 403


def test_the_cookie_is_for_us_only(seeded: Seeded, tmp_path: Path) -> None:
    world = seeded.world
    done = world.browser().sign_in(world.token(TENANT))
    cookie = done.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/ops" in cookie
    assert f"Max-Age={int(BY_TOKEN.total_seconds())}" in cookie
    secure = World(world.store, tmp_path, server={"public_url": "https://coven.example"})
    cookie = secure.browser().get("/ops/login").headers["Set-Cookie"]
    assert cookie.startswith("__Host-coven_ops=")
    assert "Secure" in cookie


def test_signing_in_begins_another_session(seeded: Seeded) -> None:
    browser = seeded.world.browser()
    before = browser.csrf("/ops/login")
    browser.sign_in(seeded.world.token(TENANT))
    assert browser.csrf() != before


def test_wrong_tokens_are_refused_and_then_slowed_down(seeded: Seeded) -> None:
    browser = seeded.world.browser()
    for _ in range(20):
        assert browser.sign_in("wrong").status_code == 401
    assert browser.sign_in("wrong").status_code == 429
    # Nobody is locked out by others: a token of the ledger can't be guessed.
    assert browser.sign_in(seeded.world.token(TENANT)).status_code == 303


def test_a_login_form_of_another_site_signs_nobody_in(seeded: Seeded) -> None:
    browser = seeded.world.browser()
    form = {"csrf": browser.csrf("/ops/login"), "token": seeded.world.token(TENANT)}
    done = browser.client.post("/ops/login", data=form, headers={"Origin": "https://evil.example"})
    assert done.status_code == 403
    assert browser.get("/ops/").status_code == 303


def test_a_revoked_or_expired_token_ends_its_sessions(seeded: Seeded) -> None:
    world = seeded.world
    token = world.token(TENANT)
    browser = world.browser(token)
    assert browser.get("/ops/").status_code == 200
    with world.store.write() as tx:
        api_tokens.revoke(tx, token.split("_")[1], world.now)
    assert browser.get("/ops/").status_code == 303


def test_signing_out_ends_the_session(seeded: Seeded) -> None:
    browser = seeded.world.viewer()
    assert browser.client.post("/ops/logout", headers={"Origin": ORIGIN}).status_code == 403
    assert browser.post("/ops/logout").headers["Location"] == "/ops/login"
    assert browser.get("/ops/").status_code == 303


def test_an_admin_cancels_and_retries(seeded: Seeded) -> None:
    world = seeded.world
    queued = put(world.store)
    browser = world.browser(world.token(TENANT, TokenScope.ADMIN))
    assert browser.post(f"/ops/tasks/{queued}/cancel", reason="not needed").status_code == 303
    assert "not needed" in (look(world.store, queued).cancel_reason or "")
    assert browser.post(f"/ops/tasks/{seeded.tasks[TENANT]}/cancel").status_code == 409
    failed = put(world.store)
    with world.store.write() as tx:
        tx.execute(update(tasks).where(tasks.c.id == failed).values(state="failed"))
    assert browser.post(f"/ops/tasks/{failed}/retry").status_code == 303
    assert look(world.store, failed).state is TaskState.QUEUED
    assert ("session", failed) in world.bell.rung
    assert world.maintainer().post(f"/ops/tasks/{failed}/cancel").status_code == 403


def test_an_ignored_delivery_is_routed_again(seeded: Seeded) -> None:
    browser = seeded.world.operator()
    done = browser.post("/ops/deliveries/ignored-41-0/replay")
    assert done.status_code == 303, done.text
    assert "Routed again" in browser.get(done.headers["Location"]).text
    task = browser.post(f"/ops/deliveries/{seeded.delivery[TENANT]}/replay")
    assert task.status_code == 409


@pytest.mark.parametrize(("word", "state"), [("approve", "approved"), ("deny", "denied")])
def test_an_escalation_is_decided_once(seeded: Seeded, word: str, state: str) -> None:
    browser = seeded.world.operator()
    path = f"/ops/rules/escalations/{seeded.escalation}/{word}"
    assert seeded.world.maintainer().post(path).status_code == 403
    assert browser.post(path).status_code == 303
    with seeded.world.store.read() as tx:
        found = escalations.get(TENANT, tx, seeded.escalation)
        assert found is not None
        assert found.status == state
        events = tx.execute(select(signed_events.c.event_type)).scalars().all()
    assert f"governance.escalation_{state}" in events
    assert browser.post(path).status_code in (404, 409)


def test_an_action_is_tried_without_a_trace(seeded: Seeded) -> None:
    browser = seeded.world.operator()
    with seeded.world.store.read() as tx:
        before = len(tx.execute(select(signed_events.c.sequence)).all())
    action = '{"kind": "network_request", "method": "GET", "url": "http://169.254.169.254/"}'
    found = browser.post("/ops/rules/try", action=action)
    assert found.status_code == 200
    assert 's-refuse">refuse' in found.text
    assert browser.post("/ops/rules/try", action="{").status_code == 200
    with seeded.world.store.read() as tx:
        assert len(tx.execute(select(signed_events.c.sequence)).all()) == before
    assert seeded.world.maintainer().post("/ops/rules/try", action=action).status_code == 404


def test_refusals_and_changes_are_on_record(seeded: Seeded) -> None:
    seeded.world.maintainer().post(entry_path(seeded, "approve"), text_hash="0" * 64)
    seeded.world.maintainer().post(entry_path(seeded, "redact"))
    with seeded.world.store.read() as tx:
        rows = tx.execute(select(api_audit.c.action, api_audit.c.result)).all()
    assert ("ops.memory_approve", "text_changed") in [tuple(row) for row in rows]
    assert ("ops.memory_redact", "ok") in [tuple(row) for row in rows]


# Hostile rows: everything that comes from outside holds markup, formulas and hidden characters.


@pytest.fixture
def hostile(seeded: Seeded) -> tuple[Browser, str]:
    world = seeded.world
    entry = seeded.propose(TENANT, "notes/hostile", HOSTILE)
    task = put(world.store, title=HOSTILE, actor_login="=cmd|'/c calc'!A0", delivery_id=None)
    broken = {"review": {"findings": [{"title": HOSTILE, "body": HOSTILE, "severity": HOSTILE}]}}
    with world.store.write() as tx:
        tx.execute(
            update(tasks)
            .where(tasks.c.id == task)
            .values(
                state="failed",
                outcome="contract_violation",
                summary=HOSTILE,
                detail=HOSTILE,
                result=broken,
                branch=HOSTILE,
            )
        )
        tx.execute(
            update(attempts)
            .where(attempts.c.task_id == seeded.tasks[TENANT])
            .values(task_id=task, stdout_tail="\ufffd" + HOSTILE, detail=HOSTILE, worker=HOSTILE)
        )
    assert entry.id
    return world.operator(), task


def test_hostile_texts_are_shown_and_do_nothing(hostile: tuple[Browser, str]) -> None:
    browser, task = hostile
    for path in (
        f"/ops/tasks/{task}",
        "/ops/tasks",
        "/ops/memory?installation_id=41",
        "/ops/?installation_id=41",
    ):
        text = browser.get(path).text
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "\u200b" not in text
        assert "\U000e0041" not in text
    assert "&lt;script&gt;alert" in browser.get(f"/ops/tasks/{task}").text


def test_no_cell_of_a_download_is_a_formula(hostile: tuple[Browser, str]) -> None:
    browser, task = hostile
    rows = list(csv.reader(io.StringIO(browser.get("/ops/tasks.csv").text)))
    assert task in [row[0] for row in rows]
    cells = [cell for row in rows for cell in row]
    assert "'=cmd|'/c calc'!A0" in cells
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]


def test_a_run_that_broke_the_contract_is_shown(seeded: Seeded) -> None:
    """Group L of the cases: no result at all, and output that was no UTF-8."""
    world, task = seeded.world, put(seeded.world.store)
    with world.store.write() as tx:
        tx.execute(
            update(tasks)
            .where(tasks.c.id == task)
            .values(state="failed", outcome="contract_violation", result=None)
        )
        raw = b"\xff\xfe broken \x80".decode("utf-8", "replace")
        tx.execute(
            update(attempts)
            .where(attempts.c.task_id == seeded.tasks[TENANT])
            .values(task_id=task, stdout_tail=raw, tolerated=None)
        )
    text = world.operator().get(f"/ops/tasks/{task}").text
    assert "\ufffd" in text
    assert "contract_violation" in text


@pytest.mark.parametrize("result", ["text", [1, 2], {"review": 3, "memory": "x"}, {"memory": []}])
def test_a_result_of_another_shape_is_shown(seeded: Seeded, result: Any) -> None:
    task = seeded.tasks[TENANT]
    with seeded.world.store.write() as tx:
        tx.execute(update(tasks).where(tasks.c.id == task).values(result=result))
    operator = seeded.world.operator()
    assert operator.get(f"/ops/tasks/{task}").status_code == 200
    assert operator.get(f"/ops/tasks/{task}/memory").status_code == 200


def test_a_link_leads_to_our_github_or_nowhere(seeded: Seeded) -> None:
    with seeded.world.store.write() as tx:
        tx.execute(update(surfaces).values(object_url="javascript:alert(1)"))
    text = seeded.world.operator().get(f"/ops/tasks/{seeded.tasks[TENANT]}").text
    assert not re.search(r'href="javascript', text)


def test_a_session_that_fits_no_cookie_is_told(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, token = seeded.world.browser(), seeded.world.token(TENANT)
    csrf = browser.csrf("/ops/login")
    monkeypatch.setattr("webhooks.dashboard.serving.MAX_CHARS", 10)
    found = browser.post("/ops/login", csrf=csrf, token=token)
    assert (found.status_code, "too large for a cookie" in found.text) == (400, True)


def test_a_store_that_is_away_is_told(seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, token = seeded.world.viewer(), seeded.world.token(TENANT)
    csrf = browser.csrf()

    def away(*_: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(seeded.world.store, "read", away)
    for found in (
        browser.get("/ops/"),
        browser.get("/ops/login"),
        browser.post("/ops/login", csrf=csrf, token=token),
        browser.post("/ops/logout", csrf=csrf),
        browser.post(entry_path(seeded, "deny"), csrf=csrf),
    ):
        assert found.status_code == 503
        assert "Try again soon" in found.text
