"""Routing of what happens to pull requests. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from coven.semantic_keys import automatic_review
from coven.values import Lane
from webhooks.intents import (
    BODY_CHARS,
    Cancel,
    Effect,
    Ignored,
    Moved,
    Needs,
    Of,
    Routed,
    Scene,
    intent_of,
    mark,
    mark_prefix,
    needed,
    person,
    texts,
)
from webhooks.payloads import PullRequest
from webhooks.route_labels import labelled, unlabelled


def route_pull(scene: Scene) -> Routed:
    """What an event of a pull request asks for, or ends. Raises ``BadPayload``."""
    pull = needed(scene.payload.pull_request, "pull_request")
    if scene.action == "closed":
        reason = mark("closed", pull.number, pull.updated_at)
        return Ignored(reason, (_cancel_reviews(scene, pull, "pull request closed"),))
    if scene.action == "converted_to_draft":
        if scene.policy.include_drafts:
            return Ignored("drafts_are_reviewed")
        reason = mark("draft", pull.number, pull.updated_at)
        return Ignored(reason, (_cancel_reviews(scene, pull, "converted to draft"),))
    if scene.action == "unlabeled":
        return unlabelled(scene, pull)
    if pull.state == "closed":
        return Ignored("closed")
    if scene.action == "labeled":
        return labelled(scene, pull)
    if scene.action == "edited" and not (scene.payload.changes and scene.payload.changes.base):
        return Ignored("edit_asks_nothing")
    routed = _pushed(scene, pull)
    if isinstance(routed, Ignored) and scene.action == "synchronize":
        return replace(routed, effects=(_moved(scene, pull),))
    return routed


def _pushed(scene: Scene, pull: PullRequest) -> Routed:
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
    if scene.action == "edited":
        # The same head against another base is another change.
        base = (pull.base.ref if pull.base else None) or ""
        key = f"{key}:{hashlib.sha256(base.encode()).hexdigest()[:12]}"
    undone = [mark_prefix("closed", pull.number)]
    if not scene.policy.include_drafts:
        undone.append(mark_prefix("draft", pull.number))
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
            voided_by=tuple(undone),
        ),
    )


def _moved(scene: Scene, pull: PullRequest) -> Effect:
    place = scene.place
    head = str(pull.head.sha)
    return Moved(place.installation_id, place.repo_id, pull.number, head, pull.updated_at)


def _cancel_reviews(scene: Scene, pull: PullRequest, why: str) -> Cancel:
    """The automatic reviews of a pull request have become pointless."""
    place = scene.place
    return Cancel(
        place.installation_id, place.repo_id, pull.number, why, Of.AUTOMATIC, pull.updated_at
    )
