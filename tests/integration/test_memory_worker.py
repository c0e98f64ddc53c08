"""Memory around a session: what is handed out, what its report leaves, and what fails closed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import event, text

from coven.bell import SilentBell
from coven.clock import ManualClock
from coven.contract.examples import result as example
from coven.contract.memory import MemoryProposal, MemoryRead, MemoryUsed
from coven.contract.result import Result
from coven.errors import LeaseLost
from coven.github.factory import GitHub
from coven.governance.wire import Seam
from coven.memory.book import Entry, EntryState
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Memory, MemoryOverride, Server, Settings
from coven.store import book
from coven.store.attempts import AttemptEnd
from coven.store.engine import Store
from coven.store.tasks import Ending, Task
from coven.values import RepoId, TaskState, TrustScope
from tests.ledger import NOW, REPO_ID, TENANT, look, put, take
from tests.memory_book import again, approved, pending, revoke, shared
from worker import settle, upkeep
from worker.memory import MemoryReport, SessionMemory, hand_out, judged

KEY = "repo/octo/demo/conv/x"
DONE = Ending(TaskState.COMPLETED, "succeeded", result={"memory": None})
END = AttemptEnd("succeeded")


@pytest.fixture
def services(sqlite_store: Store, tmp_path: Path) -> Services:
    return services_on(sqlite_store, tmp_path)


def services_on(store: Store, tmp_path: Path, **memory: Any) -> Services:
    settings = Settings(
        server=Server(state_dir=tmp_path), memory=Memory(enabled=True, self_hosted=True, **memory)
    )
    return Services(
        settings=settings,
        store=store,
        github=cast(GitHub, None),
        clock=ManualClock(NOW),
        seam=Seam(),
        bell=SilentBell(),
        redactor=Redactor(),
        secret_key=b"k" * 32,
    )


def running(store: Store, **changes: Any) -> Task:
    facts: dict[str, Any] = {
        "account_id": 9,
        "account_login": "octo",
        "repo_private": True,
        "repo_visibility": "private",
        "default_branch": "main",
        "base_ref": "main",
        "head_ref": "changes",
        "head_repo_id": REPO_ID,
        "head_sha": "b" * 40,
        "actor_id": 11,
        "actor_login": "ann",
        "author_id": 12,
        "author_login": "ben",
    }
    task = take(store, put(store, **facts | changes))
    assert task is not None
    return task


def says(*proposals: tuple[str, str, str], read: tuple[str, ...] = ()) -> Result:
    used = MemoryUsed(
        enabled=True,
        read=tuple(MemoryRead(id=each, scope="repo") for each in read),
        proposed=tuple(
            MemoryProposal(key=key, summary=summary, scope="repo", approval=cast(Any, approval))
            for key, summary, approval in proposals
        ),
    )
    return example().model_copy(update={"memory_used": used})


PROPOSES = says((KEY, "Round half up.", "pending"))


def report(
    services: Services, task: Task, memory: SessionMemory | None, result: Result
) -> MemoryReport:
    return judged(services, task, memory, result, Redactor(), task.attempts_used)


def finish(services: Services, task: Task, result: Result, ending: Ending = DONE) -> Task:
    memory = report(services, task, hand_out(services, task, Redactor()), result)
    return settle.finish(services, task, ending, END, [], memory=memory)


def entries(services: Services) -> list[Entry]:
    with services.store.read() as tx:
        return book.listed(TENANT, tx)


def lines(services: Services, task: Task) -> list[tuple[str, str]]:
    with services.store.read() as tx:
        return [
            (line.activity.op, line.activity.outcome) for line in book.of_task(TENANT, tx, task.id)
        ]


def test_a_proposal_waits_from_the_moment_the_task_ends(store: Store, tmp_path: Path) -> None:
    services = services_on(store, tmp_path)
    task = running(store)
    ended = finish(services, task, PROPOSES)
    (entry,) = entries(services)
    assert entry.state is EntryState.PENDING
    assert (entry.task_id, entry.head_sha, entry.trust) == (task.id, "b" * 40, "maintainer")
    assert (entry.actor_login, entry.author_login, entry.familiar_id) == ("ann", "ben", "cody")
    assert entry.expires_at == NOW + timedelta(days=365)
    assert lines(services, task) == [("proposed", "accepted")]
    assert ended.result is not None
    (decision,) = ended.result["memory"]["decisions"]
    assert decision["entry"] == entry.id
    # The text stands in the book alone, where it can be redacted.
    assert entry.summary not in str(ended.result)


def test_a_lost_lease_leaves_no_proposal(services: Services) -> None:
    task = running(services.store)
    with pytest.raises(LeaseLost):
        finish(services, replace(task, lease_token="x" * 32), PROPOSES)
    assert entries(services) == []
    assert look(services.store, task.id).state is TaskState.RUNNING


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.SUPERSEDED, TaskState.CANCELLED])
def test_a_session_that_came_to_nothing_teaches_nothing(
    services: Services, state: TaskState
) -> None:
    known = approved(services.store)
    task = running(services.store)
    result = says(("repo/octo/demo/conv/y", "x is y", "pending"), read=(KEY,))
    finish(services, task, result, Ending(state, "stopped"))
    assert [each.id for each in entries(services)] == [known.id]
    assert lines(services, task) == [
        ("supplied", "accepted"),
        ("read", "accepted"),
        ("proposed", "not_kept"),
    ]


def test_a_waiting_session_notes_what_it_did(services: Services) -> None:
    task = running(services.store)
    memory = report(services, task, hand_out(services, task, Redactor()), PROPOSES)
    settle.wait(services, task, END, "answer", timedelta(hours=1), [], memory=memory)
    assert lines(services, task) == [("proposed", "not_kept")]
    assert entries(services) == []


def test_what_was_handed_out_is_noted_whatever_becomes_of_the_session(services: Services) -> None:
    entry = approved(services.store)
    task = running(services.store)
    memory = hand_out(services, task, Redactor())
    assert [each.id for each in memory.supply.entries] == [entry.id]
    assert entry.id in memory.supply.text
    hand_out(services, task, Redactor())
    assert lines(services, task) == [("supplied", "accepted")]
    assert again(services.store, entry).supplied == 1


@pytest.mark.parametrize(
    ("approval", "required", "state"),
    [
        ("pending", False, EntryState.PENDING),
        ("applied", False, EntryState.APPROVED),
        ("auto", False, EntryState.APPROVED),
        ("pending", True, EntryState.PENDING),
        ("applied", True, None),
        ("auto", True, None),
    ],
)
def test_approval_at_once_takes_both_the_policy_and_the_word(
    sqlite_store: Store, tmp_path: Path, approval: str, required: bool, state: EntryState | None
) -> None:
    services = services_on(sqlite_store, tmp_path, approval_required=required)
    finish(services, running(sqlite_store), says((KEY, "Round half up.", approval)))
    assert [each.state for each in entries(services)] == ([state] if state else [])


@pytest.mark.parametrize("trust", [TrustScope.EXTERNAL, TrustScope.FORK_PR])
@pytest.mark.parametrize("side", ["trust_scope", "content_trust"])
def test_the_lower_trust_keeps_outsiders_out(
    services: Services, trust: TrustScope, side: str
) -> None:
    finish(services, running(services.store, **{side: trust}), PROPOSES)
    finish(services, running(services.store, head_repo_id=RepoId(99)), PROPOSES)
    assert entries(services) == []


def test_a_collaborators_proposal_waits_with_their_trust(services: Services) -> None:
    finish(services, running(services.store, content_trust=TrustScope.COLLABORATOR), PROPOSES)
    (entry,) = entries(services)
    assert (entry.state, entry.trust) == (EntryState.PENDING, TrustScope.COLLABORATOR)


def test_a_revocation_while_the_session_runs_refuses_read_and_proposal(
    store: Store, tmp_path: Path
) -> None:
    services = services_on(store, tmp_path)
    entry = approved(store)
    task = running(store)
    memory = hand_out(services, task, Redactor())
    revoke(store, entry.key)
    found = report(services, task, memory, says((KEY, "Round down.", "pending"), read=(KEY,)))
    assert [each.reason for each in found.judged.decisions] == ["revoked", "revoked"]
    assert [each.entry for each in found.judged.decisions] == [None, None]
    settle.finish(services, task, DONE, END, [], memory=found)
    assert again(store, entry).cited == 0
    assert lines(services, task)[1:] == [
        ("read", "rejected:revoked"),
        ("proposed", "rejected:revoked"),
    ]


def test_a_revocation_after_the_judging_is_still_in_time(services: Services) -> None:
    put(services.store)
    task = running(services.store)
    found = report(services, task, hand_out(services, task, Redactor()), PROPOSES)
    assert found.judged.decisions[0].accepted
    revoke(services.store, "repo/octo/demo/conv")
    ended = settle.finish(services, task, DONE, END, [], memory=found)
    assert entries(services) == []
    assert lines(services, task) == [("proposed", "rejected:revoked")]
    assert ended.result is not None
    (decision,) = ended.result["memory"]["decisions"]
    assert (decision["accepted"], decision["reason"]) == (False, "revoked")


def test_a_revocation_is_sent_with_the_next_claim(services: Services) -> None:
    entry = approved(services.store)
    with services.store.write() as tx:
        everywhere = book.propose(TENANT, tx, shared(), NOW, approved=True).entry
    assert everywhere is not None
    memory = hand_out(services, running(services.store), Redactor())
    assert [each.id for each in memory.supply.entries] == [entry.id, everywhere.id]
    revoke(services.store, entry.id)
    revoke(services.store, f"tenant/{TENANT}")
    memory = hand_out(services, running(services.store), Redactor())
    assert memory.supply.text == ""
    assert memory.grant.policy.denied == (KEY, f"tenant/{TENANT}")


def test_revocations_that_can_not_be_read_switch_memory_off(services: Services) -> None:
    approved(services.store)
    task = running(services.store)
    good = hand_out(services, task, Redactor())
    assert good.grant.policy.enabled
    with services.store.write() as tx:
        tx.execute(text("ALTER TABLE memory_revocations RENAME TO gone"))
    memory = hand_out(services, task, Redactor())
    assert (memory.grant.policy.enabled, memory.supply.text) == (False, "")
    assert memory.grant.why == "what was revoked could not be read"
    # A session that was granted memory before is not believed either.
    found = report(services, task, good, says((KEY, "x is y", "pending"), read=(KEY,)))
    assert {each.reason for each in found.judged.decisions} == {"policy_disabled"}


def test_a_revocation_that_can_not_be_understood_switches_memory_off(services: Services) -> None:
    approved(services.store)
    revoke(services.store, KEY)
    with services.store.write() as tx:
        tx.execute(text("UPDATE memory_revocations SET below = '../x'"))
    memory = hand_out(services, running(services.store), Redactor())
    assert not memory.grant.policy.enabled


def test_memory_that_is_off_hands_nothing_out_and_keeps_nothing(
    sqlite_store: Store, tmp_path: Path
) -> None:
    off = {"octo/demo": MemoryOverride(enabled=False)}
    services = services_on(sqlite_store, tmp_path, repos=off)
    entry = approved(sqlite_store)
    task = running(sqlite_store)
    memory = hand_out(services, task, Redactor())
    assert (memory.grant.policy.enabled, memory.supply.text) == (False, "")
    settle.finish(services, task, DONE, END, [], memory=report(services, task, memory, PROPOSES))
    assert [each.id for each in entries(services)] == [entry.id]
    assert lines(services, task) == [("proposed", "rejected:policy_disabled")]


def test_what_is_used_is_cited_and_what_is_not_there_is_not(services: Services) -> None:
    entry = approved(services.store)
    waiting = pending(services.store, "conv/waits")
    task = running(services.store)
    result = says(read=(entry.id, "repo/octo/demo/conv/made-up", waiting.key, waiting.id))
    memory = report(services, task, hand_out(services, task, Redactor()), result)
    assert [each.entry for each in memory.judged.decisions] == [entry.id, None, None, None]
    settle.finish(services, task, DONE, END, [], memory=memory)
    assert again(services.store, entry).cited == 1
    assert again(services.store, entry).last_cited_at == NOW
    assert lines(services, task) == [
        ("supplied", "accepted"),
        ("read", "accepted"),
        ("read", "unknown"),
        ("read", "unknown"),
        ("read", "rejected:not_addressable"),
    ]


def test_a_secret_that_is_known_by_now_is_not_handed_out(services: Services) -> None:
    approved(services.store, "conv/a", "The key is plain-live-value-77.")
    kept = approved(services.store, "conv/b")
    memory = hand_out(services, running(services.store), Redactor(["plain-live-value-77"]))
    assert [each.id for each in memory.supply.entries] == [kept.id]


def test_memory_follows_a_renamed_repository_into_the_next_run(services: Services) -> None:
    approved(services.store)
    memory = hand_out(services, running(services.store, repo_name="renamed"), Redactor())
    assert [each.key for each in memory.supply.entries] == ["repo/octo/renamed/conv/x"]
    found = hand_out(services, running(services.store, repo_id=RepoId(99)), Redactor())
    assert found.supply.entries == ()


def test_a_thousand_proposals_cost_a_run_little_more_than_a_hundred(services: Services) -> None:
    def spent(count: int) -> tuple[int, int]:
        seen = 0

        def note(*_: Any) -> None:
            nonlocal seen
            seen += 1

        task = running(services.store)
        many = says(
            *((f"repo/octo/demo/n{task.seq}/{n}", "x is y", "pending") for n in range(count))
        )
        memory = report(services, task, hand_out(services, task, Redactor()), many)
        before = len(entries_of(services, task))
        event.listen(services.store.engine, "before_cursor_execute", note)
        settle.finish(services, task, DONE, END, [], memory=memory)
        event.remove(services.store.engine, "before_cursor_execute", note)
        return seen, len(entries_of(services, task)) - before

    few, kept_few = spent(book.PROPOSALS_PER_TASK)
    many, kept_many = spent(1_000)
    assert kept_few == kept_many == book.PROPOSALS_PER_TASK
    assert many < few * 1.2


def entries_of(services: Services, task: Task) -> list[Entry]:
    with services.store.read() as tx:
        return book.listed(TENANT, tx, book.Filters(task_id=task.id), limit=1_000)


def test_retention_ends_what_is_too_old_in_batches(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [approved(services.store, f"conv/{n}") for n in range(3)]
    finish(services, running(services.store), says(read=(kept[0].key,)))
    monkeypatch.setattr("coven.store.book_sweeps.expire.__defaults__", (2,))
    cast(ManualClock, services.clock).advance(timedelta(days=11).total_seconds())
    upkeep.retain_memory(services)
    assert {again(services.store, each).state for each in kept} == {EntryState.EXPIRED}
    assert hand_out(services, running(services.store), Redactor()).supply.entries == ()
    cast(ManualClock, services.clock).advance(timedelta(days=366).total_seconds())
    upkeep.retain_memory(services)
    assert entries(services) == []
    with services.store.read() as tx:
        assert book.activity(TENANT, tx) == []
