"""The memory book on both databases: who may change what, and what every question answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql

from coven.memory.book import (
    REDACTED,
    SUMMARY_CHARS,
    Act,
    EntryState,
    Person,
    Refusal,
)
from coven.memory.keys import MemoryKey
from coven.memory.validation import Decision, Kind
from coven.store import book, book_sweeps, installations
from coven.store.book import Filters
from coven.store.book_rows import at_or_below, e
from coven.store.engine import Store
from coven.tenancy.facts import Repo, RepositoriesSelected
from coven.values import InstallationId, RepoId, RepoName, TaskId, TrustScope
from tests.ledger import NOW, OTHER, REPO_ID, TENANT, put
from tests.memory_book import (
    ANN,
    BEN,
    KEEP,
    REPO,
    RUN,
    again,
    approved,
    decide,
    denied,
    lift,
    new_entry,
    pending,
    propose,
    remember,
    revoke,
    shared,
)

LATER = NOW + KEEP + timedelta(seconds=1)


def test_a_proposal_waits_with_all_that_is_known_of_it(store: Store) -> None:
    entry = pending(store)
    assert entry.state is EntryState.PENDING
    assert (entry.key, entry.scope, entry.version) == ("repo/octo/demo/conv/x", "repo", 1)
    assert (entry.task_id, entry.actor_login, entry.author_login) == (RUN, "ann", "ben")
    assert entry.expires_at == NOW + KEEP
    assert not entry.usable(NOW)
    assert again(store, entry) == entry


def test_the_same_proposal_is_one_entry_whoever_brings_it(store: Store) -> None:
    first = pending(store)
    for task in (RUN, TaskId("c" * 32)):
        second = propose(store, task_id=task)
        assert (second.entry, second.fresh) == (first, False)
    in_use = decide(store, first).entry
    assert in_use is not None
    third = propose(store, task_id=TaskId("d" * 32))
    assert (third.entry, third.fresh) == (in_use, False)


def test_what_was_rejected_is_not_asked_for_again(store: Store) -> None:
    entry = pending(store)
    decide(store, entry, approve=False)
    for approved_at_once in (False, True):
        second = propose(store, approved=approved_at_once)
        assert second.entry is not None
        assert second.entry.state is EntryState.REJECTED
        assert not second.fresh


def test_another_text_is_another_entry_and_needs_its_own_answer(store: Store) -> None:
    first = pending(store)
    second = pending(store, summary="Round half even.")
    assert second.id != first.id
    assert second.version == 2
    ended = again(store, first)
    assert (ended.state, ended.replaced_by) == (EntryState.EXPIRED, second.id)
    # The forged approval: an answer to the first text never approves the second.
    assert decide(store, first).refused is Refusal.TEXT_CHANGED
    assert decide(store, second, shown=first.text_hash).refused is Refusal.TEXT_CHANGED
    assert again(store, second).state is EntryState.PENDING
    assert decide(store, second).done


def test_an_approved_text_stays_in_use_until_its_successor_is_approved(store: Store) -> None:
    old = approved(store)
    new = pending(store, summary="Round half even.")
    assert again(store, old).usable(NOW)
    assert decide(store, new).done
    ended = again(store, old)
    assert (ended.state, ended.replaced_by) == (EntryState.EXPIRED, new.id)
    assert decide(store, old).refused is Refusal.TEXT_CHANGED


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"trust": TrustScope.EXTERNAL}, Refusal.UNTRUSTED),
        ({"trust": TrustScope.FORK_PR}, Refusal.UNTRUSTED),
        ({"key": MemoryKey.parse("repo/octo/other/a/b")}, Refusal.OTHER_OWNER),
        ({"key": MemoryKey.parse(f"tenant/{TENANT}/a/b")}, Refusal.OTHER_OWNER),
        ({"repo_id": None}, Refusal.OTHER_OWNER),
        ({"summary": " \n"}, Refusal.EMPTY),
        ({"summary": "x" * (SUMMARY_CHARS + 1)}, Refusal.TOO_LONG),
    ],
)
def test_what_never_enters_the_book(
    sqlite_store: Store, changes: dict[str, Any], refused: Refusal
) -> None:
    for enter in (propose, remember):
        done = enter(sqlite_store, **changes)
        assert (done.entry, done.refused) == (None, refused)
    with sqlite_store.read() as tx:
        assert book.listed(TENANT, tx) == []


def test_another_tenants_key_and_a_collaborators_remember_are_refused(sqlite_store: Store) -> None:
    with sqlite_store.write() as tx:
        foreign = shared(key=MemoryKey.parse(f"tenant/{OTHER}/a/b"))
        assert book.propose(TENANT, tx, foreign, NOW).refused is Refusal.OTHER_OWNER
        assert book.propose(TENANT, tx, shared(), NOW).done
    done = remember(sqlite_store, trust=TrustScope.COLLABORATOR)
    assert done.refused is Refusal.UNTRUSTED


def test_remember_is_in_use_at_once_and_takes_the_place_over(store: Store) -> None:
    waiting = pending(store)
    done = remember(store, summary="Round to even.")
    assert done.entry is not None
    assert done.entry.usable(NOW)
    assert (done.entry.version, done.entry.decided_by_id) == (2, ANN.id)
    assert decide(store, waiting).refused is Refusal.TEXT_CHANGED
    same = remember(store, summary="Round to even.")
    assert (same.entry, same.fresh) == (done.entry, False)
    next_one = remember(store, summary="Round down.").entry
    assert next_one is not None
    assert next_one.version == 3
    assert again(store, done.entry).replaced_by == next_one.id


def test_every_refusal_of_a_decision(store: Store) -> None:
    entry = pending(store)
    assert decide(store, entry, tenant=OTHER).refused is Refusal.UNKNOWN
    assert decide(store, entry, repo_id=RepoId(8)).refused is Refusal.UNKNOWN
    assert decide(store, entry, shown="0" * 64).refused is Refusal.TEXT_CHANGED
    assert decide(store, entry, now=LATER).refused is Refusal.EXPIRED
    assert decide(store, entry, by=BEN, four_eyes=True).refused is Refusal.OWN_CHANGE
    assert decide(store, entry, by=BEN, repo_id=REPO_ID).done
    assert not decide(store, entry, by=ANN).fresh
    assert decide(store, entry, approve=False).refused is Refusal.NOT_PENDING
    revoke(store, entry.id)
    assert decide(store, entry).refused is Refusal.NOT_PENDING


def test_four_eyes_asks_for_somebody_who_is_known_not_to_be_the_author(store: Store) -> None:
    assert decide(store, pending(store), by=ANN, four_eyes=True).done
    nobody = pending(store, "conv/nobody", author_id=None)
    assert decide(store, nobody, four_eyes=True).refused is Refusal.OWN_CHANGE
    token = Person(None, "api:token:0123456789ab")
    assert decide(store, nobody, by=token, four_eyes=True).refused is Refusal.OWN_CHANGE
    assert decide(store, nobody, by=Person.operator("root"), four_eyes=True).done
    own = pending(store, "conv/own")
    assert decide(store, own, approve=False, by=BEN, four_eyes=True).done
    garden = pending(store, "conv/garden", author_id=None, trust=TrustScope.SCHEDULED)
    assert decide(store, garden, four_eyes=True).done


def test_a_revoked_place_takes_nothing_until_it_is_lifted_by_name(store: Store) -> None:
    waiting, in_use = pending(store, "conv/a"), approved(store, "conv/b")
    sibling = approved(store, "convention/b")
    done = revoke(store, "repo/Octo/Demo/conv", why="wrong")
    assert done.target == "repo/octo/demo/conv"
    assert done.entries == (waiting.id, in_use.id)
    assert [again(store, each).state for each in (waiting, in_use, sibling)] == [
        EntryState.REVOKED,
        EntryState.REVOKED,
        EntryState.APPROVED,
    ]
    assert denied(store) == ("repo/octo/demo/conv",)
    assert propose(store, "conv/c").refused is Refusal.REVOKED_KEY
    assert remember(store, "conv/c").refused is Refusal.REVOKED_KEY
    assert not revoke(store, "repo/octo/demo/conv/").fresh
    assert lift(store, "repo/octo/demo/conv/a").refused is Refusal.UNKNOWN
    assert lift(store, "repo/octo/demo/conv").refused is None
    assert denied(store) == ()
    assert propose(store, "conv/c").done
    assert again(store, in_use).state is EntryState.REVOKED
    with store.read() as tx:
        (line,) = book.revocations(TENANT, tx, standing=False)
    assert (line.by_login, line.lifted_by_login, line.target) == (
        "ann",
        "ann",
        "repo/octo/demo/conv",
    )


def test_an_approval_loses_against_a_revocation_of_the_place(sqlite_store: Store) -> None:
    entry = pending(sqlite_store)
    revoke(sqlite_store, "repo/octo/demo/conv/x")
    assert decide(sqlite_store, entry).refused is Refusal.NOT_PENDING
    assert lift(sqlite_store, "repo/octo/demo/conv/x").refused is None
    late = pending(sqlite_store)
    with sqlite_store.write() as tx:
        # As if it had been written by somebody who takes no lock.
        book.revoke(TENANT, tx, "repo/octo/demo/conv", ANN, NOW)
        tx.exec_driver_sql(f"UPDATE memory_entries SET state = 'pending' WHERE id = '{late.id}'")
    assert decide(sqlite_store, late).refused is Refusal.REVOKED_KEY


def test_the_underscore_and_the_sibling_are_no_wildcards(sqlite_store: Store) -> None:
    for name in ("a_b", "aXb", "a"):
        put(sqlite_store, repo_id=RepoId(100 + len(name)), repo_name=name)
    kept = [
        approved(sqlite_store, place) for place in ("n_s/k", "nXs/k", "ns/k", "ns2/k", "ns/k/x")
    ]
    revoke(sqlite_store, "repo/octo/demo/n_s")
    revoke(sqlite_store, "repo/octo/demo/ns/k")
    assert [again(sqlite_store, each).state for each in kept] == [
        EntryState.REVOKED,
        EntryState.APPROVED,
        EntryState.REVOKED,
        EntryState.APPROVED,
        EntryState.REVOKED,
    ]


def test_what_lies_below_is_no_question_of_a_languages_order_of_letters() -> None:
    # In en_US "conv/x" comes after "conv0": its order passes over "/" at first.
    asked = str(at_or_below(e.place, "conv").compile(dialect=postgresql.dialect()))
    assert "=" in asked
    assert not {"<", ">", "LIKE"} & set(asked.split())


def test_what_can_be_revoked_from_where(store: Store) -> None:
    put(store)
    with store.write() as tx:
        everywhere = book.propose(TENANT, tx, shared(), NOW, approved=True).entry
    assert everywhere is not None
    assert revoke(store, everywhere.id, repo_id=REPO_ID).refused is Refusal.UNKNOWN
    assert revoke(store, everywhere.key, repo_id=REPO_ID).refused is Refusal.OTHER_OWNER
    assert revoke(store, f"tenant/{OTHER}").refused is Refusal.OTHER_OWNER
    assert revoke(store, "repo/octo/nowhere").refused is Refusal.UNKNOWN
    assert revoke(store, "repo/octo").refused is Refusal.BAD_KEY
    assert revoke(store, "repo/octo/demo", repo_id=RepoId(8)).refused is Refusal.OTHER_OWNER
    assert revoke(store, everywhere.id.lower()).entries == (everywhere.id,)
    assert denied(store) == (f"tenant/{TENANT}/conv/x",)
    assert denied(store, RepoId(8), RepoName("octo", "two")) == (f"tenant/{TENANT}/conv/x",)
    revoke(store, f"tenant/{TENANT}")
    assert denied(store) == (f"tenant/{TENANT}",)


def test_another_tenant_finds_nothing_by_any_question(store: Store) -> None:
    put(store)
    entry = approved(store)
    revoke(store, "repo/octo/demo/other/x")
    with store.write() as tx:
        book.supplied(TENANT, tx, RUN, REPO_ID, [entry], NOW)
    with store.read() as tx:
        assert book.entry(OTHER, tx, entry.id) is None
        assert book.listed(OTHER, tx) == []
        for filters in (
            Filters(repo_id=REPO_ID),
            Filters(prefix="repo/octo/demo"),
            Filters(text="round"),
            Filters(task_id=RUN),
            Filters(states=tuple(EntryState)),
            Filters(scope="repo"),
        ):
            assert book.listed(TENANT, tx, filters) == [again(store, entry)]
            assert book.listed(OTHER, tx, filters) == []
        assert list(book.export(OTHER, tx)) == []
        for text in (entry.id, entry.key, "conv/x", "round"):
            assert [each.id for each in book.find(TENANT, tx, REPO_ID, text)] == [entry.id]
            assert book.find(OTHER, tx, REPO_ID, text) == []
        assert book.usable(OTHER, tx, REPO_ID, NOW, shared=True) == []
        assert book.versions(OTHER, tx, entry) == []
        assert book.history(OTHER, tx, entry) == []
        assert book.of_task(OTHER, tx, RUN) == []
        assert book.tasks_of(OTHER, tx, entry.id) == []
        assert book.activity(OTHER, tx) == []
        assert book.known(OTHER, tx, REPO_ID, REPO, [entry.key, entry.id], NOW) == {}
        assert book.denied(OTHER, tx, REPO_ID, REPO) == ()
        assert book.revocations(OTHER, tx) == []
        assert book.repo_named(OTHER, tx, REPO) is None
        assert not book.is_revoked(OTHER, tx, REPO_ID, "other/x")
    with store.write() as tx:
        assert book.redact(OTHER, tx, entry.id, ANN, NOW).refused is Refusal.UNKNOWN
        assert book.revoke(OTHER, tx, entry.id, ANN, NOW).refused is Refusal.UNKNOWN
        assert book.revoke(OTHER, tx, entry.key, ANN, NOW).refused is Refusal.UNKNOWN
        assert book.lift(OTHER, tx, "repo/octo/demo/other/x", ANN, NOW).refused
        assert book.follow(OTHER, tx, REPO_ID, RepoName("evil", "demo")) == 0
        assert book.purge(OTHER, tx) == 0
    assert again(store, entry).usable(NOW)


def test_a_renamed_repository_keeps_its_memory_and_its_revocations(store: Store) -> None:
    put(store)
    entry = approved(store)
    revoke(store, "repo/octo/demo/bad")
    renamed = RepoName("octo", "renamed")
    put(store, repo_name="renamed")
    with store.write() as tx:
        assert book.follow(TENANT, tx, REPO_ID, renamed) == 2
    assert again(store, entry).key == "repo/octo/renamed/conv/x"
    assert denied(store, repo=renamed) == ("repo/octo/renamed/bad",)
    with store.read() as tx:
        assert list(book.known(TENANT, tx, REPO_ID, renamed, [entry.key], NOW)) == []
        found = book.known(TENANT, tx, REPO_ID, renamed, ["repo/octo/renamed/conv/x"], NOW)
        assert [each.id for each in found.values()] == [entry.id]
    # An answer to what was shown under the old name still stands for the same text.
    waiting = pending(store, "conv/y", repo=renamed)
    with store.write() as tx:
        book.follow(TENANT, tx, REPO_ID, RepoName("octo", "third"))
    assert decide(store, waiting).done


def test_a_longer_name_makes_no_key_too_long(store: Store) -> None:
    place = "conv/" + "x" * 190
    entry = approved(store, place)
    longer = RepoName("o" * 39, "d" * 100)
    put(store, repo_owner=longer.owner, repo_name=longer.name)
    with store.write() as tx:
        book.follow(TENANT, tx, REPO_ID, longer)
    key = f"repo/{longer}/{place}"
    assert again(store, entry).key == key
    with store.read() as tx:
        assert list(book.known(TENANT, tx, REPO_ID, longer, [key], NOW)) == [key]
    assert revoke(store, entry.id, repo_id=REPO_ID).target == key
    assert denied(store, repo=longer) == (key,)
    assert lift(store, key).target == key


def test_the_old_name_in_other_hands_is_another_repository(store: Store) -> None:
    put(store)
    entry = approved(store)
    stranger = RepoId(99)
    put(store, repo_id=stranger)  # octo/demo, made anew
    with store.read() as tx:
        assert book.usable(TENANT, tx, stranger, NOW, shared=True) == []
        assert book.known(TENANT, tx, stranger, REPO, [entry.key, entry.id], NOW) == {}
        assert book.find(TENANT, tx, stranger, "round") == []
    assert revoke(store, "repo/octo/demo").refused is None
    assert again(store, entry).usable(NOW)
    assert denied(store, stranger) == ("repo/octo/demo",)
    assert denied(store) == ()


def test_a_name_means_whose_it_is_today_before_any_work_there(store: Store) -> None:
    put(store)
    entry = approved(store)
    renamed, anew = Repo(REPO_ID, "octo/old"), Repo(99, "Octo/Demo")
    with store.write() as tx:
        fact = RepositoriesSelected((renamed, anew), (), None, None, NOW)
        installations.learn(TENANT, tx, fact, NOW)
    with store.read() as tx:
        assert book.repo_named(TENANT, tx, REPO) == 99
        assert book.repo_named(TENANT, tx, RepoName("octo", "old")) == REPO_ID
        assert book.listed(TENANT, tx, Filters(prefix="repo/octo/demo")) == []
        (found,) = book.listed(TENANT, tx, Filters(prefix="repo/octo/old"))
    assert found.id == entry.id
    assert revoke(store, "repo/octo/demo/conv").entries == ()
    with store.write() as tx:
        gone = RepositoriesSelected((), (renamed, anew), None, None, LATER)
        installations.learn(TENANT, tx, gone, LATER)
    with store.read() as tx:  # Gone, so nobody has the name but who had it last.
        assert book.repo_named(TENANT, tx, REPO) == REPO_ID


def test_a_transferred_repository_leaves_its_memory_with_the_old_tenant(store: Store) -> None:
    approved(store)
    with store.read() as tx:
        assert book.usable(OTHER, tx, REPO_ID, NOW, shared=True) == []


def test_pages_of_a_list_meet_without_gap_and_overlap(store: Store) -> None:
    ids = [pending(store, f"conv/{n}").id for n in range(7)][::-1]
    seen: list[str] = []
    after = None
    with store.read() as tx:
        while page := book.listed(TENANT, tx, after=after, limit=3):
            seen += [each.id for each in page]
            after = page[-1].seq
        assert book.listed(TENANT, tx, Filters(prefix="repo/octo/demo/con")) == []
        assert book.listed(TENANT, tx, Filters(prefix="..")) == []
        assert book.listed(TENANT, tx, Filters(text="100%")) == []
    assert seen == ids


def test_find_says_when_several_are_meant(store: Store) -> None:
    one = approved(store, "conv/one", "Tax tables are code.")
    two = pending(store, "conv/two", "Tax rates are data.")
    with store.read() as tx:
        assert [each.id for each in book.find(TENANT, tx, REPO_ID, "TAX")] == [two.id, one.id]
        assert [each.id for each in book.find(TENANT, tx, REPO_ID, "tables")] == [one.id]
        assert [each.id for each in book.find(TENANT, tx, REPO_ID, "conv")] == [two.id, one.id]
        assert [each.id for each in book.find(TENANT, tx, REPO_ID, "conv/two")] == [two.id]
        assert book.find(TENANT, tx, REPO_ID, "%") == []
        assert book.find(TENANT, tx, REPO_ID, "  ") == []


def test_an_export_has_the_text_its_origin_and_every_decision(store: Store) -> None:
    approved(store)
    pending(store, "conv/y")
    with store.read() as tx:
        first, second = book.export(TENANT, tx)
        assert [row["key"] for row in book.export(TENANT, tx, Filters(text="conv/y"))] == [
            "repo/octo/demo/conv/y"
        ]
    assert first["key"] == "repo/octo/demo/conv/x"
    assert [line["act"] for line in first["decisions"]] == [Act.PROPOSED, Act.APPROVED]
    assert first["decisions"][1]["by_login"] == "ann"
    assert (first["task_id"], first["head_sha"], first["author_login"]) == (RUN, "b" * 40, "ben")
    assert second["state"] == "pending"


def test_history_tells_of_every_text_of_a_place(store: Store) -> None:
    approved(store)
    entry = approved(store, summary="Round half even.")
    revoke(store, entry.id)
    with store.read() as tx:
        acts = [line.act for line in book.history(TENANT, tx, entry)]
        assert [each.version for each in book.versions(TENANT, tx, entry)] == [2, 1]
    assert acts[::-1] == [
        Act.PROPOSED,
        Act.APPROVED,
        Act.PROPOSED,
        Act.REPLACED,
        Act.APPROVED,
        Act.REVOKED,
        Act.REVOKED,
    ]


def test_a_redacted_text_is_gone_and_its_hash_is_not(store: Store) -> None:
    entry = approved(store)
    with store.write() as tx:
        done = book.redact(TENANT, tx, entry.id, ANN, NOW)
        assert not book.redact(TENANT, tx, entry.id, ANN, NOW).fresh
    assert done.entry is not None
    assert (done.entry.summary, done.entry.text_hash) == (REDACTED, entry.text_hash)
    assert not done.entry.usable(NOW)
    with store.read() as tx:
        assert "Round" not in str(list(book.export(TENANT, tx)))
    assert propose(store).done


def test_what_a_run_was_handed_and_used_is_counted_once(store: Store) -> None:
    entry = approved(store)
    with store.write() as tx:
        book.supplied(TENANT, tx, RUN, REPO_ID, [entry], NOW)
    with store.write() as tx:
        book.supplied(TENANT, tx, RUN, REPO_ID, [entry], NOW)
    assert again(store, entry).supplied == 1
    with store.read() as tx:
        (line,) = book.of_task(TENANT, tx, RUN)
        assert line.entry == again(store, entry)
        assert (line.activity.op, line.activity.outcome) == ("supplied", "accepted")
        assert [each.task_id for each in book.tasks_of(TENANT, tx, entry.id)] == [RUN]
        assert book.activity(TENANT, tx, repo_id=REPO_ID) == [line.activity]


def test_of_many_that_were_handed_out_and_used_each_counts_once(store: Store) -> None:
    entries = [approved(store, f"conv/{n}") for n in range(3)]
    reads = [
        Decision(Kind.READ, n, each.key, "repo", None, entry=each.id)
        for n, each in enumerate(entries)
    ]
    with store.write() as tx:
        book.supplied(TENANT, tx, RUN, REPO_ID, entries, NOW)
        book.record(TENANT, tx, RUN, REPO_ID, 1, reads, NOW)
    counted = [again(store, each) for each in entries]
    assert [(each.supplied, each.cited) for each in counted] == [(1, 1)] * 3


def test_what_is_too_old_is_not_used_and_then_ends(store: Store) -> None:
    # The second waited for ever, and its time begins with the approval.
    entry, later = approved(store), approved(store, "conv/y", keep=None)
    assert again(store, entry).expires_at == NOW + KEEP
    with store.read() as tx:
        used = book.usable(TENANT, tx, REPO_ID, LATER, shared=True)
        assert entry.id not in [each.id for each in used]
    revoke(store, "repo/octo/demo/bad")
    with store.write() as tx:
        assert len(book_sweeps.expire(tx, LATER)) == 2
        assert book_sweeps.expire(tx, LATER) == []
    assert again(store, entry).state is EntryState.EXPIRED
    assert again(store, later).state is EntryState.EXPIRED
    assert propose(store, now=LATER).fresh
    assert denied(store) == ("repo/octo/demo/bad",)


def test_old_activity_and_ended_texts_go_and_revocations_stay(store: Store) -> None:
    entry = approved(store)
    revoke(store, "repo/octo/demo/bad")
    with store.write() as tx:
        book.supplied(TENANT, tx, RUN, REPO_ID, [entry], NOW)
    decide(store, pending(store, "conv/no"), approve=False)
    with store.write() as tx:
        assert book_sweeps.drop(tx, NOW) == {"memory_activity": 0, "memory_entries": 0}
        assert book_sweeps.drop(tx, LATER) == {"memory_activity": 1, "memory_entries": 1}
    assert again(store, entry).usable(NOW)
    assert denied(store) == ("repo/octo/demo/bad",)


def test_a_purge_takes_one_tenant_in_batches_and_leaves_what_was_forbidden(store: Store) -> None:
    put(store)
    other = InstallationId(77)
    with store.write() as tx:
        kept = book.propose(other, tx, new_entry(), NOW).entry
    assert kept is not None
    for number in range(5):
        approved(store, f"conv/{number}")
    revoke(store, "repo/octo/demo/conv/0")
    steps = 0
    while True:
        with store.write() as tx:
            if not book.purge(TENANT, tx, batch=3):
                break
        steps += 1
    assert steps > 3
    with store.read() as tx:
        assert book.listed(TENANT, tx) == []
        assert [each.id for each in book.listed(other, tx)] == [kept.id]
    assert denied(store) == ("repo/octo/demo/conv/0",)
    assert propose(store, "conv/0").refused is Refusal.REVOKED_KEY


def test_a_purge_of_one_repository_leaves_the_others(store: Store) -> None:
    gone, kept = pending(store), pending(store, repo_id=RepoId(8))
    with store.write() as tx:
        assert book.purge(TENANT, tx, repo_id=REPO_ID) > 0
        assert book.entry(TENANT, tx, gone.id) is None
        assert book.entry(TENANT, tx, kept.id) is not None
