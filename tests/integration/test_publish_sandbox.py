"""The publisher over HTTP against the sandbox: its limits, its permissions, its faults."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from coven.clock import ManualClock, SystemClock
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.sandbox.process import SandboxHandle, start_sandbox
from coven.settings.models import GitHub as GitHubSettings
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.values import InstallationId, RepoId, SurfaceKind, SurfaceState
from tests.support.publishing import Bench, World, findings

REPO = "octo/demo"
BRANCH = "cody/fix-1-0123abcd"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHandle]:
    with start_sandbox(tmp_path_factory.mktemp("sandbox"), in_process=True) as handle:
        yield handle


@pytest.fixture
def bench(sandbox: SandboxHandle, sqlite_store: Store) -> Iterator[Bench]:
    """A pull request and a pushed branch in a fresh world."""
    yield from make_bench(sandbox, sqlite_store, drafts=True)


def make_bench(sandbox: SandboxHandle, store: Store, *, drafts: bool) -> Iterator[Bench]:
    admin = sandbox.admin
    admin.reset()
    repo = admin.create_repository(REPO, files={"a.py": "x = 1\n"}, drafts=drafts).result
    installation = admin.install("octo", repositories=[REPO]).id
    pull = admin.open_pull(REPO, "A change", {"b.py": "y = 2\n" * 300}).result
    admin.push(REPO, BRANCH, {"a.py": "x = 2\n"}, start="main")
    branches = admin.branches(REPO)
    settings = Settings(
        github=GitHubSettings(
            app_id=sandbox.app_id,
            private_key=SecretStr(sandbox.private_key),
            api_base_url=sandbox.base_url,
            timeout_secs=2.0,
        )
    )
    world = World(
        installation=InstallationId(installation),
        repo_id=RepoId(repo["id"]),
        sha=branches["changes"],
        thread=pull["number"],
        branch=BRANCH,
        branch_sha=branches[BRANCH],
    )
    yield Bench(
        store,
        clock=ManualClock(datetime.now(UTC)),
        world=world,
        settings=settings,
        real=GitHub(settings, SystemClock(), Seam()),
    )
    assert admin.unexpected() == []


def ours(comments: list[dict[str, Any]], handle: SandboxHandle) -> list[str]:
    return [
        # Below the first block stand links to what else is known.
        comment["body"].split("\n", 1)[1].split("\n\n")[0]
        for comment in comments
        if comment["user"]["login"] == handle.bot_login
    ]


def desire_everything(bench: Bench, count: int = 120) -> None:
    bench.check(
        status="completed",
        conclusion="neutral",
        title="Done",
        summary="Read it all.",
        text="More.",
        annotations=findings(count),
    )
    bench.comment("done")
    bench.reply("because", 1, "issue_comment")
    bench.pull(body="Mended.")


def assert_equal_to_desired(bench: Bench, sandbox: SandboxHandle, count: int = 120) -> None:
    admin, world = sandbox.admin, bench.world
    (run,) = admin.check_runs(REPO, external_id=f"{bench.task.id}:1")
    assert (run["status"], run["conclusion"], run["name"]) == (
        "completed",
        "neutral",
        "Cody / review",
    )
    assert [a["title"] for a in run["annotations"]] == [f"Finding {n}" for n in range(count)]
    assert sorted(ours(admin.comments(REPO, world.thread), sandbox)) == ["because", "done"]
    (pull,) = [p for p in admin.pulls(REPO) if p["head"]["ref"] == BRANCH]
    assert (pull["title"], pull["draft"]) == ("Mend it", True)
    assert pull["body"].endswith("\nMended.")
    assert {row.state for row in bench.rows()} == {SurfaceState.PUBLISHED}
    stored = {row.kind: row.object_id for row in bench.rows()}
    assert stored[SurfaceKind.CHECK_RUN] == run["id"]
    assert stored[SurfaceKind.PULL_REQUEST] == pull["number"]


def test_every_kind_of_surface_reaches_github(bench: Bench, sandbox: SandboxHandle) -> None:
    bench.check()
    bench.comment("working")
    assert bench.publish() == 0
    bench.check(status="in_progress", title="Working", summary="Reading.")
    bench.publish()
    desire_everything(bench)
    assert bench.publish() == 0
    assert_equal_to_desired(bench, sandbox)


def test_the_happy_path_needs_few_calls(bench: Bench, sandbox: SandboxHandle) -> None:
    sandbox.admin.clear_requests()
    bench.check()
    bench.publish()
    bench.check(status="in_progress", title="Working", summary="Reading.")
    bench.comment("working")
    bench.publish()
    bench.check(
        status="completed", conclusion="success", title="Done", summary="x", annotations=findings(9)
    )
    bench.comment("done")
    bench.publish()
    counts = sandbox.admin.request_counts()
    calls = {name: n for name, n in counts.items() if "token" not in name}
    assert sum(calls.values()) == 7, calls


def test_texts_at_the_limits_are_taken(bench: Bench, sandbox: SandboxHandle) -> None:
    bench.check(
        status="completed",
        conclusion="neutral",
        title="é" * 300,
        summary="é" * 40_000,
        text="word " * 20_000,
        annotations=(
            findings(1)[0].model_copy(update={"title": "é" * 300, "message": "é" * 40_000}),
        ),
    )
    bench.comment("é" * 70_000)
    bench.pull(title="é" * 300, body="é" * 70_000)
    assert bench.publish() == 0
    assert {(row.state, row.error) for row in bench.rows()} == {(SurfaceState.PUBLISHED, None)}


def test_a_repository_without_drafts_gets_an_open_pull_request(
    sandbox: SandboxHandle, sqlite_store: Store
) -> None:
    for bench in make_bench(sandbox, sqlite_store, drafts=False):
        bench.pull()
        assert bench.publish() == 0
        (pull,) = [p for p in sandbox.admin.pulls(REPO) if p["head"]["ref"] == BRANCH]
        assert not pull["draft"]
        assert "does not offer draft" in pull["body"]


def test_a_branch_without_commits_gets_a_reason(bench: Bench, sandbox: SandboxHandle) -> None:
    sandbox.admin.set_branch(REPO, BRANCH, sandbox.admin.branches(REPO)["main"])
    bench.pull()
    assert bench.publish() == 0
    row = bench.row(SurfaceKind.PULL_REQUEST)
    assert row.state is SurfaceState.FAILED
    assert "no commit beyond main" in (row.error or "")


def test_a_comment_deleted_by_a_person_comes_back_once(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    bench.comment("first")
    bench.publish()
    sandbox.admin.delete_comment(bench.row(SurfaceKind.STATUS_COMMENT).object_id or 0)
    bench.comment("second")
    assert bench.publish() == 0
    comments = sandbox.admin.comments(REPO, bench.world.thread)
    assert ours([c for c in comments if not c.get("deleted")], sandbox) == ["second"]


def test_an_archived_repository_is_said_to_be_archived(
    bench: Bench, sandbox: SandboxHandle
) -> None:
    sandbox.admin.change_repository(REPO, archived=True)
    bench.comment("hello")
    assert bench.publish() == 0
    row = bench.row(SurfaceKind.STATUS_COMMENT)
    assert row.state is SurfaceState.FAILED
    assert "archived" in (row.error or "")


def test_an_installation_that_is_gone_ends_the_work(bench: Bench, sandbox: SandboxHandle) -> None:
    sandbox.admin.uninstall(bench.world.installation)
    bench.check()
    assert bench.publish() == 0
    row = bench.row(SurfaceKind.CHECK_RUN)
    assert (row.state, (row.error or "").split(":")[0]) == (SurfaceState.FAILED, "InstallationGone")


def test_a_secondary_limit_is_waited_out(bench: Bench, sandbox: SandboxHandle) -> None:
    sandbox.admin.fault(
        "POST",
        "check-runs",
        "status",
        status=403,
        retry_after=60,
        message="You have exceeded a secondary rate limit",
    )
    bench.check()
    assert bench.publish() == 1
    row = bench.row(SurfaceKind.CHECK_RUN)
    assert "RateLimited" in (row.error or "")
    assert (row.next_at - bench.clock.now()).total_seconds() >= 60
    bench.until_settled()


@pytest.mark.parametrize("seed", range(6))
def test_random_faults_end_with_one_object_each(
    seed: int, bench: Bench, sandbox: SandboxHandle
) -> None:
    dice = random.Random(seed)
    admin = sandbox.admin
    for method, path in (
        ("POST", "check-runs"),
        ("PATCH", "check-runs"),
        ("GET", "check-runs"),
        ("POST", "issues/.*/comments"),
        ("GET", "issues/.*/comments"),
        ("PATCH", "issues/comments"),
        ("POST", "pulls$"),
        ("GET", "pulls$"),
    ):
        for nth in range(1, dice.randrange(2, 4)):
            admin.fault(
                method,
                path,
                dice.choice(["drop", "status", "expire"]) if dice.random() < 0.8 else "status",
                nth=nth,
                status=dice.choice([500, 502, 503, 429]),
                after=dice.random() < 0.5,
            )
    bench.check()
    bench.comment("working")
    bench.until_settled()
    desire_everything(bench)
    bench.until_settled()
    assert_equal_to_desired(bench, sandbox)
    assert sum(fault["fired"] for fault in admin.faults()) > 3
    admin.clear_faults()
