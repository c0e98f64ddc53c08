"""Whatever GitHub and death do between any two calls: one object of each kind, equal to the ledger.

The publisher works over HTTP against the sandbox, which drops requests and answers, delays, limits,
refuses and lets tokens expire by a plan drawn from the seed; at fault points of commits, calls and
publishing the worker dies. ``COVEN_FAULT_SEEDS`` sets how many histories are played (16 when
absent; ``make chaos`` plays 500).
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from coven.clock import ManualClock, SystemClock
from coven.errors import StoreUnavailable
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.publication import ReviewComment, ReviewContent, review_subject
from coven.sandbox.invariants import broken_surfaces
from coven.sandbox.process import SandboxHandle, start_sandbox
from coven.settings.models import GitHub as GitHubSettings
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.values import InstallationId, RepoId, SurfaceKind, SurfaceState
from tests.support.publishing import Bench, World, findings

SEEDS = int(os.environ.get("COVEN_FAULT_SEEDS", "16"))
REPO = "octo/demo"
BRANCH = "cody/fix-1-0123abcd"
ROUTES = (
    ("POST", "check-runs"),
    ("PATCH", "check-runs"),
    ("GET", "check-runs"),
    ("POST", "issues/.*/comments"),
    ("GET", "issues/.*/comments"),
    ("PATCH", "issues/comments"),
    ("POST", "pulls/.*/reviews$"),
    ("GET", "pulls/.*/reviews$"),
    ("PUT", "pulls/.*/reviews/.*/dismissals"),
    ("GET", r"pulls/\d+$"),
    ("POST", "pulls$"),
    ("GET", "pulls$"),
    ("POST", "access_tokens"),
)

pytestmark = [pytest.mark.xdist_group("fault-seeds"), pytest.mark.timeout(120)]


class Killed(BaseException):
    """The worker died here; nothing of it runs on."""


class Gremlin:
    """Kills at random fault points until it is tired."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._rate = dice.choice([0.0, 0.02, 0.06])
        self._budget = 8
        self.did: list[str] = []

    def hit(self, point: str) -> None:
        if self._budget > 0 and self._dice.random() < self._rate:
            self._budget -= 1
            self.did.append(point)
            raise Killed(point)

    def rest(self) -> None:
        self._budget = 0


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHandle]:
    with start_sandbox(tmp_path_factory.mktemp("sandbox"), in_process=True) as handle:
        yield handle


