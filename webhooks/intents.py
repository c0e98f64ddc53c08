"""What routing decides: work that is wanted, or the true reason why there is none. Plain data.

Everything here is decided from one payload and the configuration, without looking anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypeVar

from coven.settings.models import External, Familiar, ReviewPolicy, Scope, Settings
from coven.tenancy.facts import Fact
from coven.values import InstallationId, Lane, RepoId, RepoName, TaskId
from webhooks.payloads import BadPayload, Issue, Payload, PullRequest, User, clean

T = TypeVar("T")

TITLE_CHARS = 500
BODY_CHARS = 65_536
ARGS_CHARS = 16_384
HUNK_CHARS = 16_384
PATH_CHARS = 1_024
NAME_CHARS = 120
REF_CHARS = 260


class Needs(Enum):
    """What must be known about the actor."""

    WRITE = "write access: starts a session on somebody's word"
    ANSWER = "collaborator: gets an answer"
    DECISION = "write access, which the worker looks at: who lacks it is told by a reaction alone"
    STANDING = "decides how the author's own pull request is treated"


@dataclass(frozen=True, slots=True)
class Person:
    """A GitHub account; equal when the numeric id is."""

    id: int
    login: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the delivery happened."""

    installation_id: InstallationId
    repo_id: RepoId
    repo: RepoName
    repo_private: bool | None
    default_branch: str | None
    account_id: int | None
    account_login: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(Place):
    """Work that is wanted, before anybody's rights are known."""

    familiar: Familiar
    lane: Lane
    verb: str
    reason: str
    needs: Needs
    semantic_key: str
    thread: int
    is_pull: bool
    title: str
    actor: Person | None
    author: Person | None
    source_at: datetime | None
    payload: dict[str, Any]
    external: External = "ask"
    priority: int = 0
    comment_id: int | None = None
    comment_kind: str | None = None
    head_sha: str | None = None
    head_ref: str | None = None
    head_repo_id: int | None = None
    base_sha: str | None = None
    base_ref: str | None = None
    ignored_as: str | None = None
    """The delivery is recorded as ignored for this reason; the task only says so on the thread."""
    parent_task_id: TaskId | None = None
    """The task that this one repeats or goes on from."""
    resumes: TaskId | None = None
    """The waiting task that this comment answers."""
    edited: bool = False
    """The comment was edited into this command."""
    voided_by: tuple[str, ...] = ()
    """Marks that undo this wish when they are about a later moment; see :func:`mark`."""
    answer: Answer | None = field(default=None, compare=False)
    """No verb was understood: a task that waits for words takes them instead."""

    @property
    def automatic(self) -> bool:
        """Whether nobody asked: the event itself is the trigger."""
        return self.needs is Needs.STANDING

    @property
    def from_fork(self) -> bool:
        """The head is in another repository, or its repository is gone."""
        return self.is_pull and self.head_sha is not None and self.head_repo_id != self.repo_id


class Of(Enum):
    """Which live work of a thread an event makes pointless."""

    AUTOMATIC = "reviews that nobody asked for"
    EVERYTHING = "all sessions"
    COMMENTS = "what certain comments asked for"
    TRIGGER = "what a label or an assignment asked for"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Live work that the event makes pointless."""

    installation_id: InstallationId
    repo_id: RepoId
    thread: int
    why: str
    of: Of
    at: datetime | None = None
    """When it happened: what was wanted later stays wanted."""
    comments: frozenset[int] = frozenset()
    trigger: str | None = None
    """``labeled`` or ``assigned``."""
    familiar_id: str | None = None


@dataclass(frozen=True, slots=True)
class BranchGone:
    """A branch was deleted: nothing may be pushed to it or read from it any more."""

    installation_id: InstallationId
    repo_id: RepoId
    branch: str
    why: str


@dataclass(frozen=True, slots=True)
class ReposGone:
    """The App may not work in these repositories any more."""

    installation_id: InstallationId
    repo_ids: frozenset[int]
    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The App may not work for this installation any more."""

    installation_id: InstallationId
    why: str
    for_good: bool
    """False: suspended, which ends, and then what was stopped is shown."""


@dataclass(frozen=True, slots=True)
class Back:
    """What could not be shown before may be shown now: surfaces that failed with ``error``."""

    installation_id: InstallationId
    error: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A push that nobody reviews by itself; who asked for a review is told all the same."""

    installation_id: InstallationId
    repo_id: RepoId
    thread: int
    head_sha: str
    at: datetime | None


Effect = Cancel | BranchGone | ReposGone | Gone | Back | Moved
"""What an event changes besides work of its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Words that give no command. They matter when a task on this thread waits for an answer."""

    scene: Scene
    thread: int
    text: str
    comment_id: int
    comment_kind: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Ignored:
    """No work is wanted, and why."""

    reason: str
    effects: tuple[Effect, ...] = ()
    answer: Answer | None = field(default=None, compare=False)
    """Unless a task waits for these words: only the ledger knows."""


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The event tells something about a tenant. ``installation_id``: None for a purchase."""

    reason: str
    installation_id: InstallationId | None
    fact: Fact
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Click:
    """A button on one of our Check Runs; which work it belongs to stands in the ledger."""

    scene: Scene
    wanted: Literal["rerun", "fix", "deepen", "mem_approve", "gov_approve", "gov_deny"]
    head_sha: str
    external_id: str | None
    """None: every Check Run of ours on this head."""
    branch: str | None = None


