"""Webhooks: signed like GitHub's, shaped like GitHub's, redelivered like GitHub's."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from flask import Flask, Response, request
from werkzeug.serving import make_server

from coven.sandbox.client import SandboxRefused
from tests.integration.sandbox_kit import AFTER, REPO, World, world

SECRET = "It's a Secret to Everybody"
SHAPES = Path(__file__).parents[1] / "fixtures" / "openapi" / "webhook-shapes.json"


class Receiver:
    """A webhook endpoint that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        app = Flask("receiver")

        @app.post("/webhook")
        def webhook() -> Response:
            self.got.append((dict(request.headers), request.get_data()))
            return Response('{"ok": true}', self.status)

        self.server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.port}/webhook"
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def events(self) -> list[str]:
        """Event and action of each delivery, in order."""
        names = []
        for headers, body in self.got:
            action = json.loads(body).get("action")
            names.append(headers["X-Github-Event"] + (f".{action}" if action else ""))
        return names

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def github(shared: World, receiver: Receiver) -> World:
    shared.fill()
    shared.admin.set_webhook(receiver.url, SECRET)
    return shared


def test_a_delivery_is_signed_and_labelled(github: World, receiver: Receiver) -> None:
    done = github.admin.open_issue(REPO, "Broken", "It is: ü", author="sam", deliver=True)
    ((headers, body),) = receiver.got
    signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={signed}"
    assert headers["X-Github-Event"] == "issues"
    assert headers["X-Github-Delivery"] == done.delivered.guid
    assert headers["User-Agent"].startswith("GitHub-Hookshot/")
    assert headers["X-Github-Hook-Installation-Target-Type"] == "integration"
    assert headers["X-Github-Hook-Installation-Target-Id"] == str(github.handle.app_id)
    payload = json.loads(body)
    assert payload["installation"]["id"] == github.installation
    assert payload["repository"]["id"] == github.repo_id
    assert payload["sender"]["login"] == "sam"
    assert (done.delivered.status, done.delivered.status_code) == ("OK", 202)


def test_the_published_test_vector_is_signed_as_published() -> None:
    from coven.sandbox.deliveries import signature

    expected = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature(SECRET, b"Hello, World!") == f"sha256={expected}"


def _everything(github: World) -> None:
    """One of each event that people can cause."""
    admin = github.admin
    issue = admin.open_issue(REPO, "Broken", author="sam", deliver=True).number
    admin.label(REPO, issue, "cody", sender="mira", deliver=True)
    admin.assign(REPO, issue, github.handle.bot_login, sender="mira", deliver=True)
    talk = admin.comment(REPO, issue, "@cody-familiar status", author="mira", deliver=True)
    admin.edit_comment(talk.id, "Never mind", deliver=True)
    admin.delete_comment(talk.id, deliver=True)
    admin.change_thread(REPO, issue, state="closed", deliver=True)
    files: Any = {"app.py": AFTER}
    pull = admin.open_pull(REPO, "Print", files, author="mira", draft=True, deliver=True)
    admin.change_thread(REPO, pull.number, draft=False, title="Print all", deliver=True)
    admin.push(REPO, "changes", {"b.py": "b = 1\n"}, author="mira", deliver=True)
    note = {"path": "app.py", "line": 2, "body": "Why?"}
    admin.review(REPO, pull.number, "Hm", comments=[note], author="rex", deliver=True)
    sha = admin.branches(REPO)["changes"]
    button = {"label": "Fix", "description": "Fix it", "identifier": "fix"}
    run = admin.add_check_run(
        REPO, name="Cody / review", head_sha=sha, conclusion="neutral", actions=[button]
    )
    admin.click(run["id"], "fix", sender="mira", deliver=True)
    admin.rerequest_check_run(run["id"], sender="mira", deliver=True)
    admin.rerequest_check_suite(run["check_suite"]["id"], sender="mira", deliver=True)
    admin.merge(REPO, pull.number, deliver=True)
    admin.rename_repository(REPO, "store", deliver=True)
    admin.suspend(github.installation, deliver=True)
    admin.unsuspend(github.installation, deliver=True)
    admin.ping()


def test_what_people_do_arrives_as_events(github: World, receiver: Receiver) -> None:
    _everything(github)
    assert receiver.events == [
        "issues.opened",
        "issues.labeled",
        "issues.assigned",
        "issue_comment.created",
        "issue_comment.edited",
        "issue_comment.deleted",
        "issues.closed",
        "pull_request.opened",
        "pull_request.edited",
        "pull_request.ready_for_review",
        "push",
        "pull_request.synchronize",
        "pull_request_review.submitted",
        "pull_request_review_comment.created",
        "check_run.requested_action",
        "check_run.rerequested",
        "check_suite.rerequested",
        "pull_request.closed",
        "repository.renamed",
        "installation.suspend",
        "installation.unsuspend",
        "ping",
    ]


def _lacking(shape: Any, ours: Any, where: str = "") -> set[str]:
    """Keys of real payloads that ours lacks, by path; nulls and lists end the descent."""
    if not isinstance(shape, dict) or ours is None:
        return set()
    if not isinstance(ours, dict):
        return {f"{where} is not an object"}
    found: set[str] = set()
    for key, inner in shape.items():
        if key not in ours:
            found.add(f"{where}.{key}")
        else:
            found |= _lacking(inner, ours[key], f"{where}.{key}")
    return found


