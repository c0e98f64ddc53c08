"""One reaction of ours per command, whatever fails between any two steps."""

from __future__ import annotations

import os
from typing import Literal

import pytest

from coven.errors import GitHubNotFound, GitHubUnavailable
from coven.github.models import Reaction
from coven.publication import ReactionContent, reaction_subject
from coven.store.engine import Store
from coven.values import SurfaceKind, SurfaceState
from tests.integration.test_publish_faults import Gremlin, attempt, survive
from tests.support.fake_github import FakeGitHub
from tests.support.publishing import Bench

SEEDS = int(os.environ.get("COVEN_FAULT_SEEDS", "16"))
COMMENT = 500
THUMB = Reaction(1, "eyes", 5, "mallory")


def react(bench: Bench, content: Literal["eyes", "rocket", "confused"]) -> None:
    wanted = ReactionContent(comment_id=COMMENT, comment_kind="issue_comment", content=content)
    bench.desire(SurfaceKind.REACTION, reaction_subject(COMMENT), wanted)


def ours(github: FakeGitHub) -> list[str]:
    return [found.content for found in github.reactions.values() if found.user_id == 990]


def test_the_earlier_reaction_goes_when_the_next_comes(sqlite_store: Store) -> None:
    github = FakeGitHub(reactions={1: THUMB})
    bench = Bench(sqlite_store, github)
    react(bench, "eyes")
    assert bench.publish() == 0
    assert ours(github) == ["eyes"]
    react(bench, "rocket")
    assert bench.publish() == 0
    assert ours(github) == ["rocket"]
    assert github.reactions[1] == THUMB
    assert github.calls["reactions"] == 0


def test_a_lost_answer_leaves_no_second_reaction(sqlite_store: Store) -> None:
    github = FakeGitHub(reactions={1: THUMB})
    bench = Bench(sqlite_store, github)
    react(bench, "eyes")

    def lose(point: str) -> None:
        if point == "add_reaction.after":
            raise GitHubUnavailable("no answer")

    github.trouble = lose
    assert bench.publish() == 1
    github.trouble = lambda point: None
    react(bench, "confused")
    bench.until_settled()
    assert ours(github) == ["confused"]
    assert github.reactions[1] == THUMB


def test_a_deleted_comment_ends_in_a_recorded_state(sqlite_store: Store) -> None:
    github = FakeGitHub()
    bench = Bench(sqlite_store, github)
    react(bench, "eyes")

    def gone(point: str) -> None:
        if point.startswith("add_reaction"):
            raise GitHubNotFound("github: 404", status=404)

    github.trouble = gone
    bench.publish()
    row = bench.row(SurfaceKind.REACTION)
    assert row.state is SurfaceState.FAILED
    assert row.error


@pytest.mark.parametrize("seed", range(SEEDS))
def test_exactly_one_reaction_of_ours_in_the_end(seed: int, sqlite_store: Store) -> None:
    gremlin = Gremlin(seed, budget=12)
    github = FakeGitHub(reactions={1: THUMB})
    bench = Bench(sqlite_store, github, faults=gremlin)
    sqlite_store._faults = gremlin
    github.trouble = gremlin.call
    survive(bench, gremlin, lambda: react(bench, "eyes"))
    survive(bench, gremlin, lambda: react(bench, "confused"))
    survive(bench, gremlin, lambda: react(bench, "rocket"))
    for _ in range(20):
        attempt(bench)
        bench.pass_time()
    gremlin.rest()
    bench.until_settled()
    assert ours(github) == ["rocket"], gremlin.did
    assert github.reactions[1] == THUMB