Routed = tuple[Intent, ...] | Ignored | Tenancy | Click


@dataclass(frozen=True, slots=True)
class Scene:
    """What all routes share: the payload, where it happened, and what serves that place."""

    settings: Settings
    event: str
    action: str
    payload: Payload
    place: Place
    scope: Scope
    policy: ReviewPolicy
    bot_id: int | None = None
    """The numeric id of our App's bot, once it is known."""

    @property
    def actor(self) -> Person | None:
        """Who did it: always the sender, never the author of what it was done to."""
        return person(self.payload.sender)

    @property
    def reviewer(self) -> Familiar | None:
        """The familiar that reviews here, and that the alias names."""
        if self.policy.familiar is None:
            return self.scope.familiars[0] if self.scope.familiars else None
        return next((f for f in self.scope.familiars if f.id == self.policy.familiar), None)

    def is_ours(self, user: User | None) -> bool:
        """Whether this account is our App's bot: by its id, or its login while that is unknown.

        A login never lets anything through: bots are refused whoever they are.
        """
        if user is None:
            return False
        if self.bot_id is not None:
            return user.id == self.bot_id
        login = (user.login or "").casefold()
        bots = (familiar.bot_username.casefold() for familiar in self.settings.familiars)
        return user.is_bot and login in bots

    def sent_by_us(self) -> bool:
        """Whether the text of this event was written through our App, or by its bot."""
        text = self.payload.comment or self.payload.issue
        via = text.performed_via_github_app if text else None
        app_id = self.settings.github.app_id
        through = via is not None and app_id != 0 and via.id == app_id
        return through or self.is_ours(self.payload.sender)

    def unheard(self) -> Ignored | None:
        """Why nothing that this sender does is a wish of a person, or None. No loop starts here."""
        sender = self.payload.sender
        if sender is None:
            return Ignored("no_sender")
        allowed = sender.id in self.settings.commands.bots and not self.is_ours(sender)
        return Ignored("sender_is_bot") if sender.is_bot and not allowed else None


def intent_of(
    scene: Scene, familiar: Familiar, target: PullRequest | Issue, **facts: Any
) -> Intent:
    """An intent about an issue or a pull request, with its head when the payload has it."""
    is_pull = isinstance(target, PullRequest) or target.pull_request is not None
    common: dict[str, Any] = {
        "familiar": familiar,
        "thread": target.number,
        "is_pull": is_pull,
        "title": clean(target.title or "", TITLE_CHARS),
        "author": person(target.user),
        "source_at": target.updated_at or target.created_at,
        "external": scene.policy.external,
    }
    if isinstance(target, PullRequest):
        base = target.base
        common |= {
            "head_sha": target.head.sha,
            "head_ref": ref_name(target.head.ref, "pull_request.head.ref"),
            "head_repo_id": target.head.repo.id if target.head.repo else None,
            "base_sha": base.sha if base else None,
            "base_ref": ref_name(base.ref, "pull_request.base.ref") if base else None,
        }
    place = {name: getattr(scene.place, name) for name in Place.__dataclass_fields__}
    return Intent(**place, **common | facts)


def mark(what: str, thread: int, at: datetime | None, detail: str = "") -> str:
    """The reason of an event that undoes wishes, with the moment that it is about.

    Events arrive out of order; a wish of an earlier moment that comes later finds this mark in the
    delivery ledger. :func:`mark_prefix` says what it begins with.
    """
    prefix = mark_prefix(what, thread, detail)
    return f"{prefix}{int(at.timestamp())}" if at else prefix.rstrip(":")


def mark_prefix(what: str, thread: int, detail: str = "") -> str:
    """How such a reason begins; what follows is a number of seconds since 1970."""
    named = f"{detail.casefold()[:100]}:" if detail else ""
    return f"{what}:{thread}:{named}"


def person(user: User | None) -> Person | None:
    """The account, or None for a deleted one."""
    if user is None:
        return None
    return Person(user.id, clean(user.login, NAME_CHARS) if user.login else None)


def texts(**fields: tuple[str | None, int]) -> dict[str, Any]:
    """Bounded texts for ``tasks.payload``; absent ones are left out."""
    return {name: clean(text, limit) for name, (text, limit) in fields.items() if text}


def needed(value: T | None, name: str) -> T:
    """The value. Raises ``BadPayload`` when the payload lacks it."""
    if value is None:
        raise BadPayload(f"missing_field:{name}")
    return value


def ref_name(name: str | None, field_name: str) -> str | None:
    """The name of a branch as the payload has it. Raises ``BadPayload`` for what is none."""
    if name is not None and (len(name) > REF_CHARS or clean(name, REF_CHARS) != name):
        raise BadPayload(f"bad_field:{field_name}")
    return name
