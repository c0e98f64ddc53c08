"""What memory a run may read and propose. Pure: settings and facts in, a policy out.

Source: memory contract, "The memory_policy brief block" and "Trust model". Whatever is missing or
can't be read switches memory off for the run; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coven.contract.memory import (
    BranchScope,
    MemoryPolicy,
    Namespace,
    RepoScope,
    Retention,
    TenantScope,
)
from coven.memory.keys import KeyPrefix
from coven.settings.models import Settings
from coven.trust import lower
from coven.values import InstallationId, RepoId, RepoName, TrustScope, Visibility

_READS: dict[TrustScope, tuple[Namespace, ...]] = {
    TrustScope.MAINTAINER: ("repo", "tenant_shared"),
    TrustScope.COLLABORATOR: ("repo",),
    TrustScope.EXTERNAL: (),
    TrustScope.FORK_PR: ("repo",),
    TrustScope.SCHEDULED: ("repo",),
}
_WRITES: dict[TrustScope, tuple[Namespace, ...]] = {
    TrustScope.MAINTAINER: ("repo",),
    TrustScope.SCHEDULED: ("repo",),
}


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What is known about a run. None means that it is not known."""

    installation_id: InstallationId
    account_id: int | None
    account_login: str | None
    repo_id: RepoId
    repo: RepoName
    visibility: Visibility | None
    default_branch: str | None
    base_ref: str | None
    head_ref: str | None
    same_repo: bool
    trust: TrustScope
    """Of whoever asked for the work."""
    content_trust: TrustScope
    """Of whoever wrote the text and the code that the work is about."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A policy as it is sent, and the trust that decides what may be written under it."""

    policy: MemoryPolicy
    writer: TrustScope
    why: str | None = None
    """Why memory is off; None when it is on."""


def grant_for(settings: Settings, facts: MemoryFacts, denied: Sequence[str] | None) -> Grant:
    """The grant of one run.

    ``denied`` are the keys and prefixes that were revoked; None when they could not be read.
    """
    writer = writing_trust(facts)
    why = _why_off(settings, facts, denied)
    if why is not None or denied is None:
        return Grant(MemoryPolicy.disabled(facts.trust), writer, why)
    trust = facts.trust if facts.same_repo else TrustScope.FORK_PR
    reads = _READS[trust]
    writes = tuple(scope for scope in _WRITES.get(writer, ()) if scope in reads)
    if not reads:
        why = f"trust scope {trust} reads no memory"
        return Grant(MemoryPolicy.disabled(trust), writer, why)
    policy = MemoryPolicy(
        enabled=True,
        tenant_scope=TenantScope(
            installation_id=facts.installation_id,
            account_id=facts.account_id or 0,
            account_login=facts.account_login or "",
        ),
        repo_scope=RepoScope(
            repo_id=facts.repo_id,
            owner=facts.repo.owner,
            name=facts.repo.name,
            visibility=facts.visibility or "private",
            default_branch=facts.default_branch or "",
        ),
        branch_scope=BranchScope(
            base_ref=facts.base_ref or "",
            head_ref=facts.head_ref or "",
            same_repo=facts.same_repo,
        ),
        trust_scope=trust.value,
        read_scopes=reads,
        write_scopes=writes,
        approval_required=writer not in _WRITES or _approval_required(settings, facts.repo),
        retention=Retention(
            max_age_days=settings.memory.retention_days,
            delete_on_uninstall=True,
            redact_secrets=True,
        ),
        denied=tuple(denied),
    )
    return Grant(policy, writer)


def writing_trust(facts: MemoryFacts) -> TrustScope:
    """The lower of actor and content; code of another repository is the lowest."""
    if not facts.same_repo:
        return TrustScope.FORK_PR
    return lower(facts.trust, facts.content_trust)


def memory_enabled(settings: Settings, repo: RepoName) -> bool:
    """Whether the operator switched memory on for this repository, and it may work here."""
    if settings.server.deployment != "hosted" and not settings.memory.self_hosted:
        return False
    named = [o.enabled for key, o in settings.memory.repos.items() if key.casefold() == repo.key]
    said = [enabled for enabled in named if enabled is not None]
    # The same repository under two spellings: the stricter one counts.
    return all(said) if said else settings.memory.enabled


def _approval_required(settings: Settings, repo: RepoName) -> bool:
    memory = settings.memory
    named = [o.approval_required for key, o in memory.repos.items() if key.casefold() == repo.key]
    said = [required for required in named if required is not None]
    return any(said) if said else memory.approval_required


def _why_off(settings: Settings, facts: MemoryFacts, denied: Sequence[str] | None) -> str | None:
    if not memory_enabled(settings, facts.repo):
        return "memory is not enabled for this repository"
    missing = [
        name
        for name, there in (
            ("installation", facts.installation_id > 0),
            ("account id", bool(facts.account_id and facts.account_id > 0)),
            ("account login", bool(facts.account_login)),
            ("repository id", facts.repo_id > 0),
            ("visibility", facts.visibility is not None),
            ("default branch", bool(facts.default_branch)),
            ("base ref", bool(facts.base_ref)),
            ("head ref", bool(facts.head_ref)),
        )
        if not there
    ]
    if missing:
        return f"not known: {', '.join(missing)}"
    if denied is None:
        return "what was revoked could not be read"
    for entry in denied:
        try:
            KeyPrefix.parse(entry)
        except ValueError:
            return "what was revoked could not be understood"
    return None