def test_payloads_have_what_real_ones_have(github: World, receiver: Receiver) -> None:
    """The committed shapes: keys that every real sample of an event and action has."""
    _everything(github)
    shapes = json.loads(SHAPES.read_text())
    compared, lacking = set(), set()
    for name, (_, body) in zip(receiver.events, receiver.got, strict=True):
        if name in shapes:
            compared.add(name)
            lacking |= {f"{name}{key}" for key in _lacking(shapes[name], json.loads(body))}
    assert lacking == set(), "\n".join(sorted(lacking))
    assert len(compared) >= 14, sorted(compared)


def test_a_form_encoded_delivery_is_signed_over_the_encoded_body(
    github: World, receiver: Receiver
) -> None:
    github.admin.open_issue(REPO, "Broken", deliver="form")
    ((headers, body),) = receiver.got
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={signed}"
    assert json.loads(parse_qs(body.decode())["payload"][0])["action"] == "opened"


def test_any_payload_can_be_sent_with_any_headers(github: World, receiver: Receiver) -> None:
    github.admin.emit("star", {"action": "created"}, guid="g-1", secret="other")
    github.admin.emit("star", raw="{broken", headers={"X-Hub-Signature-256": None, "X-A": "b"})
    (first, _), (second, body) = receiver.got
    assert first["X-Github-Delivery"] == "g-1"
    assert "X-Hub-Signature-256" not in second
    assert second["X-A"] == "b"
    assert body == b"{broken"


def test_redelivery_has_the_same_guid_and_bytes(github: World, receiver: Receiver) -> None:
    receiver.status = 500
    first = github.admin.open_issue(REPO, "Broken", deliver=True).delivered
    assert (first.status, first.status_code) == ("Invalid HTTP Response: 500", 500)
    receiver.status = 202
    again = github.admin.redeliver(first.id)
    assert (again.guid, again.redelivery, again.status) == (first.guid, True, "OK")
    assert again.id != first.id
    assert receiver.got[0][1] == receiver.got[1][1]


def test_lost_deliveries_are_listed_and_redelivered_by_the_app(
    github: World, receiver: Receiver
) -> None:
    lost = github.admin.open_issue(REPO, "Lost", deliver="lost").delivered
    assert receiver.got == []
    app = github.app_jwt()
    (listed,) = github.call("GET", "/app/hook/deliveries", app, expect=200).json()
    assert (listed["guid"], listed["status_code"]) == (lost.guid, 0)
    assert listed["status"] != "OK"
    assert listed["installation_id"] == github.installation
    failures = github.call("GET", "/app/hook/deliveries?status=failure", app, expect=200)
    assert failures.json() == [], "a delivery that met nobody has no failing status code"
    path = f"/app/hook/deliveries/{lost.id}"
    github.call("POST", f"{path}/attempts", app, {}, expect=202)
    github.handle.server.deliverer.flush()  # type: ignore[union-attr]
    assert receiver.events == ["issues.opened"]
    detail = github.call("GET", path, app, expect=200).json()
    assert detail["request"]["payload"]["issue"]["title"] == "Lost"


def test_deliveries_are_paged_by_cursor(github: World) -> None:
    guids = [github.admin.ping().guid for _ in range(5)]
    path, seen = "/app/hook/deliveries?per_page=2", []
    while path:
        answer = github.call("GET", path, github.app_jwt(), expect=200)
        seen += [d["guid"] for d in answer.json()]
        path = answer.links.get("next", {}).get("url", "").removeprefix(github.base)
    assert seen == guids[::-1]


def test_a_receiver_that_is_down_or_slow_is_recorded(github: World, receiver: Receiver) -> None:
    github.admin.set_webhook("http://127.0.0.1:9/webhook", SECRET)
    down = github.admin.ping()
    assert (down.status, down.status_code) == ("failed to connect to host", 0)
    github.admin.set_webhook(None, None)
    assert github.admin.ping().status_code == 0


def test_writes_of_the_app_are_announced_when_switched_on(
    github: World, receiver: Receiver
) -> None:
    token, number = github.token(), github.open_pull()["number"]
    path = f"/issues/{number}/comments"
    github.repo("POST", path, token, {"body": "silent"}, expect=201)
    github.admin.settings(auto_events=["*"])
    github.repo("POST", path, token, {"body": "loud"}, expect=201)
    sha = github.admin.branches(REPO)["changes"]
    github.repo("POST", "/check-runs", token, {"name": "x", "head_sha": sha}, expect=201)
    github.handle.server.deliverer.flush()  # type: ignore[union-attr]
    assert receiver.events == ["issue_comment.created", "check_run.created"]
    comment = json.loads(receiver.got[0][1])
    assert comment["sender"]["type"] == "Bot"
    assert comment["comment"]["performed_via_github_app"]["id"] == github.handle.app_id


def test_an_action_that_makes_no_sense_is_refused_with_its_reason(github: World) -> None:
    with pytest.raises(SandboxRefused, match="no sandbox action"):
        github.admin.act("explode")
    with pytest.raises(SandboxRefused, match="unexpected keyword"):
        github.admin.act("open_issue", repo=REPO, title="t", colour="red")
    with pytest.raises(SandboxRefused, match="404"):
        github.admin.comment(REPO, 99, "hello")
    sha = github.admin.branches(REPO)["main"]
    run = github.admin.add_check_run(REPO, name="x", head_sha=sha)
    with pytest.raises(SandboxRefused, match="no button"):
        github.admin.click(run["id"], "fix")


def test_what_a_deleted_user_wrote_has_no_author(github: World, receiver: Receiver) -> None:
    issue = github.admin.open_issue(REPO, "Broken", author="sam").number
    github.admin.delete_user("sam")
    github.admin.comment(REPO, issue, "Who?", author="mira", deliver=True)
    assert json.loads(receiver.got[0][1])["issue"]["user"] is None
