"""Who asks, and how far that is trusted: actor + rights + event -> scope. Pure.

The look-up itself is done elsewhere and handed in. What could not be confirmed is ``external``;
only the worker, which looks again, may raise a scope. ``author_association`` and team membership
are never used: both are wrong for private members (facts 1.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from coven.github.models import Permission
from coven.trust import lower, scope_of
from coven.values import TaskState, TrustScope
from webhooks.intents import Ignored, Intent, Needs

Source = Literal[
    "permission_api",
    "not_a_user",
    "identity_changed",
    "no_account",
    "unavailable",
    "listed_bot",
]


@dataclass(frozen=True, slots=True)
class Rights:
    """What GitHub said about one person in one repository, and when."""

    source: Source
    at: datetime
    permission: Permission | None = None
    collaborator: bool = False

    @property
    def confirmed(self) -> bool:
        """Whether GitHub answered; a confirmed *no* is an answer too."""
        return self.source != "unavailable"

    def scope(self, *, private: bool) -> TrustScope:
        """The person's scope before forks are considered."""
        return scope_of(self.permission, collaborator=self.collaborator, private=private)

    def evidence(self) -> dict[str, Any]:
        """What goes to the ``trust_evidence`` column."""
        return {
            "source": self.source,
            "permission": self.permission.permission if self.permission else None,
            "role": self.permission.role_name[:100] if self.permission else None,
            "collaborator": self.collaborator,
            "at": self.at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Admitted:
    """Work to be written down; ``show``: whether its first surface may appear already."""

    intent: Intent
    trust_scope: TrustScope
    content_trust: TrustScope
    evidence: dict[str, Any]
    state: TaskState
    show: bool


def wants_rights(intent: Intent) -> bool:
    """Whether the actor's rights matter: nothing lifts a fork's automatic review above its rank."""
    return not (intent.needs is Needs.STANDING and intent.from_fork)


def admit(intent: Intent, rights: Rights, author: Rights | None = None) -> Admitted | Ignored:
    """What becomes of an intent, given the actor's rights and (for its content) the author's."""
    private = intent.repo_private is True
    scope = rights.scope(private=private)
    if intent.needs is Needs.STANDING:
        return _automatic(intent, rights, scope)
    writes = scope is TrustScope.MAINTAINER
    if rights.confirmed and intent.needs is Needs.WRITE and not writes:
        return Ignored("waiting_not_for_you" if intent.resumes else "actor_lacks_write")
    judged_later = intent.needs is Needs.DECISION
    if rights.confirmed and not judged_later and scope is TrustScope.EXTERNAL:
        return Ignored("actor_not_collaborator")
    if intent.from_fork:
        scope = content = TrustScope.FORK_PR
    elif intent.actor is not None and intent.author == intent.actor:
        content = scope
    else:
        theirs = author.scope(private=private) if author else TrustScope.EXTERNAL
        content = lower(scope, theirs)
    return Admitted(
        intent,
        scope,
        content,
        rights.evidence(),
        TaskState.QUEUED,
        show=rights.confirmed and (intent.needs is Needs.WRITE or (judged_later and writes)),
    )


def _automatic(intent: Intent, rights: Rights, scope: TrustScope) -> Admitted | Ignored:
    evidence = rights.evidence()
    if intent.from_fork:
        scope = TrustScope.FORK_PR
        evidence |= {"source": "fork"}
    elif not rights.confirmed:
        # Perhaps a maintainer, perhaps not: nothing is shown until the worker has looked.
        return Admitted(intent, scope, scope, evidence, TaskState.QUEUED, show=False)
    if scope is not TrustScope.MAINTAINER:
        if intent.external == "off":
            return Ignored("external_review_off")
        if intent.external == "ask":
            return Admitted(intent, scope, scope, evidence, TaskState.WAITING, show=True)
    return Admitted(intent, scope, scope, evidence, TaskState.QUEUED, show=True)
