"""One request over real HTTP: what is sent, redirections, time, threads, and silence."""

from __future__ import annotations

import gzip
import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from coven.clock import SystemClock
from coven.errors import GitHubRejected, GitHubUnavailable, GovernanceRefused
from coven.github.transport import Request, Response, Transport
from coven.governance.actions import Action, MalformedAction, NetworkRequest
from coven.governance.wire import Seam
from tests.scripted_github import Answer, ScriptedGitHub, Seen, scripted_github

CLOCK = SystemClock()


@pytest.fixture
def hub() -> Iterator[ScriptedGitHub]:
    with scripted_github() as running:
        yield running


def transport_to(url: str, seam: Seam | None = None) -> Transport:
    return Transport(
        url,
        user_agent="coven-github/test",
        api_version="2022-11-28",
        clock=CLOCK,
        seam=seam or Seam(),
    )


def send(transport: Transport, request: Request, secs: float = 5) -> Response:
    return transport.send(request, "ghs_credential", CLOCK.monotonic() + secs)


def test_headers_query_and_body_arrive(hub: ScriptedGitHub) -> None:
    hub.answer("POST /a/b%2Fc", Answer(201, {"id": 1}))
    request = Request("op", "POST", "/a/b%2Fc", {"q": "x y&z"}, {"k": "é"})
    answer = send(transport_to(hub.url), request)
    assert (answer.status, answer.body) == (201, {"id": 1})
    seen = hub.seen[0]
    assert seen.path == "/a/b%2Fc"
    assert seen.query == {"q": "x y&z"}
    assert seen.body == {"k": "é"}
    assert seen.headers["authorization"] == "Bearer ghs_credential"
    assert seen.headers["x-github-api-version"] == "2022-11-28"
    assert seen.headers["accept"] == "application/vnd.github+json"
    assert seen.headers["user-agent"] == "coven-github/test"


def test_without_a_credential_nothing_is_sent_in_its_place(
    hub: ScriptedGitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    hub.answer("GET /x", Answer(200, {}))
    transport_to(hub.url).send(Request("op", "GET", "/x"), None, CLOCK.monotonic() + 5)
    assert "authorization" not in hub.seen[0].headers


def test_the_path_of_an_enterprise_root_is_kept(hub: ScriptedGitHub) -> None:
    hub.answer("GET /api/v3/x", Answer(200, {"ok": 1}))
    assert send(transport_to(f"{hub.url}/api/v3"), Request("op", "GET", "/x")).status == 200


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_moved_repository_gets_the_same_write_with_its_body(
    hub: ScriptedGitHub, status: int
) -> None:
    moved = Answer(status, {}, {"Location": f"{hub.url}/repositories/7/issues/1/comments?a=b"})
    hub.answer("POST /repos/o/r/issues/1/comments", moved)
    hub.answer("POST /repositories/7/issues/1/comments", Answer(201, {"id": 5}))
    request = Request("op", "POST", "/repos/o/r/issues/1/comments", body={"body": "hi"})
    assert send(transport_to(hub.url), request).body == {"id": 5}
    (arrived,) = hub.calls("POST /repositories/7/issues/1/comments")
    assert arrived.body == {"body": "hi"}
    assert arrived.query == {"a": "b"}
    assert arrived.headers["authorization"] == "Bearer ghs_credential"


def test_a_relative_redirection_of_a_read_is_followed(hub: ScriptedGitHub) -> None:
    hub.answer("GET /old", Answer(302, {}, {"Location": "/new"}))
    hub.answer("GET /new", Answer(200, {"here": True}))
    assert send(transport_to(hub.url), Request("op", "GET", "/old")).body == {"here": True}


def test_a_write_is_not_sent_to_a_302(hub: ScriptedGitHub) -> None:
    hub.answer("POST /old", Answer(302, {}, {"Location": "/new"}))
    assert send(transport_to(hub.url), Request("op", "POST", "/old", body={})).status == 302
    assert hub.calls("POST /new") == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "https://evil.example/x", "//evil/x"])
def test_a_redirection_to_another_host_gets_no_credential(
    hub: ScriptedGitHub, location: str
) -> None:
    hub.answer("GET /old", Answer(301, {}, {"Location": location}))
    with pytest.raises(GitHubRejected, match="api_base_url"):
        send(transport_to(hub.url), Request("op", "GET", "/old"))
    assert len(hub.seen) == 1


def test_a_circle_of_redirections_ends(hub: ScriptedGitHub) -> None:
    hub.answer("GET /a", Answer(301, {}, {"Location": "/b"}))
    hub.answer("GET /b", Answer(301, {}, {"Location": "/a"}))
    with pytest.raises(GitHubRejected, match="circle"):
        send(transport_to(hub.url), Request("op", "GET", "/a"))
    assert len(hub.seen) == 4


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [202, 403, 429, 500, 502, 503])
def test_nothing_is_ever_repeated_or_slept_over(
    hub: ScriptedGitHub, method: str, status: int
) -> None:
    hub.answer(
        f"{method} /x",
        Answer(status, {"message": "API rate limit exceeded"}, {"Retry-After": "30"}),
    )
    started = time.monotonic()
    assert send(transport_to(hub.url), Request("op", method, "/x")).status == status
    assert time.monotonic() - started < 1
    assert len(hub.seen) == 1


