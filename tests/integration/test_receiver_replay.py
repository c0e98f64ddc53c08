"""Real payloads through the endpoint, correctly signed: no 5xx, and a true routing for each.

The samples live outside the repository; where they are not there, the committed fixtures are
replayed in their place.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coven.github.events import HANDLED
from coven.store.engine import Store
from coven.store.tasks import Task
from tests.integration.receiver_kit import FIXTURES, Bench, settings
from webhooks.route_tenancy import TENANCY

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("COVEN_TEST_PAYLOADS") or ROOT.parent / "shared" / "payloads")
TRUE_REASONS = {
    "task",
    "learned",
    "ping",
    "event_not_handled",
    "action_not_handled",
    "already_handled",
    "already_queued",
    "actor_lacks_write",
    "assignee_not_familiar",
    "authorization_revoked",
    "branch_deleted",
    "closed",
    "command_unchanged",
    "commands_in_issues_off",
    "comment_deleted",
    "default_branch",
    "draft",
    "edit_asks_nothing",
    "label_not_mapped",
    "not_a_branch",
    "not_addressed",
    "not_our_check",
    "not_the_author",
    "other_branch",
    "reopening_asks_nothing",
    "rights_may_have_changed",
    "sender_is_bot",
    "thread_resolved",
    "undone",
    "unknown_check",
    "unlabeled",
}
INSTALLATION = {"id": 42, "node_id": "x"}


def samples() -> list[tuple[str, dict[str, Any]]]:
    """(event, payload) of every sample; the fixtures when there are no samples."""
    found = sorted(SAMPLES.glob("*/*.json"))
    if found:
        return [(path.parent.name, json.loads(path.read_text())) for path in found]
    return [
        (path.name.split(".")[0], json.loads(path.read_text()))
        for path in sorted(FIXTURES.glob("*.json"))
    ]


def installed(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"installation": body.get("installation") or INSTALLATION}


def configured(*installations: int, bot: str = "cody-familiar[bot]") -> Any:
    familiar = {
        "id": "cody",
        "display_name": "Cody",
        "bot_username": bot,
        "trigger_labels": ["bug", "coven:fix", "coven:review"],
    }
    return settings(
        familiars=[familiar],
        review={"pull_request": True, "external": "on"},
        installations=[{"id": number} for number in installations],
    )


@pytest.fixture
def bench(sqlite_store: Store) -> Bench:
    return Bench(sqlite_store, configured())


@pytest.mark.parametrize("mode", ["open", "listed", "unlisted", "bare"])
def test_every_sample_is_answered_and_recorded(bench: Bench, mode: str) -> None:
    bodies = samples()
    if mode == "listed":
        ids = {installed(body)["installation"]["id"] for _, body in bodies}
        bench.configure(configured(*ids))
    if mode == "unlisted":
        bench.configure(configured(999_999_999))
    reasons: Counter[str] = Counter()
    for number, (event, body) in enumerate(bodies):
        sent = body if mode == "bare" else installed(body)
        answer = bench.deliver(event, sent, f"s-{number}")
        assert answer.status_code in (200, 202), (event, body.get("action"), answer.json)
        assert b"Traceback" not in answer.data
        row = bench.row(f"s-{number}")
        kind, _, reason = row.routing.partition(":")
        assert kind in ("task", "ignored", "learned")
        assert row.event == event
        assert row.action == body.get("action")
        reasons[reason if kind == "ignored" else kind] += 1
        if event not in HANDLED:
            assert reason == "event_not_handled"
        elif event == "ping":
            assert reason == "ping"
        elif (body.get("action") or "") not in HANDLED[event]:
            assert reason == "action_not_handled"
        elif event in TENANCY:
            told = ("rights_may_have_changed", "authorization_revoked", "no_installation")
            assert kind == "learned" or reason in told
    assert sum(reasons.values()) == len(bodies)
    assert reasons["task"]
    if mode != "bare":
        assert {reason.partition(":")[0] for reason in reasons} <= TRUE_REASONS


def test_pull_requests_and_issues_of_configured_repositories_become_tasks(store: Store) -> None:
    made: list[tuple[str, str, Task]] = []
    # Whoever the samples assign is our familiar here; their bodies stay as they are.
    assigned = [body["assignee"]["login"] for _, body in samples() if body.get("assignee")]
    bench = Bench(store, configured(bot=assigned[0]))
    for number, (event, body) in enumerate(samples()):
        action = str(body.get("action"))
        work = {
            "pull_request": ("opened", "synchronize", "reopened", "ready_for_review", "labeled"),
            "issues": ("labeled", "assigned"),
        }
        if action not in work.get(event, ()):
            continue
        # Each on its own: among themselves they are repetitions of a few heads.
        body = installed(body)
        body["repository"]["id"] += number
        if event == "pull_request" and action != "labeled":
            body["pull_request"]["user"] = {"login": "mona", "id": 2001, "type": "User"}
        body["sender"] = {"login": "mona", "id": 2001, "type": "User"}
        body["installation"] = INSTALLATION
        for key in ("issue", "pull_request"):
            if key in body:
                body[key]["number"] = number + 1
        answer = bench.deliver(event, body, f"t-{number}")
        assert "task" in answer.json, (event, action, answer.json)
        made.append((event, action, bench.task(answer)))
    assert {event for event, _, _ in made} == {"pull_request", "issues"}
    for event, action, task in made:
        assert task.is_pull == (event == "pull_request")
        assert task.reason == action
        assert task.title
        assert (task.head_sha is not None) == task.is_pull


def test_samples_with_a_command_become_tasks(bench: Bench) -> None:
    seen: set[str] = set()
    for number, (event, body) in enumerate(samples()):
        holder = {"pull_request_review": "review"}.get(event, "comment")
        texted = event in ("issue_comment", "pull_request_review_comment", "pull_request_review")
        if not texted or body["action"] not in ("created", "submitted"):
            continue
        body = installed(body)
        body[holder] |= {"body": "@familiar fix", "id": 10_000 + number}
        body["sender"] = {"login": "mona", "id": 2001, "type": "User"}
        body["repository"]["id"] += number
        body["installation"] = INSTALLATION
        answer = bench.deliver(event, body)
        assert bench.task(answer).verb == "fix"
        seen.add(event)
    assert len(seen) == 3
