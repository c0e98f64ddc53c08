"""What every way to end a session comes to, on GitHub and in the ledgers, through the real stack.

One pull request and one familiar per behaviour of the runtime: all are asked at once, then each
is looked at. At the end no process, folder or open promise may be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from coven.cli.ledger import list_tasks
from coven.sandbox.stack import DemoFamiliar
from coven.store import attempts
from coven.store.attempts import Attempt
from coven.store.tasks import Task
from tests.e2e.kit import BAD_CODE, Product, Repo, make_repo

pytestmark = [pytest.mark.xdist_group("e2e-outcomes"), pytest.mark.timeout(240)]

MIB = 2**20


@dataclass(frozen=True)
class Expected:
    """One behaviour, and what it must come to."""

    scenario: str
    outcome: str
    conclusion: str
    comment: str
    attempts: int = 1
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""

    @property
    def id(self) -> str:
        return "do-" + self.scenario.replace(":", "-").replace(",", "-")

    @property
    def handle(self) -> str:
        return f"{self.id}-bot"


def again(scenario: str, outcome: str, **facts: object) -> Expected:
    """A fault that is worth a second attempt, and fails the second time too."""
    return Expected(scenario, outcome, "failure", "failed", attempts=2, **facts)  # type: ignore[arg-type]


def once(scenario: str, outcome: str, **facts: object) -> Expected:
    """A failure that another attempt would only repeat."""
    return Expected(scenario, outcome, "failure", "failed", **facts)  # type: ignore[arg-type]


def broken_contract(scenario: str, **facts: object) -> Expected:
    return once(scenario, "contract_violation", **facts)


TABLE = (
    # The slow ones first, so that the others run beside them.
    Expected("hang", "timed_out", "timed_out", "failed", attempts=2),
    Expected("ignore-sigterm", "timed_out", "timed_out", "failed", attempts=2),
    again("fork-bomb", "limit", detail="processes"),
    again("hog-disk", "limit", detail="disk"),
    again("hog-memory:640", "limit", detail="memory"),
    Expected("exit-0", "succeeded", "success", "done", exit_code=0),
    once("exit-1", "gave_up", exit_code=1),
    again("exit-2", "infra", exit_code=2),
    Expected("exit-3", "needs_input", "action_required", "needs input", exit_code=3),
    once("exit-126", "misconfigured"),
    once("exit-127", "misconfigured"),
    again("exit-77", "infra", exit_code=77),
    again("crash", "infra", exit_code=101),
    again("signal:9", "killed", signal=9),
    again("signal:11", "killed", signal=11),
    broken_contract("malformed", exit_code=0),
    broken_contract("missing", exit_code=0),
    broken_contract("wrong-version", exit_code=0),
    broken_contract("symlink-result", exit_code=0),
    broken_contract("fifo-result", exit_code=0),
    broken_contract("directory-result", exit_code=0),
    broken_contract("big-result:24", exit_code=0),
    broken_contract("leak-path", exit_code=0, detail="secret"),
    Expected("huge-output:16", "succeeded", "success", "done", exit_code=0),
    Expected("grandchildren", "succeeded", "success", "done", exit_code=0),
    Expected("leak-env", "succeeded", "success", "done", exit_code=0),
    Expected("contract-v2", "succeeded", "success", "done", exit_code=0),
    Expected("needs-input", "needs_input", "action_required", "needs input", exit_code=3),
    Expected("partial", "partial", "neutral", "partial", exit_code=0),
    once("failure", "gave_up", exit_code=1),
    once("turn-limit", "infra", exit_code=2),
    once("auth-error", "infra", exit_code=2),
    Expected("flaky", "succeeded", "success", "done", attempts=2, exit_code=0),
)

FAMILIARS = tuple(DemoFamiliar(each.id, each.handle, f"sandbox:{each.scenario}") for each in TABLE)
KEYS = {
    "worker": {
        "concurrency": "2",
        "timeout_secs": "4",
        "grace_secs": "0.5",
        "max_retries": "1",
        "retry_base_secs": "0.2",
        "memory_bytes": str(512 * MIB),
        "workspace_bytes": str(64 * MIB),
        "processes": "64",
        "env_allow": '["COVEN_SANDBOX_STATE"]',
    },
    "review": {"familiar": '"cody"', "pull_request": "false"},
}


def environ_for(folder: Path) -> dict[str, str]:
    """Where the runtime counts the attempts of ``flaky``."""
    counters = folder / "counters"
    counters.mkdir()
    return {"COVEN_SANDBOX_STATE": str(counters)}


@dataclass
class Seen:
    """One task with its attempts when everything had come to rest."""

    task: Task
    attempts: list[Attempt]


@dataclass
class World:
    """All pull requests after all familiars are through, one each.

    In several installations, since each of them is published to at a limited pace.
    """

    repos: dict[str, Repo]
    numbers: dict[str, int]
    seen: dict[str, Seen]


@pytest.fixture(scope="module")
def world(product: Product) -> World:
    several = [make_repo(product, f"{owner}/outcomes") for owner in ("acme", "bolt", "crux")]
    repos, numbers = {}, {}
    for number, each in enumerate(TABLE):
        repo = repos[each.id] = several[number % len(several)]
        pull = repo.pull({"things/pack.py": BAD_CODE}, branch=f"for-{each.id}", deliver=False)
        numbers[each.id] = int(pull["number"])
        answer = repo.say(numbers[each.id], f"@{each.handle} review").response
        assert "task" in answer, (each.id, answer)
    product.settle(200)
    seen = {}
    with product.store.read() as tx:
        for task in list_tasks(tx, None, None, 200):
            found = attempts.of_task(task.installation_id, tx, task.id)
            seen[task.familiar_id] = Seen(task, found)
    return World(repos, numbers, seen)


@pytest.mark.parametrize("expected", TABLE, ids=lambda each: each.scenario)
def test_the_way_a_session_ends_decides_what_people_see(world: World, expected: Expected) -> None:
    task, tries = world.seen[expected.id].task, world.seen[expected.id].attempts
    last = tries[-1]
    assert (task.outcome, len(tries)) == (expected.outcome, expected.attempts), task.detail
    assert expected.exit_code in (None, last.exit_code)
    assert expected.signal in (None, last.signal)
    assert expected.detail in (last.detail or "")
    assert task.head_sha is not None
    name = f"{expected.id.capitalize()} / review"
    (run,) = [run for run in world.repos[expected.id].runs(task.head_sha) if run["name"] == name]
    assert (run["status"], run["conclusion"]) == ("completed", expected.conclusion)
    (comment,) = [
        body
        for body in world.repos[expected.id].comments(world.numbers[expected.id])
        if not body.startswith("@")
    ]
    assert f"**{expected.comment}**" in comment.splitlines()[0]


def test_what_was_printed_stands_on_the_attempt_cut_to_the_last_64_kib(world: World) -> None:
    flood = world.seen["do-huge-output-16"].attempts[-1]
    assert flood.stdout_tail is not None
    assert flood.stderr_tail is not None
    assert 60_000 < len(flood.stdout_tail) <= 64 * 1024
    assert 60_000 < len(flood.stderr_tail) <= 64 * 1024
    assert "401" in (world.seen["do-auth-error"].attempts[-1].stderr_tail or "")


def test_the_dialect_of_the_runtime_is_listed_as_tolerated(world: World) -> None:
    tolerated = " ".join(world.seen["do-exit-0"].attempts[-1].tolerated or [])
    assert "review.memory" in tolerated
    assert "branch" in tolerated
    assert world.seen["do-contract-v2"].attempts[-1].tolerated == []


def test_no_token_that_reads_or_writes_code_outlives_its_task(
    world: World, product: Product
) -> None:
    tokens = [
        token
        for token in product.admin.state()["tokens"]
        if token["permissions"].get("contents") and "checks" not in token["permissions"]
    ]
    assert len(tokens) >= len(TABLE)
    assert [token for token in tokens if not token["revoked"]] == []


def test_a_sessions_environment_holds_what_the_list_allows_and_no_secret(
    world: World, product: Product
) -> None:
    printed = world.seen["do-leak-env"].attempts[-1].stdout_tail or ""
    names = {line.partition("=")[0] for line in printed.splitlines() if "=" in line}
    assert {"COVEN_SESSION", "COVEN_SANDBOX_STATE", "HOME", "PATH"} <= names
    assert not {name for name in names if name.startswith("COVEN_GITHUB")}
    assert "COVEN_GIT_TOKEN" not in names
    assert product.stack.webhook_secret not in printed
    assert str(product.stack.config_path) not in printed
