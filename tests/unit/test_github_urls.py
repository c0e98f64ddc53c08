"""API roots of the three kinds of GitHub, encoded paths, and the next page."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from coven.github.urls import api_root, next_query, path
from coven.settings.models import GitHub


@pytest.mark.parametrize(
    ("configured", "root"),
    [
        ("https://api.github.com", "https://api.github.com"),
        ("https://api.github.com/", "https://api.github.com"),
        ("https://github.com", "https://api.github.com"),
        ("https://ghe.example.com", "https://ghe.example.com/api/v3"),
        ("https://ghe.example.com/", "https://ghe.example.com/api/v3"),
        ("https://ghe.example.com/api/v3", "https://ghe.example.com/api/v3"),
        ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3"),
        ("https://ghe.example.com:8443", "https://ghe.example.com:8443/api/v3"),
        ("https://tenant.ghe.com", "https://api.tenant.ghe.com"),
        ("https://api.tenant.ghe.com", "https://api.tenant.ghe.com"),
        ("https://proxy.example.com/github", "https://proxy.example.com/github"),
        ("http://127.0.0.1:4010", "http://127.0.0.1:4010"),
        ("http://localhost:4010/", "http://localhost:4010"),
    ],
)
def test_every_way_to_write_the_base_gives_the_api_root(configured: str, root: str) -> None:
    assert api_root(GitHub(api_base_url=configured).api_base_url) == root


@pytest.mark.parametrize(
    "configured", ["", "ghe.example.com", "http://ghe.example.com", "https://", "ftp://x/y"]
)
def test_a_base_that_is_not_https_is_refused(configured: str) -> None:
    with pytest.raises(ValidationError):
        GitHub(api_base_url=configured)


def test_segments_are_encoded_whole() -> None:
    assert path("repos", "o", "r", "branches", "feature/x#1?y") == (
        "/repos/o/r/branches/feature%2Fx%231%3Fy"
    )
    assert path("users", "cody[bot]") == "/users/cody%5Bbot%5D"
    assert path("compare", "a...b/c") == "/compare/a...b%2Fc"


@pytest.mark.parametrize("segment", ["", ".", ".."])
def test_segments_that_would_walk_are_refused(segment: str) -> None:
    with pytest.raises(ValueError, match="API path"):
        path("repos", segment)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_no_segment_can_leave_its_place(segments: list[str]) -> None:
    if any(segment in {".", ".."} for segment in segments):
        return
    try:
        built = path(*segments)
    except UnicodeEncodeError:
        return  # lone surrogates are no text that could be sent
    assert [unquote(part) for part in built.split("/")[1:]] == segments
    assert not set(built) & set("?#\\ %[]") - {"%"}


@pytest.mark.parametrize(
    ("header", "query"),
    [
        (None, None),
        ("", None),
        (
            '<https://api.github.com/x?page=2&per_page=100>; rel="next"',
            {"page": "2", "per_page": "100"},
        ),
        ('<https://h/x?page=1>; rel="prev", <https://h/x?page=3>; rel="next"', {"page": "3"}),
        ('<https://h/x?page=9>; rel="last"', None),
        ("<https://h/x?cursor=v1_12>; rel=next", {"cursor": "v1_12"}),
        ("nonsense", None),
    ],
)
def test_the_next_page_is_read_from_the_link_header(
    header: str | None, query: dict[str, str] | None
) -> None:
    assert next_query(header) == query
