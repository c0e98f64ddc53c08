"""The bounded look-up: budget, breaker, memory, and every way in which GitHub can fail."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from coven.clock import ManualClock
from coven.errors import (
    CovenError,
    GitHubForbidden,
    GitHubNotFound,
    GitHubUnavailable,
    InstallationGone,
    RateLimited,
)
from coven.github.models import Permission
from coven.settings.models import Familiar
from coven.values import InstallationId, Lane, RepoId, RepoName, TrustScope
from webhooks.intents import Intent, Needs, Person
from webhooks.lookup import Breaker, Lookup

MONA = Person(1, "mona")


@dataclass
class Fake:
    """One repository's answers; ``error`` is raised instead when set."""

    permissions: dict[str, Permission] = field(
        default_factory=lambda: {"mona": Permission("write", "write", 1)}
    )
    error: Exception | None = None
    gate: threading.Event | None = None
    asked: int = 0
    budgets: list[float] = field(default_factory=list)

    def for_repo(self, *_: Any, timeout_secs: float | None = None) -> Fake:
        self.budgets.append(timeout_secs or 0)
        return self

    def permission(self, login: str) -> Permission:
        self.asked += 1
        if self.gate is not None:
            self.gate.wait(10)
        if self.error is not None:
            raise self.error
        return self.permissions[login]

    def is_collaborator(self, login: str) -> bool:
        return login == "reader"


