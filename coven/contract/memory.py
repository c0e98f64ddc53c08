"""The memory blocks of brief and result (memory contract: ``memory_policy``, ``memory_used``)."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonValue

from coven.contract.base import Closed
from coven.values import TrustScope, Visibility

Namespace = Literal["repo", "tenant_shared", "familiar_global"]
"""A memory namespace; never a path."""

Trust = Literal["maintainer", "collaborator", "external", "fork_pr", "scheduled"]

NEVER_WRITE: tuple[Trust, ...] = ("external", "fork_pr")
"""Whose content never reaches durable memory, whatever else the policy says."""

SUMMARY_CHARS = 65_536
"""Longest summary that a report may carry."""


class TenantScope(Closed):
    """The installation and the account behind it."""

    installation_id: int = Field(ge=1)
    account_id: int = Field(ge=1)
    account_login: str = Field(min_length=1)


class RepoScope(Closed):
    """The repository the policy is about."""

    repo_id: int = Field(ge=1)
    owner: str = Field(min_length=1)
    name: str = Field(min_length=1)
    visibility: Visibility
    default_branch: str = Field(min_length=1)


class BranchScope(Closed):
    """The refs in play, and whether the head is in the same repository."""

    base_ref: str = Field(min_length=1)
    head_ref: str = Field(min_length=1)
    same_repo: bool


class Retention(Closed):
    """How long memory lives and how it leaves. Ages in days; None keeps it without limit."""

    max_age_days: int | None = Field(default=None, ge=1)
    delete_on_uninstall: bool = True
    redact_secrets: Literal[True] = True


_POLICY_RULES: list[JsonValue] = [
    {
        "if": {"properties": {"enabled": {"const": True}}, "required": ["enabled"]},
        "then": {
            "required": ["tenant_scope", "repo_scope", "retention"],
            "properties": {
                "tenant_scope": {"not": {"type": "null"}},
                "repo_scope": {"not": {"type": "null"}},
                "retention": {"not": {"type": "null"}},
            },
        },
        "else": {"properties": {"read_scopes": {"maxItems": 0}, "write_scopes": {"maxItems": 0}}},
    },
    {
        "if": {"properties": {"trust_scope": {"enum": list(NEVER_WRITE)}}},
        "then": {"properties": {"write_scopes": {"maxItems": 0}}},
    },
    {
        "if": {
            "properties": {
                "branch_scope": {
                    "type": "object",
                    "properties": {"same_repo": {"const": False}},
                    "required": ["same_repo"],
                }
            },
            "required": ["branch_scope"],
        },
        "then": {"properties": {"write_scopes": {"maxItems": 0}}},
    },
]


_NO_BROADER_WRITE: list[JsonValue] = [
    {
        "if": {"properties": {"write_scopes": {"contains": {"const": scope}}}},
        "then": {"properties": {"read_scopes": {"contains": {"const": scope}}}},
    }
    for scope in get_args(Namespace)
]


class MemoryPolicy(Closed):
    """What memory a run may read and propose. Absent or ``enabled: false`` means none at all."""

    model_config = ConfigDict(json_schema_extra={"allOf": _POLICY_RULES + _NO_BROADER_WRITE})

    enabled: bool
    tenant_scope: TenantScope | None = None
    repo_scope: RepoScope | None = None
    branch_scope: BranchScope | None = None
    trust_scope: Trust
    read_scopes: tuple[Namespace, ...]
    write_scopes: tuple[Namespace, ...]
    approval_required: bool
    retention: Retention | None = None
    denied: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _deny_by_default(self) -> MemoryPolicy:
        if not self.enabled:
            if self.read_scopes or self.write_scopes:
                raise ValueError("read_scopes and write_scopes must be empty when enabled is false")
            return self
        for name in ("tenant_scope", "repo_scope", "retention"):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is required when enabled is true")
        if self.trust_scope in NEVER_WRITE and self.write_scopes:
            raise ValueError(f"write_scopes must be empty for trust_scope {self.trust_scope}")
        if self.branch_scope and not self.branch_scope.same_repo and self.write_scopes:
            raise ValueError("write_scopes must be empty when the head is in another repository")
        if not set(self.write_scopes) <= set(self.read_scopes):
            raise ValueError("write_scopes must not be broader than read_scopes")
        return self

    @classmethod
    def disabled(cls, trust: TrustScope) -> MemoryPolicy:
        """The fail-closed form: no reads, no writes; scopes are left out."""
        return cls(
            enabled=False,
            trust_scope=trust.value,
            read_scopes=(),
            write_scopes=(),
            approval_required=True,
        )


class MemoryRead(Closed):
    """An entry that the run loaded; cited on the surfaces."""

    id: str = Field(min_length=1, max_length=512)
    scope: Namespace


class MemoryProposal(Closed):
    """A candidate write. ``approval`` is what the runtime says; the policy decides."""

    key: str = Field(min_length=1, max_length=512)
    summary: str = Field(max_length=SUMMARY_CHARS)
    scope: Namespace
    approval: Literal["pending", "applied", "auto"]


class MemoryRejection(Closed):
    """A candidate that the runtime itself declined."""

    summary: str = Field(max_length=SUMMARY_CHARS)
    scope: Namespace
    reason: Literal["pii", "secret", "out_of_scope", "low_confidence"]


class MemoryUsed(Closed):
    """Memory activity of a run, as reported: claims to be validated, never trusted."""

    enabled: bool
    read: tuple[MemoryRead, ...] = ()
    proposed: tuple[MemoryProposal, ...] = ()
    rejected: tuple[MemoryRejection, ...] = ()
