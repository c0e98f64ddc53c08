"""Routing of what happens to issues. Pure."""

from __future__ import annotations

from webhooks.addressed import route_text
from webhooks.intents import Cancel, Ignored, Of, Routed, Scene, mark, needed
from webhooks.payloads import Issue
from webhooks.route_labels import assigned, labelled, unassigned, unlabelled

_ENDS = {
    "closed": "the issue was closed",
    "transferred": "the issue was moved to another repository",
    "deleted": "the issue was deleted",
}


def route_issue(scene: Scene) -> Routed:
    """What an event of an issue asks for, or ends. Raises ``BadPayload``."""
    issue = needed(scene.payload.issue, "issue")
    match scene.action:
        case "labeled":
            return labelled(scene, issue)
        case "unlabeled":
            return unlabelled(scene, issue)
        case "assigned":
            return assigned(scene, issue)
        case "unassigned":
            return unassigned(scene, issue)
        case "opened" | "edited":
            return _written(scene)
        case "reopened":
            return Ignored("reopening_asks_nothing")
    return _ended(scene, issue)


def _written(scene: Scene) -> Routed:
    if not scene.settings.commands.in_issues:
        return Ignored("commands_in_issues_off")
    return route_text(scene)


def _ended(scene: Scene, issue: Issue) -> Ignored:
    place = scene.place
    why = _ENDS[scene.action]
    cancel = Cancel(
        place.installation_id, place.repo_id, issue.number, why, Of.EVERYTHING, issue.updated_at
    )
    # A moved or deleted issue is as closed as any, for a label that arrives late.
    return Ignored(mark("closed", issue.number, issue.updated_at), (cancel,))