def _hang(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.recv(1)  # until the client goes away


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    try:
        for _ in range(200):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        return


def _cut(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b'HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n{"id":')


def _nothing(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("behaviour", [_hang, _trickle])
def test_a_server_that_hangs_or_trickles_ends_at_the_deadline(
    hub: ScriptedGitHub, behaviour: object
) -> None:
    hub.answer("GET /x", Answer(write=behaviour))  # type: ignore[arg-type]
    started = time.monotonic()
    with pytest.raises(GitHubUnavailable, match="timed out"):
        send(transport_to(hub.url), Request("op", "GET", "/x"), secs=0.4)
    assert time.monotonic() - started < 0.9


@pytest.mark.parametrize("behaviour", [_cut, _nothing])
def test_a_broken_answer_is_unavailable_and_not_repeated(
    hub: ScriptedGitHub, behaviour: object
) -> None:
    hub.answer("POST /x", Answer(write=behaviour))  # type: ignore[arg-type]
    with pytest.raises(GitHubUnavailable):
        send(transport_to(hub.url), Request("op", "POST", "/x", body={}))
    assert len(hub.seen) == 1


def test_a_deadline_in_the_past_sends_nothing(hub: ScriptedGitHub) -> None:
    with pytest.raises(GitHubUnavailable, match="timed out"):
        send(transport_to(hub.url), Request("op", "GET", "/x"), secs=-1)
    assert hub.seen == []


def test_a_closed_port_is_unavailable_and_says_so_without_the_credential() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(GitHubUnavailable, match="refused") as caught:
            send(transport_to(url), Request("op", "GET", "/x"))
    assert "ghs_credential" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.status == 0


def test_an_answer_without_end_is_cut_off(
    hub: ScriptedGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coven.github.transport.MAX_BODY_BYTES", 1000)
    bomb = gzip.compress(b" " * 5_000_000)
    hub.answer("GET /x", Answer(200, raw=bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(GitHubUnavailable, match="larger"):
        send(transport_to(hub.url), Request("op", "GET", "/x"))


def test_compressed_json_is_read(hub: ScriptedGitHub) -> None:
    packed = gzip.compress(b'{"n": 1}')
    hub.answer("GET /x", Answer(200, raw=packed, headers={"Content-Encoding": "gzip"}))
    assert send(transport_to(hub.url), Request("op", "GET", "/x")).body == {"n": 1}


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"", None),
        (b"<html>login</html>", "<html>login</html>"),
        (b'{"cut": ', '{"cut": '),
        (b"\xff\xfe", "��"),
        (b"[" * 100_000, "[" * 4096),
    ],
)
def test_what_is_not_json_is_kept_as_bounded_text(
    hub: ScriptedGitHub, raw: bytes, body: object
) -> None:
    hub.answer("GET /x", Answer(200, raw=raw))
    assert send(transport_to(hub.url), Request("op", "GET", "/x")).body == body


def test_cookies_are_not_kept(hub: ScriptedGitHub) -> None:
    hub.answer("GET /x", Answer(200, {}, {"Set-Cookie": "session=1; Path=/"}))
    transport = transport_to(hub.url)
    send(transport, Request("op", "GET", "/x"))
    send(transport, Request("op", "GET", "/x"))
    assert "cookie" not in hub.seen[1].headers


def test_threads_never_get_each_others_answer(hub: ScriptedGitHub) -> None:
    def echo(seen: Seen) -> Answer:
        return Answer(200, {"path": seen.path, "body": seen.body})

    for number in range(40):
        hub.answer(f"POST /t/{number}", echo)
    transport = transport_to(hub.url)

    def ask(number: int) -> bool:
        answer = send(transport, Request("op", "POST", f"/t/{number}", body={"n": number}))
        return bool(answer.body == {"path": f"/t/{number}", "body": {"n": number}})

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, list(range(40)) * 3))


class _Deny:
    def __init__(self) -> None:
        self.asked: list[Action] = []

    def check(self, action: Action, point: str) -> Action:
        self.asked.append(action)
        raise GovernanceRefused("no network here")

    def malformed(self, problem: MalformedAction, point: str) -> None:
        raise problem


def test_a_refusal_happens_before_anything_is_sent(hub: ScriptedGitHub) -> None:
    gate = _Deny()
    with pytest.raises(GovernanceRefused):
        send(transport_to(hub.url, Seam(gate=gate)), Request("op", "PATCH", "/x", body={}))
    assert gate.asked == [NetworkRequest.of("PATCH", f"{hub.url}/x")]
    assert hub.seen == []


def test_every_hop_passes_the_seam_under_its_operation(hub: ScriptedGitHub) -> None:
    hub.answer("GET /a", Answer(301, {}, {"Location": "/b"}))
    hub.answer("GET /b", Answer(200, {}))
    seam = Seam()
    send(transport_to(hub.url, seam), Request("pull", "GET", "/a"))
    assert seam.counts.snapshot() == {("NetworkRequest", "github.pull"): 2}


def test_no_log_holds_the_credential_or_a_body(
    hub: ScriptedGitHub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.answer("POST /x", Answer(200, {"text": "answer-body"}))
    send(transport_to(hub.url), Request("op", "POST", "/x", body={"text": "request-body"}))
    assert "ghs_credential" not in caplog.text
    assert "answer-body" not in caplog.text
    assert "request-body" not in caplog.text


def test_connections_are_reused(hub: ScriptedGitHub) -> None:
    hub.answer("GET /x", Answer(200, {}))
    transport = transport_to(hub.url)
    for _ in range(5):
        send(transport, Request("op", "GET", "/x"))
    assert len({seen.port for seen in hub.seen}) == 1


def test_a_forked_process_opens_its_own_connection(
    hub: ScriptedGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.answer("GET /x", Answer(200, {}))
    transport = transport_to(hub.url)
    send(transport, Request("op", "GET", "/x"))
    monkeypatch.setattr("coven.github.transport.os.getpid", lambda: -1)
    send(transport, Request("op", "GET", "/x"))
    assert len({seen.port for seen in hub.seen}) == 2
