"""Who may ask, how, and what a request may carry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from coven import api_tokens as values
from coven.api_tokens import TokenScope
from coven.errors import StoreUnavailable
from coven.store import api_audit, api_tokens, attempts, deliveries, purges, sweeps, tasks
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store
from coven.store.tasks import Ending
from coven.values import DeliveryId, TaskState
from tests.integration.api_kit import SERVICE, Api, shared_api
from tests.ledger import NOW, OTHER, TENANT, put, received
from webhooks.api import limiter
from webhooks.api.limiter import Failures
from worker import upkeep
from worker.purge import purge_due


@pytest.fixture
def api(sqlite_store: Store) -> Api:
    return Api(sqlite_store)


@pytest.fixture(scope="module")
def _made(_sqlite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with shared_api(_sqlite_file, tmp_path_factory.mktemp("requests")) as made:
        yield made


@pytest.fixture
def shared(_made: Api) -> Api:
    """The same for many refusals; each test begins a new minute."""
    _made.clock.advance(61)
    return _made


def audit(api: Api, **want: Any) -> list[api_audit.Entry]:
    with api.store.read() as tx:
        return sweeps.audit_page(tx, api_audit.Wanted(**want), 1_000)


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "changes", "words"),
    [
        ("an expired token opens nothing", {"expires_at": NOW}, "has expired"),
        ("a revoked token opens nothing", {"revoked_at": NOW}, "was revoked"),
        ("the digest decides, not the id", {"digest": "0" * 64}, "not known"),
    ],
)
def test_a_token_that_ended_is_refused(
    api: Api, rule: str, changes: dict[str, Any], words: str
) -> None:
    answer = api.get("/tasks", api.token(TENANT, **changes))
    assert answer.status_code == 401, rule
    assert words in answer.json["detail"]


def test_a_token_without_an_end_works_until_it_is_revoked(api: Api) -> None:
    token = api.token(TENANT, expires_at=None)
    api.clock.advance(10 * 365 * 86_400)
    assert api.get("/tasks", token).status_code == 200
    with api.store.write() as tx:
        assert api_tokens.revoke(tx, str(values.id_of(token)), api.clock.now())
    assert api.get("/tasks", token).status_code == 401


@pytest.mark.parametrize(
    ("rule", "header", "status"),
    [
        ("no header", None, 401),
        ("an empty header", "", 401),
        ("no scheme", "{token}", 401),
        ("another scheme", "Basic {token}", 401),
        ("nothing behind the scheme", "Bearer ", 401),
        ("a letter too much", "Bearer {token}0", 401),
        ("a letter too few", "Bearer {short}", 401),
        ("upper case is another token", "Bearer {upper}", 401),
        ("two headers in one", "Bearer {token}, Bearer {token}", 401),
        ("bytes that are no text", "Bearer cvn_\udce9", 401),
        ("a very long one", "Bearer " + "x" * 8_000, 401),
        ("the scheme in any case", "bearer {token}", 200),
        ("more blanks", "Bearer   {token}  ", 200),
    ],
)
def test_the_header_is_read_as_rfc_6750_says(
    shared: Api, rule: str, header: str | None, status: int
) -> None:
    token = shared.reader()
    given = {}
    if header is not None:
        filled = header.format(token=token, short=token[:-1], upper=token.upper())
        given["Authorization"] = filled.encode("utf-8", "surrogateescape").decode("latin-1")
    assert shared.client.get("/api/github/tasks", headers=given).status_code == status, rule


@pytest.mark.parametrize("name", ["token", "access_token", "API_KEY", "q"])
def test_a_token_in_the_address_is_refused_and_not_used(shared: Api, name: str) -> None:
    answer = shared.get(f"/tasks?{name}={shared.reader()}")
    assert (answer.status_code, answer.json["error"]) == (400, "token_in_query")
    assert "rotate" in answer.json["detail"]


def test_tokens_are_in_no_log_line_and_in_no_answer(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    token = api.reader()
    for answer in (
        api.get("/tasks", token + "0"),
        api.get(f"/tasks?token={token}"),
        api.get("/tasks?nonsense=1", token),
        api.get("/whoami", token),
    ):
        assert token not in answer.get_data(as_text=True)
    shown = capsys.readouterr()
    assert token not in shown.out + shown.err
    with api.store.read() as tx:
        kept = tx.execute(text("SELECT * FROM api_tokens")).all()
    assert token not in str(kept)


@pytest.mark.parametrize("have", list(TokenScope))
@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/tasks", TokenScope.READ),
        ("POST", "/memory/revoke", TokenScope.MEMORY_WRITE),
        ("POST", "/memory/M-00000000/approve", TokenScope.MEMORY_WRITE),
        ("POST", "/memory/M-00000000/deny", TokenScope.MEMORY_WRITE),
        ("POST", "/tasks/x/cancel", TokenScope.ADMIN),
        ("POST", "/tasks/x/retry", TokenScope.ADMIN),
    ],
)
def test_each_scope_includes_those_before_it_and_no_more(
    shared: Api, have: TokenScope, method: str, path: str, needed: TokenScope
) -> None:
    order = [TokenScope.READ, TokenScope.MEMORY_WRITE, TokenScope.ADMIN]
    token = shared.tokens[TENANT][have]
    answer = shared.get(path, token) if method == "GET" else shared.post(path, token, {})
    allowed = order.index(have) >= order.index(needed)
    assert (answer.status_code == 403) is not allowed
    if not allowed:
        assert answer.json["error"] == "scope_missing"
        assert needed.value in answer.json["detail"]


def test_who_may_not_is_told_so_before_the_body_is_looked_at(shared: Api) -> None:
    assert shared.post("/memory/revoke", None, b"{broken").status_code == 401
    assert shared.post("/memory/revoke", shared.reader(), b"{broken").status_code == 403
    assert shared.post("/memory/revoke", shared.admin(), b"{broken").status_code == 400


def test_the_tokens_of_the_configuration_keep_to_their_scopes(shared: Api) -> None:
    told = shared.get("/whoami", SERVICE).json
    assert told["scopes"] == ["read", "memory:write"]
    assert told["installationId"] is None
    narrow = shared.get("/whoami", "narrow-token-0123456789abcdef").json
    assert narrow["scopes"] == ["read"]
    assert narrow["installationId"] == TENANT
    assert narrow["repos"] == ["Octo/Demo"]


def test_the_last_use_is_noted_once_a_minute(api: Api) -> None:
    token = api.reader()

    def last_used() -> object:
        with api.store.read() as tx:
            found = api_tokens.find(tx, str(values.id_of(token)))
        assert found is not None
        return found.last_used_at

    assert last_used() is None
    api.get("/whoami", token)
    first = api.clock.now()
    assert last_used() == first
    api.clock.advance(59)
    api.get("/whoami", token)
    assert last_used() == first
    api.clock.advance(1)
    api.get("/whoami", token)
    assert last_used() == api.clock.now()


# --- open mode ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "bind", "headers", "address", "status"),
    [
        ("on this machine", "127.0.0.1:8080", {}, "127.0.0.1", 200),
        ("by IPv6 too", "[::1]:8080", {}, "::1", 200),
        ("never on an address that others reach", "0.0.0.0:8080", {}, "127.0.0.1", 401),
        ("never for another machine", "127.0.0.1:8080", {}, "10.0.0.9", 401),
        (
            "never through a proxy",
            "127.0.0.1:8080",
            {"X-Forwarded-For": "1.2.3.4"},
            "127.0.0.1",
            401,
        ),
        ("whatever it says", "127.0.0.1:8080", {"X-Forwarded-Proto": "https"}, "127.0.0.1", 401),
        ("or only that it is one", "127.0.0.1:8080", {"Via": "1.1 edge"}, "127.0.0.1", 401),
        ("never under another name", "127.0.0.1:8080", {"Host": "evil.test"}, "127.0.0.1", 401),
        (
            "a wrong token is no missing one",
            "127.0.0.1:8080",
            {"Authorization": "Bearer x"},
            "127.0.0.1",
            401,
        ),
    ],
)
def test_open_mode_is_for_this_machine(
    sqlite_store: Store, rule: str, bind: str, headers: dict[str, str], address: str, status: int
) -> None:
    api = Api(sqlite_store, api={"mode": "open"}, server={"bind": bind})
    answer = api.client.get(
        "/api/github/tasks", headers=headers, environ_base={"REMOTE_ADDR": address}
    )
    assert answer.status_code == status, rule


def test_open_mode_never_writes(sqlite_store: Store) -> None:
    api = Api(sqlite_store, api={"mode": "open"})
    task = api.tasks[TENANT]
    assert api.get("/tasks").status_code == 200
    assert api.post(f"/tasks/{task}/cancel").status_code == 401
    assert api.post("/memory/revoke", None, {"prefix": "tenant/41"}).status_code == 401
    assert api.post(f"/tasks/{task}/cancel", api.admin()).status_code == 200


# --- failures -------------------------------------------------------------------------------------


def test_many_wrong_tokens_are_slowed_down_and_good_ones_are_not(api: Api) -> None:
    assert api.get("/tasks", api.reader()).status_code == 200
    for _ in range(limiter.FAILURES):
        assert api.get("/tasks", "cvn_wrong").status_code == 401
    slowed = api.get("/tasks", "cvn_wrong")
    assert (slowed.status_code, slowed.json["error"]) == (429, "too_many_failures")
    assert slowed.headers["Retry-After"] == "60"
    well_formed = values.mint().secret
    assert api.get("/tasks", well_formed).status_code == 429
    assert api.get("/tasks", api.reader()).status_code == 200
    assert api.get("/tasks", api.token(TENANT)).status_code == 200, "one never seen before too"
    assert api.get("/tasks", SERVICE).status_code == 429, "could be guessed, so it waits"
    api.clock.advance(60)
    assert api.get("/tasks", SERVICE).status_code == 200
    assert api.get("/tasks", "cvn_wrong").status_code == 401


def test_what_the_limiter_remembers_is_bounded() -> None:
    failures = Failures(lambda: 0.0)
    for number in range(limiter.ADDRESSES + 50):
        failures.failed(f"address-{number}", None)
        failures.passed(f"digest-{number}")
    assert len(failures._counts) == len(failures._good) == limiter.ADDRESSES


# --- input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("nonsense=1", "nonsense", "unknown_parameter"),
        ("State=queued", "State", "unknown_parameter"),
        ("limit=5&limit=6", "limit", "duplicate_parameter"),
        ("limit=0", "limit", "bad_value"),
        ("limit=201", "limit", "bad_value"),
        ("limit=-1", "limit", "bad_value"),
        ("limit=1_0", "limit", "bad_value"),
        ("limit=%2B5", "limit", "bad_value"),
        ("limit=%205", "limit", "bad_value"),
        ("limit=1e2", "limit", "bad_value"),
        ("limit=%D9%A1", "limit", "bad_value"),
        ("limit=", "limit", "bad_value"),
        ("thread=99999999999999999999999999", "thread", "bad_value"),
        ("thread=2147483648", "thread", "bad_value"),
        ("installation_id=9223372036854775808", "installation_id", "bad_value"),
        ("state=done", "state", "bad_value"),
        ("repo=octo", "repo", "bad_value"),
        ("repo=octo/..", "repo", "bad_value"),
        ("q=%00", "q", "bad_value"),
        ("q=a%0Ab", "q", "bad_value"),
        ("q=" + "x" * 201, "q", "bad_value"),
        ("since=yesterday", "since", "bad_value"),
        ("since=2026-01-01", "since", "bad_value"),
        ("since=2026-01-01T00:00:00", "since", "bad_value"),
        ("since=2026-02-30T00:00:00Z", "since", "bad_value"),
        ("since=1767225600", "since", "bad_value"),
        ("since=2026-01-01T00:00:00+99:00", "since", "bad_value"),
        ("cursor=x", "cursor", "bad_cursor"),
        ("cursor=" + "A" * 401, "cursor", "bad_value"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(
    shared: Api, query: str, field: str, code: str
) -> None:
    answer = shared.get(f"/tasks?{query}", shared.reader())
    assert answer.status_code == 400
    assert answer.mimetype == "application/problem+json"
    assert (answer.json["ok"], answer.json["error"], answer.json["field"]) == (False, code, field)
    assert answer.json["detail"].startswith(f"{field}: ")


ODD = {
    "since=0001-01-01T00:00:00%2B14:00": 200,
    "until=9999-12-31T23:59:59.999999999-14:00": 200,
    "since=2026-01-01t00:00:00z": 200,
    "repo=OCTO/Demo": 200,
    "": 200,
    "&&": 200,
    "repo=%ED%A0%80": 400,
    "since=0000-01-01T00:00:00Z": 400,
}


def test_whose_token_has_too_small_a_scope_is_on_record(api: Api) -> None:
    token = api.reader(TENANT)
    assert api.post("/memory/revoke", token, {"prefix": "repo/octo/demo"}).status_code == 403
    events = api.get("/audit", api.admin(TENANT)).json["events"]
    (refusal,) = (each for each in events if each["result"] == "scope_missing")
    assert refusal["caller"] == f"token:{values.id_of(token)}"


def test_odd_parameters_are_taken_or_refused_on_both_databases_alike(store: Store) -> None:
    api = Api(store)
    for path in ("/tasks", "/deliveries", "/audit", "/usage", "/routing"):
        for query, status in ODD.items():
            if query.startswith("repo") and path in {"/audit", "/usage"}:
                continue
            answer = api.get(f"{path}?{query}", api.reader())
            assert answer.status_code == status, (path, query, answer.json)
    for query in ("thread=2147483647", "q=%F0%9F%98%80", "q=100%25_%5C"):
        assert api.get(f"/tasks?{query}", api.reader()).json["tasks"] == []
    assert len(api.get("/tasks?q=TITLE+of", api.reader()).json["tasks"]) == 1
    assert len(api.get(f"/tasks?q={api.tasks[TENANT][:9]}", api.reader()).json["tasks"]) == 1


@pytest.mark.parametrize(
    ("rule", "body", "media", "status", "code"),
    [
        ("a key is needed", b"{}", "application/json", 400, "bad_value"),
        ("no body is no key", b"", "application/json", 400, "bad_value"),
        ("JSON says so", b'{"key": "M-00000000"}', "text/plain", 415, "bad_media_type"),
        ("no form", b"key=M-00000000", "application/x-www-form-urlencoded", 415, "bad_media_type"),
        ("broken JSON", b'{"key": ', "application/json", 400, "bad_json"),
        ("a list", b"[]", "application/json", 400, "not_an_object"),
        ("no UTF-8", b'{"key": "\xff"}', "application/json", 400, "bad_encoding"),
        ("a key twice", b'{"key": "a", "key": "b"}', "application/json", 400, "duplicate_key"),
        ("not finite", b'{"key": NaN}', "application/json", 400, "not_finite"),
        (
            "too deep",
            b'{"key": ' + b"[" * 200 + b"]" * 200 + b"}",
            "application/json",
            400,
            "too_deep",
        ),
        ("an unknown key", b'{"kee": "x"}', "application/json", 400, "unknown_key"),
        ("half a surrogate", b'{"key": "\\ud800"}', "application/json", 400, "bad_value"),
        ("NUL", b'{"key": "repo/o/r/n/\\u0000"}', "application/json", 400, "bad_value"),
        ("a number", b'{"key": 5}', "application/json", 400, "bad_value"),
        (
            "a text for a number",
            b'{"installation_id": "41", "prefix": "tenant/41"}',
            "application/json",
            400,
            "bad_value",
        ),
        (
            "a huge number",
            b'{"installation_id": 1' + b"0" * 30 + b', "prefix": "tenant/41"}',
            "application/json",
            400,
            "bad_value",
        ),
        ("both", b'{"key": "a", "prefix": "b"}', "application/json", 400, "bad_value"),
        ("blank", b'{"key": " "}', "application/json", 400, "bad_value"),
        ("everything by key", b'{"key": "repo/octo/demo"}', "application/json", 400, "bad_value"),
        ("too long", b'{"key": "' + b"x" * 70_000 + b'"}', "application/json", 413, "too_large"),
        (
            "with a charset",
            b'{"key": "M-00000000"}',
            "application/json; charset=utf-8",
            404,
            "not_found",
        ),
    ],
)
def test_a_body_that_cannot_be_used_changes_nothing(
    shared: Api, rule: str, body: bytes, media: str, status: int, code: str
) -> None:
    answer = shared.post("/memory/revoke", shared.admin(), body, Content_Type=media)
    assert (answer.status_code, answer.json["error"]) == (status, code), rule
    states = [each["state"] for each in shared.get("/memory", shared.reader()).json["memory"]]
    assert states == ["pending"]


def test_a_get_with_a_body_is_refused(shared: Api) -> None:
    answer = shared.client.get(
        "/api/github/tasks", data=b"{}", headers={"Authorization": f"Bearer {shared.reader()}"}
    )
    assert (answer.status_code, answer.json["error"]) == (400, "unexpected_body")


def test_paths_that_are_not_there_are_problems_too(shared: Api) -> None:
    for path in ("/nonsense", "/tasks/", "/tasks/%00", "/tasks/a/b/c"):
        answer = shared.get(path, shared.reader())
        assert answer.status_code == 404
        assert answer.mimetype == "application/problem+json"
        assert answer.json["error"] == "not_found"


# --- answers --------------------------------------------------------------------------------------


def test_an_etag_spares_the_body_until_something_changes(api: Api) -> None:
    first = api.get("/tasks", api.reader())
    etag = first.headers["ETag"]
    assert etag.startswith('W/"')
    assert first.headers["Vary"] == "Authorization"
    again = api.get("/tasks", api.reader(), If_None_Match=etag)
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", etag)
    assert api.get("/tasks", api.reader(), If_None_Match=f'"x", {etag}').status_code == 304
    assert api.get("/tasks", api.reader(), If_None_Match='W/"x"').status_code == 200
    put(api.store)
    assert api.get("/tasks", api.reader(), If_None_Match=etag).status_code == 200
    assert api.get("/tasks", None, If_None_Match=etag).status_code == 401


def test_head_is_get_without_the_body(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.reader()}"}
    for path in ("/tasks", "/memory/export"):
        answer = api.client.head(f"/api/github{path}", headers=headers)
        assert (answer.status_code, answer.data) == (200, b"")
    assert api.client.head("/api/github/tasks").status_code == 401


# --- record ---------------------------------------------------------------------------------------


def test_every_answer_and_every_refusal_is_recorded(api: Api) -> None:
    reader, admin = api.reader(), api.admin()
    api.get("/tasks", reader)
    api.post(f"/tasks/{api.tasks[TENANT]}/cancel", admin)
    api.get("/tasks")
    api.post(f"/tasks/{api.tasks[TENANT]}/cancel", reader)
    api.get(f"/tasks/{api.tasks[OTHER]}", reader)
    found = [(e.action, e.result, e.installation_id, e.target) for e in reversed(audit(api))]
    assert found == [
        ("list_tasks", "ok", TENANT, None),
        ("cancel_task", "ok", TENANT, api.tasks[TENANT]),
        ("list_tasks", "unauthorized", None, None),
        ("cancel_task", "scope_missing", TENANT, None),
        ("show_task", "not_found", TENANT, None),
    ]


def test_a_flood_of_refusals_is_one_row_a_minute(api: Api) -> None:
    for _ in range(5):
        for _ in range(50):
            api.get("/tasks")
        api.clock.advance(11)
    rows = [e for e in audit(api) if e.caller == "anonymous"]
    assert len(rows) == 2  # without a token, and slowed down
    assert sum(e.times for e in rows) > 150
    api.clock.advance(60)
    api.get("/tasks")
    # the rest of the minute before is written with the first refusal of the next
    assert len([e for e in audit(api) if e.caller == "anonymous"]) == 4


def test_what_cannot_be_recorded_is_not_answered(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreUnavailable("disk is full")

    task = api.tasks[TENANT]
    monkeypatch.setattr(api_audit, "record", broken)
    answer = api.get("/tasks", api.reader())
    assert (answer.status_code, answer.json["error"]) == (503, "store_unavailable")
    assert api.post(f"/tasks/{task}/cancel", api.admin()).status_code == 503
    monkeypatch.undo()
    shown = api.get(f"/tasks/{task}", api.reader()).json["task"]
    assert shown["cancelRequestedAt"] is None


def test_the_record_is_removed_after_its_time(api: Api) -> None:
    api.get("/tasks", api.reader())
    api.clock.advance(90 * 86_400)
    upkeep.retain(api.services)
    assert [entry.action for entry in audit(api)] == ["list_tasks"]
    api.clock.advance(1)
    upkeep.retain(api.services)
    assert audit(api) == []


def test_the_tokens_of_a_removed_installation_are_revoked_with_its_data(
    sqlite_store: Store, tmp_path: Path
) -> None:
    api = Api(sqlite_store, server={"state_dir": str(tmp_path)})
    with api.store.write() as tx:
        purges.request(TENANT, tx, "uninstalled", api.clock.now())
    purge_due(api.services)
    with api.store.read() as tx:
        (purge,) = purges.of(TENANT, tx)
    assert purge.state == "done"
    assert api.get("/whoami", api.reader()).status_code == 401
    assert api.get("/whoami", api.reader(OTHER)).status_code == 200


# --- what stands in answers -----------------------------------------------------------------------


def test_routing_tells_how_an_installation_is_served_and_why_things_were_ignored(
    sqlite_store: Store,
) -> None:
    block = {
        "id": int(TENANT),
        "account": "octo",
        "triggers": {"reviews": False},
        "repos": {"octo/frozen": {"enabled": False, "familiars": ["cody"]}},
    }
    api = Api(sqlite_store, installations=[block])
    for number in range(3):
        with api.store.write() as tx:
            row = received(id=DeliveryId(f"i{number}"), routing="ignored:own_event")
            assert deliveries.record(tx, row)
    told = api.get("/routing", api.reader()).json["routing"]
    assert told["account"] == "octo"
    assert told["familiars"] == ["cody"]
    assert told["triggers"]["reviews"] is False
    assert told["listed"] is True
    assert told["repos"]["octo/frozen"]["enabled"] is False
    assert told["repos"]["octo/frozen"]["familiars"] == ["cody"]
    reasons = {each["routing"]: each["count"] for each in told["reasons"]}
    assert reasons == {"ignored:own_event": 3, "task": 1}
    unlisted = api.get("/routing", api.reader(OTHER)).json["routing"]
    # A block of one installation switches nothing off for another.
    assert unlisted["listed"] is False
    assert unlisted["familiars"] == sorted(f.id for f in api.services.settings.familiars)
    assert all(unlisted["triggers"].values())


def test_usage_adds_up_what_ran_and_shows_what_counts(store: Store) -> None:
    api = Api(store)
    task = api.tasks[TENANT]
    token = "t" * 32
    with store.write() as tx:
        claimed = tasks.claim(TENANT, tx, task, token, NOW, 60)
        assert claimed is not None
        attempts.start(TENANT, tx, claimed, "w", NOW)
        later = NOW + timedelta(seconds=90)
        attempts.finish(TENANT, tx, task, token, later, AttemptEnd("success"))
        tasks.finish(TENANT, tx, task, token, later, Ending(TaskState.COMPLETED, "success"))
    told = api.get("/usage", api.reader()).json
    assert told["usage"] == [
        {
            "installationId": TENANT,
            "repo": "octo/demo",
            "familiarId": "cody",
            "tasks": 1,
            "completed": 1,
            "failed": 0,
            "runtimeSecs": 90,
        }
    ]
    assert all(day["day"] == "2026-01-01" for day in told["days"])
    everybody = api.get("/usage", SERVICE).json
    assert len(everybody["usage"]) == 2
    assert everybody["days"] == []
    assert api.get("/usage?since=2026-02-01T00:00:00Z", api.reader()).json["usage"] == []


def test_a_task_tells_its_story_and_keeps_what_is_secret(store: Store) -> None:
    api = Api(store)
    task = api.tasks[TENANT]
    with store.write() as tx:
        claimed = tasks.claim(TENANT, tx, task, "lease-secret", NOW, 60)
        assert claimed is not None
        attempts.start(TENANT, tx, claimed, "w", NOW)
    answer = api.get(f"/tasks/{task}", api.reader())
    told = answer.json
    assert told["attempts"][0]["number"] == 1
    assert told["routing"]["id"] == f"delivery-{TENANT}"
    assert told["task"]["trust"]["scope"] == "maintainer"
    assert told["task"]["trust"]["evidence"] == {"source": "permission"}
    assert "lease-secret" not in answer.get_data(as_text=True)


def test_a_text_with_odd_characters_comes_out_whole(store: Store) -> None:
    api = Api(store, seed=False)
    title = "A \u202e title with \x00, \ud800, \U0001f600 and <b>"
    put(store, title=title)
    shown = api.get("/tasks", api.reader()).json["tasks"][0]["issueTitle"]
    assert shown == title.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")


def test_the_document_needs_no_token_and_names_no_secret(shared: Api) -> None:
    answer = shared.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.json["openapi"] == "3.1.0"
    assert SERVICE not in answer.get_data(as_text=True)


def test_capabilities_say_what_is_switched_on(sqlite_store: Store) -> None:
    api = Api(sqlite_store, memory={"enabled": True, "self_hosted": True})
    told = api.get("/capabilities", api.reader()).json["capabilities"]
    assert told["memory"]["enabled"] is True
    assert told["governance"]["enabled"] is False
    assert told["api"]["mode"] == "token"
