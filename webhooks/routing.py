"""From a payload to the work that is wanted, or to the true reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypeVar

from coven.semantic_keys import asked_work, automatic_review
from coven.settings.models import External, Familiar, ReviewPolicy, Scope, Settings
from coven.values import InstallationId, Lane, RepoId, RepoName, TaskId
from webhooks.payloads import (
    BadPayload,
    Facts,
    Issue,
    Payload,
    PullRequest,
    Repository,
    User,
    clean,
    read,
    repo_name,
)

T = TypeVar("T")

TITLE_CHARS = 500
BODY_CHARS = 65_536
ARGS_CHARS = 16_384
HUNK_CHARS = 16_384
PATH_CHARS = 1_024
NAME_CHARS = 120
REF_CHARS = 260

AUTOMATIC = frozenset({"opened", "synchronize", "reopened", "ready_for_review"})
HANDLED: dict[str, frozenset[str]] = {
    "pull_request": AUTOMATIC | {"labeled", "closed", "converted_to_draft"},
    "issues": frozenset({"assigned", "labeled"}),
    "issue_comment": frozenset({"created", "deleted"}),
    "pull_request_review_comment": frozenset({"created", "deleted"}),
    "pull_request_review": frozenset({"submitted"}),
    "check_run": frozenset({"rerequested", "requested_action"}),
    "check_suite": frozenset({"rerequested"}),
    "installation": frozenset({"deleted", "suspend", "unsuspend"}),
}
"""Events and actions that can lead to something; the rest is recorded as ignored."""


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

    @property
    def automatic(self) -> bool:
        """Whether nobody asked: the event itself is the trigger."""
        return self.needs is Needs.STANDING

    @property
    def from_fork(self) -> bool:
        """The head is in another repository, or its repository is gone."""
        return self.is_pull and self.head_sha is not None and self.head_repo_id != self.repo_id


@dataclass(frozen=True, slots=True)
class Cancel:
    """Live work that the event makes pointless."""

    installation_id: InstallationId
    repo_id: RepoId
    thread: int
    why: str
    at: datetime | None = None
    """When it happened: what was wanted later stays wanted."""
    comment_id: int | None = None
    """Only the work of this comment; None: the automatic reviews of the pull request."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The App may not work for this installation any more."""

    installation_id: InstallationId
    why: str
    for_good: bool
    """False: suspended, which ends, and then what was stopped is shown."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A push that nobody reviews by itself; who asked for a review is told all the same."""

    installation_id: InstallationId
    repo_id: RepoId
    thread: int
    head_sha: str
    at: datetime | None


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
    cancel: Cancel | None = None
    gone: Gone | None = None
    back: InstallationId | None = None
    """The App may work for this installation again."""
    answer: Answer | None = field(default=None, compare=False)
    """Unless a task waits for these words: only the ledger knows."""
    moved: Moved | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Click:
    """A button on one of our Check Runs; which work it belongs to stands in the ledger."""

    scene: Scene
    wanted: Literal["rerun", "fix", "deepen", "mem_approve"]
    head_sha: str
    external_id: str | None
    """None: every Check Run of ours on this head."""
    branch: str | None = None


Routed = tuple[Intent, ...] | Ignored | Click


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

    def sent_by_us(self) -> bool:
        """By one of our familiars, or through this App."""
        comment = self.payload.comment
        via = comment.performed_via_github_app if comment else None
        app_id = self.settings.github.app_id
        return (via is not None and app_id != 0 and via.id == app_id) or self.is_ours(
            self.payload.sender
        )

    def is_ours(self, user: User | None) -> bool:
        """Whether this is the bot of a configured familiar."""
        login = (user.login or "").casefold() if user else ""
        return any(login == f.bot_username.casefold() for f in self.settings.familiars)


def route(
    event: str,
    body: dict[str, Any],
    facts: Facts,
    settings: Settings,
    people: Callable[[Scene], Routed],
) -> Routed:
    """What a delivery asks for. Raises ``BadPayload`` when a field that matters is unusable.

    ``people`` routes what people wrote (:mod:`webhooks.addressed`) or clicked
    (:mod:`webhooks.clicked`).
    """
    if event == "ping":
        return Ignored("ping")
    if event not in HANDLED:
        return Ignored("event_not_handled")
    if facts.action not in HANDLED[event]:
        return Ignored("action_not_handled")
    payload = read(body)
    if payload.installation is None:
        return Ignored("no_installation")
    if event == "installation":
        if facts.action == "unsuspend":
            back = InstallationId(payload.installation.id)
            return Ignored("installation_unsuspended", back=back)
        return _uninstalled(payload.installation.id, facts.action)
    if payload.repository is None:
        return Ignored("no_repository")
    place = _place(payload.installation.id, payload.repository)
    scope = settings.scope_for(place.installation_id, place.repo)
    if settings.installations and not scope.listed:
        return Ignored("installation_not_listed")
    if not scope.familiars:
        return Ignored("no_familiar")
    scene = Scene(
        settings, event, facts.action, payload, place, scope, settings.review.for_repo(place.repo)
    )
    if event == "pull_request":
        return _pull_request(scene)
    if payload.repository.archived:
        return Ignored("repository_archived")
    if event == "issues":
        return _issue(scene)
    return people(scene)


def _uninstalled(installation: int, action: str) -> Ignored:
    deleted = action == "deleted"
    why = "the App was uninstalled" if deleted else "the App was suspended"
    reason = "installation_deleted" if deleted else "installation_suspended"
    return Ignored(reason, gone=Gone(InstallationId(installation), why, deleted))