def make_bench(sandbox: SandboxHandle, store: Store, gremlin: Gremlin) -> Bench:
    admin = sandbox.admin
    admin.reset()
    repo = admin.create_repository(REPO, files={"a.py": "x = 1\n"}).result
    installation = admin.install("octo", repositories=[REPO]).id
    pull = admin.open_pull(REPO, "A change", {"src/app.py": "y = 2\n" * 200}).result
    admin.push(REPO, BRANCH, {"a.py": "x = 2\n"}, start="main")
    branches = admin.branches(REPO)
    settings = Settings(
        github=GitHubSettings(
            app_id=sandbox.app_id,
            private_key=SecretStr(sandbox.private_key),
            api_base_url=sandbox.base_url,
            timeout_secs=1.0,
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
    return Bench(
        store,
        clock=ManualClock(datetime.now(UTC)),
        world=world,
        settings=settings,
        real=GitHub(settings, SystemClock(), Seam(faults=gremlin)),
        faults=gremlin,
    )


ALWAYS = (
    ("POST", "check-runs"),
    ("PATCH", "check-runs"),
    ("POST", "issues/.*/comments"),
    ("POST", "pulls/.*/reviews$"),
    ("POST", "pulls$"),
)
"""Calls without which the objects of a history can't come to be."""


def plan_faults(sandbox: SandboxHandle, dice: random.Random) -> None:
    """A few troubles per route; what happens after the act is an answer that got lost."""
    for method, path in ROUTES:
        # What every history must ask for goes wrong at least once in each, so none is without.
        least = 2 if (method, path) in ALWAYS else 1
        for nth in range(1, dice.randrange(least, 4)):
            kind = dice.choice(["drop", "status", "status", "status", "expire", "delay"])
            status = dice.choice([500, 502, 503, 429, 403])
            limited = status in (403, 429)
            sandbox.admin.fault(
                method,
                path,
                kind,
                nth=nth,
                status=status,
                seconds=0.02,
                retry_after=1 if limited else None,
                message="You have exceeded a secondary rate limit" if limited else None,
                after=dice.random() < 0.5 and not limited and kind != "expire",
            )


def review(bench: Bench, event: str, withdraw: str | None = None) -> None:
    lines = (3, 4, 900) if event == "REQUEST_CHANGES" else (7, 8)
    bench.desire(
        SurfaceKind.REVIEW,
        review_subject(bench.world.sha, "cody"),
        ReviewContent.model_validate(
            {
                "thread": bench.world.thread,
                "familiar_id": "cody",
                "sha": bench.world.sha,
                "event": event,
                "body": "Cody reviewed it.",
                "comments": tuple(
                    ReviewComment(
                        path="src/app.py", line=line, body=f"On {line}.", spot=f"Spot {line}."
                    )
                    for line in lines
                ),
                "withdraw": withdraw,
            }
        ),
    )


def attempt(bench: Bench) -> None:
    """One wake-up of a worker, and what may come of it."""
    with contextlib.suppress(Killed, StoreUnavailable):
        bench.publish()


def survive(bench: Bench, dice: random.Random, step: Callable[[], object]) -> None:
    while True:
        try:
            step()
        except Killed:
            continue
        break
    for _ in range(dice.randrange(3)):
        attempt(bench)
        if dice.random() < 0.7:
            bench.pass_time()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_object_of_each_kind_equal_to_the_ledger(
    seed: int, sandbox: SandboxHandle, sqlite_store: Store
) -> None:
    dice = random.Random(seed)
    gremlin = Gremlin(dice)
    bench = make_bench(sandbox, sqlite_store, gremlin)
    sqlite_store._faults = gremlin
    plan_faults(sandbox, dice)
    final = findings(dice.choice([0, 3, 60]))

    for step in (
        bench.check,
        lambda: bench.comment("working"),
        lambda: bench.check(status="in_progress", title="Working", summary="Reading."),
        lambda: review(bench, "REQUEST_CHANGES"),
        lambda: bench.pull(body="first"),
        lambda: bench.reply("because", 1),
        lambda: bench.check(
            status="completed",
            conclusion="neutral",
            title="Done",
            summary="Read it all.",
            annotations=final,
            first_marks=True,
        ),
        lambda: bench.comment("done"),
    ):
        survive(bench, dice, step)
    for _ in range(40):
        attempt(bench)
        bench.pass_time()
    gremlin.rest()
    fired = sum(fault["fired"] for fault in sandbox.admin.faults())
    assert fired + len(gremlin.did) > 3, "a history without troubles proves nothing"
    sandbox.admin.clear_faults()
    bench.until_settled()

    state = sandbox.admin.state()
    problems = broken_surfaces(sqlite_store, state)
    assert not problems, (problems, gremlin.did)
    assert {row.state for row in bench.rows()} == {SurfaceState.PUBLISHED}, [
        (row.kind, row.error) for row in bench.rows()
    ]
    (found,) = [repo for repo in state["repositories"] if repo["full_name"] == REPO]
    ours = [c for c in found["comments"] if c["body"].startswith("<!-- coven-github")]
    assert len(found["check_runs"]) == 1
    assert len(ours) == 2
    assert len(found["reviews"]) == 1
    assert len(found["review_comments"]) == 2, "the line that the diff lacks stands in the body"
    assert "Spot 900." in found["reviews"][0]["body"]
    assert len([p for p in found["pulls"] if p["head"]["ref"] == BRANCH]) == 1
    assert sandbox.admin.unexpected() == []
