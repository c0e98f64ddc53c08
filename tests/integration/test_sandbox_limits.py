"""Limits, paging, rate limits and faults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.integration.sandbox_kit import AFTER, REPO, World, world


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


@pytest.fixture
def github(shared: World) -> Iterator[World]:
    shared.fill()
    yield shared
    assert shared.problems == []


# Pages


def test_lists_come_in_pages_with_links(github: World) -> None:
    token = github.token()
    issue = github.admin.open_issue(REPO, "Long").number
    for n in range(7):
        github.admin.comment(REPO, issue, f"comment {n}")
    path = f"/repos/{REPO}/issues/{issue}/comments?per_page=3"
    seen, pages = [], 0
    while path:
        answer = github.call("GET", path, token, expect=200)
        seen += [c["body"] for c in answer.json()]
        pages += 1
        path = answer.links.get("next", {}).get("url", "").removeprefix(github.base)
    assert pages == 3
    assert seen == [f"comment {n}" for n in range(7)]
    assert "prev" in answer.links
    assert answer.links["first"]["url"].endswith("page=1")


def test_a_page_holds_a_hundred_at_most(github: World) -> None:
    files = {f"f{n:03}.py": f"x = {n}\n" for n in range(130)}
    number = github.open_pull(files=files)["number"]
    token = github.token()
    path = f"/pulls/{number}/files"
    first = github.repo("GET", f"{path}?per_page=500", token, expect=200)
    assert len(first.json()) == 100
    second = github.repo("GET", f"{path}?per_page=100&page=2", token, expect=200)
    assert len(second.json()) == 30
    assert len(github.repo("GET", path, token).json()) == 30
    assert github.repo("GET", f"{path}?page=9", token).json() == []


# Checks


def _run(github: World, **fields: object) -> requests.Response:
    sha = github.admin.branches(REPO)["main"]
    body = {"name": "Cody / review", "head_sha": sha, **fields}
    return github.repo("POST", "/check-runs", github.token(), body)


def _note(**fields: object) -> dict:
    note = {"path": "app.py", "start_line": 1, "end_line": 1, "annotation_level": "notice"}
    return {**note, "message": "m", **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "completed"},
        {"completed_at": "2026-01-01T00:00:00Z"},
        {"status": "waiting"},
        {"status": "done"},
        {"conclusion": "stale"},
        {"head_sha": "0" * 40},
        {"head_sha": ""},
        {"name": ""},
        {"output": {"title": "t"}},
        {"output": {"summary": "s"}},
        {"output": {"title": "t", "summary": "é" * 32_768}},
        {"output": {"title": "t", "summary": "s", "text": "x" * 65_536}},
        {"output": {"title": "t", "summary": "s", "annotations": [_note()] * 51}},
        {"output": {"title": "t", "summary": "s", "annotations": [_note(start_line=0)]}},
        {"output": {"title": "t", "summary": "s", "annotations": [_note(end_line=0)]}},
        {"output": {"title": "t", "summary": "s", "annotations": [_note(message="")]}},
        {"output": {"title": "t", "summary": "s", "annotations": [_note(annotation_level="x")]}},
        {
            "output": {
                "title": "t",
                "summary": "s",
                "annotations": [_note(end_line=2, start_column=1)],
            }
        },
        {"actions": [{"label": "a", "description": "b", "identifier": "c"}] * 4},
        {"actions": [{"label": "a" * 21, "description": "b", "identifier": "c"}]},
        {"actions": [{"label": "a", "description": "b" * 41, "identifier": "c"}]},
        {"actions": [{"label": "a", "description": "b", "identifier": "c" * 21}]},
    ],
)
def test_a_check_run_out_of_bounds_is_refused_whole(github: World, fields: dict) -> None:
    assert _run(github, **fields).status_code == 422
    assert github.admin.check_runs(REPO) == []


def test_output_at_the_limit_is_accepted(github: World) -> None:
    text = "é" * 32_767 + "x"
    assert len(text.encode()) == 65_535
    assert _run(github, output={"title": "t", "summary": text, "text": text}).status_code == 201


def test_annotations_are_appended_fifty_at_a_time(github: World) -> None:
    token, run = github.token(), _run(github).json()
    path = f"/check-runs/{run['id']}"
    for start in (0, 50):
        notes = [_note(message=f"n{n}") for n in range(start, start + 50)]
        output = {"title": "t", "summary": "s", "annotations": notes}
        github.repo("PATCH", path, token, {"output": output}, expect=200)
    shown = github.repo("GET", f"{path}/annotations?per_page=100", token).json()
    assert [n["message"] for n in shown] == [f"n{n}" for n in range(100)]


def test_a_refused_update_changes_nothing(github: World) -> None:
    token, run = github.token(), _run(github, status="in_progress").json()
    path = f"/check-runs/{run['id']}"
    bad = {"output": {"title": "new", "summary": "s"}, "actions": [{}]}
    github.repo("PATCH", path, token, bad, expect=422)
    assert github.admin.check_runs(REPO)[0]["output"]["title"] is None


def test_reopening_a_completed_run_keeps_its_conclusion(github: World) -> None:
    token, run = github.token(), _run(github, conclusion="failure").json()
    assert run["status"] == "completed"
    path = f"/check-runs/{run['id']}"
    again = github.repo("PATCH", path, token, {"status": "in_progress"}, expect=200).json()
    assert (again["status"], again["conclusion"]) == ("in_progress", "failure")


def test_the_list_shows_the_latest_run_of_each_name(github: World) -> None:
    github.admin.create_app(7, "other-ci")
    sha = github.admin.branches(REPO)["main"]
    first, second = _run(github, external_id="a:1").json(), _run(github, external_id="a:2").json()
    foreign = github.admin.add_check_run(REPO, head_sha=sha, name="Cody / review", app_id=7)
    token, path = github.token(), f"/commits/{sha}/check-runs"
    latest = github.repo("GET", path, token).json()
    assert {r["id"] for r in latest["check_runs"]} == {second["id"], foreign["id"]}
    everything = github.repo("GET", f"{path}?filter=all&check_name=Cody / review", token).json()
    assert everything["total_count"] == 3
    own = f"{path}?filter=all&app_id={github.handle.app_id}"
    assert [r["id"] for r in github.repo("GET", own, token).json()["check_runs"]] == [
        second["id"],
        first["id"],
    ]
    github.repo("PATCH", f"/check-runs/{foreign['id']}", token, {"name": "x"}, expect=403)


# Conversations


@pytest.mark.parametrize("length", [65_536, 65_537])
def test_a_comment_holds_65536_characters(github: World, length: int) -> None:
    issue = github.admin.open_issue(REPO, "Long").number
    path = f"/issues/{issue}/comments"
    answer = github.repo("POST", path, github.token(), {"body": "é" * length})
    assert answer.status_code == (201 if length == 65_536 else 422)
    if length > 65_536:
        assert "maximum is 65536 characters" in answer.text


@pytest.mark.parametrize("body", [{}, {"body": ""}, {"body": "  "}, {"body": 3}, {"body": None}])
def test_an_empty_comment_is_refused(github: World, body: dict) -> None:
    issue = github.admin.open_issue(REPO, "Long").number
    github.repo("POST", f"/issues/{issue}/comments", github.token(), body, expect=422)
    assert github.admin.comments(REPO, issue) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"path": "app.py", "line": 40}, "Line could not be resolved"),
        ({"path": "app.py", "line": None}, "Line could not be resolved"),
        ({"path": "README.md", "line": 1}, "Path could not be resolved"),
        ({"path": "app.py", "line": 2, "side": "MIDDLE"}, "side"),
        ({"path": "app.py", "line": 2, "start_line": 2}, "Start line must precede"),
        ({"path": "app.py", "line": 2, "start_line": 40}, "Start line could not"),
    ],
)
def test_one_comment_off_the_diff_refuses_the_whole_review(
    github: World, place: dict, said: str
) -> None:
    number = github.open_pull()["number"]
    good = {"path": "app.py", "line": 2, "body": "good"}
    body = {"event": "COMMENT", "body": "b", "comments": [good, {**place, "body": "bad"}]}
    path = f"/pulls/{number}/reviews"
    answer = github.repo("POST", path, github.token(), body, expect=422)
    assert said in str(answer.json()["errors"])
    assert github.admin.reviews(REPO) == []
    assert github.admin.review_comments(REPO) == []


@pytest.mark.parametrize("side", ["LEFT", "RIGHT"])
def test_both_sides_of_a_diff_take_comments(github: World, side: str) -> None:
    number = github.open_pull()["number"]
    note = {"path": "app.py", "line": 2, "side": side, "body": "here"}
    body = {"event": "COMMENT", "body": "b", "comments": [note]}
    github.repo("POST", f"/pulls/{number}/reviews", github.token(), body, expect=200)
    (made,) = github.admin.review_comments(REPO)
    last = made["diff_hunk"].splitlines()[-1]
    assert last == ("-    return sum(items)" if side == "LEFT" else "+    print(items)")


def test_rules_of_reviews(github: World) -> None:
    github.open_pull(author=github.handle.bot_login)
    token, path = github.token(), "/pulls/1/reviews"
    for event in ("APPROVE", "REQUEST_CHANGES"):
        body = {"event": event, "body": "b"}
        assert "your own" in github.repo("POST", path, token, body, expect=422).text
    github.repo("POST", path, token, {"event": "COMMENT"}, expect=422)
    github.repo("POST", path, token, {"event": "PRAISE", "body": "b"}, expect=422)
    github.repo("POST", path, token, {}, expect=200)
    assert "pending" in github.repo("POST", path, token, {}, expect=422).text


def test_a_comment_is_outdated_once_the_head_moved(github: World) -> None:
    number = github.open_pull()["number"]
    note = {"path": "app.py", "line": 2, "body": "here"}
    body = {"event": "COMMENT", "body": "b", "comments": [note]}
    github.repo("POST", f"/pulls/{number}/reviews", github.token(), body, expect=200)
    github.admin.push(REPO, "changes", {"app.py": AFTER + "\n"}, author="mira")
    (made,) = github.admin.review_comments(REPO)
    assert (made["line"], made["original_line"]) == (None, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"head": "changes", "base": "main"}, "already exists for acme:changes"),
        ({"head": "main", "base": "main"}, "No commits between main and main"),
        ({"head": "nowhere", "base": "main"}, "'head'"),
        ({"head": "changes", "base": "nowhere"}, "'base'"),
        ({"head": "ghost:changes", "base": "main"}, "'head'"),
    ],
)
def test_pull_requests_that_cannot_be_opened(github: World, body: dict, said: str) -> None:
    github.open_pull()
    answer = github.repo("POST", "/pulls", github.token(), {"title": "t", **body}, expect=422)
    assert said in str(answer.json()["errors"])
    assert len(github.admin.pulls(REPO)) == 1


def test_drafts_are_refused_where_the_plan_has_none(github: World) -> None:
    github.admin.create_repository("acme/plain", private=True, drafts=False)
    github.admin.push("acme/plain", "b", {"b.py": "b = 1\n"})
    token = github.token(repo=None)
    body = {"title": "t", "head": "b", "base": "main", "draft": True}
    answer = github.call("POST", "/repos/acme/plain/pulls", token, body, expect=422)
    assert answer.json()["message"].startswith("Draft pull requests are not supported")


def test_pulls_are_found_by_head(github: World) -> None:
    own, forked = github.open_pull()["number"], github.open_pull(fork="sam")["number"]
    token = github.token()

    def numbers(query: str) -> list[int]:
        return [p["number"] for p in github.repo("GET", f"/pulls?{query}", token).json()]

    assert numbers("head=acme:changes") == [own]
    assert numbers("head=sam:changes") == [forked]
    assert numbers("head=changes") == [forked, own], "without an owner GitHub ignores the filter"
    github.admin.change_thread(REPO, own, state="closed")
    assert numbers("head=acme:changes") == []
    assert numbers("head=acme:changes&state=all") == [own]


# Rates


def test_the_primary_limit_counts_down_and_refuses(github: World) -> None:
    token = github.token()
    github.admin.set_rate_limit(github.installation, limit=2)
    first = github.repo("GET", "", token, expect=200)
    assert first.headers["X-RateLimit-Remaining"] == "1"
    github.repo("GET", "", token, expect=200)
    over = github.repo("GET", "", token, expect=403)
    assert "API rate limit exceeded" in over.json()["message"]
    assert over.headers["X-RateLimit-Remaining"] == "0"
    assert int(over.headers["X-RateLimit-Reset"]) > time.time()


def test_a_conditional_read_is_free(github: World) -> None:
    token = github.token()
    first = github.repo("GET", "", token, expect=200)
    headers = {"If-None-Match": first.headers["ETag"]}
    again = github.call("GET", f"/repos/{REPO}", token, headers=headers)
    assert again.status_code == 304
    remaining = github.repo("GET", "", token).headers["X-RateLimit-Remaining"]
    assert int(remaining) == int(first.headers["X-RateLimit-Remaining"]) - 1


def test_the_secondary_limit_counts_content(github: World) -> None:
    token, issue = github.token(), github.admin.open_issue(REPO, "t").number
    github.admin.settings(content_per_minute=2)
    path = f"/issues/{issue}/comments"
    codes = [github.repo("POST", path, token, {"body": "b"}) for _ in range(3)]
    assert [c.status_code for c in codes] == [201, 201, 403]
    assert "secondary rate limit" in codes[2].json()["message"]
    assert codes[2].headers["Retry-After"] == "60"


# Faults


def test_a_fault_hits_the_nth_request_only(github: World) -> None:
    token = github.token()
    github.admin.fault("GET", r"/branches$", "status", nth=2, status=503)
    codes = [github.repo("GET", "/branches", token).status_code for _ in range(3)]
    assert codes == [200, 503, 200]
    (fault,) = github.admin.faults()
    assert (fault["seen"], fault["fired"]) == (3, 1)


@pytest.mark.parametrize("kind", ["status", "drop"])
def test_a_lost_answer_has_had_its_effect(github: World, kind: str) -> None:
    token, issue = github.token(), github.admin.open_issue(REPO, "t").number
    github.admin.fault("POST", r"/comments$", kind, after=True)
    path = f"/issues/{issue}/comments"
    if kind == "drop":
        with pytest.raises(requests.ConnectionError):
            github.repo("POST", path, token, {"body": "once"})
    else:
        assert github.repo("POST", path, token, {"body": "once"}).status_code == 502
    assert [c["body"] for c in github.admin.comments(REPO, issue)] == ["once"]


def test_a_dropped_connection_has_no_effect(github: World) -> None:
    token, issue = github.token(), github.admin.open_issue(REPO, "t").number
    github.admin.fault("POST", r"/comments$", "drop")
    with pytest.raises(requests.ConnectionError):
        github.repo("POST", f"/issues/{issue}/comments", token, {"body": "never"})
    assert github.admin.comments(REPO, issue) == []


@pytest.mark.parametrize("status", [403, 429])
def test_a_throttling_fault_names_the_wait(github: World, status: int) -> None:
    token = github.token()
    github.admin.fault("*", "", "status", status=status, retry_after=7)
    answer = github.repo("GET", "", token, expect=status)
    assert answer.headers["Retry-After"] == "7"
    assert "secondary rate limit" in answer.json()["message"]


def test_a_slow_answer_does_not_hold_up_others(github: World) -> None:
    token = github.token()
    github.admin.fault("GET", r"/branches$", "delay", seconds=1.0)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(requests.get, f"{github.base}/repos/{REPO}/branches", timeout=10)
        started = time.monotonic()
        while not github.admin.faults()[0]["fired"]:
            assert time.monotonic() - started < 1.0
        github.repo("GET", "", token, expect=200)
        assert time.monotonic() - started < 0.9
        assert not slow.done()
        assert slow.result().elapsed.total_seconds() >= 1.0


def test_a_token_can_end_in_the_middle(github: World) -> None:
    token = github.token()
    github.admin.fault("GET", r"/branches$", "expire")
    github.repo("GET", "", token, expect=200)
    github.repo("GET", "/branches", token, expect=401)
    github.repo("GET", "", github.token(), expect=200)


def test_requests_are_counted_by_operation(github: World) -> None:
    token = github.token()
    github.admin.clear_requests()
    github.repo("GET", "", token)
    github.repo("GET", "/branches", token)
    github.repo("GET", "/branches", token)
    assert github.admin.request_counts() == {"get_repository": 1, "list_branches": 2}
    last = github.admin.requests()[-1]
    assert (last["method"], last["status"], last["repo"]) == ("GET", 200, REPO)
    assert last["installation_id"] == github.installation


def test_the_sandbox_runs_as_a_process_and_ends_with_its_parent(tmp_path: Path) -> None:
    with world(tmp_path / "sandbox", in_process=False) as own:
        assert own.repo("GET", "", own.token()).status_code == 200
        process = own.handle.process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    mode = (tmp_path / "sandbox" / "app.pem").stat().st_mode
    assert mode & 0o077 == 0
