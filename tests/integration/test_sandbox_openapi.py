"""Every operation of the sandbox answers as GitHub's own description says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub

from coven.sandbox.web import ROUTES
from tests.integration.sandbox_kit import REPO, World, world
from tests.support.new_app import confirm
from tests.support.openapi import COMMITTED, committed, template

MANIFEST = {
    "name": "Second familiar",
    "url": "https://coven.example.com",
    "redirect_url": "http://127.0.0.1:1/back",
    "hook_attributes": {"url": "https://coven.example.com/webhook"},
    "default_permissions": {"pull_requests": "write"},
    "default_events": ["pull_request"],
}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "sandbox") as made:
        yield made


def test_the_committed_description_is_small() -> None:
    assert COMMITTED.stat().st_size < 600_000


def test_the_validator_notices_a_wrong_answer(github: World) -> None:
    good = github.repo("GET", "", github.token(), expect=200).json()
    path = f"/repos/{REPO}"
    assert committed().problems("GET", path, 200, good) == []
    assert committed().problems("GET", path, 200, {**good, "private": "yes"})
    assert committed().problems("GET", path, 200, {k: v for k, v in good.items() if k != "owner"})
    assert committed().problems("GET", path, 418, good)


def test_every_operation_answers_as_described(github: World) -> None:
    app, all_of_it = github.app_jwt(), github.token(repo=None)
    pull = github.open_pull()
    sha, number = pull["head"]["sha"], pull["number"]
    issue = github.admin.open_issue(REPO, "Broken", "It is.", author="sam", labels=["bug"]).number
    for path in (
        "/app",
        "/app/installations",
        f"/app/installations/{github.installation}",
        f"/repos/{REPO}/installation",
    ):
        github.call("GET", path, app, expect=200)
    sent = github.admin.ping()
    github.call("GET", "/app/hook/deliveries", app, expect=200)
    github.call("GET", f"/app/hook/deliveries/{sent.id}", app, expect=200)
    github.call("POST", f"/app/hook/deliveries/{sent.id}/attempts", app, {}, expect=202)
    for path in ("/users/mira", "/users/cody-familiar[bot]", "/rate_limit", "/meta"):
        github.call("GET", path, all_of_it, expect=200)
    github.call("GET", "/installation/repositories", all_of_it, expect=200)

    github.admin.subscribe(
        "acme", "Team", pending_plan="Starter", pending_at="2027-01-01T00:00:00Z"
    )
    owner = github.repo("GET", "", github.token()).json()["owner"]["id"]
    for listing in ("/marketplace_listing", "/marketplace_listing/stubbed"):
        for path in ("/plans", "/plans/2/accounts", f"/accounts/{owner}"):
            github.call("GET", listing + path, app, expect=200)

    def get(*paths: str) -> None:
        for path in paths:
            github.repo("GET", path, all_of_it, expect=204 if path.endswith("rs/mira") else 200)

    get("", "/branches", "/branches/main", "/collaborators/mira", "/commits", f"/commits/{sha}")
    get("/collaborators/mira/permission", "/git/ref/heads/main", "/git/matching-refs/heads/ch")
    get(f"/commits/{sha}/pulls", "/compare/main...changes", "/contents/app.py", "/contents/docs")
    get("/labels", "/pulls", f"/pulls/{number}", f"/pulls/{number}/files")
    get(f"/pulls/{number}/commits", "/issues", f"/issues/{issue}", f"/issues/{number}")

    def post(path: str, body: object, status: int = 201) -> dict:
        return github.repo("POST", path, all_of_it, body, expect=status).json()

    post("/git/refs", {"ref": "refs/heads/extra", "sha": sha})
    github.repo("DELETE", "/git/refs/heads/extra", all_of_it, expect=204)
    github.admin.push(REPO, "other", {"b.py": "x = 1\n"})
    made = post("/pulls", {"title": "More", "head": "other", "base": "main", "draft": True})
    mine = made["number"]
    github.repo("PATCH", f"/pulls/{mine}", all_of_it, {"title": "Yet more"}, expect=200)

    note = {"path": "app.py", "line": 2, "body": "Do not print."}
    review = post(
        f"/pulls/{number}/reviews", {"event": "APPROVE", "body": "", "comments": [note]}, 200
    )["id"]
    get(f"/pulls/{number}/reviews", f"/pulls/{number}/reviews/{review}")
    get(f"/pulls/{number}/reviews/{review}/comments", f"/pulls/{number}/comments")
    where = f"/pulls/{number}/reviews/{review}"
    github.repo("PUT", where, all_of_it, {"body": "Better"}, expect=200)
    github.repo("PUT", f"{where}/dismissals", all_of_it, {"message": "Old"}, expect=200)
    pending = post(f"/pulls/{number}/reviews", {"body": "later"}, 200)["id"]
    event = {"event": "COMMENT", "body": "Now"}
    post(f"/pulls/{number}/reviews/{pending}/events", event, 200)
    pending = post(f"/pulls/{number}/reviews", {"body": "never"}, 200)["id"]
    github.repo("DELETE", f"/pulls/{number}/reviews/{pending}", all_of_it, expect=200)
    line = post(f"/pulls/{number}/comments", {**note, "commit_id": sha})["id"]
    reply = post(f"/pulls/{number}/comments/{line}/replies", {"body": "Why?"})["id"]
    get(f"/pulls/comments/{line}")
    github.repo("PATCH", f"/pulls/comments/{line}", all_of_it, {"body": "No."}, expect=200)
    eyes = post(f"/pulls/comments/{line}/reactions", {"content": "eyes"})["id"]
    get(f"/pulls/comments/{line}/reactions")
    github.repo("DELETE", f"/pulls/comments/{line}/reactions/{eyes}", all_of_it, expect=204)
    github.repo("DELETE", f"/pulls/comments/{reply}", all_of_it, expect=204)

    own = post("/issues", {"title": "From the App", "labels": ["robot"]})["number"]
    github.repo("PATCH", f"/issues/{own}", all_of_it, {"state": "closed"}, expect=200)
    comment = post(f"/issues/{issue}/comments", {"body": "On it."})["id"]
    get(f"/issues/{issue}/comments", "/issues/comments", f"/issues/comments/{comment}")
    changed = {"body": "Done."}
    github.repo("PATCH", f"/issues/comments/{comment}", all_of_it, changed, expect=200)
    for thing in (f"/issues/{issue}", f"/issues/comments/{comment}"):
        post(f"{thing}/reactions", {"content": "rocket"})
        post(f"{thing}/reactions", {"content": "rocket"}, 200)
        get(f"{thing}/reactions")
    eyes = post(f"/issues/comments/{comment}/reactions", {"content": "eyes"})["id"]
    github.repo("DELETE", f"/issues/comments/{comment}/reactions/{eyes}", all_of_it, expect=204)
    github.repo("DELETE", f"/issues/comments/{comment}", all_of_it, expect=204)
    post("/labels", {"name": "later", "color": "00ff00"})
    post(f"/issues/{issue}/labels", {"labels": ["later"]}, 200)
    get(f"/issues/{issue}/labels", f"/issues/{issue}/events")
    github.repo("DELETE", f"/issues/{issue}/labels/later", all_of_it, expect=200)
    github.repo("PUT", f"/issues/{issue}/labels", all_of_it, {"labels": ["a"]}, expect=200)
    post(f"/issues/{issue}/assignees", {"assignees": ["mira"]})
    people = {"assignees": ["mira"]}
    github.repo("DELETE", f"/issues/{issue}/assignees", all_of_it, people, expect=200)

    run = post("/check-runs", {"name": "Cody / review", "head_sha": sha, "external_id": "t:1"})
    annotation = {
        "path": "app.py",
        "start_line": 2,
        "end_line": 2,
        "annotation_level": "warning",
        "message": "Prints.",
    }
    end = {
        "conclusion": "neutral",
        "output": {"title": "One finding", "summary": "s", "annotations": [annotation]},
    }
    github.repo("PATCH", f"/check-runs/{run['id']}", all_of_it, end, expect=200)
    get(f"/check-runs/{run['id']}", f"/check-runs/{run['id']}/annotations")
    get(f"/commits/{sha}/check-runs", f"/commits/{sha}/check-suites")
    suite = run["check_suite"]["id"]
    get(f"/check-suites/{suite}", f"/check-suites/{suite}/check-runs")
    post(f"/check-runs/{run['id']}/rerequest", {})
    github.repo("PUT", f"/pulls/{number}/merge", all_of_it, {}, expect=200)
    github.repo("GET", f"/pulls/{number}/merge", all_of_it, expect=204)
    get(f"/pulls/{number}")
    github.call("DELETE", "/installation/token", all_of_it, expect=204)
    github.call("GET", "/app/hook/config", app, expect=200)
    where = confirm(f"{github.base}/settings/apps/new?state=s", json.dumps(MANIFEST))
    code = parse_qs(urlsplit(where).query)["code"][0]
    github.call("POST", f"/app-manifests/{code}/conversions", None, {}, expect=201)

    assert github.problems == []
    assert github.admin.unexpected() == []
    assert _served() - github.done == set()


def _served() -> set[str]:
    """Every route of the sandbox by GitHub's name for it; one that GitHub lacks fails here."""
    found = set()
    for route in ROUTES:
        if route.path.endswith("/"):
            continue  # the root folder's form of /contents/{path}
        path = re.sub(r"<(?:\w+:)?(\w+)>", "1", route.path)
        paths = committed().document["paths"]
        where = template(path, [p for p in paths if route.method.lower() in paths[p]])
        assert where is not None, f"GitHub has no {route.method} {route.path}"
        found.add(f"{route.method} {where}")
    return found


