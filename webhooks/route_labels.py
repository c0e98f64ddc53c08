"""Routing of labels and assignments: what they ask for, and what taking them away ends. Pure."""

from __future__ import annotations

from typing import Any

from coven.semantic_keys import asked_work
from coven.settings.models import Familiar
from coven.values import Lane
from webhooks.intents import (
    BODY_CHARS,
    Cancel,
    Ignored,
    Needs,
    Of,
    Routed,
    Scene,
    intent_of,
    mark,
    mark_prefix,
    needed,
    texts,
)
from webhooks.payloads import Issue, PullRequest

Target = PullRequest | Issue


def labelled(scene: Scene, target: Target) -> Routed:
    """Work that a label asks for. Raises ``BadPayload``."""
    label = needed(scene.payload.label, "label").name
    if not scene.scope.triggers.labels:
        return Ignored("lane_off:labels")
    familiar = _of_label(scene, label)
    if familiar is None:
        return Ignored("label_not_mapped")
    verb = label_verb(label, is_pull=isinstance(target, PullRequest))
    undone = mark_prefix("unlabeled", target.number, label)
    return _asked(scene, target, familiar, verb, undone, texts(label=(label, 100)))


def unlabelled(scene: Scene, target: Target) -> Ignored:
    """The end of what the label asked for. Raises ``BadPayload``."""
    label = needed(scene.payload.label, "label").name
    familiar = _of_label(scene, label)
    if familiar is None:
        return Ignored("label_not_mapped")
    reason = mark("unlabeled", target.number, target.updated_at, label)
    return Ignored(reason, (_cancel(scene, target, "labeled", familiar, "its label was removed"),))


def assigned(scene: Scene, issue: Issue) -> Routed:
    """Work that an assignment asks for."""
    if not scene.scope.triggers.assignment:
        return Ignored("lane_off:assignment")
    familiar = _of_assignee(scene)
    if familiar is None:
        return Ignored("assignee_not_familiar")
    undone = mark_prefix("unassigned", issue.number, familiar.id)
    return _asked(scene, issue, familiar, "fix", undone, {})


def unassigned(scene: Scene, issue: Issue) -> Ignored:
    """The end of what the assignment asked for."""
    familiar = _of_assignee(scene)
    if familiar is None:
        return Ignored("assignee_not_familiar")
    reason = mark("unassigned", issue.number, issue.updated_at, familiar.id)
    why = "its assignment was taken back"
    return Ignored(reason, (_cancel(scene, issue, "assigned", familiar, why),))


def label_verb(label: str, *, is_pull: bool) -> str:
    """Labels mean work on issues, and review on pull requests unless they end in ``fix``."""
    if not is_pull:
        return "fix"
    last_word = label.casefold().replace(":", " ").replace("/", " ").replace("-", " ").split()[-1:]
    return "fix" if last_word == ["fix"] else "review"


def _of_label(scene: Scene, label: str) -> Familiar | None:
    wanted = label.casefold()
    for familiar in scene.scope.familiars:
        if wanted in {known.casefold() for known in familiar.trigger_labels}:
            return familiar
    return None


def _of_assignee(scene: Scene) -> Familiar | None:
    login = (scene.payload.assignee.login or "") if scene.payload.assignee else ""
    familiars = scene.scope.familiars
    return next((f for f in familiars if f.bot_username.casefold() == login.casefold()), None)


def _cancel(scene: Scene, target: Target, trigger: str, familiar: Familiar, why: str) -> Cancel:
    place = scene.place
    return Cancel(
        place.installation_id,
        place.repo_id,
        target.number,
        why,
        Of.TRIGGER,
        target.updated_at,
        trigger=trigger,
        familiar_id=familiar.id,
    )


def _asked(
    scene: Scene,
    target: Target,
    familiar: Familiar,
    verb: str,
    undone: str,
    extra: dict[str, Any],
) -> Routed:
    unheard = scene.unheard()
    if unheard is not None:
        return unheard
    if target.state == "closed":
        return Ignored("closed")
    return (
        intent_of(
            scene,
            familiar,
            target,
            lane=Lane.REVIEW if verb == "review" else Lane.FIX,
            verb=verb,
            reason=scene.action,
            needs=Needs.WRITE,
            semantic_key=asked_work(verb, scene.place.repo_id, target.number, familiar.id),
            actor=scene.actor,
            priority=5,
            payload=extra | texts(body=(target.body, BODY_CHARS)),
            voided_by=(mark_prefix("closed", target.number), undone),
        ),
    )
