"""Who may do what: JWTs, tokens, scopes, permissions, people's roles, moved repositories."""

from __future__ import annotations

import time
from collections.abc import Iterator

import jwt
import pytest

from tests.integration.sandbox_kit import REPO, World, world


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


@pytest.fixture
def github(shared: World) -> Iterator[World]:
    shared.fill()
    yield shared
    assert shared.problems == []


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": -1}, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"exp": 660}, "'Expiration time' claim ('exp') is too far in the future"),
        ({"iat": 120}, "'Issued at' claim ('iat') must be an Integer"),
    ],
)
def test_a_jwt_outside_its_time_is_refused(github: World, claims: dict, said: str) -> None:
    now = int(time.time())
    moved = {name: now + seconds for name, seconds in claims.items()}
    answer = github.call("GET", "/app", github.app_jwt(**moved), expect=401)
    assert said in answer.json()["message"]


@pytest.mark.parametrize("claims", [{"iss": "1"}, {"iss": None}, {"exp": None}, {"iat": None}])
def test_a_jwt_without_a_needed_claim_is_refused(github: World, claims: dict) -> None:
    github.call("GET", "/app", github.app_jwt(**claims), expect=401)


def test_a_jwt_is_accepted_with_the_client_id_and_a_little_clock_skew(github: World) -> None:
    now = int(time.time())
    good = github.app_jwt(iss=github.handle.client_id, iat=now + 30, exp=now + 590)
    github.call("GET", "/app", good, expect=200)


def test_a_jwt_of_another_algorithm_is_refused(github: World) -> None:
    now = int(time.time())
    claims = {"iat": now, "exp": now + 60, "iss": str(github.handle.app_id)}
    forged = jwt.encode(claims, "not the key, but long enough for this", algorithm="HS256")
    github.call("GET", "/app", forged, expect=401)
    github.call("GET", "/app", github.token(), expect=401)
    github.call("GET", "/app", expect=401)


def _ask(github: World, body: dict, expect: int) -> dict:
    path = f"/app/installations/{github.installation}/access_tokens"
    return dict(github.call("POST", path, github.app_jwt(), body, expect=expect).json())


def test_a_token_is_scoped_by_repository_and_permission(github: World) -> None:
    other = github.admin.create_repository("acme/other", private=True).id
    made = _ask(github, {"repository_ids": [other], "permissions": {"checks": "read"}}, 201)
    assert [r["id"] for r in made["repositories"]] == [other]
    assert made["permissions"] == {"checks": "read", "metadata": "read"}
    assert made["token"].startswith(f"ghs_{github.handle.app_id}_")
    github.call("GET", "/repos/acme/other", made["token"], expect=200)
    github.call("GET", f"/repos/{REPO}", made["token"], expect=404)
    by_name = _ask(github, {"repositories": ["Shop"]}, 201)
    assert [r["full_name"] for r in by_name["repositories"]] == [REPO]


def test_a_token_never_holds_more_than_was_granted(github: World) -> None:
    stranger = github.admin.create_repository("rival/secret", private=True).id
    _ask(github, {"repository_ids": [stranger]}, 422)
    _ask(github, {"repository_ids": [999_999]}, 422)
    _ask(github, {"repositories": ["nothing"]}, 422)
    _ask(github, {"permissions": {"administration": "read"}}, 422)
    _ask(github, {"permissions": {"contents": "admin"}}, 422)
    _ask(github, {"permissions": {"workflows": "write"}}, 422)


def test_the_old_form_of_a_token_is_minted_on_demand(github: World) -> None:
    path = f"/app/installations/{github.installation}/access_tokens"
    headers = {"X-GitHub-Stateless-S2S-Token": "disabled"}
    made = github.call("POST", path, github.app_jwt(), {}, headers=headers, expect=201).json()
    assert len(made["token"]) == 40


def test_a_suspended_installation_mints_nothing_and_its_tokens_stop(github: World) -> None:
    token = github.token()
    github.admin.suspend(github.installation)
    said = _ask(github, {}, 403)["message"]
    assert said == "This installation has been suspended"
    github.repo("GET", "", token, expect=403)
    github.admin.unsuspend(github.installation)
    github.repo("GET", "", token, expect=200)


def test_an_uninstalled_app_is_not_found(github: World) -> None:
    token = github.token()
    github.admin.uninstall(github.installation)
    _ask(github, {}, 404)
    github.repo("GET", "", token, expect=401)
    github.call("GET", f"/repos/{REPO}/installation", github.app_jwt(), expect=404)


