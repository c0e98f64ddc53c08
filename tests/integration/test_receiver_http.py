"""``POST /webhook`` as GitHub and strangers see it: codes, bodies, and the order of the checks."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from coven.errors import ConfigurationError, StoreUnavailable
from coven.store.engine import Store
from tests.integration.receiver_kit import SECRET, Bench, payload, settings
from webhooks.app import MAX_BODY_BYTES, create_app
from webhooks.readiness import BAD_SECS, GOOD_SECS, PROBE_NAME
from webhooks.signature import sign


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store)


def test_ping_is_answered_with_pong(bench: Bench) -> None:
    answer = bench.deliver("ping", payload("ping"), "p-1")
    assert (answer.status_code, answer.json) == (200, {"ok": True, "pong": True})
    assert bench.row("p-1").routing == "ignored:ping"
    assert bench.deliver("ping", payload("ping"), "p-1").json == {"ok": True, "pong": True}


def test_unsigned_ping_is_refused(bench: Bench) -> None:
    answer = bench.post(b"{}", "ping", "p-1", X_Hub_Signature_256=None)
    assert (answer.status_code, answer.json) == (401, {"ok": False, "error": "invalid_signature"})
    assert bench.row("p-1") is None


@pytest.mark.parametrize(
    "signature",
    ["abc", "sha256=", "sha1=" + "0" * 40, "sha256=ZZ", "sha256=é", "sha256=" + "0" * 64, ""],
)
def test_bad_signatures_get_one_constant_answer_and_leave_no_row(
    bench: Bench, signature: str
) -> None:
    header = signature.encode().decode("latin-1")
    answer = bench.post(b"{}", "ping", "p-1", X_Hub_Signature_256=header)
    assert (answer.status_code, answer.json) == (401, {"ok": False, "error": "invalid_signature"})
    assert bench.row("p-1") is None


def test_forged_delivery_does_not_block_the_real_one(bench: Bench) -> None:
    body = payload("pull_request.opened")
    raw = json.dumps(body).encode()
    assert (
        bench.post(raw, delivery="g", X_Hub_Signature_256="sha256=" + "0" * 64).status_code == 401
    )
    assert bench.deliver("pull_request", body, "g").status_code == 202


@pytest.mark.parametrize(
    "text", ['{"zen": "\\u001b 😀  <p>"}', '{"zen":"\\u003cp\\u003e\\u2028"}', '{ "zen" : "ü" }']
)
def test_signature_is_over_the_bytes_as_sent(bench: Bench, text: str) -> None:
    raw = text.encode()
    assert bench.post(raw, "ping").status_code == 200
    assert bench.post(raw + b" ", "ping", X_Hub_Signature_256=sign(raw, SECRET)).status_code == 401


def test_any_of_several_secrets_verifies(sqlite_store: Store) -> None:
    both = settings(github={"webhook_secrets": ["new secret"]})
    bench = Bench(sqlite_store, both)
    raw = b'{"zen": "x"}'
    assert bench.post(raw, "ping").status_code == 200
    fresh = bench.post(raw, "ping", X_Hub_Signature_256=sign(raw, b"new secret"))
    assert fresh.status_code == 200


@pytest.mark.parametrize("secret", [None, "", "   "])
def test_without_a_secret_nothing_starts(bench: Bench, secret: str | None) -> None:
    config = settings(github={"webhook_secret": secret})
    with pytest.raises(ConfigurationError, match=r"github\.webhook_secret"):
        create_app(type(bench.services)(**{**bench.services.__dict__, "settings": config}))


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"X_GitHub_Event": None}, "missing_event_header"),
        ({"X_GitHub_Event": "pull request!"}, "bad_event_header"),
        ({"X_GitHub_Delivery": None}, "missing_delivery_header"),
        ({"X_GitHub_Delivery": "  "}, "bad_delivery_header"),
        ({"X_GitHub_Delivery": "a b"}, "bad_delivery_header"),
        ({"X_GitHub_Delivery": "x" * 101}, "bad_delivery_header"),
    ],
)
def test_headers_come_after_the_signature_and_before_the_body(
    bench: Bench, headers: dict[str, Any], error: str
) -> None:
    answer = bench.post(b"not json", **headers)
    assert (answer.status_code, answer.json) == (400, {"ok": False, "error": error})
    unsigned = bench.post(b"not json", **headers, X_Hub_Signature_256=None)
    assert unsigned.status_code == 401


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", "bad_json"),
        (b"{broken", "bad_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b'{"a":NaN}', "not_finite"),
        (b'{"a":1e999}', "not_finite"),
        (b'{"a":' + b"[" * 200_000, "too_deep"),
        (b'{"a":' + b"[" * 150 + b"]" * 150 + b"}", "too_deep"),
        (b"\xff\xfe{}", "bad_encoding"),
        (b"{} trailing", "bad_json"),
        (b'\xef\xbb\xbf{"a":1}', "bad_json"),
        (b'{"a":' + b"9" * 10_000 + b"}", "bad_json"),
    ],
)
def test_unusable_body_is_rejected_and_recorded_with_its_hash(
    bench: Bench, raw: bytes, error: str
) -> None:
    answer = bench.post(raw, "pull_request", "bad")
    assert (answer.status_code, answer.json) == (400, {"ok": False, "error": error})
    row = bench.row("bad")
    assert row.routing == f"rejected:{error}"
    assert len(row.body_sha256) == 64
    assert bench.tasks() == []


def test_rejected_delivery_is_routed_again(bench: Bench) -> None:
    assert bench.post(b"{", "pull_request", "x").status_code == 400
    assert bench.deliver("pull_request", payload("pull_request.opened"), "x").status_code == 202
    assert bench.row("x").routing.startswith("task:")
    assert bench.row("x").seen == 2


def test_form_encoded_payload_is_signed_in_its_encoded_form(bench: Bench) -> None:
    body = json.dumps(payload("pull_request.opened"))
    raw = urlencode({"payload": body}).encode()
    form = "application/x-www-form-urlencoded"
    assert bench.post(raw, Content_Type=form).status_code == 202
    wrong = bench.post(raw, Content_Type=form, X_Hub_Signature_256=sign(body.encode(), SECRET))
    assert wrong.status_code == 401


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"other=1", "no_payload_field"),
        (b"payload=%7B%7D&payload=%7B%7D", "bad_form"),
        (b"payload=%FF", "bad_form"),
        (b"&".join(b"a=1" for _ in range(50)), "bad_form"),
        (b"payload=[]", "not_an_object"),
    ],
)
def test_unusable_form_is_rejected(bench: Bench, raw: bytes, error: str) -> None:
    answer = bench.post(raw, Content_Type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json["error"]) == (400, error)


def test_too_large_body_is_refused_before_anything_else(bench: Bench) -> None:
    raw = b"x" * (MAX_BODY_BYTES + 1)
    answer = bench.post(raw, X_Hub_Signature_256=None)
    assert (answer.status_code, answer.json) == (413, {"ok": False, "error": "too_large"})
    chunked = bench.client.post(
        "/webhook", input_stream=BytesIO(raw), environ_overrides={"wsgi.input_terminated": True}
    )
    assert (chunked.status_code, chunked.json) == (413, {"ok": False, "error": "too_large"})
    allowed = bench.post(b" " * MAX_BODY_BYTES, X_Hub_Signature_256="no")
    assert allowed.status_code == 401


def test_known_task_is_a_duplicate_without_the_body_being_read(bench: Bench) -> None:
    first = bench.deliver("pull_request", payload("pull_request.opened"), "same")
    assert first.json == {"ok": True, "task": bench.tasks()[0].id}
    calls = len(bench.github.calls)
    again = bench.post(b"not json at all", "pull_request", "same")
    assert (again.status_code, again.json) == (200, {"ok": True, "duplicate": True})
    assert len(bench.github.calls) == calls
    assert bench.row("same").seen == 2


def test_twenty_parallel_copies_make_one_task(store: Store) -> None:
    bench = Bench(store)
    raw = json.dumps(payload("pull_request.opened")).encode()
    headers = {
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "same",
        "X-Hub-Signature-256": sign(raw, SECRET),
    }

    def send(_: int) -> tuple[int, dict[str, Any]]:
        answer = bench.app.test_client().post("/webhook", data=raw, headers=headers)
        return answer.status_code, answer.json

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(send, range(20)))
    accepted = [body for code, body in answers if code == 202]
    assert len(accepted) == 1
    assert [body for code, body in answers if code == 200] == [{"ok": True, "duplicate": True}] * 19
    assert [task.id for task in bench.tasks()] == [accepted[0]["task"]]


def test_broker_down_is_accepted_all_the_same(bench: Bench) -> None:
    bench.bell.deaf = True
    assert bench.deliver("pull_request", payload("pull_request.opened")).status_code == 202
    assert len(bench.bell.rung) == 1


def test_store_down_is_503_and_the_same_id_works_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object, **__: object) -> Any:
        raise StoreUnavailable("database is locked")

    body = payload("pull_request.opened")
    for method in ("read", "write"):
        with monkeypatch.context() as patch:
            patch.setattr(type(bench.store), method, down)
            answer = bench.deliver("pull_request", body, "later")
            assert answer.status_code == 503
            assert answer.json == {"ok": False, "error": "store_unavailable"}
        assert bench.row("later") is None
        assert bench.tasks() == []
    assert bench.deliver("pull_request", body, "later").status_code == 202


def test_crash_shows_no_traceback(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: object, **__: object) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("webhooks.receiver.route", boom)
    with capture_logs() as logged:
        answer = bench.deliver("pull_request", payload("pull_request.opened"))
    assert (answer.status_code, answer.json) == (500, {"ok": False, "error": "internal"})
    assert b"secret detail" not in answer.data
    assert "request_crashed" in [line["event"] for line in logged]


def test_health_and_errors_are_json_with_safe_headers(bench: Bench) -> None:
    assert bench.client.get("/healthz").json == {"ok": True}
    ready = bench.client.get("/readyz")
    assert (ready.status_code, ready.json) == (200, {"ok": True, "checks": {"store": True}})
    missing = bench.client.get("/nowhere")
    assert (missing.status_code, missing.json) == (404, {"ok": False, "error": "not_found"})
    method = bench.client.get("/webhook")
    assert (method.status_code, method.json["error"]) == (405, "method_not_allowed")
    assert "POST" in method.headers["Allow"]
    assert missing.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in missing.headers["Content-Security-Policy"]


def test_readiness_names_what_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> bool:
        raise OSError("no route")

    app = create_app(bench.services, ready={"broker": lambda: False, "rules": crash})
    answer = app.test_client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json["checks"] == {"store": True, "broker": False, "rules": False}

    def down(*_: object, **__: object) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(type(bench.store), "read", down)
    bench.clock.advance(GOOD_SECS)
    assert app.test_client().get("/readyz").json["checks"]["store"] is False
    assert app.test_client().get("/healthz").status_code == 200


def test_a_store_that_can_only_be_read_is_not_ready(bench: Bench) -> None:
    folder = bench.store.folder
    assert folder is not None
    in_the_way = folder / PROBE_NAME / "full"
    in_the_way.mkdir(parents=True)
    assert bench.client.get("/readyz").status_code == 503
    shutil.rmtree(in_the_way.parent)  # noqa: TID251 - a folder of this test
    assert bench.client.get("/readyz").status_code == 503
    bench.clock.advance(BAD_SECS)
    assert bench.client.get("/readyz").status_code == 200


def test_every_answer_is_counted(bench: Bench) -> None:
    bench.post(b"{}", X_Hub_Signature_256=None)
    bench.deliver("pull_request", payload("pull_request.opened"), "a")
    bench.deliver("pull_request", payload("pull_request.opened"), "a")
    bench.deliver("star", {"action": "created"})
    counts = bench.app.extensions["coven_receiver"].tally.snapshot()
    assert counts == {"invalid_signature": 1, "task": 1, "duplicate": 1, "ignored": 1}


def test_log_of_a_bad_signature_helps_and_gives_nothing_away(bench: Bench) -> None:
    raw = b'{"zen": "x"}'
    with capture_logs() as lines:
        bench.post(raw, "ping", X_Hub_Signature_256="sha256=" + "0" * 64)
    (line,) = lines
    assert (line["event"], line["body_bytes"]) == ("signature_refused", len(raw))
    assert line["media_type"] == "application/json"
    assert SECRET.decode() not in str(lines)
    assert sign(raw, SECRET)[7:] not in str(lines)


def test_log_of_a_delivery_names_what_it_is_about(bench: Bench) -> None:
    with capture_logs(processors=[merge_contextvars]) as lines:
        bench.deliver("pull_request", payload("pull_request.opened"), "d")
    settled = lines[-1]
    assert settled["event"] == "delivery_settled"
    assert (settled["delivery"], settled["installation"]) == ("d", 42)
    assert settled["repository"] == "acme-inc/billing"
    assert settled["task"] == bench.tasks()[0].id