def test_a_second_client_library_reads_the_main_objects(github: World) -> None:
    pull = github.open_pull(fork="sam")
    owner, name = REPO.split("/")
    app = GitHub(
        AppAuthStrategy(github.handle.app_id, github.handle.private_key),
        base_url=f"{github.base}/",
        auto_retry=False,
    )
    assert app.rest.apps.get_authenticated().parsed_data.slug == "cody-familiar"
    installed = app.rest.apps.get_repo_installation(owner, name).parsed_data
    assert installed.id == github.installation
    installed_app = app.with_auth(
        AppInstallationAuthStrategy(
            github.handle.app_id, github.handle.private_key, github.installation
        )
    )
    client = installed_app.rest
    assert client.repos.get(owner, name).parsed_data.id == github.repo_id
    parsed = client.pulls.get(owner, name, pull["number"]).parsed_data
    assert parsed.head.repo.fork is True
    files = client.pulls.list_files(owner, name, pull["number"]).parsed_data
    assert [(f.filename, f.additions) for f in files] == [("app.py", 2)]
    comment = client.issues.create_comment(owner, name, pull["number"], body="Hello").parsed_data
    assert comment.performed_via_github_app.id == github.handle.app_id
    run = client.checks.create(
        owner, name, data={"name": "Cody", "head_sha": parsed.head.sha, "status": "in_progress"}
    ).parsed_data
    assert run.status == "in_progress"
    level = client.repos.get_collaborator_permission_level(owner, name, "mira").parsed_data
    assert level.permission == "write"
    compared = client.repos.compare_commits(owner, name, f"main...{parsed.head.sha}").parsed_data
    assert (compared.ahead_by, compared.behind_by) == (1, 0)
    review = client.pulls.create_review(
        owner,
        name,
        pull["number"],
        body="See below",
        event="COMMENT",
        comments=[{"path": "app.py", "line": 2, "body": "Why print?"}],
    ).parsed_data
    assert review.state == "COMMENTED"
    assert github.admin.unexpected() == []


def test_a_pull_request_of_a_deleted_fork_has_no_head_repository(github: World) -> None:
    pull = github.open_pull(fork="sam")
    github.admin.delete_repository("sam/shop")
    shown = github.repo("GET", f"/pulls/{pull['number']}", github.token(), expect=200).json()
    assert shown["head"]["repo"] is None
    assert shown["head"]["sha"] == pull["head"]["sha"]
