"""Which events and actions mean something here, and what the App needs to be sent them.

``docs/webhooks.md`` and ``docs/github-permissions.md`` repeat this table; tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

ALONE = ""
"""Stands for the action of an event that has none."""


class Sent(Enum):
    """How GitHub comes to send an event."""

    SUBSCRIBED = "subscribe"
    OPTIONAL = "subscribe, if you grant the permission"
    ALWAYS = "always, to every App"
    LISTED = "set up in the Marketplace listing"


@dataclass(frozen=True, slots=True)
class Event:
    """``actions``: what each action leads to. ``permission``: what GitHub asks for before it sends.

    ``without``: what does not work when the App is not subscribed.
    """

    name: str
    actions: Mapping[str, str]
    sent: Sent = Sent.ALWAYS
    permission: str | None = None
    without: str = ""


_REVIEW = "automatic review, when `review.pull_request` is on"
_COMMANDS = "commands; without one, the answer to a task that waits for it"
_AGAIN = "commands, when the author's edit changed them and none of this comment has run"
_GONE = "cancels the work of this comment, and starts none should its `created` arrive later"
_RIGHTS = "forgets what was looked up about people's rights"
_FACT = "the tenant ledger takes it in, by numeric id"

_TABLE = (
    Event(
        "pull_request",
        {
            "opened": _REVIEW,
            "synchronize": _REVIEW,
            "reopened": _REVIEW,
            "ready_for_review": _REVIEW,
            "edited": "automatic review, when the base branch was changed",
            "labeled": "review, or a fix when the label's last word is `fix`",
            "unlabeled": "cancels what that label asked for",
            "converted_to_draft": "cancels the automatic reviews, unless drafts are reviewed",
            "closed": "cancels the automatic reviews",
        },
        Sent.SUBSCRIBED,
        "Pull requests",
        "no automatic reviews, no labels on pull requests; closed ones go on being reviewed",
    ),
    Event(
        "issues",
        {
            "opened": "commands in its text, when `commands.in_issues` is on",
            "edited": "commands in its text, when `commands.in_issues` is on and none has run",
            "assigned": "fix, when it is assigned to the familiar's bot",
            "unassigned": "cancels what the assignment asked for",
            "labeled": "fix, when the label is one of `trigger_labels`",
            "unlabeled": "cancels what that label asked for",
            "closed": "cancels its work",
            "reopened": "nothing: ask again",
            "transferred": "cancels its work",
            "deleted": "cancels its work",
        },
        Sent.SUBSCRIBED,
        "Issues",
        "no labels and no assignment",
    ),
    Event(
        "issue_comment",
        {"created": _COMMANDS, "edited": _AGAIN, "deleted": _GONE},
        Sent.SUBSCRIBED,
        "Issues",
        "no commands and no answers on threads",
    ),
    Event(
        "pull_request_review",
        {"submitted": _COMMANDS, "edited": _AGAIN},
        Sent.SUBSCRIBED,
        "Pull requests",
        "no commands in the text of a review",
    ),
    Event(
        "pull_request_review_comment",
        {"created": _COMMANDS, "edited": _AGAIN, "deleted": _GONE},
        Sent.SUBSCRIBED,
        "Pull requests",
        "no commands on the diff",
    ),
    Event(
        "pull_request_review_thread",
        {"resolved": "cancels what comments of that thread asked for"},
        Sent.SUBSCRIBED,
        "Pull requests",
        "work goes on that a resolved thread asked for",
    ),
    Event(
        "check_run",
        {
            "rerequested": "the same work again, as a new task with its own Check Run",
            "requested_action": "*Fix this*, *Go deeper*, *Remember this*",
        },
        Sent.SUBSCRIBED,
        "Checks",
        "no *Re-run*, *Fix this* and *Go deeper* on a Check Run",
    ),
    Event(
        "check_suite",
        {"rerequested": "the newest work of each kind on that head again"},
        Sent.SUBSCRIBED,
        "Checks",
        "no *Re-run all checks*",
    ),
    Event(
        "push",
        {ALONE: "a deleted branch cancels the work on it; the default branch is read anew by need"},
        Sent.SUBSCRIBED,
        "Contents",
        "work goes on whose branch was deleted",
    ),
    Event(
        "repository",
        {
            "created": _FACT,
            "edited": _FACT,
            "renamed": _FACT,
            "privatized": _FACT,
            "publicized": _FACT,
            "unarchived": _FACT,
            "archived": f"{_FACT}; cancels its work",
            "transferred": f"{_FACT}; cancels its work",
            "deleted": f"{_FACT}; cancels its work",
        },
        Sent.SUBSCRIBED,
        "Metadata",
        "renamed, transferred and deleted repositories are noticed later",
    ),
    Event(
        "member",
        dict.fromkeys(("added", "edited", "removed"), _RIGHTS),
        Sent.OPTIONAL,
        "Members",
        "a change of rights counts after a minute",
    ),
    Event(
        "membership",
        dict.fromkeys(("added", "removed"), _RIGHTS),
        Sent.OPTIONAL,
        "Members",
        "a change of rights counts after a minute",
    ),
    Event(
        "team",
        dict.fromkeys(
            ("added_to_repository", "created", "deleted", "edited", "removed_from_repository"),
            _RIGHTS,
        ),
        Sent.OPTIONAL,
        "Members",
        "a change of rights counts after a minute",
    ),
    Event(
        "organization",
        {
            **dict.fromkeys(("deleted", "member_added", "member_removed"), _RIGHTS),
            "renamed": _FACT,
        },
        Sent.OPTIONAL,
        "Members",
        "a change of rights counts after a minute",
    ),
    Event(
        "installation",
        {
            "created": _FACT,
            "deleted": f"{_FACT}; stops everything of this installation",
            "suspend": f"{_FACT}; stops everything of this installation",
            "unsuspend": f"{_FACT}; publishes what could not be shown meanwhile",
            "new_permissions_accepted": f"{_FACT}; publishes what had lacked a permission",
        },
    ),
    Event(
        "installation_repositories",
        {"added": _FACT, "removed": f"{_FACT}; cancels the work there"},
    ),
    Event("installation_target", {"renamed": _FACT}),
    Event("github_app_authorization", {"revoked": "recorded"}),
    Event(
        "marketplace_purchase",
        dict.fromkeys(
            ("purchased", "changed", "cancelled", "pending_change", "pending_change_cancelled"),
            "the plan ledger takes it in",
        ),
        Sent.LISTED,
    ),
    Event("ping", {ALONE: "an answer"}, Sent.ALWAYS),
)

EVENTS: Mapping[str, Event] = MappingProxyType({event.name: event for event in _TABLE})
"""Everything that is listened to, by name."""

HANDLED: Mapping[str, frozenset[str]] = MappingProxyType(
    {event.name: frozenset(event.actions) for event in _TABLE}
)
"""Events and actions that can lead to something; the rest is recorded as ignored."""

RIGHTS_EVENTS: tuple[str, ...] = ("member", "membership", "team", "organization")
"""After one of these, what was looked up about people's rights is looked up again."""
