"""Two people, or a person and a run, at the memory book at the same moment, on both databases."""

from __future__ import annotations

from collections import Counter

from coven.memory.book import Decided, Entry, EntryState, Refusal, Revoked
from coven.store import book
from coven.store.book import Filters
from coven.store.engine import Store
from coven.values import TaskId
from tests.integration.test_store_races import together
from tests.ledger import TENANT, put
from tests.memory_book import ANN, BEN, again, approved, decide, pending, propose, revoke

ROUNDS = 4


def test_of_two_answers_one_counts(store: Store) -> None:
    for number in range(ROUNDS):
        entry = pending(store, f"conv/{number}")

        def answer(who: int, entry: Entry = entry) -> Decided:
            return decide(store, entry, approve=who == 0, by=(ANN, BEN)[who])

        found = together(2, answer)
        assert [each.done for each in found].count(True) == 1
        assert [each.refused for each in found].count(Refusal.NOT_PENDING) == 1
        won = next(each.entry for each in found if each.done)
        assert again(store, entry) == won


def test_of_two_equal_answers_one_is_written(store: Store) -> None:
    entry = pending(store)
    found = together(4, lambda _: decide(store, entry))
    assert [each.fresh for each in found].count(True) == 1
    with store.read() as tx:
        acts = Counter(line.act for line in book.history(TENANT, tx, entry))
    assert acts == {"proposed": 1, "approved": 1}


def test_after_revoke_against_approve_nothing_revoked_is_in_use(store: Store) -> None:
    put(store)
    for number in range(ROUNDS):
        entry = pending(store, f"n{number}/x")

        def act(who: int, entry: Entry = entry) -> Decided | Revoked:
            if who == 0:
                return decide(store, entry)
            return revoke(store, f"repo/octo/demo/{entry.place.split('/')[0]}")

        together(2, act)
        assert again(store, entry).state is EntryState.REVOKED


def test_after_revoke_against_propose_nothing_waits_below_it(store: Store) -> None:
    put(store)
    for number in range(ROUNDS):
        place = f"n{number}"

        def act(who: int, place: str = place) -> Decided | Revoked:
            if who == 0:
                return propose(store, f"{place}/x")
            return revoke(store, f"repo/octo/demo/{place}")

        together(2, act)
        with store.read() as tx:
            below = book.listed(TENANT, tx, Filters(prefix=f"repo/octo/demo/{place}"))
        assert {each.state for each in below} <= {EntryState.REVOKED}


def test_of_many_equal_proposals_one_is_written(store: Store) -> None:
    found = together(5, lambda n: propose(store, task_id=TaskId(f"{n:032x}")))
    assert [each.fresh for each in found].count(True) == 1
    assert len({each.entry.id for each in found if each.entry}) == 1


def test_of_many_texts_for_a_place_one_waits_and_one_is_in_use(store: Store) -> None:
    approved(store)
    entries = [pending(store, summary=f"Round {n}.") for n in range(2)]
    together(
        4,
        lambda n: (
            propose(store, summary=f"Round {n + 5}.") if n < 2 else decide(store, entries[n - 2])
        ),
    )
    with store.read() as tx:
        states = Counter(each.state for each in book.listed(TENANT, tx))
    assert states[EntryState.APPROVED] == 1
    assert states[EntryState.PENDING] <= 1


def test_of_many_revocations_of_a_place_one_stands(store: Store) -> None:
    put(store)
    found = together(4, lambda _: revoke(store, "repo/octo/demo/x"))
    assert [each.fresh for each in found].count(True) == 1
    with store.read() as tx:
        assert len(book.revocations(TENANT, tx)) == 1
