from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from coven.contract import examples
from coven.contract.brief import (
    AddressReviewComment,
    BriefRepo,
    BriefWorkspace,
    FixIssue,
    SessionBrief,
    encode,
    parse,
    serialise,
)
from coven.contract.memory import MemoryPolicy
from coven.contract.schemas import schema
from coven.errors import ContractViolation, SecretFound
from coven.redaction import Redactor
from coven.values import TrustScope

SCHEMA = Draft202012Validator(schema(SessionBrief, "session-brief", "brief"))
LIVE = "correct-horse-battery-staple"
REDACTOR = Redactor([LIVE])


def document() -> dict[str, Any]:
    return json.loads(serialise(examples.brief(), REDACTOR))


def string_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, str):
        return [path]
    if not isinstance(value, (dict, list)):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for key, item in items for found in string_paths(item, (*path, key))]


def put(value: Any, path: tuple[Any, ...], text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


PATHS = string_paths(document())
SECRETS = st.one_of(
    st.just(LIVE),
    st.text("0123456789abcdefABCDEF", min_size=36, max_size=60).map(lambda tail: f"ghs_{tail}"),
    st.text("0123456789abcdefABCDEF", min_size=40, max_size=82).map(lambda t: f"github_pat_{t}"),
    st.text("abcdefgh0123456789", min_size=4, max_size=20).map(
        lambda word: f"https://bot:{word}pw@github.com/o/r.git"
    ),
)


@settings(deadline=None, max_examples=60)
@given(
    path=st.sampled_from(PATHS),
    secret=SECRETS,
    around=st.tuples(st.sampled_from(["", "see ", "(", '"']), st.sampled_from(["", " .", '"'])),
)
def test_no_string_of_a_brief_can_carry_a_secret(
    path: tuple[Any, ...], secret: str, around: tuple[str, str]
) -> None:
    data = document()
    put(data, path, around[0] + secret + around[1])
    with pytest.raises((SecretFound, ContractViolation)) as caught:
        encode(data, REDACTOR)
    assert secret not in str(caught.value)


@settings(deadline=None, max_examples=60)
@given(text=st.text(max_size=200), secret=SECRETS)
def test_redacted_text_always_passes_the_guard(text: str, secret: str) -> None:
    body = REDACTOR.text(f"{text} {secret} {text}")
    brief = SessionBrief(
        **{
            **dict(examples.brief()),
            "trigger": "issue_assigned",
            "task": FixIssue(issue_number=1, issue_title="t", issue_body=body),
        }
    )
    assert secret.encode() not in serialise(brief, REDACTOR)


@pytest.mark.parametrize("key", ["auth", "token", "access_token", "Authorization", "password"])
def test_a_field_named_like_a_credential_is_refused(key: str) -> None:
    data = document()
    data["repo"][key] = "harmless"
    with pytest.raises(ContractViolation, match=rf"repo\.{key}"):
        encode(data, REDACTOR)


@pytest.mark.parametrize(
    "url",
    [
        "https://user@github.com/o/r.git",
        "https://x-access-token:abc@github.com/o/r.git",
        "http://github.com/o/r.git",
        "git@github.com:o/r.git",
        "file:///etc",
        "ext::sh -c x",
        "https://",
        "https://git hub.com/o/r",
    ],
)
def test_only_plain_https_clone_urls_are_accepted(url: str) -> None:
    with pytest.raises(ValidationError):
        BriefRepo(owner="o", name="r", clone_url=url, default_branch="main")
    data = document()
    data["repo"]["clone_url"] = url
    assert not SCHEMA.is_valid(data) or url == "https://"


def test_a_local_http_clone_url_is_accepted() -> None:
    url = "http://127.0.0.1:8080/o/r.git"
    assert BriefRepo(owner="o", name="r", clone_url=url, default_branch="m").clone_url == url


@pytest.mark.parametrize("root", ["relative", "", "/a/../etc", "~/x"])
def test_the_workspace_is_an_absolute_path(root: str) -> None:
    with pytest.raises(ValidationError):
        BriefWorkspace(root=root)


def test_the_written_form_keeps_nulls_and_leaves_an_absent_policy_out() -> None:
    brief = SessionBrief(
        trigger="pr_review_comment",
        repo=examples.brief().repo,
        task=AddressReviewComment(pr_number=3, comment_body="please"),
        familiar=examples.brief().familiar,
        workspace=examples.brief().workspace,
    )
    data = json.loads(serialise(brief, Redactor()))
    assert data["review_context"] is None
    assert data["audit_instruction"] is None
    assert data["task"]["diff_hunk"] is None
    assert "memory_policy" not in data
    SCHEMA.validate(data)
    assert parse(serialise(brief, Redactor())) == brief


def test_the_kind_of_task_must_go_with_its_trigger() -> None:
    data = document()
    data["trigger"] = "issue_assigned"
    with pytest.raises(ContractViolation, match="goes with trigger issue_mention"):
        parse(json.dumps(data).encode())
    assert not SCHEMA.is_valid(data)


@pytest.mark.parametrize("version", ["3", "2.0", 2, None])
def test_another_version_is_refused(version: object) -> None:
    data = {**document(), "contract_version": version}
    with pytest.raises(ContractViolation, match="contract_version"):
        parse(json.dumps(data).encode())
    assert not SCHEMA.is_valid(data)


def test_an_unknown_field_is_refused_at_every_level() -> None:
    for path in ((), ("repo",), ("task",), ("familiar",), ("memory_policy", "retention")):
        data = document()
        holder = data
        for key in path:
            holder = holder[key]
        holder["extra"] = 1
        with pytest.raises(ContractViolation, match="extra"):
            parse(json.dumps(data).encode())
        assert not SCHEMA.is_valid(data)


def test_half_a_surrogate_pair_is_refused_and_not_a_crash() -> None:
    data = document()
    data["audit_instruction"] = "\ud800"
    with pytest.raises(ContractViolation):
        encode(data, REDACTOR)


def test_the_disabled_policy_names_no_scopes_and_grants_nothing() -> None:
    brief = examples.brief().model_copy(
        update={"memory_policy": MemoryPolicy.disabled(TrustScope.FORK_PR)}
    )
    data = json.loads(serialise(brief, Redactor()))
    assert data["memory_policy"] == {
        "enabled": False,
        "trust_scope": "fork_pr",
        "read_scopes": [],
        "write_scopes": [],
        "approval_required": True,
    }
    SCHEMA.validate(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tenant_scope": None}, "tenant_scope is required"),
        ({"repo_scope": None}, "repo_scope is required"),
        ({"retention": None}, "retention is required"),
        ({"trust_scope": "fork_pr"}, "write_scopes must be empty for trust_scope fork_pr"),
        ({"trust_scope": "external"}, "write_scopes must be empty for trust_scope external"),
        ({"read_scopes": ["tenant_shared"]}, "must not be broader"),
        ({"enabled": False}, "must be empty when enabled is false"),
        ({"branch_scope": {"base_ref": "a", "head_ref": "b", "same_repo": False}}, "another repo"),
    ],
)
def test_a_policy_that_grants_too_much_is_refused_by_model_and_schema(
    change: dict[str, Any], message: str
) -> None:
    data = document()
    data["memory_policy"] |= change
    data["memory_policy"] = {
        key: value for key, value in data["memory_policy"].items() if value is not None
    }
    with pytest.raises(ContractViolation, match=message):
        parse(json.dumps(data).encode())
    assert not SCHEMA.is_valid(data)
