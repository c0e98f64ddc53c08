"""Reading GitHub's answers: what may be missing, and what must never be guessed."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.github.models import (
    Comment,
    HookDelivery,
    Permission,
    PullRequest,
    Repository,
    Token,
    parse_time,
)
from coven.values import TaskId

SHA = "b" * 40
PULL: dict[str, Any] = {
    "number": 3,
    "title": "t",
    "body": "text",
    "state": "open",
    "draft": False,
    "merged": False,
    "head": {
        "sha": SHA,
        "ref": "topic",
        "label": "forker:topic",
        "repo": {"id": 9, "full_name": "forker/demo"},
    },
    "base": {"sha": "c" * 40, "ref": "main", "repo": {"id": 7}},
    "user": {"id": 5, "login": "ann"},
    "html_url": "https://github.com/octo/demo/pull/3",
    "updated_at": "2026-01-02T03:04:05Z",
    "changed_files": 2,
}


def without(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(PULL) | changes


def test_a_pull_request_is_read() -> None:
    pull = PullRequest.from_json(PULL)
    assert (pull.head_repo_id, pull.base_repo_id, pull.author_id) == (9, 7, 5)
    assert pull.updated_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_deleted_head_repository_is_none_and_never_the_base() -> None:
    head = PULL["head"] | {"repo": None}
    pull = PullRequest.from_json(without(head=head))
    assert pull.head_repo_id is None
    assert pull.head_repo_full_name is None
    assert pull.base_repo_id == 7


def test_a_deleted_author_and_an_empty_body_are_no_errors() -> None:
    pull = PullRequest.from_json(without(user=None, body=None))
    assert (pull.author_id, pull.author_login, pull.body) == (None, None, "")


def test_merged_is_known_from_the_list_form_too() -> None:
    listed = without(merged_at="2026-01-02T03:04:05Z")
    del listed["merged"]
    assert PullRequest.from_json(listed).merged


@pytest.mark.parametrize(
    "broken",
    [
        without(number=None),
        without(number="3"),
        without(head=None),
        without(head={"sha": "abc1234", "ref": "x"}),
        without(head={"sha": "HEAD", "ref": "x"}),
        without(updated_at=None),
        without(base={"ref": "main"}),
    ],
)
def test_what_must_be_there_is_demanded(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        PullRequest.from_json(broken)


@pytest.mark.parametrize(
    ("data", "can_write"),
    [
        ({"permission": "write", "role_name": "security-lead"}, True),
        ({"permission": "write", "role_name": "maintain"}, True),
        ({"permission": "admin"}, True),
        ({"permission": "read", "role_name": "triage"}, False),
        ({"permission": "read"}, False),
        ({"permission": "none", "user": None}, False),
        ({"permission": "Write"}, False),
        ({"permission": "unheard-of", "role_name": "admin"}, False),
    ],
)
def test_the_legacy_level_decides_and_custom_roles_are_kept(
    data: dict[str, Any], can_write: bool
) -> None:
    read = Permission.from_json(data)
    assert read.can_write is can_write
    assert read.role_name == data.get("role_name", data["permission"])


def test_a_permission_carries_the_users_id() -> None:
    data = {"permission": "read", "user": {"id": 12, "login": "x"}}
    assert Permission.from_json(data).user_id == 12


@pytest.mark.parametrize("data", [{}, {"permission": None}, {"permission": ""}])
def test_an_unstated_permission_is_no_permission(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Permission.from_json(data)


def test_a_comment_names_the_app_that_wrote_it() -> None:
    ours = Comment.from_json(
        {
            "id": 1,
            "body": "x",
            "user": {"id": 2, "login": "b[bot]"},
            "performed_via_github_app": {"id": 3},
        }
    )
    ghost = Comment.from_json(
        {"id": 1, "body": None, "user": None, "performed_via_github_app": None}
    )
    assert (ours.app_id, ours.author_id) == (3, 2)
    assert (ghost.app_id, ghost.author_login, ghost.body) == (None, None, "")


def test_a_repository_of_unknown_visibility_counts_as_private() -> None:
    data = {"id": 7, "full_name": "octo/demo", "default_branch": "main", "owner": None}
    repository = Repository.from_json(data)
    assert repository.private
    assert (repository.owner, repository.name, repository.owner_id) == ("octo", "demo", None)


@pytest.mark.parametrize(
    ("status", "code", "ok"),
    [
        ("OK", 200, True),
        ("OK", 202, True),
        ("Invalid HTTP Response: 503", 503, False),
        ("timed out", 0, False),
        ("failed to connect to host", 0, False),
    ],
)
def test_a_delivery_without_an_answer_is_not_ok(status: str, code: int, ok: bool) -> None:
    data = {
        "id": 1,
        "guid": "g",
        "delivered_at": "2026-01-02T03:04:05Z",
        "redelivery": False,
        "status": status,
        "status_code": code,
        "event": "push",
        "action": None,
        "installation_id": None,
        "repository_id": None,
    }
    assert HookDelivery.from_json(data).ok is ok


def test_a_token_does_not_show_itself() -> None:
    token = Token("ghs_verysecret", datetime(2026, 1, 1, tzinfo=UTC), {"contents": "read"})
    assert "verysecret" not in repr(token)
    assert "verysecret" not in f"{token}"
    assert "verysecret" not in repr([TaskId("x"), token])


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T05:04:05+02:00"]
)
def test_times_are_aware_utc(text: str) -> None:
    assert parse_time(text) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(list(PULL)),
        st.none() | st.integers() | st.text(max_size=5) | st.booleans() | st.just({}) | st.just([]),
        max_size=4,
    )
)
def test_a_damaged_pull_request_is_a_pull_request_or_an_expected_error(
    changes: dict[str, Any],
) -> None:
    try:
        pull = PullRequest.from_json(without(**changes))
    except (ValueError, TypeError, AttributeError):
        return  # what `understood` turns into GitHubUnavailable
    assert isinstance(pull.number, int)
    assert len(pull.head_sha) == 40
