"""Routing of what people click on our Check Runs. Pure; which work is meant, the ledger says."""

from __future__ import annotations

from typing import Literal

from coven.publication import (
    APPROVE_BUTTON,
    DEEPEN_BUTTON,
    DENY_BUTTON,
    FIX_BUTTON,
    MEMORY_BUTTON,
)
from webhooks.intents import REF_CHARS, Click, Ignored, Scene, needed
from webhooks.payloads import BadPayload, CheckApp, clean

BUTTONS: dict[str, Literal["fix", "deepen", "mem_approve", "gov_approve", "gov_deny"]] = {
    FIX_BUTTON.identifier: "fix",
    DEEPEN_BUTTON.identifier: "deepen",
    MEMORY_BUTTON.identifier: "mem_approve",
    APPROVE_BUTTON.identifier: "gov_approve",
    DENY_BUTTON.identifier: "gov_deny",
}
"""Identifiers of the buttons that we put on a completed Check Run."""
EXTERNAL_ID_CHARS = 100


def route_click(scene: Scene) -> Click | Ignored:
    """A re-run or a button. Raises ``BadPayload``.

    Only Check Runs of this App are ours, whatever their ``external_id`` says. ``pull_requests``
    of the payload is not read: it is empty for forks.
    """
    unheard = scene.unheard()
    if unheard is not None:
        return unheard
    if not scene.scope.triggers.commands:
        return Ignored("lane_off:commands")
    if scene.event == "check_suite":
        suite = needed(scene.payload.check_suite, "check_suite")
        if not _ours(scene, suite.app):
            return Ignored("not_our_check")
        branch = clean(suite.head_branch, REF_CHARS) if suite.head_branch else None
        head = needed(suite.head_sha, "check_suite.head_sha")
        return Click(scene, "rerun", head, None, branch)
    run = needed(scene.payload.check_run, "check_run")
    if not _ours(scene, run.app):
        return Ignored("not_our_check")
    if not run.external_id or len(run.external_id) > EXTERNAL_ID_CHARS:
        return Ignored("unknown_check")
    head = needed(run.head_sha, "check_run.head_sha")
    if scene.action == "rerequested":
        return Click(scene, "rerun", head, run.external_id)
    button = scene.payload.requested_action
    if button is None or button.identifier is None:
        raise BadPayload("missing_field:requested_action.identifier")
    wanted = BUTTONS.get(button.identifier)
    if wanted is None:
        return Ignored("unknown_action")
    return Click(scene, wanted, head, run.external_id)


def _ours(scene: Scene, app: CheckApp | None) -> bool:
    configured = scene.settings.github.app_id
    return configured == 0 or app is None or app.id is None or app.id == configured