def _pull_request(scene: Scene) -> Routed:
    pull = needed(scene.payload.pull_request, "pull_request")
    if scene.action == "closed":
        return Ignored("closed", cancel_reviews(scene, pull, "pull request closed"))
    if scene.action == "converted_to_draft":
        if scene.policy.include_drafts:
            return Ignored("action_not_handled")
        return Ignored("draft", cancel_reviews(scene, pull, "converted to draft"))
    repository = needed(scene.payload.repository, "repository")
    if repository.archived:
        return Ignored("repository_archived")
    if pull.state == "closed":
        return Ignored("closed")
    if scene.action == "labeled":
        return _labelled(scene, pull)
    routed = _opened(scene, pull)
    if isinstance(routed, Ignored) and scene.action == "synchronize":
        place = scene.place
        head, at = str(pull.head.sha), pull.updated_at
        moved = Moved(place.installation_id, place.repo_id, pull.number, head, at)
        return replace(routed, moved=moved)
    return routed


def _opened(scene: Scene, pull: PullRequest) -> Routed:
    if not scene.scope.triggers.reviews:
        return Ignored("lane_off:reviews")
    if not scene.policy.pull_request:
        return Ignored("automatic_review_off")
    if scene.is_ours(pull.user):
        return Ignored("own_pull_request")
    if pull.draft and not scene.policy.include_drafts:
        return Ignored("draft")
    familiar = scene.reviewer
    if familiar is None:
        return Ignored("no_familiar")
    key = automatic_review(scene.place.repo_id, pull.number, familiar.id, str(pull.head.sha))
    return (
        intent_of(
            scene,
            familiar,
            pull,
            lane=Lane.REVIEW,
            verb="review",
            reason=scene.action,
            needs=Needs.STANDING,
            semantic_key=key,
            # The author's standing decides, whoever reopened or pushed.
            actor=person(pull.user),
            payload=texts(body=(pull.body, BODY_CHARS)),
        ),
    )


def _issue(scene: Scene) -> Routed:
    issue = needed(scene.payload.issue, "issue")
    if scene.action == "labeled":
        return _labelled(scene, issue)
    if not scene.scope.triggers.assignment:
        return Ignored("lane_off:assignment")
    login = (scene.payload.assignee.login or "") if scene.payload.assignee else ""
    familiar = next(
        (f for f in scene.scope.familiars if f.bot_username.casefold() == login.casefold()), None
    )
    if familiar is None:
        return Ignored("assignee_not_familiar")
    return _asked(scene, issue, familiar, "fix", "assigned", {})


def _labelled(scene: Scene, target: PullRequest | Issue) -> Routed:
    label = needed(scene.payload.label, "label").name
    if not scene.scope.triggers.labels:
        return Ignored("lane_off:labels")
    familiar = next(
        (
            f
            for f in scene.scope.familiars
            if label.casefold() in {known.casefold() for known in f.trigger_labels}
        ),
        None,
    )
    if familiar is None:
        return Ignored("label_not_mapped")
    verb = label_verb(label, is_pull=isinstance(target, PullRequest))
    return _asked(scene, target, familiar, verb, "labeled", texts(label=(label, 100)))


def label_verb(label: str, *, is_pull: bool) -> str:
    """Labels mean work on issues, and review on pull requests unless they end in ``fix``."""
    if not is_pull:
        return "fix"
    last_word = label.casefold().replace(":", " ").replace("/", " ").replace("-", " ").split()[-1:]
    return "fix" if last_word == ["fix"] else "review"


def _asked(
    scene: Scene,
    target: PullRequest | Issue,
    familiar: Familiar,
    verb: str,
    reason: str,
    extra: dict[str, Any],
) -> Routed:
    actor = scene.payload.sender
    if actor is None:
        return Ignored("no_sender")
    if scene.is_ours(actor) or actor.is_bot:
        return Ignored("sender_is_bot")
    if target.state == "closed":
        return Ignored("closed")
    return (
        intent_of(
            scene,
            familiar,
            target,
            lane=Lane.REVIEW if verb == "review" else Lane.FIX,
            verb=verb,
            reason=reason,
            needs=Needs.WRITE,
            semantic_key=asked_work(verb, scene.place.repo_id, target.number, familiar.id),
            actor=scene.actor,
            priority=5,
            payload=extra | texts(body=(target.body, BODY_CHARS)),
        ),
    )


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
            "head_ref": _ref(target.head.ref, "pull_request.head.ref"),
            "head_repo_id": target.head.repo.id if target.head.repo else None,
            "base_sha": base.sha if base else None,
            "base_ref": _ref(base.ref, "pull_request.base.ref") if base else None,
        }
    place = {name: getattr(scene.place, name) for name in Place.__dataclass_fields__}
    return Intent(**place, **common | facts)


def cancel_reviews(scene: Scene, pull: PullRequest, why: str) -> Cancel:
    """The automatic reviews of a pull request have become pointless."""
    place = scene.place
    return Cancel(place.installation_id, place.repo_id, pull.number, why, pull.updated_at)


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


def _place(installation: int, repository: Repository) -> Place:
    owner = repository.owner
    return Place(
        installation_id=InstallationId(installation),
        repo_id=RepoId(repository.id),
        repo=repo_name(repository),
        repo_private=repository.private,
        default_branch=_ref(repository.default_branch, "repository.default_branch"),
        account_id=owner.id if owner else None,
        account_login=clean(owner.login, NAME_CHARS) if owner and owner.login else None,
    )


def _ref(name: str | None, field_name: str) -> str | None:
    if name is not None and (len(name) > REF_CHARS or clean(name, REF_CHARS) != name):
        raise BadPayload(f"bad_field:{field_name}")
    return name
