"""Lists go on where they stopped, whatever arrives meanwhile, and nobody can make up where."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from coven.store import api_audit, book_reads, deliveries, sweeps
from coven.store.engine import Store
from coven.values import DeliveryId
from tests.integration.api_kit import SERVICE, Api
from tests.ledger import NOW, OTHER, TENANT, put, received
from webhooks.api.cursors import BadCursor, Cursors


def walk(api: Api, path: str, token: str, key: str, between: Any = lambda: None) -> list[str]:
    """The ids of all pages of two."""
    found: list[str] = []
    cursor = ""
    for _ in range(20):
        answer = api.get(f"{path}limit=2{cursor}", token)
        assert answer.status_code == 200, answer.json
        found += [str(each["id"]) for each in answer.json[key]]
        if answer.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer.json['next_cursor']}"
        between()
    raise AssertionError("the list has no end")


def put_delivery(store: Store, name: str, at: Any) -> None:
    with store.write() as tx:
        assert deliveries.record(tx, received(id=DeliveryId(name), received_at=at))


def test_tasks_are_listed_once_each_while_others_arrive(store: Store) -> None:
    api = Api(store, seed=False)
    ids = [put(store, created_at=NOW + timedelta(seconds=n)) for n in range(5)]
    found = walk(api, "/tasks?", api.reader(), "tasks", lambda: put(store))
    assert found == ids[::-1]
    assert set(walk(api, "/tasks?", SERVICE, "tasks")) > set(ids)


def test_deliveries_of_one_moment_are_listed_once_each(store: Store) -> None:
    api = Api(store, seed=False)
    names = ["d-b", "d-a", "d-c", "d-e", "d-d"]
    for name in names:
        put_delivery(store, name, NOW)
    put_delivery(store, "d-old", NOW - timedelta(seconds=1))
    late = iter(range(100))

    def arrive() -> None:
        put_delivery(store, f"new-{next(late)}", NOW + timedelta(seconds=1))

    found = walk(api, "/deliveries?", api.reader(), "deliveries", arrive)
    assert found == [*sorted(names, reverse=True), "d-old"]


def test_the_audit_goes_on_past_its_own_lines(store: Store) -> None:
    api = Api(store, seed=False)
    for _ in range(5):
        api.get("/whoami", api.reader())
    found = walk(api, "/audit?action=whoami&", api.reader(), "events")
    assert len(found) == len(set(found)) == 5


def test_memory_goes_on_where_it_stopped(store: Store) -> None:
    api = Api(store, seed=False)
    ids = [api.propose(TENANT, f"notes/n{n}", f"Text {n}").id for n in range(5)]
    api.propose(OTHER, "notes/n", "Another's")
    assert walk(api, "/memory?", api.reader(), "memory") == ids[::-1]


def test_an_export_is_read_while_it_is_sent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_reads, "_BATCH", 2)
    api = Api(store, seed=False)
    ids = [api.propose(TENANT, f"notes/n{n}", f"Text {n}").id for n in range(5)]
    answer = api.get("/memory/export", api.reader())
    assert answer.is_streamed
    lines = iter(answer.iter_encoded())
    seen = [json.loads(next(lines))["id"]]
    ids.append(api.propose(TENANT, "notes/late", "Came meanwhile").id)  # nothing is locked
    seen += [json.loads(line)["id"] for line in lines]
    assert seen == ids


def test_refusals_are_counted_whole_by_many_at_once(store: Store) -> None:
    def count(_: int) -> None:
        with store.write() as tx:
            api_audit.count_refusals(
                None, tx, at=NOW, caller="anonymous", action="x", result="unauthorized", times=3
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(12)))
    with store.read() as tx:
        (row,) = sweeps.audit_page(tx, api_audit.Wanted(), 10)
    assert row.times == 36


@pytest.fixture
def api(sqlite_store: Store) -> Api:
    made = Api(sqlite_store, seed=False)
    for tenant in (TENANT, OTHER):
        for _ in range(3):
            put(sqlite_store, installation_id=tenant)
            put_delivery(sqlite_store, f"d{tenant}-{put(sqlite_store)}", NOW)
    return made


def test_a_cursor_belongs_to_one_list_of_one_view(api: Api) -> None:
    given = api.get("/tasks?limit=1&verb=review", api.reader()).json["next_cursor"]
    right = f"/tasks?limit=2&verb=review&cursor={given}"
    assert api.get(right, api.reader()).status_code == 200
    assert api.get(right, api.admin()).status_code == 200  # another token of the same view
    for path, token in (
        (right, api.reader(OTHER)),
        (right, SERVICE),
        (f"/tasks?limit=2&cursor={given}", api.reader()),
        (f"/tasks?limit=2&verb=fix&cursor={given}", api.reader()),
        (f"/audit?cursor={given}", api.reader()),
        (f"/deliveries?cursor={given}", api.reader()),
    ):
        answer = api.get(path, token)
        assert (answer.status_code, answer.json["error"]) == (400, "bad_cursor"), path
    named = f"/tasks?limit=2&verb=review&installation_id={TENANT}&cursor="
    assert api.get(named + given, api.reader()).status_code == 400  # other parameters


def test_a_cursor_that_was_changed_or_made_up_is_refused_never_an_error(api: Api) -> None:
    given = api.get("/tasks?limit=1", api.reader()).json["next_cursor"]
    raw = base64.urlsafe_b64decode(given + "==")
    forged = [
        given[:-1],
        given + "A",
        given[::-1],
        given.swapcase(),
        base64.urlsafe_b64encode(raw[:12] + b"[99999]").decode(),
        base64.urlsafe_b64encode(raw[:-1]).decode(),
        base64.urlsafe_b64encode(b"\x00" * 12).decode(),
        base64.urlsafe_b64encode(json.dumps([5]).encode()).decode(),
        "5",
        "[5]",
        "==",
        "%C3%A9",
        "../../etc",
    ]
    for each in forged:
        answer = api.get(f"/tasks?cursor={each}", api.reader())
        assert (answer.status_code, answer.json["error"]) == (400, "bad_cursor"), each


def test_a_cursor_of_another_server_is_refused() -> None:
    mine, other = Cursors(b"a" * 32), Cursors(b"b" * 32)
    assert mine.read("q", mine.write("q", [1, "x"])) == [1, "x"]
    with pytest.raises(BadCursor):
        mine.read("q", other.write("q", [1, "x"]))
    with pytest.raises(BadCursor):
        mine.read("p", mine.write("q", [1]))