def test_a_revoked_or_expired_token_is_bad_credentials(github: World) -> None:
    revoked, expired = github.token(), github.token()
    github.call("DELETE", "/installation/token", revoked, expect=204)
    assert github.repo("GET", "", revoked, expect=401).json()["message"] == "Bad credentials"
    github.admin.expire_tokens()
    github.repo("GET", "", expired, expect=401)
    github.repo("GET", "", "ghs_never_minted", expect=401)
    states = {(t["revoked"], t["id"]) for t in github.admin.tokens()}
    assert sum(1 for revoked_now, _ in states if revoked_now) == 1


def test_a_repository_that_left_the_installation_is_out_of_sight(github: World) -> None:
    token = github.token()
    github.admin.change_installation_repositories(github.installation, remove=[REPO])
    github.repo("GET", "", token, expect=404)


READS = [
    ("", "metadata", "read"),
    ("/branches/main", "contents", "read"),
    ("/git/ref/heads/main", "contents", "read"),
    ("/contents/app.py", "contents", "read"),
    ("/compare/main...changes", "contents", "read"),
    ("/pulls", "pull_requests", "read"),
    ("/pulls/1/files", "pull_requests", "read"),
    ("/issues", "issues", "read"),
    ("/commits/main/check-runs", "checks", "read"),
]


@pytest.mark.parametrize(("path", "permission", "level"), READS)
def test_a_read_needs_exactly_its_permission(
    github: World, path: str, permission: str, level: str
) -> None:
    github.open_pull()
    github.repo("GET", path, github.token({permission: level}), expect=200)
    if permission != "metadata":
        others = {"issues", "checks", "contents", "pull_requests"} - {permission}
        refused = github.repo("GET", path, github.token(dict.fromkeys(others, "write")))
        assert refused.status_code == 403
        assert refused.json()["message"] == "Resource not accessible by integration"
        assert refused.headers["X-Accepted-GitHub-Permissions"] == f"{permission}={level}"


@pytest.mark.parametrize(
    ("path", "body", "permission"),
    [
        ("/check-runs", {"name": "x", "head_sha": "HEAD"}, "checks"),
        ("/issues", {"title": "x"}, "issues"),
        ("/issues/2/comments", {"body": "x"}, "issues"),
        ("/pulls", {"title": "x", "head": "b", "base": "main"}, "pull_requests"),
        ("/pulls/1/reviews", {"event": "COMMENT", "body": "x"}, "pull_requests"),
        ("/git/refs", {"ref": "refs/heads/new", "sha": "HEAD"}, "contents"),
    ],
)
def test_a_write_is_refused_to_a_token_that_reads(
    github: World, path: str, body: dict, permission: str
) -> None:
    sha = github.open_pull()["head"]["sha"]
    github.admin.open_issue(REPO, "An issue")
    github.admin.push(REPO, "b", {"b.py": "b = 1\n"})
    body = {key: sha if value == "HEAD" else value for key, value in body.items()}
    before = github.admin.state()["repositories"]
    refused = github.repo("POST", path, github.token({permission: "read"}), body, expect=403)
    assert f"{permission}=write" in refused.headers["X-Accepted-GitHub-Permissions"]
    assert github.admin.state()["repositories"] == before
    made = github.repo("POST", path, github.token({permission: "write"}), body)
    assert made.status_code in (200, 201), made.text


def test_a_conversation_of_a_pull_request_takes_either_permission(github: World) -> None:
    github.open_pull()
    issue = github.admin.open_issue(REPO, "An issue").number
    for permission in ("issues", "pull_requests"):
        token = github.token({permission: "write"})
        github.repo("POST", "/issues/1/comments", token, {"body": "hello"}, expect=201)
    pulls_only = github.token({"pull_requests": "write"})
    github.repo("POST", f"/issues/{issue}/comments", pulls_only, {"body": "hello"}, expect=403)


@pytest.mark.parametrize(
    ("login", "permission", "role"),
    [
        ("acme-owner", "none", "none"),
        ("mira", "write", "write"),
        ("rex", "read", "reviewer-plus"),
        ("sam", "none", "none"),
    ],
)
def test_permissions_of_people_on_a_private_repository(
    github: World, login: str, permission: str, role: str
) -> None:
    github.admin.create_user("acme-owner")
    path = f"/collaborators/{login}/permission"
    shown = github.repo("GET", path, github.token({"metadata": "read"}), expect=200).json()
    assert (shown["permission"], shown["role_name"]) == (permission, role)


