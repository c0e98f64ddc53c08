"""The trust table: every need against everything that GitHub may say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from coven.github.models import Permission
from coven.settings.models import Familiar
from coven.trust import lower
from coven.values import InstallationId, Lane, RepoId, RepoName, TaskState, TrustScope
from webhooks.intents import Ignored, Intent, Needs, Person
from webhooks.route_labels import label_verb
from webhooks.trust import Admitted, Rights, admit, wants_rights

AT = datetime(2026, 1, 1, tzinfo=UTC)
MONA, LISA = Person(1, "mona"), Person(2, "lisa")
WRITER = Rights("permission_api", AT, Permission("write", "write", 1))
READER = Rights("permission_api", AT, Permission("read", "read", 1), collaborator=True)
STRANGER = Rights("permission_api", AT, Permission("read", "read", 1))
NO_USER = Rights("not_a_user", AT)
UNKNOWN = Rights("unavailable", AT)

INTENT = Intent(
    installation_id=InstallationId(42),
    repo_id=RepoId(5),
    repo=RepoName("acme", "billing"),
    repo_private=False,
    default_branch="main",
    account_id=None,
    account_login=None,
    familiar=Familiar(id="cody", display_name="Cody", bot_username="cody[bot]"),
    lane=Lane.REVIEW,
    verb="review",
    reason="opened",
    needs=Needs.STANDING,
    semantic_key="k",
    thread=7,
    is_pull=True,
    title="",
    actor=MONA,
    author=MONA,
    source_at=None,
    payload={},
    head_sha="1" * 40,
    head_repo_id=5,
)
FORK = replace(INTENT, head_repo_id=6)
GONE = replace(INTENT, head_repo_id=None)


def told(outcome: Admitted | Ignored) -> Any:
    if isinstance(outcome, Ignored):
        return outcome.reason
    return outcome.trust_scope.value, outcome.state.value, outcome.show


@pytest.mark.parametrize(
    ("rights", "write", "answer"),
    [
        (WRITER, ("maintainer", "queued", True), ("maintainer", "queued", False)),
        (READER, "actor_lacks_write", ("collaborator", "queued", False)),
        (STRANGER, "actor_lacks_write", "actor_not_collaborator"),
        (NO_USER, "actor_lacks_write", "actor_not_collaborator"),
        (UNKNOWN, ("external", "queued", False), ("external", "queued", False)),
    ],
)
def test_who_may_start_work_and_who_gets_an_answer(rights: Rights, write: Any, answer: Any) -> None:
    assert told(admit(replace(INTENT, needs=Needs.WRITE), rights)) == write
    assert told(admit(replace(INTENT, needs=Needs.ANSWER), rights)) == answer


@pytest.mark.parametrize(
    ("intent", "rights", "off", "ask", "on"),
    [
        (INTENT, WRITER, *[("maintainer", "queued", True)] * 3),
        (
            INTENT,
            READER,
            "external_review_off",
            ("collaborator", "waiting", True),
            ("collaborator", "queued", True),
        ),
        (
            INTENT,
            STRANGER,
            "external_review_off",
            ("external", "waiting", True),
            ("external", "queued", True),
        ),
        (INTENT, UNKNOWN, *[("external", "queued", False)] * 3),
        *(
            (
                fork,
                rights,
                "external_review_off",
                ("fork_pr", "waiting", True),
                ("fork_pr", "queued", True),
            )
            for fork, rights in product((FORK, GONE), (WRITER, UNKNOWN, NO_USER))
        ),
    ],
)
def test_automatic_review_follows_the_authors_standing(
    intent: Intent, rights: Rights, off: Any, ask: Any, on: Any
) -> None:
    assert told(admit(replace(intent, external="off"), rights)) == off
    assert told(admit(replace(intent, external="ask"), rights)) == ask
    assert told(admit(replace(intent, external="on"), rights)) == on


@pytest.mark.parametrize(
    ("author", "rights", "content"),
    [
        (MONA, None, "maintainer"),
        (LISA, WRITER, "maintainer"),
        (LISA, READER, "collaborator"),
        (LISA, STRANGER, "external"),
        (LISA, UNKNOWN, "external"),
        (LISA, None, "external"),
        (None, None, "external"),
    ],
)
def test_content_is_trusted_as_the_lower_of_actor_and_author(
    author: Person | None, rights: Rights | None, content: str
) -> None:
    outcome = admit(replace(INTENT, needs=Needs.WRITE, author=author), WRITER, rights)
    assert isinstance(outcome, Admitted)
    assert (outcome.trust_scope, outcome.content_trust) == (TrustScope.MAINTAINER, content)


def test_fork_overrides_standing_for_asked_work_too() -> None:
    outcome = admit(replace(FORK, needs=Needs.WRITE), WRITER)
    assert isinstance(outcome, Admitted)
    assert (outcome.trust_scope, outcome.content_trust) == (TrustScope.FORK_PR,) * 2
    assert told(admit(replace(FORK, needs=Needs.WRITE), STRANGER)) == "actor_lacks_write"


def test_only_a_forks_automatic_review_needs_no_look() -> None:
    assert not wants_rights(FORK)
    assert wants_rights(INTENT)
    assert wants_rights(replace(FORK, needs=Needs.WRITE))
    assert wants_rights(replace(FORK, needs=Needs.ANSWER))


def test_unconfirmed_is_never_above_external_and_never_shown() -> None:
    for intent, needs in product((INTENT, FORK, GONE), Needs):
        if needs is Needs.STANDING and intent.from_fork:
            continue
        outcome = admit(replace(intent, needs=needs), UNKNOWN)
        assert isinstance(outcome, Admitted)
        assert outcome.trust_scope in (TrustScope.EXTERNAL, TrustScope.FORK_PR)
        assert not outcome.show
        assert outcome.state is TaskState.QUEUED
        assert outcome.evidence["source"] == "unavailable"


def test_lower_is_a_total_order() -> None:
    order = ["fork_pr", "external", "collaborator", "scheduled", "maintainer"]
    for left, right in product(order, order):
        expected = order[min(order.index(left), order.index(right))]
        assert lower(TrustScope(left), TrustScope(right)) == expected


def test_evidence_says_what_when_and_from_where() -> None:
    assert WRITER.evidence() == {
        "source": "permission_api",
        "permission": "write",
        "role": "write",
        "collaborator": False,
        "at": "2026-01-01T00:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("label", "is_pull", "verb"),
    [
        ("coven:fix", False, "fix"),
        ("coven:review", False, "fix"),
        ("coven:fix", True, "fix"),
        ("Coven Fix", True, "fix"),
        ("please-fix", True, "fix"),
        ("coven:review", True, "review"),
        ("prefix", True, "review"),
        ("fix later", True, "review"),
        (":", True, "review"),
    ],
)
def test_what_a_label_means(label: str, is_pull: bool, verb: str) -> None:
    assert label_verb(label, is_pull=is_pull) == verb
