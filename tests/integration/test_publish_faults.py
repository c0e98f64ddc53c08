"""Whatever fails between any two steps: one object per surface in the end, equal to the ledger.

``COVEN_FAULT_SEEDS`` sets how many random runs there are (16 when absent).
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable

import pytest

from coven.errors import GitHubUnauthorised, GitHubUnavailable, RateLimited, StoreUnavailable
from coven.store.engine import Store
from coven.values import SurfaceKind, SurfaceState
from tests.support.fake_github import FakeGitHub
from tests.support.publishing import BRANCH, THREAD, Bench, findings

SEEDS = int(os.environ.get("COVEN_FAULT_SEEDS", "16"))
ANNOTATIONS = 120


class Killed(BaseException):
    """The worker died here; nothing of it runs on."""


class Gremlin:
    """Misbehaves at random points of calls, commits and fault points, until it is tired."""

    def __init__(self, seed: int, budget: int) -> None:
        self._random = random.Random(seed)
        self._budget = budget
        self.did: list[str] = []
        self._rate = self._random.choice([0.05, 0.15, 0.4])

    def hit(self, point: str) -> None:
        """A fault point of the effects seam or of a store commit: only death is possible."""
        if self._strikes(point):
            raise Killed(point)

    def call(self, point: str) -> None:
        """Before or after a call took effect at GitHub."""
        if not self._strikes(point):
            return
        raise self._random.choice(self._troubles(point))

    def rest(self) -> None:
        self._budget = 0

    def _strikes(self, point: str) -> bool:
        if self._budget <= 0 or self._random.random() > self._rate:
            return False
        self._budget -= 1
        self.did.append(point)
        return True

    def _troubles(self, point: str) -> list[BaseException]:
        troubles: list[BaseException] = [
            GitHubUnavailable("no answer"),
            GitHubUnavailable("502", status=502),
            RuntimeError("unexpected"),
            Killed(point),
        ]
        if point.endswith(".before"):
            # GitHub says these before it does anything.
            troubles += [
                RateLimited("secondary", status=403, retry_after=60),
                RateLimited("429", status=429, retry_after=1),
                GitHubUnauthorised("401", status=401),
            ]
        return troubles


def attempt(bench: Bench) -> None:
    """One wake-up of a worker, and what may come of it."""
    with contextlib.suppress(Killed, RuntimeError, StoreUnavailable):
        bench.publish()


def survive(bench: Bench, gremlin: Gremlin, step: Callable[[], object]) -> None:
    """Do a step of the story whatever happens to its commit, then let a worker try."""
    while True:
        try:
            step()
        except Killed:
            continue
        break
    for _ in range(gremlin._random.randrange(3)):
        attempt(bench)
        if gremlin._random.random() < 0.7:
            bench.pass_time()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_object_per_surface_equal_to_what_is_desired(seed: int, sqlite_store: Store) -> None:
    gremlin = Gremlin(seed, budget=30)
    github = FakeGitHub()
    bench = Bench(sqlite_store, github, faults=gremlin)
    sqlite_store._faults = gremlin
    github.trouble = gremlin.call
    asked = github.writes_on_diff(THREAD, "@cody why?")
    final = findings(ANNOTATIONS)

    for step in (
        bench.check,
        lambda: bench.comment("working"),
        lambda: bench.check(status="in_progress", title="Working", summary="Reading."),
        lambda: bench.reply("one moment"),
        lambda: bench.reply("because", asked, "review_comment"),
        lambda: bench.comment("still working"),
        lambda: bench.pull(body="first"),
        lambda: bench.check(
            status="completed",
            conclusion="neutral",
            title="Done",
            summary="Read it all.",
            annotations=final,
            first_marks=True,
        ),
        lambda: bench.pull(body="second"),
        lambda: bench.comment("done"),
    ):
        survive(bench, gremlin, step)
    for _ in range(60):
        attempt(bench)
        bench.pass_time()
    gremlin.rest()
    bench.until_settled()

    assert {row.state for row in bench.rows()} == {SurfaceState.PUBLISHED}, gremlin.did
    (run,) = github.check_runs.values()
    assert (run["status"], run["conclusion"], run["output"]["title"]) == (
        "completed",
        "neutral",
        "Done",
    )
    assert [a["title"] for a in run["annotations"]] == [a.title for a in final], gremlin.did
    # Below the first block stand links to what else is known.
    bodies = [body.split("\n", 1)[1].split("\n\n")[0] for body in github.bodies(THREAD)]
    assert sorted(bodies) == ["done", "one moment"], gremlin.did
    answers = [c for _, c in github.review_comments.values() if c.author_id == 990]
    assert [c.body.split("\n", 1)[1] for c in answers] == ["because"], gremlin.did
    (pull,) = github.pulls.values()
    assert (pull.head_ref, pull.body.split("\n", 1)[1]) == (BRANCH, "second")
    stored = {row.kind: row.object_id for row in bench.rows() if row.kind is not SurfaceKind.REPLY}
    assert stored[SurfaceKind.CHECK_RUN] == run["id"]
    assert stored[SurfaceKind.PULL_REQUEST] == pull.number
    assert gremlin.did, "a run without any fault proves nothing"
