"""The client over real HTTP: tokens, each call's shape by GitHub's description, edge answers."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import jwt
import pytest
from pydantic import SecretStr

from coven.clock import ManualClock
from coven.errors import (
    ConfigurationError,
    CovenError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubRejected,
    GitHubUnauthorised,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
)
from coven.github.factory import GitHub, Role
from coven.github.repo_client import RepoClient
from tests.scripted_github import (
    INSTALLATION,
    REPO,
    REPO_ID,
    SHA,
    Answer,
    ScriptedGitHub,
    Seen,
    private_key,
    scripted_github,
)

FIXTURE = Path(__file__).parents[1] / "fixtures" / "github_requests.json"
OPERATIONS: dict[str, Any] = json.loads(FIXTURE.read_text())["operations"]
MINT = f"POST /app/installations/{INSTALLATION}/access_tokens"
BASE = f"/repos/{REPO}"

REPOSITORY = {"id": REPO_ID, "full_name": "octo/demo", "default_branch": "main", "private": False}
PULL = {
    "number": 3,
    "title": "t",
    "body": None,
    "state": "open",
    "head": {"sha": SHA, "ref": "topic", "label": "octo:topic", "repo": {"id": REPO_ID}},
    "base": {"sha": SHA, "ref": "main", "repo": {"id": REPO_ID}},
    "user": None,
    "html_url": "u",
    "updated_at": "2026-01-02T03:04:05Z",
}
COMMENT = {"id": 11, "body": "b", "user": {"id": 1, "login": "x"}, "html_url": "u"}
COMPARISON = {
    "status": "ahead",
    "ahead_by": 1,
    "behind_by": 0,
    "commits": [{"sha": SHA}],
    "merge_base_commit": {"sha": SHA},
}


@pytest.fixture
def hub() -> Iterator[ScriptedGitHub]:
    with scripted_github() as running:
        yield running


def client(hub: ScriptedGitHub, role: Role = Role.PUBLISH, **facts: Any) -> RepoClient:
    return hub.github(**facts).for_repo(INSTALLATION, REPO_ID, REPO, role)


# --- every call, by GitHub's description of it

CHECK_RUN = {
    "name": "Cody / review",
    "head_sha": SHA,
    "status": "completed",
    "conclusion": "success",
    "external_id": "t:1",
    "output": {"title": "x", "summary": "y", "annotations": []},
}
CALLS: dict[str, tuple[str, Any, Callable[[RepoClient], object]]] = {
    "GET /repos/{owner}/{repo}": ("", REPOSITORY, lambda c: c.repository()),
    "GET /repos/{owner}/{repo}/collaborators/{username}/permission": (
        "/collaborators/cody%5Bbot%5D/permission",
        {"permission": "write", "user": {"id": 5}},
        lambda c: c.permission("cody[bot]"),
    ),
    "GET /repos/{owner}/{repo}/collaborators/{username}": (
        "/collaborators/ann",
        None,
        lambda c: c.is_collaborator("ann"),
    ),
    "GET /repos/{owner}/{repo}/branches/{branch}": (
        "/branches/feature%2Fx%23y",
        {"commit": {"sha": SHA}},
        lambda c: c.branch_head("feature/x#y"),
    ),
    "GET /repos/{owner}/{repo}/issues": (
        "/issues",
        [{"number": 3, "updated_at": "2026-01-02T03:04:05Z"}],
        lambda c: list(c.open_issues("coven:fix", datetime(2026, 1, 1, tzinfo=UTC))),
    ),
    "GET /repos/{owner}/{repo}/issues/{issue_number}/events": (
        "/issues/3/events",
        [{"event": "labeled", "created_at": "2026-01-02T03:04:05Z"}],
        lambda c: c.labelled_by(3, "coven:fix"),
    ),
    "GET /repos/{owner}/{repo}/contents/{path}": (
        "/contents/.github/coven.yml",
        {"type": "file", "sha": SHA, "content": "dmVyc2lvbjogMQo="},
        lambda c: c.file(".github/coven.yml", "main"),
    ),
    "GET /repos/{owner}/{repo}/git/ref/{ref}": (
        "/git/ref/heads/cody/fix-1",
        {"ref": "refs/heads/cody/fix-1", "object": {"sha": SHA}},
        lambda c: c.ref("cody/fix-1"),
    ),
    "GET /repos/{owner}/{repo}/compare/{basehead}": (
        f"/compare/{SHA}...cody%2Ffix-1",
        COMPARISON,
        lambda c: c.compare(SHA, "cody/fix-1"),
    ),
    "GET /repos/{owner}/{repo}/issues/{issue_number}": (
        "/issues/3",
        {"number": 3},
        lambda c: c.issue(3),
    ),
    "GET /repos/{owner}/{repo}/issues/{issue_number}/comments": (
        "/issues/3/comments",
        [COMMENT],
        lambda c: list(c.list_comments(3)),
    ),
    "POST /repos/{owner}/{repo}/issues/{issue_number}/comments": (
        "/issues/3/comments",
        COMMENT,
        lambda c: c.create_comment(3, "hello"),
    ),
    "GET /repos/{owner}/{repo}/issues/comments/{comment_id}": (
        "/issues/comments/11",
        COMMENT,
        lambda c: c.get_comment(11),
    ),
    "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}": (
        "/issues/comments/11",
        COMMENT,
        lambda c: c.update_comment(11, "again"),
    ),
    "POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions": (
        "/issues/comments/11/reactions",
        {"id": 1},
        lambda c: c.add_reaction(11, "issue_comment", "eyes"),
    ),
    "POST /repos/{owner}/{repo}/pulls/comments/{comment_id}/reactions": (
        "/pulls/comments/11/reactions",
        {"id": 1},
        lambda c: c.add_reaction(11, "review_comment", "eyes"),
    ),
    "POST /repos/{owner}/{repo}/issues/{issue_number}/reactions": (
        "/issues/3/reactions",
        {"id": 1},
        lambda c: c.add_reaction(3, "issue", "rocket"),
    ),
    "POST /repos/{owner}/{repo}/pulls/{pull_number}/comments/{comment_id}/replies": (
        "/pulls/3/comments/11/replies",
        COMMENT,
        lambda c: c.reply_to_review_comment(3, 11, "hi"),
    ),
    "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments": (
        "/pulls/3/comments",
        [COMMENT],
        lambda c: list(c.review_comments(3)),
    ),
    "POST /repos/{owner}/{repo}/check-runs": (
        "/check-runs",
        {"id": 21, "html_url": "u"},
        lambda c: c.create_check_run(CHECK_RUN),
    ),
    "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}": (
        "/check-runs/21",
        {"id": 21},
        lambda c: c.update_check_run(21, {"status": "in_progress"}),
    ),
    "GET /repos/{owner}/{repo}/check-runs/{check_run_id}": (
        "/check-runs/21",
        {"id": 21},
        lambda c: c.get_check_run(21),
    ),
    "GET /repos/{owner}/{repo}/commits/{ref}/check-runs": (
        f"/commits/{SHA}/check-runs",
        {"total_count": 1, "check_runs": [{"id": 21}]},
        lambda c: c.check_runs(SHA, "Cody / review"),
    ),
    "GET /repos/{owner}/{repo}/pulls/{pull_number}": ("/pulls/3", PULL, lambda c: c.pull(3)),
    "GET /repos/{owner}/{repo}/pulls/{pull_number}/files": (
        "/pulls/3/files",
        [{"filename": "a.py", "status": "added", "additions": 1, "deletions": 0}],
        lambda c: c.pull_files(3),
    ),
    "GET /repos/{owner}/{repo}/pulls": (
        "/pulls",
        [PULL],
        lambda c: c.pulls_from("octo", "topic"),
    ),
    "POST /repos/{owner}/{repo}/pulls": (
        "/pulls",
        PULL,
        lambda c: c.create_pull("t", "topic", "main", "b", True),
    ),
    "PATCH /repos/{owner}/{repo}/pulls/{pull_number}": (
        "/pulls/3",
        PULL,
        lambda c: c.update_pull(3, body="new", state="closed"),
    ),
}
AS_APP: dict[str, Callable[[GitHub], object]] = {
    "GET /app": lambda g: g.app_info(),
    "GET /users/{username}": lambda g: g.app_info(),
    "GET /app/installations": lambda g: list(g.list_installations()),
    "GET /app/installations/{installation_id}": lambda g: g.installation(INSTALLATION),
    "GET /marketplace_listing/accounts/{account_id}": lambda g: g.purchase(7),
    "GET /app/hook/deliveries": lambda g: g.list_hook_deliveries("v1_7"),
    "GET /app/hook/deliveries/{delivery_id}": lambda g: g.hook_delivery(9),
    "POST /app/hook/deliveries/{delivery_id}/attempts": lambda g: g.redeliver(9),
    "POST /app/installations/{installation_id}/access_tokens": lambda g: g.token(
        INSTALLATION, REPO_ID, Role.PUSH
    ),
    "DELETE /installation/token": lambda g: g.revoke(g.token(INSTALLATION, REPO_ID, Role.PUSH)),
}
INSTALLED = {
    "id": int(INSTALLATION),
    "account": {"id": 7, "login": "octo", "type": "Organization"},
    "repository_selection": "selected",
    "permissions": {"metadata": "read"},
    "events": ["push"],
    "suspended_at": None,
    "updated_at": "2026-01-02T03:04:05Z",
}
PURCHASED = {
    "id": 7,
    "login": "octo",
    "type": "Organization",
    "marketplace_purchase": {
        "unit_count": 1,
        "on_free_trial": True,
        "free_trial_ends_on": "2026-02-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
        "plan": {"id": 3, "name": "Team"},
    },
}
DELIVERY = {
    "id": 9,
    "guid": "g-1",
    "delivered_at": "2026-01-02T03:04:05Z",
    "redelivery": False,
    "status": "timed out",
    "status_code": 0,
    "event": "push",
    "action": None,
    "installation_id": 1,
    "repository_id": 2,
}


def conforms(seen: Seen, operation: str) -> None:
    """Check a request against the description, where unknown names count as mistakes."""
    described = OPERATIONS[operation]
    template = re.sub(r"\\{(?:ref|path)\\}", ".+", re.escape(operation.partition(" ")[2]))
    assert re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", template), seen.path), seen.path
    for name, value in seen.query.items():
        schema = described["query"][name]
        typed: Any = int(value) if schema.get("type") == "integer" else value
        jsonschema.validate(typed, schema)
    if seen.body is None:
        assert "required" not in described.get("body", {})
    else:
        jsonschema.validate(seen.body, described["body"])
        assert set(seen.body) <= set(described["body"]["properties"])


@pytest.mark.parametrize("operation", CALLS)
def test_every_repository_call_is_as_github_describes_it(
    hub: ScriptedGitHub, operation: str
) -> None:
    place, body, call = CALLS[operation]
    method = operation.partition(" ")[0]
    status = OPERATIONS[operation]["success"][-1]
    hub.answer(f"{method} {BASE}{place}", Answer(status, body))
    call(client(hub))
    seen = hub.seen[-1]
    assert (seen.method, seen.path) == (method, f"{BASE}{place}")
    conforms(seen, operation)
    assert seen.headers["authorization"].startswith("Bearer ghs_scripted")


@pytest.mark.parametrize("operation", AS_APP)
def test_every_call_of_the_app_is_as_github_describes_it(
    hub: ScriptedGitHub, operation: str
) -> None:
    hub.answer("GET /app", Answer(200, {"id": 12, "slug": "cody"}))
    hub.answer("GET /users/cody%5Bbot%5D", Answer(200, {"id": 99}))
    hub.answer("GET /app/installations", Answer(200, [INSTALLED]))
    hub.answer(f"GET /app/installations/{INSTALLATION}", Answer(200, INSTALLED))
    hub.answer("GET /marketplace_listing/accounts/7", Answer(200, PURCHASED))
    hub.answer("GET /app/hook/deliveries", Answer(200, [DELIVERY]))
    hub.answer("GET /app/hook/deliveries/9", Answer(200, DELIVERY))
    hub.answer("POST /app/hook/deliveries/9/attempts", Answer(202, {}))
    hub.answer("DELETE /installation/token", Answer(204))
    AS_APP[operation](hub.github())
    method, _, template = operation.partition(" ")
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
    (seen,) = [s for s in hub.seen if s.method == method and re.fullmatch(pattern, s.path)]
    conforms(seen, operation)


def test_no_described_operation_is_left_untried() -> None:
    assert {*CALLS, *AS_APP} == set(OPERATIONS)


# --- tokens


@pytest.mark.parametrize("role", list(Role))
def test_a_token_is_for_one_repository_and_one_role(hub: ScriptedGitHub, role: Role) -> None:
    token = hub.github().token(INSTALLATION, REPO_ID, role)
    (asked,) = hub.calls(MINT)
    assert asked.body == {"repository_ids": [REPO_ID], "permissions": role.permissions}
    assert token.permissions["metadata"] == "read"
    assert token.expires_at > datetime.now(UTC) + timedelta(minutes=50)


@pytest.mark.parametrize(
    ("client_id", "issuer"), [(None, "12"), ("", "12"), ("Iv23abc", "Iv23abc")]
)
def test_the_jwt_is_short_and_backdated(
    hub: ScriptedGitHub, client_id: str | None, issuer: str
) -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    hub.github(clock=clock, client_id=client_id).token(INSTALLATION, REPO_ID, Role.LOOKUP)
    scheme, _, signed = hub.calls(MINT)[0].headers["authorization"].partition(" ")
    claims = jwt.decode(
        signed,
        private_key().public_key(),
        algorithms=["RS256"],
        options={"verify_exp": False, "verify_iat": False},
    )
    now = int(clock.now().timestamp())
    assert scheme == "Bearer"
    assert claims == {"iat": now - 60, "exp": now + 540, "iss": issuer}


@pytest.mark.parametrize("skew", [timedelta(hours=-2), timedelta(hours=2)])
def test_a_wrong_clock_here_neither_keeps_dead_tokens_nor_mints_each_time(
    hub: ScriptedGitHub, skew: timedelta
) -> None:
    clock = ManualClock(datetime.now(UTC) + skew)
    github = hub.github(clock=clock)
    first = github.token(INSTALLATION, REPO_ID, Role.LOOKUP)
    clock.advance(50 * 60)
    assert github.token(INSTALLATION, REPO_ID, Role.LOOKUP) == first
    clock.advance(6 * 60)
    assert github.token(INSTALLATION, REPO_ID, Role.LOOKUP) != first


def test_calls_share_a_token_until_it_is_old(hub: ScriptedGitHub) -> None:
    clock = ManualClock(datetime.now(UTC))
    hub.answer(f"GET {BASE}", Answer(200, REPOSITORY))
    repo = client(hub, clock=clock)
    repo.repository()
    repo.repository()
    assert hub.tokens_minted == 1
    clock.advance(61 * 60)
    repo.repository()
    assert hub.tokens_minted == 2


def test_threads_that_start_together_mint_one_token(hub: ScriptedGitHub) -> None:
    hub.answer(f"GET {BASE}", Answer(200, REPOSITORY))
    repo = client(hub)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: repo.repository(), range(16)))
    assert hub.tokens_minted == 1


@pytest.mark.parametrize("operation", ["create_comment", "repository"])
def test_a_refused_token_is_replaced_once_and_the_call_sent_again(
    hub: ScriptedGitHub, operation: str
) -> None:
    refused = Answer(401, {"message": "Bad credentials"})
    hub.answer(f"POST {BASE}/issues/3/comments", refused, Answer(201, COMMENT))
    hub.answer(f"GET {BASE}", refused, Answer(200, REPOSITORY))
    repo = client(hub)
    if operation == "repository":
        repo.repository()
    else:
        repo.create_comment(3, "x")
    used = [s.headers["authorization"] for s in hub.seen if s.path.startswith("/repos")]
    assert len(used) == len(set(used)) == 2


def test_a_token_refused_twice_is_an_error(hub: ScriptedGitHub) -> None:
    hub.answer(f"GET {BASE}", Answer(401, {"message": "Bad credentials"}))
    with pytest.raises(GitHubUnauthorised):
        client(hub).repository()
    assert len(hub.calls(f"GET {BASE}")) == 2


@pytest.mark.parametrize("status", [403, 422, 500, 502])
def test_only_a_401_is_sent_again(hub: ScriptedGitHub, status: int) -> None:
    hub.answer(f"POST {BASE}/issues/3/comments", Answer(status, {"message": "no"}))
    with pytest.raises(CovenError):
        client(hub).create_comment(3, "x")
    assert len(hub.calls(f"POST {BASE}/issues/3/comments")) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(404, {"message": "Not Found"}), InstallationGone),
        (Answer(403, {"message": "This installation has been suspended"}), InstallationGone),
        (Answer(401, {"message": "A JSON web token could not be decoded"}), GitHubUnauthorised),
        (Answer(403, {"message": "x"}, {"Retry-After": "9"}), RateLimited),
        (Answer(503, {}), GitHubUnavailable),
        (Answer(201, {"token": ""}), GitHubUnavailable),
        (Answer(201, {"token": "ghs_x", "expires_at": "soon"}), GitHubUnavailable),
        (Answer(201, []), GitHubUnavailable),
        (Answer(201, raw=b"<html>"), GitHubUnavailable),
    ],
)
def test_no_token_means_a_clear_error_and_no_call(
    hub: ScriptedGitHub, answer: Answer, kind: type[Exception]
) -> None:
    hub.answer(MINT, answer)
    with pytest.raises(kind):
        client(hub).repository()
    assert hub.calls(f"GET {BASE}") == []
    assert len(hub.calls(MINT)) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"permissions": {"contents": "write", "metadata": "read"}}, "contents: write"),
        ({"permissions": {"contents": "read", "secrets": "read"}}, "secrets"),
        ({"permissions": {}}, "not granted"),
        ({"repositories": [{"id": 7}, {"id": 8}]}, "other repositories"),
        ({"repositories": [{"id": 8}]}, "other repositories"),
        ({"repository_selection": "all"}, "all repositories"),
    ],
)
def test_a_token_of_another_scope_is_revoked_and_refused(
    hub: ScriptedGitHub, changes: dict[str, Any], reason: str
) -> None:
    body = {
        "token": "ghs_toowide" + "x" * 20,
        "expires_at": "2099-01-01T00:00:00Z",
        "permissions": {"contents": "read", "metadata": "read"},
        "repository_selection": "selected",
    } | changes
    hub.answer(MINT, Answer(201, body))
    hub.answer("DELETE /installation/token", Answer(204))
    github = hub.github()
    with pytest.raises(GitHubForbidden, match=reason):
        github.token(INSTALLATION, REPO_ID, Role.CHECKOUT)
    (revoked,) = hub.calls("DELETE /installation/token")
    assert revoked.headers["authorization"] == f"Bearer {body['token']}"


def test_revoking_is_best_effort_and_the_token_is_not_used_again(hub: ScriptedGitHub) -> None:
    hub.answer("DELETE /installation/token", Answer(401, {"message": "Bad credentials"}))
    github = hub.github()
    token = github.token(INSTALLATION, REPO_ID, Role.CHECKOUT)
    github.revoke(token)
    assert github.token(INSTALLATION, REPO_ID, Role.CHECKOUT).value != token.value


def test_a_forgotten_token_is_minted_again(hub: ScriptedGitHub) -> None:
    github = hub.github()
    first = github.token(INSTALLATION, REPO_ID, Role.CHECKOUT)
    github.forget_token(INSTALLATION, REPO_ID, Role.PUBLISH)
    assert github.token(INSTALLATION, REPO_ID, Role.CHECKOUT) == first
    github.forget_token(INSTALLATION, REPO_ID, Role.CHECKOUT)
    assert github.token(INSTALLATION, REPO_ID, Role.CHECKOUT) != first


def test_a_push_token_is_nobody_elses_so_revoking_it_stops_nobody(hub: ScriptedGitHub) -> None:
    hub.answer("DELETE /installation/token", Answer(204))
    github = hub.github()
    first = github.token(INSTALLATION, REPO_ID, Role.PUSH)
    second = github.token(INSTALLATION, REPO_ID, Role.PUSH)
    assert first.value != second.value
    github.revoke(first)
    assert [s.headers["authorization"] for s in hub.calls("DELETE /installation/token")] == [
        f"Bearer {first.value}"
    ]
    assert {first.value, second.value} <= set(github.live_secrets())


def test_live_secrets_are_the_tokens_and_the_key(hub: ScriptedGitHub) -> None:
    github = hub.github()
    assert github.live_secrets() == ()
    token = github.token(INSTALLATION, REPO_ID, Role.PUSH)
    live = github.live_secrets()
    assert token.value in live
    assert any("BEGIN RSA PRIVATE KEY" in value for value in live)
    assert token.value not in repr(github.__dict__)


def test_the_long_token_form_is_taken_as_it_is(hub: ScriptedGitHub) -> None:
    long = "ghs_12_" + ".".join(["eyJhbGciOiJSUzI1NiJ9", "x-_" * 150, "s-_g" * 20])
    body = {
        "token": long,
        "expires_at": "2099-01-01T00:00:00Z",
        "permissions": {"contents": "write"},
    }
    hub.answer(MINT, Answer(201, body))
    assert hub.github().token(INSTALLATION, REPO_ID, Role.PUSH).value == long


# --- budgets


def test_the_budget_of_a_call_includes_its_token(hub: ScriptedGitHub) -> None:
    release = threading.Event()

    def slow(seen: Seen) -> Answer:
        release.wait(5)
        return Answer(500)

    hub.answer(MINT, slow)
    repo = hub.github().for_repo(INSTALLATION, REPO_ID, REPO, Role.LOOKUP, timeout_secs=0.2)
    started = datetime.now(UTC)
    with pytest.raises(GitHubUnavailable, match="timed out"):
        repo.permission("ann")
    assert (datetime.now(UTC) - started).total_seconds() < 0.6
    release.set()


# --- configuration


def test_nothing_is_read_or_sent_before_it_is_needed(hub: ScriptedGitHub) -> None:
    github = hub.github(private_key=None, app_id=0)
    github.for_repo(INSTALLATION, REPO_ID, REPO, Role.LOOKUP)
    assert hub.seen == []
    with pytest.raises(ConfigurationError, match=r"github\.app_id"):
        github.token(INSTALLATION, REPO_ID, Role.LOOKUP)
    assert hub.seen == []


def test_a_bad_key_is_a_configuration_error_of_the_call(hub: ScriptedGitHub) -> None:
    github = hub.github(private_key=SecretStr("nonsense"))
    with pytest.raises(ConfigurationError, match=r"github\.private_key"):
        github.token(INSTALLATION, REPO_ID, Role.LOOKUP)


# --- answers that are not as expected


def test_a_bot_without_an_account_may_do_nothing(hub: ScriptedGitHub) -> None:
    hub.answer(
        f"GET {BASE}/collaborators/Copilot/permission",
        Answer(404, {"message": "Copilot is not a user"}),
    )
    assert client(hub).permission("Copilot").permission == "none"


def test_a_repository_that_is_gone_is_not_a_verdict_about_a_person(hub: ScriptedGitHub) -> None:
    with pytest.raises(GitHubNotFound):
        client(hub).permission("ann")


def test_somebody_who_is_no_collaborator(hub: ScriptedGitHub) -> None:
    assert client(hub).is_collaborator("stranger") is False


@pytest.mark.parametrize("login", ["", "..", "."])
def test_a_login_that_is_no_path_segment_is_rejected(hub: ScriptedGitHub, login: str) -> None:
    with pytest.raises(GitHubRejected):
        client(hub).permission(login)
    assert hub.seen == []


def test_a_name_taken_by_another_repository_is_not_found(hub: ScriptedGitHub) -> None:
    hub.answer(f"GET {BASE}", Answer(200, REPOSITORY | {"id": 555}))
    other = PULL | {"base": {"sha": SHA, "ref": "main", "repo": {"id": 555}}}
    hub.answer(f"GET {BASE}/pulls/3", Answer(200, other))
    repo = client(hub)
    with pytest.raises(GitHubNotFound, match="555"):
        repo.repository()
    with pytest.raises(GitHubNotFound, match="555"):
        repo.pull(3)


@pytest.mark.parametrize(
    "body", [None, [], {}, {"id": "7"}, {"message": "hello"}, 3, {"number": 3, "head": []}]
)
def test_answers_of_another_shape_are_unavailable_never_a_crash(
    hub: ScriptedGitHub, body: Any
) -> None:
    for place, _, _ in CALLS.values():
        for method in ("GET", "POST", "PATCH"):
            hub.answer(f"{method} {BASE}{place}", Answer(200, body))
    hub.answer("GET /app", Answer(200, body))
    hub.answer("GET /app/hook/deliveries", Answer(200, body))
    repo, github = client(hub), hub.github()
    calls: list[Callable[[], object]] = [lambda c=call: c(repo) for _, _, call in CALLS.values()]  # type: ignore[misc]
    for call in [*calls, github.app_info, github.list_hook_deliveries]:
        with contextlib.suppress(GitHubUnavailable):
            call()


def test_a_login_page_instead_of_json_is_named(hub: ScriptedGitHub) -> None:
    hub.answer(f"GET {BASE}", Answer(200, raw=b"<html>sign in</html>"))
    with pytest.raises(GitHubUnavailable, match="not JSON"):
        client(hub).repository()


def test_a_ref_is_exact(hub: ScriptedGitHub) -> None:
    near = [{"ref": "refs/heads/cody/fix-10", "object": {"sha": SHA}}]
    hub.answer(f"GET {BASE}/git/ref/heads/cody/fix-1", Answer(200, near))
    repo = client(hub)
    assert repo.ref("cody/fix-1") is None
    assert repo.ref("missing") is None
    assert repo.ref("a//b") is None
    assert repo.ref("../x") is None
    hub.answer(
        f"GET {BASE}/git/ref/heads/main", Answer(409, {"message": "Git Repository is empty."})
    )
    assert repo.ref("main") is None
    hub.answer(f"GET {BASE}/git/ref/heads/main", Answer(500, {}))
    with pytest.raises(GitHubUnavailable):
        repo.ref("main")


# --- pages


def paged(hub: ScriptedGitHub, place: str, pages: list[Any]) -> None:
    """Answer ``?page=n`` with the n-th of ``pages`` and a Link header, as GitHub does."""

    def answer(seen: Seen) -> Answer:
        page = int(seen.query.get("page", "1"))
        assert seen.query["per_page"] == "100"
        more = f'<https://elsewhere.example/x?page={page + 1}&per_page=100>; rel="next"'
        return Answer(200, pages[page - 1], {"Link": more} if page < len(pages) else {})

    hub.answer(f"GET {BASE}{place}", answer)


def file(number: int) -> dict[str, Any]:
    return {"filename": f"f{number}", "status": "added", "additions": 1, "deletions": 0}


def test_all_pages_of_comments_are_read_and_only_as_far_as_needed(hub: ScriptedGitHub) -> None:
    pages = [[COMMENT | {"id": n * 10 + m} for m in range(3)] for n in range(1, 4)]
    paged(hub, "/issues/3/comments", pages)
    repo = client(hub)
    assert [c.id for c in repo.list_comments(3)] == [10, 11, 12, 20, 21, 22, 30, 31, 32]
    hub.seen.clear()
    next(repo.list_comments(3))
    assert len(hub.seen) == 1


@pytest.mark.parametrize(
    ("pages", "limit", "count", "truncated"),
    [
        ([[file(n) for n in range(100)], [file(100)]], 3000, 101, False),
        ([[file(n) for n in range(100)], [file(100)]], 100, 100, True),
        ([[file(n) for n in range(100)]], 100, 100, False),
        ([[file(n) for n in range(100)]], 10, 10, True),
        ([[file(n) for n in range(100)]] * 30, 3000, 3000, True),
        ([[]], 3000, 0, False),
    ],
)
def test_a_file_list_says_when_it_is_not_all(
    hub: ScriptedGitHub, pages: list[Any], limit: int, count: int, truncated: bool
) -> None:
    paged(hub, "/pulls/3/files", pages)
    files, cut = client(hub).pull_files(3, limit)
    assert (len(files), cut) == (count, truncated)


def test_commits_of_a_comparison_are_collected_over_pages(hub: ScriptedGitHub) -> None:
    shas = [f"{n:040x}" for n in range(150)]
    page = COMPARISON | {"ahead_by": 150}
    first = page | {"commits": [{"sha": sha} for sha in shas[:100]]}
    paged(hub, f"/compare/{SHA}...x", [first, page | {"commits": [{"sha": s} for s in shas[100:]]}])
    comparison = client(hub).compare(SHA, "x")
    assert list(comparison.commits) == shas
    assert comparison.complete


def test_a_very_long_comparison_says_that_it_is_not_complete(hub: ScriptedGitHub) -> None:
    page = COMPARISON | {"ahead_by": 5000, "commits": [{"sha": SHA}] * 100}
    paged(hub, f"/compare/{SHA}...x", [page] * 50)
    comparison = client(hub).compare(SHA, "x")
    assert len(comparison.commits) == 1000
    assert not comparison.complete


def test_a_next_page_that_is_the_same_page_ends(hub: ScriptedGitHub) -> None:
    same = {"Link": '<https://h/x?per_page=100>; rel="next"'}
    hub.answer(f"GET {BASE}/issues/3/comments", Answer(200, [COMMENT], same))
    assert len(list(client(hub).list_comments(3))) == 1


def test_pulls_of_other_branches_are_left_out_when_github_ignores_the_filter(
    hub: ScriptedGitHub,
) -> None:
    def pull(number: int, label: str | None, ref: str, full_name: str = "octo/demo") -> Any:
        head = {"sha": SHA, "ref": ref, "label": label, "repo": {"id": 1, "full_name": full_name}}
        return PULL | {"number": number, "head": head}

    listed = [
        pull(1, "octo:topic", "topic"),
        pull(2, "Octo:topic", "topic"),
        pull(3, "octo:other", "other"),
        pull(4, "evil:topic", "topic"),
        pull(5, None, "topic"),
        pull(6, None, "topic", "evil/demo"),
    ]
    hub.answer(f"GET {BASE}/pulls", Answer(200, listed))
    found = client(hub).pulls_from("octo", "topic")
    assert [p.number for p in found] == [1, 2, 5]
    assert hub.seen[-1].query["head"] == "octo:topic"
    assert hub.seen[-1].query["state"] == "all"


def test_a_reaction_on_something_else_is_a_mistake_of_the_caller(hub: ScriptedGitHub) -> None:
    with pytest.raises(ValueError, match="issue_comment"):
        client(hub).add_reaction(1, "review", "eyes")


# --- the App


def test_the_app_is_asked_once(hub: ScriptedGitHub) -> None:
    hub.answer("GET /app", Answer(200, {"id": 12, "slug": "cody"}))
    hub.answer("GET /users/cody%5Bbot%5D", Answer(200, {"id": 99}))
    github = hub.github()
    first = github.app_info()
    assert github.app_info() is first
    assert (first.id, first.slug, first.bot_login, first.bot_user_id) == (
        12,
        "cody",
        "cody[bot]",
        99,
    )
    assert len(hub.seen) == 2
    assert "authorization" not in hub.seen[1].headers


def test_an_unknown_bot_user_is_asked_for_again_later(hub: ScriptedGitHub) -> None:
    clock = ManualClock(datetime.now(UTC))
    hub.answer("GET /app", Answer(200, {"id": 12, "slug": "cody"}))
    hub.answer("GET /users/cody%5Bbot%5D", Answer(403, {}), Answer(200, {"id": 99}))
    github = hub.github(clock=clock)
    assert github.app_info().bot_user_id is None
    assert github.app_info().bot_user_id is None
    clock.advance(301)
    assert github.app_info().bot_user_id == 99
    assert len(hub.calls("GET /app")) == 1


def test_hook_deliveries_are_paged_by_cursor(hub: ScriptedGitHub) -> None:
    link = '<https://h/app/hook/deliveries?per_page=100&cursor=v1_5>; rel="next"'
    hub.answer("GET /app/hook/deliveries", Answer(200, [DELIVERY], {"Link": link}), Answer(200, []))
    github = hub.github()
    page = github.list_hook_deliveries()
    assert page.items[0].guid == "g-1"
    assert not page.items[0].ok
    assert page.next_cursor == "v1_5"
    assert github.list_hook_deliveries(page.next_cursor).next_cursor is None
    assert hub.seen[1].query["cursor"] == "v1_5"


def test_a_delivery_brings_its_payload(hub: ScriptedGitHub) -> None:
    request = {"headers": {"X-GitHub-Delivery": "g-1"}, "payload": {"action": "opened"}}
    hub.answer("GET /app/hook/deliveries/9", Answer(200, DELIVERY | {"request": request}))
    delivery = hub.github().hook_delivery(9)
    assert delivery.payload == {"action": "opened"}
    assert delivery.request_headers == {"X-GitHub-Delivery": "g-1"}


def test_a_jwt_refused_for_the_clock_says_so(hub: ScriptedGitHub) -> None:
    now = datetime.now(UTC)
    hub.answer(
        "GET /app",
        Answer(401, {"message": "'Issued at' claim ('iat') must be an Integer"}),
    )
    github = hub.github(clock=ManualClock(now + timedelta(seconds=600)))
    with pytest.raises(GitHubUnauthorised, match="ahead of GitHub's; set it right"):
        github.app_info()
