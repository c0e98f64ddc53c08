"""The grant of a run: the table of the memory contract, and what holds for every input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coven.memory.policy import Grant, MemoryFacts, grant_for
from coven.settings.models import Memory, MemoryOverride, Server, Settings
from coven.values import InstallationId, RepoId, RepoName, TrustScope

T = TrustScope
ON = Settings(memory=Memory(enabled=True, self_hosted=True))
FACTS = MemoryFacts(
    installation_id=InstallationId(42),
    account_id=1001,
    account_login="acme",
    repo_id=RepoId(555),
    repo=RepoName("acme", "billing"),
    visibility="private",
    default_branch="main",
    base_ref="main",
    head_ref="fix/tax",
    same_repo=True,
    trust=T.MAINTAINER,
    content_trust=T.MAINTAINER,
)


def grant(on: Settings = ON, denied: tuple[str, ...] | None = (), **changes: Any) -> Grant:
    return grant_for(on, replace(FACTS, **changes), denied)


@pytest.mark.parametrize(
    ("trust", "content", "same_repo", "reads", "writes"),
    [
        (T.MAINTAINER, T.MAINTAINER, True, ("repo", "tenant_shared"), ("repo",)),
        (T.MAINTAINER, T.COLLABORATOR, True, ("repo", "tenant_shared"), ()),
        (T.MAINTAINER, T.EXTERNAL, True, ("repo", "tenant_shared"), ()),
        (T.MAINTAINER, T.MAINTAINER, False, ("repo",), ()),
        (T.COLLABORATOR, T.MAINTAINER, True, ("repo",), ()),
        (T.COLLABORATOR, T.COLLABORATOR, True, ("repo",), ()),
        (T.EXTERNAL, T.MAINTAINER, True, None, ()),
        (T.EXTERNAL, T.EXTERNAL, False, ("repo",), ()),
        (T.FORK_PR, T.MAINTAINER, True, ("repo",), ()),
        (T.SCHEDULED, T.SCHEDULED, True, ("repo",), ("repo",)),
        (T.SCHEDULED, T.EXTERNAL, True, ("repo",), ()),
    ],
)
def test_the_table_of_grants(
    trust: T, content: T, same_repo: bool, reads: tuple[str, ...] | None, writes: tuple[str, ...]
) -> None:
    policy = grant(trust=trust, content_trust=content, same_repo=same_repo).policy
    assert policy.enabled is (reads is not None)
    assert policy.read_scopes == (reads or ())
    assert policy.write_scopes == writes
    assert policy.trust_scope == (trust if same_repo else T.FORK_PR)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"installation_id": 0}, "installation"),
        ({"account_id": None}, "account id"),
        ({"account_login": None}, "account login"),
        ({"account_login": ""}, "account login"),
        ({"repo_id": 0}, "repository id"),
        ({"visibility": None}, "visibility"),
        ({"default_branch": None}, "default branch"),
        ({"base_ref": None}, "base ref"),
        ({"head_ref": ""}, "head ref"),
    ],
)
def test_whatever_is_missing_switches_memory_off(changes: dict[str, Any], missing: str) -> None:
    off = grant(**changes)
    assert not off.policy.enabled
    assert off.why == f"not known: {missing}"
    assert off.policy.model_dump(exclude_none=True) == {
        "enabled": False,
        "trust_scope": "maintainer",
        "read_scopes": (),
        "write_scopes": (),
        "approval_required": True,
    }


@pytest.mark.parametrize("denied", [None, ("everything",), ("repo/o/r/n/k", "../x")])
def test_revocations_that_cannot_be_read_switch_memory_off(denied: tuple[str, ...] | None) -> None:
    assert not grant(denied=denied).policy.enabled


def test_revocations_are_sent() -> None:
    assert grant(denied=("repo/acme/billing/c",)).policy.denied == ("repo/acme/billing/c",)


@pytest.mark.parametrize(
    ("memory", "deployment", "enabled"),
    [
        (Memory(), "hosted", False),
        (Memory(enabled=True), "hosted", True),
        (Memory(enabled=True), "self_hosted", False),
        (Memory(enabled=True, self_hosted=True), "self_hosted", True),
        (Memory(repos={"ACME/Billing": MemoryOverride(enabled=True)}), "hosted", True),
        (Memory(repos={"acme/bill": MemoryOverride(enabled=True)}), "hosted", False),
        (Memory(enabled=True, repos={"acme/billing": MemoryOverride(enabled=False)}), "hosted", 0),
        (
            Memory(
                repos={
                    "acme/billing": MemoryOverride(enabled=True),
                    "Acme/Billing": MemoryOverride(enabled=False),
                }
            ),
            "hosted",
            False,
        ),
    ],
)
def test_who_switches_memory_on(memory: Memory, deployment: Any, enabled: bool) -> None:
    on = Settings(server=Server(deployment=deployment), memory=memory)
    assert grant(on).policy.enabled is bool(enabled)


@pytest.mark.parametrize(
    ("trust", "content", "required"),
    [
        (T.MAINTAINER, T.MAINTAINER, False),
        (T.SCHEDULED, T.SCHEDULED, False),
        (T.MAINTAINER, T.COLLABORATOR, True),
        (T.COLLABORATOR, T.COLLABORATOR, True),
        (T.MAINTAINER, T.EXTERNAL, True),
    ],
)
def test_approval_is_loosened_for_the_trusted_only(trust: T, content: T, required: bool) -> None:
    loose = Settings(memory=Memory(enabled=True, self_hosted=True, approval_required=False))
    assert grant(loose, trust=trust, content_trust=content).policy.approval_required is required
    override = {"acme/billing": MemoryOverride(approval_required=True)}
    strict = Settings(memory=loose.memory.model_copy(update={"repos": override}))
    assert grant(strict, trust=trust, content_trust=content).policy.approval_required
    twins = {"Acme/Billing": MemoryOverride(approval_required=False), **override}
    unclear = Settings(memory=loose.memory.model_copy(update={"repos": twins}))
    assert grant(unclear, trust=trust, content_trust=content).policy.approval_required


@settings(deadline=None, max_examples=200)
@given(
    enabled=st.booleans(),
    self_hosted=st.booleans(),
    approval=st.booleans(),
    deployment=st.sampled_from(["hosted", "self_hosted"]),
    denied=st.sampled_from([None, (), ("repo/acme/billing",), ("x",)]),
    facts=st.builds(
        replace,
        st.just(FACTS),
        account_id=st.sampled_from([None, 1001]),
        visibility=st.sampled_from([None, "private", "public", "internal"]),
        head_ref=st.sampled_from([None, "x"]),
        same_repo=st.booleans(),
        trust=st.sampled_from(list(T)),
        content_trust=st.sampled_from(list(T)),
    ),
)
def test_what_holds_for_every_grant(
    enabled: bool,
    self_hosted: bool,
    approval: bool,
    deployment: Any,
    denied: tuple[str, ...] | None,
    facts: MemoryFacts,
) -> None:
    on = Settings(
        server=Server(deployment=deployment),
        memory=Memory(enabled=enabled, self_hosted=self_hosted, approval_required=approval),
    )
    policy = grant_for(on, facts, denied).policy
    both = {facts.trust, facts.content_trust}
    assert set(policy.write_scopes) <= set(policy.read_scopes)
    assert "familiar_global" not in policy.read_scopes
    assert "tenant_shared" not in policy.write_scopes
    if not facts.same_repo or both & {T.EXTERNAL, T.FORK_PR, T.COLLABORATOR}:
        assert policy.write_scopes == ()
        assert policy.approval_required
    if not policy.enabled:
        assert policy.read_scopes == ()
        assert policy.approval_required
    else:
        assert enabled
        assert denied is not None
        assert None not in (facts.account_id, facts.visibility, facts.head_ref)
        assert policy.retention is not None
        assert policy.retention.redact_secrets is True
