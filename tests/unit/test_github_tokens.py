"""The token cache: how long, for whom, and how often GitHub is asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from coven.clock import ManualClock
from coven.errors import GitHubUnavailable
from coven.github.models import Token
from coven.github.roles import Role
from coven.github.tokens import Minted, TokenKey, Tokens
from coven.values import InstallationId, RepoId

KEY = TokenKey(InstallationId(1), RepoId(2), Role.PUBLISH)


class Mint:
    def __init__(self, clock: ManualClock, lives: timedelta = timedelta(hours=1)) -> None:
        self.clock = clock
        self.lives = lives
        self.asked: list[TokenKey] = []
        self.fail_next = False
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    def __call__(self, key: TokenKey, deadline: float) -> Minted:
        self.asked.append(key)
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.fail_next:
            self.fail_next = False
            raise GitHubUnavailable("down")
        dies = self.clock.now() + self.lives
        return Minted(Token(f"ghs_{len(self.asked)}", dies, {}), dies)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mint(clock: ManualClock) -> Mint:
    return Mint(clock)


@pytest.fixture
def tokens(mint: Mint, clock: ManualClock) -> Tokens:
    return Tokens(mint, clock)


def soon(clock: ManualClock) -> float:
    return clock.monotonic() + 10


def test_a_token_is_used_until_five_minutes_before_its_end(
    tokens: Tokens, mint: Mint, clock: ManualClock
) -> None:
    first = tokens.get(KEY, soon(clock))
    clock.advance(54 * 60 + 59)
    assert tokens.get(KEY, soon(clock)) == first
    clock.advance(1)
    assert tokens.get(KEY, soon(clock)) != first
    assert len(mint.asked) == 2


def test_an_hour_between_clone_and_publication_gives_a_fresh_token(
    tokens: Tokens, mint: Mint, clock: ManualClock
) -> None:
    tokens.get(KEY, soon(clock))
    clock.advance(61 * 60)
    assert tokens.get(KEY, soon(clock)).value == "ghs_2"


@pytest.mark.parametrize(
    "other",
    [
        TokenKey(InstallationId(9), RepoId(2), Role.PUBLISH),
        TokenKey(InstallationId(1), RepoId(9), Role.PUBLISH),
        TokenKey(InstallationId(1), RepoId(2), Role.PUSH),
    ],
)
def test_installations_repositories_and_roles_never_share_a_token(
    tokens: Tokens, clock: ManualClock, other: TokenKey
) -> None:
    assert tokens.get(KEY, soon(clock)).value != tokens.get(other, soon(clock)).value


def test_many_threads_mint_once(tokens: Tokens, mint: Mint, clock: ManualClock) -> None:
    mint.gate = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(tokens.get, KEY, soon(clock)) for _ in range(16)]
        mint.gate.set()
        assert {call.result(10).value for call in asked} == {"ghs_1"}
    assert len(mint.asked) == 1


def test_a_slow_mint_for_one_repository_does_not_hold_up_another(
    tokens: Tokens, mint: Mint, clock: ManualClock
) -> None:
    gate = mint.gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(tokens.get, KEY, soon(clock))
        assert mint.entered.wait(10)
        mint.gate = None
        other = TokenKey(InstallationId(1), RepoId(3), Role.PUBLISH)
        assert tokens.get(other, soon(clock)).value == "ghs_2"
        gate.set()
        slow.result(10)


def test_waiting_for_somebody_elses_mint_ends_at_the_deadline(
    tokens: Tokens, mint: Mint, clock: ManualClock
) -> None:
    mint.gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(tokens.get, KEY, soon(clock))
        assert mint.entered.wait(10)
        with pytest.raises(GitHubUnavailable, match="waiting for a token"):
            tokens.get(KEY, clock.monotonic() + 0.01)
        mint.gate.set()
        slow.result(10)


def test_a_failed_mint_is_not_remembered(tokens: Tokens, mint: Mint, clock: ManualClock) -> None:
    mint.fail_next = True
    with pytest.raises(GitHubUnavailable):
        tokens.get(KEY, soon(clock))
    assert tokens.get(KEY, soon(clock)).value == "ghs_2"


def test_forgetting_a_refused_token_keeps_its_replacement(
    tokens: Tokens, clock: ManualClock
) -> None:
    old = tokens.get(KEY, soon(clock))
    tokens.forget(KEY, old.value)
    fresh = tokens.get(KEY, soon(clock))
    tokens.forget(KEY, old.value)  # a slower thread that got the same 401
    assert tokens.get(KEY, soon(clock)) == fresh


def test_forgotten_tokens_stay_secrets_until_they_die(tokens: Tokens, clock: ManualClock) -> None:
    value = tokens.get(KEY, soon(clock)).value
    tokens.forget(KEY)
    assert value in tokens.live_values()
    clock.advance(3601)
    assert tokens.live_values() == ()


def test_dropping_by_value_empties_its_place(tokens: Tokens, clock: ManualClock) -> None:
    value = tokens.get(KEY, soon(clock)).value
    tokens.drop(value)
    assert tokens.any_value() is None
    assert tokens.get(KEY, soon(clock)).value != value


def test_what_is_kept_does_not_grow_for_ever(
    tokens: Tokens, mint: Mint, clock: ManualClock
) -> None:
    for number in range(50):
        tokens.get(TokenKey(InstallationId(1), RepoId(number), Role.LOOKUP), soon(clock))
        clock.advance(600)
    assert len(tokens.live_values()) <= 6
    assert len(tokens._minting) <= 8


def test_the_cache_shows_no_value(tokens: Tokens, clock: ManualClock) -> None:
    value = tokens.get(KEY, soon(clock)).value
    assert value not in repr(tokens)


@pytest.mark.parametrize("role", list(Role))
def test_only_the_push_role_writes_contents(role: Role) -> None:
    assert (role.permissions.get("contents") == "write") is (role is Role.PUSH)
    assert "workflows" not in role.permissions
    assert "administration" not in role.permissions
    assert role.problem_with(role.permissions) is None
    assert role.problem_with(role.permissions | {"metadata": "read"}) is None


def test_a_wider_or_narrower_grant_is_noticed() -> None:
    assert "contents" in str(Role.CHECKOUT.problem_with({"contents": "write"}))
    assert "contents" in str(Role.PUSH.problem_with({"contents": "read"}))
    assert "secrets" in str(Role.PUSH.problem_with({"contents": "write", "secrets": "read"}))
    assert "checks" in str(Role.PUBLISH.problem_with({"metadata": "read"}))
    assert "metadata" in str(Role.PUSH.problem_with({"contents": "write", "metadata": "write"}))