def intent(*, private: bool | None = False, installation: int = 42) -> Intent:
    return Intent(
        installation_id=InstallationId(installation),
        repo_id=RepoId(5),
        repo=RepoName("acme", "billing"),
        repo_private=private,
        default_branch="main",
        account_id=None,
        account_login=None,
        familiar=Familiar(id="cody", display_name="Cody", bot_username="cody[bot]"),
        lane=Lane.REVIEW,
        verb="review",
        reason="command:review",
        needs=Needs.WRITE,
        semantic_key="k",
        thread=7,
        is_pull=True,
        title="",
        actor=MONA,
        author=None,
        source_at=None,
        payload={},
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def look(lookup: Lookup, clock: ManualClock, who: Person | None = MONA, **where: Any) -> Any:
    return lookup.rights(intent(**where), who, clock.monotonic() + 0.2)


def test_answer_is_kept_for_a_minute_by_numeric_id(clock: ManualClock) -> None:
    fake = Fake()
    lookup = Lookup(fake, clock)
    assert look(lookup, clock).scope(private=False) is TrustScope.MAINTAINER
    look(lookup, clock, Person(1, "mona-renamed"))
    assert fake.asked == 1
    clock.advance(61)
    look(lookup, clock)
    assert fake.asked == 2


def test_freed_login_of_a_maintainer_is_somebody_else(clock: ManualClock) -> None:
    lookup = Lookup(Fake(), clock)
    look(lookup, clock)
    evil = look(lookup, clock, Person(666, "mona"))
    assert (evil.source, evil.confirmed) == ("identity_changed", True)
    assert evil.scope(private=True) is TrustScope.EXTERNAL


def test_no_is_kept_shorter_and_is_never_upgraded_without_asking(clock: ManualClock) -> None:
    fake = Fake({"mona": Permission("read", "read", 1)})
    lookup = Lookup(fake, clock)
    assert look(lookup, clock).scope(private=False) is TrustScope.EXTERNAL
    fake.permissions["mona"] = Permission("admin", "admin", 1)
    assert look(lookup, clock).scope(private=False) is TrustScope.EXTERNAL
    clock.advance(16)
    assert look(lookup, clock).scope(private=False) is TrustScope.MAINTAINER


@pytest.mark.parametrize(
    ("permission", "login", "private", "scope"),
    [
        (Permission("admin", "admin", 1), "mona", False, TrustScope.MAINTAINER),
        (Permission("write", "maintain", 1), "mona", False, TrustScope.MAINTAINER),
        (Permission("write", "security-lead", 1), "mona", False, TrustScope.MAINTAINER),
        (Permission("read", "triage", 1), "mona", False, TrustScope.COLLABORATOR),
        (Permission("read", "read", 1), "mona", False, TrustScope.EXTERNAL),
        (Permission("read", "read", 1), "reader", False, TrustScope.COLLABORATOR),
        (Permission("read", "read", 1), "mona", True, TrustScope.COLLABORATOR),
        (Permission("none", "none", 1), "reader", True, TrustScope.EXTERNAL),
        (Permission("read", "admin", 1), "mona", False, TrustScope.EXTERNAL),
    ],
)
def test_permission_decides_and_role_names_do_not(
    clock: ManualClock, permission: Permission, login: str, private: bool, scope: TrustScope
) -> None:
    lookup = Lookup(Fake({login: permission}), clock)
    assert look(lookup, clock, Person(1, login), private=private).scope(private=private) is scope


def test_not_found_is_a_confirmed_no(clock: ManualClock) -> None:
    rights = look(Lookup(Fake(error=GitHubNotFound("Copilot is not a user")), clock), clock)
    assert (rights.source, rights.confirmed) == ("not_a_user", True)
    assert rights.scope(private=True) is TrustScope.EXTERNAL


@pytest.mark.parametrize(
    "error",
    [
        GitHubUnavailable("502"),
        RateLimited("slow down", retry_after=60),
        GitHubForbidden("Must have push access"),
        InstallationGone("suspended"),
        CovenError("misconfigured"),
        RuntimeError("bug"),
    ],
)
def test_failures_are_unavailable_and_never_raise(clock: ManualClock, error: Exception) -> None:
    rights = look(Lookup(Fake(error=error), clock), clock)
    assert (rights.source, rights.confirmed) == ("unavailable", False)
    assert rights.scope(private=True) is TrustScope.EXTERNAL


def test_deleted_account_needs_no_question(clock: ManualClock) -> None:
    fake = Fake()
    lookup = Lookup(fake, clock)
    assert look(lookup, clock, None).source == "no_account"
    assert look(lookup, clock, Person(3, None)).source == "no_account"
    assert fake.asked == 0


def test_spent_budget_asks_nobody(clock: ManualClock) -> None:
    fake = Fake()
    rights = Lookup(fake, clock).rights(intent(), MONA, clock.monotonic())
    assert (rights.source, fake.asked) == ("unavailable", 0)


def test_hang_costs_the_budget_and_opens_the_breaker(clock: ManualClock) -> None:
    fake = Fake(gate=threading.Event())
    lookup = Lookup(fake, clock)
    try:
        began = time.monotonic()
        for _ in range(3):
            rights = lookup.rights(intent(), MONA, clock.monotonic() + 0.05)
            assert rights.source == "unavailable"
        assert 0.1 < time.monotonic() - began < 1.5
        asked = fake.asked
        assert look(lookup, clock).source == "unavailable"
        assert fake.asked == asked
    finally:
        fake.gate.set() if fake.gate else None


def test_late_answer_serves_the_next_delivery(clock: ManualClock) -> None:
    fake = Fake(gate=threading.Event())
    lookup = Lookup(fake, clock)
    assert lookup.rights(intent(), MONA, clock.monotonic() + 0.02).source == "unavailable"
    assert fake.gate is not None
    fake.gate.set()
    until = time.monotonic() + 5
    while time.monotonic() < until and not lookup._kept:
        time.sleep(0.005)
    rights = lookup.rights(intent(), MONA, clock.monotonic() + 0.02)
    assert (rights.source, fake.asked) == ("permission_api", 1)


def test_breaker_of_one_installation_leaves_the_others_alone(clock: ManualClock) -> None:
    fake = Fake(error=GitHubUnavailable("502"))
    lookup = Lookup(fake, clock)
    for _ in range(4):
        look(lookup, clock)
    assert fake.asked == 3
    fake.error = None
    assert look(lookup, clock, installation=43).source == "permission_api"


def test_time_left_is_handed_to_the_client(clock: ManualClock) -> None:
    fake = Fake()
    look(Lookup(fake, clock), clock)
    assert fake.budgets == [pytest.approx(0.2)]


def test_breaker_opens_rests_and_probes(clock: ManualClock) -> None:
    breaker = Breaker(clock)
    for _ in range(2):
        breaker.failed()
    assert breaker.allows()
    breaker.succeeded()
    for _ in range(3):
        assert breaker.allows()
        breaker.failed()
    assert not breaker.allows()
    clock.advance(29)
    assert not breaker.allows()
    clock.advance(1)
    assert breaker.allows()
    assert not breaker.allows()
    breaker.failed()
    assert not breaker.allows()
    clock.advance(30)
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.allows()
