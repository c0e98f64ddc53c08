"""From a payload to the work that is wanted, or to the true reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from coven.github.events import ALONE, HANDLED
from coven.settings.models import Settings
from coven.values import InstallationId, RepoId
from webhooks.addressed import route_text
from webhooks.clicked import route_click
from webhooks.intents import (
    NAME_CHARS,
    BranchGone,
    Cancel,
    Ignored,
    Of,
    Place,
    Routed,
    Scene,
    needed,
    ref_name,
)
from webhooks.payloads import Facts, Payload, Repository, clean, read, repo_name
from webhooks.route_issues import route_issue
from webhooks.route_pulls import route_pull
from webhooks.route_tenancy import TENANCY, route_tenancy

HEADS = "refs/heads/"


def route(
    event: str,
    body: dict[str, Any],
    facts: Facts,
    settings: Settings,
    bot_id: int | None = None,
) -> Routed:
    """What a delivery asks for. Raises ``BadPayload`` when a field that matters is unusable.

    ``bot_id``: the user id of our App's bot, when it is known.
    """
    if event == "ping":
        return Ignored("ping")
    if event not in HANDLED:
        return Ignored("event_not_handled")
    if (facts.action or ALONE) not in HANDLED[event]:
        return Ignored("action_not_handled")
    if event in TENANCY:
        return route_tenancy(event, body, facts)
    payload = read(body)
    if payload.installation is None:
        return Ignored("no_installation")
    if payload.repository is None:
        return Ignored("no_repository")
    scene = _scene(event, facts.action or ALONE, payload, payload.repository, settings, bot_id)
    return scene if isinstance(scene, Ignored) else _ROUTES[event](scene)


def _scene(
    event: str,
    action: str,
    payload: Payload,
    repository: Repository,
    settings: Settings,
    bot_id: int | None,
) -> Scene | Ignored:
    place = _place(InstallationId(needed(payload.installation, "installation").id), repository)
    scope = settings.scope_for(place.installation_id, place.repo, place.repo_id)
    if not scope.familiars:
        return Ignored("no_familiar")
    if repository.archived and not _ends(event, action):
        return Ignored("repository_archived")
    policy = settings.review.for_repo(place.repo)
    return Scene(settings, event, action, payload, place, scope, policy, bot_id)


def _ends(event: str, action: str) -> bool:
    """Whether the event can only end work: that is right in a read-only repository too."""
    return event in ("pull_request", "issues", "push") and action in (
        "closed",
        "converted_to_draft",
        ALONE,
    )


def _push(scene: Scene) -> Ignored:
    ref = scene.payload.ref or ""
    branch = ref_name(ref.removeprefix(HEADS), "ref") if ref.startswith(HEADS) else None
    if not branch:
        return Ignored("not_a_branch")
    if scene.payload.deleted:
        place = scene.place
        why = "its branch was deleted"
        gone = BranchGone(place.installation_id, place.repo_id, branch, why)
        return Ignored("branch_deleted", (gone,))
    # Mirrors are fetched when work starts, so a push of any branch needs nothing at once.
    return Ignored("default_branch" if branch == scene.place.default_branch else "other_branch")


def _resolved(scene: Scene) -> Ignored:
    pull = needed(scene.payload.pull_request, "pull_request")
    thread = needed(scene.payload.thread, "thread")
    place = scene.place
    cancel = Cancel(
        place.installation_id,
        place.repo_id,
        pull.number,
        "the thread was resolved",
        Of.COMMENTS,
        comments=frozenset(comment.id for comment in thread.comments),
    )
    return Ignored("thread_resolved", (cancel,))


_ROUTES: Mapping[str, Callable[[Scene], Routed]] = MappingProxyType(
    {
        "pull_request": route_pull,
        "issues": route_issue,
        "issue_comment": route_text,
        "pull_request_review": route_text,
        "pull_request_review_comment": route_text,
        "pull_request_review_thread": _resolved,
        "check_run": route_click,
        "check_suite": route_click,
        "push": _push,
    }
)


def _place(installation: InstallationId, repository: Repository) -> Place:
    owner = repository.owner
    return Place(
        installation_id=installation,
        repo_id=RepoId(repository.id),
        repo=repo_name(repository),
        repo_private=repository.private,
        default_branch=ref_name(repository.default_branch, "repository.default_branch"),
        account_id=owner.id if owner else None,
        account_login=clean(owner.login, NAME_CHARS) if owner and owner.login else None,
    )
