from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.errors import (
    CovenError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubRejected,
    GitHubUnauthorised,
    GitHubUnavailable,
    GovernanceRefused,
    InstallationGone,
    RateLimited,
)
from worker.publish.decide import (
    CAP_SECS,
    LONGEST_WAIT_SECS,
    MAX_TRIES,
    MAX_TRIES_REFUSED,
    MAX_TRIES_UNEXPECTED,
    RATE_FLOOR_SECS,
    creation_allowed_at,
    decide,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "kind", [GitHubForbidden, GitHubNotFound, GitHubRejected, InstallationGone, GovernanceRefused]
)
def test_what_repeating_will_not_change_is_given_up_at_once(kind: type[CovenError]) -> None:
    decision = decide(kind("said no"), 1, 0.5)
    assert decision.delay_secs is None
    assert decision.reason.startswith(f"{kind.__name__}: said no")
    assert kind.public in decision.reason


def test_waits_double_up_to_the_cap() -> None:
    waits = [decide(GitHubUnavailable("no answer"), n, 0.999).delay_secs or 0 for n in range(1, 12)]
    assert waits[:3] == [
        pytest.approx(4, rel=0.01),
        pytest.approx(8, rel=0.01),
        pytest.approx(16, rel=0.01),
    ]
    assert waits[-1] == pytest.approx(CAP_SECS, rel=0.01)
    assert waits == sorted(waits)


@given(st.integers(1, MAX_TRIES - 1), st.floats(0, 0.999))
@settings(max_examples=100, deadline=None)
def test_a_wait_is_never_zero_and_never_beyond_the_cap(tries: int, jitter: float) -> None:
    delay = decide(GitHubUnavailable("no answer"), tries, jitter).delay_secs
    assert delay is not None
    assert 2 <= delay <= CAP_SECS


@given(
    st.one_of(st.none(), st.floats(-1e9, 1e12, allow_nan=False)),
    st.integers(1, 20),
    st.floats(0, 0.999),
)
@settings(max_examples=200, deadline=None)
def test_githubs_word_is_the_least_within_reason(
    asked: float | None, tries: int, jitter: float
) -> None:
    delay = decide(RateLimited("slow down", retry_after=asked), tries, jitter).delay_secs
    assert delay is not None
    least = asked if asked and asked > 0 else RATE_FLOOR_SECS
    assert delay >= min(max(least, 1), LONGEST_WAIT_SECS)
    assert delay <= LONGEST_WAIT_SECS + 10


@pytest.mark.parametrize(
    ("error", "most"),
    [
        (GitHubUnavailable("no answer"), MAX_TRIES),
        (GitHubUnauthorised("401"), MAX_TRIES_REFUSED),
        (RuntimeError("bug"), MAX_TRIES_UNEXPECTED),
    ],
)
def test_no_failure_is_repeated_for_ever(error: Exception, most: int) -> None:
    assert decide(error, most - 1, 0).delay_secs is not None
    last = decide(error, most, 0)
    assert last.delay_secs is None
    assert f"given up after {most} tries" in last.reason


def test_creations_wait_for_the_window_that_is_full() -> None:
    ago = timedelta(seconds=20)
    assert creation_allowed_at(None, None, NOW) == NOW
    assert creation_allowed_at(NOW - ago, None, NOW) == NOW + timedelta(seconds=40)
    assert creation_allowed_at(NOW - ago, NOW - ago, NOW) == NOW + timedelta(seconds=3_580)
