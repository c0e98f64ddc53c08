"""The client against the sandbox: permissions are checked, state is real, faults happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from coven.clock import SystemClock
from coven.errors import (
    CovenError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubRejected,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
    Retry,
)
from coven.github.factory import GitHub, Role
from coven.github.repo_client import RepoClient
from coven.governance.wire import Seam
from coven.settings.models import GitHub as GitHubSettings
from coven.settings.models import Settings
from coven.values import InstallationId, RepoId, RepoName, Sha
from tests.integration.sandbox_kit import AFTER, REPO, World, world


@dataclass
class Scene:
    """A world with a pull request, and clients of our App in it."""

    world: World
    github: GitHub
    seam: Seam
    pull: int
    head: Sha

    def client(self, role: Role = Role.PUBLISH, repo: str = REPO, **facts: Any) -> RepoClient:
        return self.github.for_repo(self.tenant, self.repo_id, RepoName.parse(repo), role, **facts)

    @property
    def tenant(self) -> InstallationId:
        return InstallationId(self.world.installation)

    @property
    def repo_id(self) -> RepoId:
        return RepoId(self.world.repo_id)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("sandbox")) as made:
        yield made


def github_of(place: World, seam: Seam, base: str = "") -> GitHub:
    chosen = GitHubSettings(
        app_id=place.handle.app_id,
        private_key_path=place.handle.private_key_path,
        api_base_url=place.base + base,
        timeout_secs=10,
    )
    return GitHub(Settings(github=chosen), SystemClock(), seam)


@pytest.fixture
def scene(shared: World) -> Iterator[Scene]:
    shared.fill()
    opened = shared.open_pull()
    shared.admin.clear_requests()
    seam = Seam()
    number = int(opened["number"])
    head = Sha(shared.admin.pull(REPO, number)["head"]["sha"])
    yield Scene(shared, github_of(shared, seam), seam, number, head)
    shared.admin.clear_faults()
    assert shared.admin.unexpected() == []


def test_who_the_app_is(scene: Scene) -> None:
    app = scene.github.app_info()
    handle = scene.world.handle
    assert (app.id, app.slug) == (handle.app_id, handle.slug)
    assert (app.bot_login, app.bot_user_id) == (handle.bot_login, handle.bot_id)


def test_the_repository_its_branches_and_its_people(scene: Scene) -> None:
    lookup, reader = scene.client(Role.LOOKUP), scene.client(Role.CHECKOUT)
    found = lookup.repository()
    assert (found.id, found.default_branch, found.private) == (scene.repo_id, "main", True)
    tip = scene.world.admin.branches(REPO)["main"]
    assert reader.branch_head("main") == reader.ref("main") == tip
    assert reader.ref("nowhere") is None
    with pytest.raises(GitHubNotFound):
        reader.branch_head("nowhere")
    assert lookup.permission("mira").can_write
    custom = lookup.permission("rex")
    assert (custom.can_write, custom.role_name) == (False, "reviewer-plus")
    assert not lookup.permission("sam").can_write
    assert not lookup.permission("nobody-of-that-name").can_write


def test_a_pull_request_and_what_it_changes(scene: Scene) -> None:
    client = scene.client()
    pull = client.pull(scene.pull)
    assert (pull.head_sha, pull.base_ref, pull.author_login) == (scene.head, "main", "mira")
    assert pull.head_repo_id == pull.base_repo_id == scene.repo_id
    files, truncated = client.pull_files(scene.pull)
    assert [(f.filename, f.status, truncated) for f in files] == [("app.py", "modified", False)]
    assert files[0].patch is not None
    assert "+    print(items)" in files[0].patch
    comparison = client.compare("main", "changes")
    assert (comparison.ahead_by, comparison.commits) == (1, (scene.head,))
    assert comparison.complete
    assert client.issue(scene.pull)["title"] == "Print the items"


def test_a_check_run_lives_through_its_states_and_is_found_again(scene: Scene) -> None:
    client = scene.client()
    begun = client.create_check_run(
        {"name": "Cody / review", "head_sha": scene.head, "status": "queued", "external_id": "t:1"}
    )
    client.update_check_run(begun.id, {"status": "in_progress"})
    done = client.update_check_run(
        begun.id,
        {
            "status": "completed",
            "conclusion": "neutral",
            "output": {
                "title": "1 finding",
                "summary": "eval",
                "annotations": [
                    {
                        "path": "app.py",
                        "start_line": 3,
                        "end_line": 3,
                        "annotation_level": "warning",
                        "message": "eval",
                    }
                ],
            },
        },
    )
    assert done.raw["conclusion"] == "neutral"
    assert client.get_check_run(begun.id).raw["external_id"] == "t:1"
    assert [run.id for run in client.check_runs(scene.head, "Cody / review")] == [begun.id]
    assert client.check_runs(scene.head, "Somebody else") == []


def test_comments_are_written_found_and_changed_in_place(scene: Scene) -> None:
    client, app = scene.client(), scene.github.app_info()
    scene.world.admin.comment(REPO, scene.pull, "@cody review", author="mira")
    ours = client.create_comment(scene.pull, "working")
    assert (ours.app_id, ours.author_id) == (app.id, app.bot_user_id)
    client.update_comment(ours.id, "done")
    assert client.get_comment(ours.id).body == "done"
    listed = list(client.list_comments(scene.pull))
    assert [c.body for c in listed] == ["@cody review", "done"]
    assert listed[0].app_id is None
    eyes = client.add_reaction(listed[0].id, "issue_comment", "eyes")
    assert client.add_reaction(listed[0].id, "issue_comment", "eyes") == eyes
    (found,) = client.reactions(listed[0].id, "issue_comment")
    assert (found.id, found.content, found.user_id) == (eyes, "eyes", app.bot_user_id)
    client.remove_reaction(listed[0].id, "issue_comment", eyes)
    assert client.reactions(listed[0].id, "issue_comment") == []
    with pytest.raises(GitHubNotFound):
        client.remove_reaction(listed[0].id, "issue_comment", eyes)
    client.add_reaction(scene.pull, "issue", "rocket")


def test_comments_over_many_pages_all_arrive_in_order(scene: Scene) -> None:
    scene.world.admin.settings(content_per_minute=0)
    for number in range(103):
        scene.world.admin.comment(REPO, scene.pull, f"c{number}", author="mira")
    bodies = [comment.body for comment in scene.client().list_comments(scene.pull)]
    assert bodies == [f"c{number}" for number in range(103)]
    pages = [r for r in scene.world.admin.requests() if r["path"].endswith("/comments")]
    assert len(pages) == 2


def test_a_reply_lands_in_the_thread_of_a_review_comment(scene: Scene) -> None:
    comments = [{"path": "app.py", "line": 3, "body": "why eval?"}]
    scene.world.admin.review(REPO, scene.pull, "see", comments=comments, author="mira")
    client = scene.client()
    (asked,) = client.review_comments(scene.pull)
    answer = client.reply_to_review_comment(scene.pull, asked.id, "because")
    assert [c.id for c in client.review_comments(scene.pull)] == [asked.id, answer.id]
    client.add_reaction(asked.id, "review_comment", "eyes")


def test_a_draft_pull_request_is_opened_once_and_found_by_its_head(scene: Scene) -> None:
    scene.world.admin.push(REPO, "cody/fix-1", {"app.py": AFTER}, message="fix")
    client = scene.client()
    assert client.pulls_from("acme", "cody/fix-1") == []
    opened = client.create_pull("Fix", "cody/fix-1", "main", "body", draft=True)
    assert opened.draft
    with pytest.raises(GitHubRejected, match="already exists"):
        client.create_pull("Fix", "cody/fix-1", "main", "body", draft=True)
    assert [p.number for p in client.pulls_from("acme", "cody/fix-1")] == [opened.number]
    closed = client.update_pull(opened.number, state="closed", body="changed")
    assert (closed.state, closed.body) == ("closed", "changed")
    assert client.pulls_from("acme", "cody/fix-1", "open") == []


def test_a_fork_is_seen_as_one_also_when_it_is_gone(scene: Scene) -> None:
    opened = scene.world.admin.open_pull(
        REPO, "From outside", {"app.py": AFTER}, fork="sam", author="sam"
    )
    client = scene.client()
    pull = client.pull(opened.number)
    assert pull.head_repo_id not in {None, scene.repo_id}
    assert pull.head_repo_full_name is not None
    scene.world.admin.delete_repository(pull.head_repo_full_name)
    assert client.pull(opened.number).head_repo_id is None


# --- what a role may not do


@pytest.mark.parametrize("role", [Role.LOOKUP, Role.CHECKOUT, Role.PUSH])
def test_only_the_publisher_writes_on_threads_and_checks(scene: Scene, role: Role) -> None:
    client = scene.client(role)
    with pytest.raises((GitHubForbidden, GitHubNotFound)) as caught:
        client.create_comment(scene.pull, "x")
    assert caught.value.retry is Retry.NEVER
    with pytest.raises((GitHubForbidden, GitHubNotFound)):
        client.create_check_run({"name": "x", "head_sha": scene.head})


def test_a_permission_that_was_never_granted_is_refused_at_the_token(scene: Scene) -> None:
    scene.world.admin.create_user("bob")
    scene.world.admin.create_repository("bob/tool", files={"a": "b"})
    narrow = scene.world.admin.install("bob", permissions={"metadata": "read", "contents": "read"})
    repo_id = RepoId(scene.world.admin.repository("bob/tool")["id"])
    with pytest.raises(GitHubForbidden) as caught:
        scene.github.token(InstallationId(narrow.id), repo_id, Role.PUBLISH)
    assert "approve" in caught.value.public


def test_a_token_of_one_repository_opens_no_other(scene: Scene) -> None:
    scene.world.admin.create_repository("acme/secret", files={"a": "b"}, private=True)
    with pytest.raises(GitHubNotFound):
        scene.client(Role.CHECKOUT, "acme/secret").branch_head("main")


# --- installations and repositories that change


def test_an_uninstalled_app_and_a_suspended_one_are_gone(scene: Scene) -> None:
    scene.world.admin.suspend(scene.world.installation)
    with pytest.raises(InstallationGone, match="suspended"):
        scene.client().repository()
    scene.world.admin.unsuspend(scene.world.installation)
    assert scene.client().repository().id == scene.repo_id
    scene.world.admin.uninstall(scene.world.installation)
    for role in (Role.PUBLISH, Role.PUSH):
        scene.github.forget_token(scene.tenant, scene.repo_id, role)
        with pytest.raises(InstallationGone):
            scene.github.token(scene.tenant, scene.repo_id, role)


def test_a_renamed_repository_still_takes_reads_and_writes_by_its_old_name(scene: Scene) -> None:
    client = scene.client()
    client.repository()
    scene.world.admin.rename_repository(REPO, "store")
    assert client.repository().name == "store"
    written = client.create_comment(scene.pull, "after the move")
    client.update_comment(written.id, "still here")
    bodies = [c["body"] for c in scene.world.admin.comments("acme/store", scene.pull)]
    assert bodies == ["still here"]


# --- tokens that end


def test_expired_tokens_are_replaced_within_the_call(scene: Scene) -> None:
    client = scene.client()
    client.repository()
    scene.world.admin.expire_tokens()
    client.create_comment(scene.pull, "once")
    assert [c["body"] for c in scene.world.admin.comments(REPO, scene.pull)] == ["once"]
    assert scene.seam.counts.snapshot()["NetworkRequest", "github.create_token"] == 2


def test_a_revoked_token_is_dead(scene: Scene) -> None:
    token = scene.github.token(scene.tenant, scene.repo_id, Role.CHECKOUT)
    scene.github.revoke(token)
    answer = scene.world.repo("GET", "", token.value)
    assert answer.status_code == 401
    assert scene.client(Role.CHECKOUT).branch_head("main")


# --- faults


def test_a_comment_created_behind_a_lost_answer_is_not_created_again_by_us(scene: Scene) -> None:
    scene.world.admin.fault("POST", "/issues/.*/comments", "status", status=502, after=True)
    with pytest.raises(GitHubUnavailable) as caught:
        scene.client().create_comment(scene.pull, "only one")
    assert caught.value.retry is Retry.BACKOFF
    assert len(scene.world.admin.comments(REPO, scene.pull)) == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_dropped_connection_is_unavailable(scene: Scene, after: bool) -> None:
    scene.world.admin.fault("POST", "/check-runs$", "drop", after=after)
    with pytest.raises(GitHubUnavailable):
        scene.client().create_check_run({"name": "x", "head_sha": scene.head})
    assert len(scene.world.admin.check_runs(REPO)) == int(after)


def test_a_slow_answer_ends_with_the_callers_budget(scene: Scene) -> None:
    scene.client(Role.LOOKUP).permission("mira")
    scene.world.admin.fault("GET", "/permission$", "delay", seconds=0.6)
    with pytest.raises(GitHubUnavailable, match="timed out"):
        scene.client(Role.LOOKUP, timeout_secs=0.2).permission("mira")
    # The sandbox is still at it; the next test must not find this in its log.
    give_up_at = time.monotonic() + 10
    while not any(r["fault"] for r in scene.world.admin.requests()):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_the_primary_limit_says_when_to_come_back(scene: Scene) -> None:
    client = scene.client()
    client.repository()
    scene.world.admin.set_rate_limit(scene.world.installation, limit=10, used=10, reset_in=855)
    with pytest.raises(RateLimited) as caught:
        client.repository()
    assert caught.value.retry_after == pytest.approx(855, abs=5)


def test_the_secondary_limit_is_never_zero(scene: Scene) -> None:
    scene.world.admin.settings(content_per_minute=1)
    client = scene.client()
    client.create_comment(scene.pull, "first")
    with pytest.raises(RateLimited) as caught:
        client.create_comment(scene.pull, "second")
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 1


@pytest.mark.parametrize("status", [500, 503])
def test_outages_are_worth_a_later_try(scene: Scene, status: int) -> None:
    scene.world.admin.fault("GET", f"/repos/{REPO}$", "status", status=status, retry_after=4)
    with pytest.raises(GitHubUnavailable) as caught:
        scene.client().repository()
    assert (caught.value.status, caught.value.retry_after) == (status, 4)


def test_what_github_calls_invalid_is_final_and_explained(scene: Scene) -> None:
    client = scene.client()
    with pytest.raises(GitHubRejected) as caught:
        client.create_check_run({"name": "x", "head_sha": scene.head, "status": "completed"})
    assert caught.value.retry is Retry.NEVER
    assert str(caught.value).startswith("github.create_check_run: 422")
    with pytest.raises(GitHubRejected):
        client.create_comment(scene.pull, "x" * 70_000)


def test_a_deleted_issue_is_gone(scene: Scene) -> None:
    made = scene.world.admin.open_issue(REPO, "bye", author="mira")
    scene.world.admin.delete_issue(REPO, made.number)
    with pytest.raises(GitHubNotFound):
        scene.client().issue(made.number)


# --- the rest of the App


def test_deliveries_are_listed_read_and_sent_again(scene: Scene) -> None:
    scene.world.admin.set_webhook("http://127.0.0.1:9/webhook", "s" * 20, timeout_secs=0.2)
    scene.world.admin.open_issue(REPO, "hello", author="mira", deliver=True)
    (listed, *_) = scene.github.list_hook_deliveries().items
    assert not listed.ok
    assert listed.event == "issues"
    whole = scene.github.hook_delivery(listed.id)
    assert whole.payload is not None
    assert whole.payload["issue"]["title"] == "hello"
    scene.github.redeliver(listed.id)
    attempts = [d for d in scene.github.list_hook_deliveries().items if d.guid == listed.guid]
    assert len(attempts) == 2
    assert {a.redelivery for a in attempts} == {True, False}
    first = scene.github.list_hook_deliveries(per_page=1)
    assert first.next_cursor is not None
    assert scene.github.list_hook_deliveries(first.next_cursor, per_page=1).items


def test_the_api_below_an_enterprise_path_works_alike(shared: World, scene: Scene) -> None:
    enterprise = github_of(shared, Seam(), "/api/v3")
    client = enterprise.for_repo(scene.tenant, scene.repo_id, RepoName.parse(REPO), Role.PUBLISH)
    assert client.pull(scene.pull).head_sha == scene.head
    client.create_comment(scene.pull, "from an enterprise")


def test_every_request_went_through_the_seam(scene: Scene) -> None:
    client = scene.client()
    client.repository()
    client.create_comment(scene.pull, "x")
    counted = sum(scene.seam.counts.snapshot().values())
    assert counted == len(scene.world.admin.requests()) == 3
    assert all(r["user_agent"].startswith("coven-github/") for r in scene.world.admin.requests())


def test_no_error_shows_a_token(scene: Scene) -> None:
    client = scene.client()
    client.repository()
    scene.world.admin.fault("*", ".*", "status", status=500, times=50)
    for call in (client.repository, lambda: client.create_comment(scene.pull, "x")):
        with pytest.raises(CovenError) as caught:
            call()
        for secret in scene.github.live_secrets():
            assert secret not in str(caught.value)
            assert secret not in repr(caught.value)
