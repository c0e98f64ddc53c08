from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.markers import MAX_LENGTH, Marker, find_marker, make_marker
from coven.values import RepoId

KEY = b"k" * 32
OURS = Marker("status_comment", "cody", RepoId(7), 12)


def ours() -> str:
    return make_marker("status_comment", "cody", 7, 12, KEY)


def test_the_form_is_the_documented_one() -> None:
    head, _, signature = ours().rpartition(":")
    assert head == "<!-- coven-github:v1:status_comment:cody:7:12"
    assert len(signature.removesuffix(" -->")) == 16


def test_our_marker_is_read_back_from_the_start_of_a_body() -> None:
    assert find_marker(f"{ours()}\nHello", KEY) == OURS
    assert find_marker(f"\r\n{ours()}\r\nHello", KEY) == OURS


@pytest.mark.parametrize(
    "body",
    [
        "",
        "Hello",
        f"> {ours()}",
        f"Look: {ours()}",
        ours().replace(":12:", ":13:"),
        ours().replace("cody", "nova"),
        ours().replace("status_comment", "reply"),
        ours().replace(":7:", ":07:"),
        ours().upper(),
        make_marker("status_comment", "cody", 7, 12, b"other key"),
    ],
)
def test_a_marker_elsewhere_or_not_ours_is_nothing(body: str) -> None:
    assert find_marker(body, KEY) is None


@pytest.mark.parametrize(
    "parts",
    [
        ("Status", "cody", 1, 1),
        ("reply", "a:b", 1, 1),
        ("reply", "-->", 1, 1),
        ("reply", "cody", -1, 1),
    ],
)
def test_parts_that_would_break_the_form_are_refused(parts: tuple[str, str, int, int]) -> None:
    with pytest.raises(ValueError, match="marker"):
        make_marker(*parts, KEY)


@given(
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,38}", fullmatch=True),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=100, deadline=None)
def test_every_marker_round_trips_and_fits_its_budget(familiar: str, repo: int, n: int) -> None:
    marker = make_marker("pull_request", familiar, repo, n, KEY)
    assert len(marker) <= MAX_LENGTH
    assert find_marker(marker, KEY) == Marker("pull_request", familiar, RepoId(repo), n)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_nobody_guesses_a_marker(text: str) -> None:
    assert find_marker(text, KEY) is None
    assert find_marker(f"<!-- coven-github:v1:{text} -->", KEY) is None
