"""When a failed attempt runs again."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from coven.settings.models import Worker
from worker.retry import next_attempt_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wait(used: int, retry_after: float | None = None, draw: float = 1.0, **keys: float) -> float:
    settings = Worker.model_validate(keys)
    return (next_attempt_at(settings, NOW, used, retry_after, draw) - NOW).total_seconds()


def test_waits_double_up_to_the_cap() -> None:
    waits = [wait(used, retry_base_secs=4, retry_cap_secs=20) for used in (1, 2, 3, 4, 5)]
    assert waits == [4, 8, 16, 20, 20]


def test_the_draw_spreads_over_the_upper_half() -> None:
    assert wait(1, draw=0.0, retry_base_secs=10) == 5
    assert wait(1, draw=1.0, retry_base_secs=10) == 10


def test_a_time_that_github_asked_for_is_a_floor() -> None:
    assert wait(1, retry_after=855, retry_base_secs=1) == 855


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_never_beyond_the_cap_and_never_in_the_past(used: int, draw: float) -> None:
    assert 0 < wait(used, draw=draw, retry_base_secs=4, retry_cap_secs=300) <= 300