@pytest.mark.parametrize(
    ("role", "permission"),
    [("admin", "admin"), ("maintain", "write"), ("triage", "read"), ("read", "read")],
)
def test_built_in_roles_read_as_old_permissions(github: World, role: str, permission: str) -> None:
    github.admin.set_role(REPO, "sam", role)
    shown = github.repo("GET", "/collaborators/sam/permission", github.token(), expect=200).json()
    assert (shown["permission"], shown["role_name"]) == (permission, role)


def test_a_stranger_reads_a_public_repository(github: World) -> None:
    github.admin.change_repository(REPO, private=False)
    shown = github.repo("GET", "/collaborators/sam/permission", github.token(), expect=200).json()
    assert shown["permission"] == "read"
    github.repo("GET", "/collaborators/sam", github.token(), expect=404)


@pytest.mark.parametrize("login", ["cody-familiar[bot]", "Copilot", "nobody-at-all"])
def test_bots_and_unknown_names_are_not_users(github: World, login: str) -> None:
    github.admin.create_user("Copilot", type="Bot")
    path = f"/collaborators/{login}/permission"
    assert "is not a user" in github.repo("GET", path, github.token(), expect=404).json()["message"]


def test_a_renamed_repository_redirects_by_id_until_the_name_is_taken(github: World) -> None:
    token = github.token()
    github.admin.rename_repository(REPO, "store")
    moved = github.repo("GET", "/branches?per_page=5", token, expect=301)
    target = moved.headers["Location"]
    assert target == f"{github.base}/repositories/{github.repo_id}/branches?per_page=5"
    followed = github.call("GET", target.removeprefix(github.base), token, expect=200)
    assert followed.json()[0]["name"] == "main"
    assert github.repo("POST", "/issues", token, {"title": "x"}).status_code == 307
    github.admin.create_repository(REPO, private=True)
    github.repo("GET", "", token, expect=404)


def test_a_transferred_repository_leaves_the_installation(github: World) -> None:
    token = github.token()
    github.admin.transfer_repository(REPO, "rival")
    assert github.repo("GET", "", token).status_code == 301
    github.call("GET", f"/repositories/{github.repo_id}", token, expect=404)


def test_an_archived_repository_is_read_only(github: World) -> None:
    token = github.token()
    github.admin.change_repository(REPO, archived=True)
    github.repo("GET", "", token, expect=200)
    said = github.repo("POST", "/issues", token, {"title": "x"}, expect=403).json()["message"]
    assert said == "Repository was archived so is read-only."


def test_the_server_shape_of_the_api_works_too(github: World) -> None:
    github.call("GET", f"/api/v3/repos/{REPO}", github.token(), expect=200)
    github.call("GET", "/api/v3/app", github.app_jwt(), expect=200)


def test_an_unknown_route_is_404_and_written_down(github: World) -> None:
    github.repo("GET", "/hooks", github.token(), expect=404)
    github.repo("PATCH", "/branches", github.token(), {}, expect=404)
    assert [(r["method"], r["path"]) for r in github.admin.unexpected()] == [
        ("GET", f"/repos/{REPO}/hooks"),
        ("PATCH", f"/repos/{REPO}/branches"),
    ]


def test_an_unknown_api_version_is_refused(github: World) -> None:
    headers = {"X-GitHub-Api-Version": "1999-01-01"}
    github.call("GET", f"/repos/{REPO}", github.token(), headers=headers, expect=400)


def test_no_token_value_shows_in_the_admin_api(github: World) -> None:
    token = github.token()
    github.repo("GET", "", token, expect=200)
    seen = f"{github.admin.state()} {github.admin.requests()}"
    assert token not in seen
    assert token.rsplit(".", 1)[-1] not in seen
    assert any(r["actor"].startswith("token:") for r in github.admin.requests())


def test_a_deleted_issue_is_gone_for_good(github: World) -> None:
    issue = github.admin.open_issue(REPO, "Oops").number
    github.admin.comment(REPO, issue, "Hello")
    github.admin.delete_issue(REPO, issue)
    token = github.token()
    for path in (f"/issues/{issue}", f"/issues/{issue}/comments"):
        github.repo("GET", path, token, expect=410)
    assert github.admin.open_issue(REPO, "Next").number == issue + 1
