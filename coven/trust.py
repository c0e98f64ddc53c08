"""What a person may do and how far they are trusted, from GitHub's own answers. Pure.

The permission endpoint answers ``read`` to everybody on a public repository, and a custom role
has any name; so ``permission`` decides about writing, and ``read`` proves nothing in public.
Source: GitHub REST, "Get repository permissions for a user"; memory contract, "Trust model".
"""

from __future__ import annotations

from coven.github.models import Permission
from coven.values import TrustScope

READING = frozenset({"triage", "read"})
LOW_TO_HIGH = (
    TrustScope.FORK_PR,
    TrustScope.EXTERNAL,
    TrustScope.COLLABORATOR,
    TrustScope.SCHEDULED,
    TrustScope.MAINTAINER,
)
"""By what may be written: the system itself may more than a collaborator."""


def lower(left: TrustScope, right: TrustScope) -> TrustScope:
    """The less trusted of two scopes."""
    return min(left, right, key=LOW_TO_HIGH.index)


def may_write(permission: Permission | None) -> bool:
    """Whether this is confirmed write access (``maintain`` counts, custom roles by their base)."""
    return permission is not None and permission.can_write


def bot_permission(user_id: int) -> Permission:
    """What an operator's list of bots (``commands.bots``) stands for: write access, no more."""
    return Permission("write", "write", user_id)


def scope_of(permission: Permission | None, *, collaborator: bool, private: bool) -> TrustScope:
    """The actor's scope, before forks and schedules are considered.

    ``collaborator``: the collaborators endpoint says so. Unknown means ``external``.
    """
    if permission is None:
        return TrustScope.EXTERNAL
    if may_write(permission):
        return TrustScope.MAINTAINER
    triage = permission.role_name == "triage"
    if permission.permission in READING and (private or collaborator or triage):
        return TrustScope.COLLABORATOR
    return TrustScope.EXTERNAL
