"""The table from GitHub's answer to our error: which class, when to retry, what is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.errors import (
    GitHubError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubRejected,
    GitHubUnauthorised,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
    Retry,
)
from coven.github.failures import Answer, failure, message_of, scrub, wait_secs

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
STAMP = int(NOW.timestamp())
SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)
FORBIDDEN = "Resource not accessible by integration"


def made(
    status: int, message: str = "", headers: dict[str, str] | None = None, **facts: Any
) -> GitHubError:
    return failure(Answer("op", status, headers or {}, message, NOW, **facts))


@pytest.mark.parametrize(
    ("status", "message", "headers", "facts", "kind"),
    [
        (401, "Bad credentials", {}, {}, GitHubUnauthorised),
        (403, FORBIDDEN, {}, {}, GitHubForbidden),
        (403, FORBIDDEN, {"x-ratelimit-remaining": "4771"}, {}, GitHubForbidden),
        (403, FORBIDDEN, {"x-ratelimit-remaining": "0"}, {}, RateLimited),
        (403, "Must have push access to view collaborator permission.", {}, {}, GitHubForbidden),
        (403, "Repository was archived so is read-only.", {}, {}, GitHubForbidden),
        (403, "API rate limit exceeded for installation ID 1.", {}, {}, RateLimited),
        (403, SECONDARY, {"x-ratelimit-remaining": "4771"}, {}, RateLimited),
        (403, "You have triggered an abuse detection mechanism.", {}, {}, RateLimited),
        (403, "anything", {"retry-after": "60"}, {}, RateLimited),
        (429, "", {}, {}, RateLimited),
        (403, "This installation has been suspended", {}, {"minting": True}, InstallationGone),
        (404, "Not Found", {}, {"minting": True}, InstallationGone),
        (404, "Not Found", {}, {}, GitHubNotFound),
        (410, "Issues are disabled for this repo", {}, {}, GitHubNotFound),
        (
            422,
            "There is at least one repository that does not exist or is not accessible to the "
            "parent installation.",
            {},
            {"minting": True},
            InstallationGone,
        ),
        (
            422,
            "The permissions requested are not granted to this installation.",
            {},
            {"minting": True},
            GitHubForbidden,
        ),
        (422, "Validation Failed", {}, {}, GitHubRejected),
        (400, "Problems parsing JSON", {}, {}, GitHubRejected),
        (409, "Git Repository is empty.", {}, {}, GitHubRejected),
        (451, "Repository access blocked", {}, {}, GitHubForbidden),
        (408, "", {}, {}, GitHubUnavailable),
        (500, "", {}, {}, GitHubUnavailable),
        (502, "Server Error", {}, {}, GitHubUnavailable),
        (503, "", {}, {}, GitHubUnavailable),
        (304, "", {}, {}, GitHubRejected),
    ],
)
def test_each_answer_has_its_error(
    status: int,
    message: str,
    headers: dict[str, str],
    facts: dict[str, Any],
    kind: type[GitHubError],
) -> None:
    error = made(status, message, headers, **facts)
    assert type(error) is kind
    assert error.status == status
    assert str(error).startswith(f"github.op: {status}")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "17"}, 17),
        ({"retry-after": "0"}, 1),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90),
        ({"retry-after": "soon"}, 60),
        ({"retry-after": "99999999"}, 86_400),
        ({}, 60),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(STAMP + 855)}, 856),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(STAMP - 30)}, 60),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "later"}, 60),
        ({"x-ratelimit-remaining": "4771", "x-ratelimit-reset": str(STAMP + 855)}, 60),
        (
            {
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": str(STAMP + 100),
                "date": format_datetime(NOW + timedelta(seconds=40), usegmt=True),
            },
            61,
        ),
    ],
)
def test_the_wait_follows_what_github_said_and_is_never_zero(
    headers: dict[str, str], seconds: float
) -> None:
    error = made(429, "", headers)
    assert error.retry is Retry.BACKOFF
    assert error.retry_after == pytest.approx(seconds)


def test_a_permission_error_is_final_and_names_what_was_missing() -> None:
    error = made(403, FORBIDDEN, {"x-accepted-github-permissions": "checks=write"})
    assert error.retry is Retry.NEVER
    assert error.retry_after is None
    assert "checks=write" in str(error)


@pytest.mark.parametrize(("skew", "word"), [(-90, "90 s behind"), (90, "90 s ahead of")])
def test_a_refused_jwt_names_a_wrong_clock(skew: int, word: str) -> None:
    theirs = format_datetime(NOW - timedelta(seconds=skew), usegmt=True)
    error = made(401, "'Expiration time' claim is too far", {"date": theirs}, app_auth=True)
    assert word in str(error)


def test_a_refused_jwt_without_skew_points_at_the_key() -> None:
    here = format_datetime(NOW, usegmt=True)
    error = made(401, "A JSON web token could not be decoded", {"date": here}, app_auth=True)
    assert "github.private_key" in str(error)


def test_an_archived_repository_is_told_to_people() -> None:
    assert "archived" in made(403, "Repository was archived so is read-only.").public


def test_an_outage_keeps_the_wait_that_it_names() -> None:
    assert made(503, "", {"retry-after": "7"}).retry_after == 7
    assert made(503).retry_after is None


def test_messages_join_the_errors_of_a_validation() -> None:
    body = {
        "message": "Validation Failed",
        "errors": [
            {"resource": "PullRequest", "field": "head", "code": "invalid"},
            {"resource": "PullRequest", "message": "A pull request already exists for o:b."},
            "plain",
        ],
    }
    assert message_of(body) == (
        "Validation Failed; PullRequest.head invalid; "
        "PullRequest A pull request already exists for o:b.; plain"
    )


TOKENS = [
    "ghs_" + "a1B2" * 9,
    "ghs_12345_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.sig-na_ture" + "x" * 400,
    "github_pat_" + "A1b2" * 20,
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_echoed_by_a_server_never_reach_a_message(token: str) -> None:
    error = made(400, message_of({"message": f"bad header: Bearer {token} here"}))
    assert token not in str(error)
    assert token[10:40] not in str(error)


def test_a_live_value_of_any_shape_is_masked() -> None:
    assert "opaque" not in message_of({"message": "got opaque"}, ("opaque",))


@settings(deadline=None, max_examples=200)
@given(
    st.integers(300, 599),
    st.text(max_size=500),
    st.dictionaries(
        st.sampled_from(
            ["retry-after", "x-ratelimit-remaining", "x-ratelimit-reset", "date", "location"]
        ),
        st.one_of(st.text(max_size=30), st.integers().map(str)),
    ),
    st.booleans(),
    st.booleans(),
)
def test_every_answer_gives_a_typed_bounded_error(
    status: int, message: str, headers: dict[str, str], app_auth: bool, minting: bool
) -> None:
    error = made(status, scrub(message), headers, app_auth=app_auth, minting=minting)
    assert isinstance(error, GitHubError)
    assert len(str(error)) < 1000
    assert "\n" not in str(error)
    if isinstance(error, RateLimited):
        assert error.retry_after is not None
    assert 1 <= wait_secs(headers, NOW) <= 86_400
    if error.retry_after is not None:
        assert 1 <= error.retry_after <= 86_400


@settings(deadline=None, max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["message", "errors", "code", "field"]), inner, max_size=3
            )
        ),
        max_leaves=10,
    )
)
def test_any_body_gives_a_bounded_message(body: object) -> None:
    assert len(message_of(body)) <= 300
