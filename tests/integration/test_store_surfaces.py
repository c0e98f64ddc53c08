"""The surface ledger on both databases: generations, leases, and desired against published."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from coven.store import surfaces, tasks
from coven.store.engine import Store
from coven.store.surfaces import Surface, content_hash
from coven.store.tasks import Task
from coven.values import SurfaceKind, SurfaceState, new_task_id
from tests.ledger import NOW, OTHER, REPO_ID, TENANT, look, new_task, put

KIND = SurfaceKind.STATUS_COMMENT
SUBJECT = "thread:3:cody"
TOKEN = "p" * 32
A, B, C = {"body": "a"}, {"body": "b"}, {"body": "c"}


def at(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def desire(store: Store, task: Task, content: dict[str, Any], seconds: float = 0) -> bool:
    with store.write() as tx:
        return surfaces.desire(TENANT, tx, task, KIND, SUBJECT, content, at(seconds))


def row(store: Store) -> Surface:
    with store.read() as tx:
        found = surfaces.find(TENANT, tx, REPO_ID, KIND, SUBJECT)
    assert found is not None
    return found


def lease(store: Store, token: str = TOKEN, seconds: float = 0) -> Surface | None:
    with store.write() as tx:
        return surfaces.lease(TENANT, tx, row(store).id, token, at(seconds), 60)


def publish(
    store: Store, content: dict[str, Any], token: str = TOKEN, seconds: float = 0
) -> Surface | None:
    with store.write() as tx:
        return surfaces.published(
            TENANT, tx, row(store).id, token, at(seconds), content_hash(content), 77, "url"
        )


@pytest.fixture
def task(store: Store) -> Task:
    return look(store, put(store))


def test_a_desired_surface_is_due_and_published_once(store: Store, task: Task) -> None:
    assert desire(store, task, A)
    with store.read() as tx:
        due = surfaces.next_due_of_task(tx, task.id, NOW)
    assert due == row(store)
    leased = lease(store)
    assert leased is not None
    assert (leased.tries, leased.desired) == (1, A)
    after = publish(store, A)
    assert after is not None
    assert (after.state, after.object_id, after.tries) == (SurfaceState.PUBLISHED, 77, 0)
    assert after.lease_token is None
    with store.read() as tx:
        assert surfaces.next_due_of_task(tx, task.id, at(9999)) is None


def test_the_same_content_again_changes_nothing_on_github(store: Store, task: Task) -> None:
    desire(store, task, A)
    lease(store)
    publish(store, A)
    assert desire(store, task, A, 5)
    assert row(store).state is SurfaceState.PUBLISHED


def test_content_that_changes_during_publication_is_published_next(
    store: Store, task: Task
) -> None:
    desire(store, task, A)
    lease(store)
    desire(store, task, B, 1)
    assert row(store).lease_token == TOKEN
    assert lease(store, "q" * 32, 2) is None
    after = publish(store, A, seconds=3)
    assert after is not None
    assert (after.state, after.published_hash) == (SurfaceState.PENDING, content_hash(A))
    assert lease(store, "q" * 32, 3) is not None
    last = publish(store, B, "q" * 32, 4)
    assert last is not None
    assert last.state is SurfaceState.PUBLISHED


def test_old_content_desired_again_while_new_content_is_on_its_way_is_published_again(
    store: Store, task: Task
) -> None:
    desire(store, task, A)
    lease(store)
    publish(store, A)
    desire(store, task, B, 1)
    lease(store, "q" * 32, 1)
    # The publisher may have shown B by now, and may die before it can say so.
    desire(store, task, A, 2)
    assert row(store).state is SurfaceState.PENDING
    assert lease(store, "r" * 32, 62) is not None


def test_old_content_desired_again_after_an_unanswered_write_is_published_again(
    store: Store, task: Task
) -> None:
    desire(store, task, A)
    lease(store)
    publish(store, A)
    desire(store, task, B, 1)
    lease(store, "q" * 32, 1)
    with store.write() as tx:
        assert surfaces.postpone(TENANT, tx, row(store).id, "q" * 32, at(1), at(30), "502")
    desire(store, task, A, 2)
    assert row(store).state is SurfaceState.PENDING


def test_a_newer_task_takes_the_subject_over_and_an_older_one_never_gets_it_back(
    store: Store, task: Task
) -> None:
    newer = look(store, put(store))
    assert newer.generation > task.generation
    assert desire(store, newer, B)
    assert not desire(store, task, A, 1)
    found = row(store)
    assert (found.task_id, found.desired, found.generation) == (newer.id, B, newer.generation)
    assert desire(store, newer, C, 2)


def test_a_later_round_is_a_higher_generation(store: Store, task: Task) -> None:
    with store.write() as tx:
        tasks.claim(TENANT, tx, task.id, "t" * 32, NOW, 60)
        tasks.wait(TENANT, tx, task.id, "t" * 32, NOW, "answer", at(60))
        resumed = tasks.resume(TENANT, tx, task.id, NOW)
    assert resumed is not None
    assert desire(store, resumed, B)
    assert not desire(store, task, A)


def test_a_running_back_off_outlives_new_content(store: Store, task: Task) -> None:
    desire(store, task, A)
    lease(store)
    with store.write() as tx:
        surfaces.postpone(TENANT, tx, row(store).id, TOKEN, NOW, at(300), "rate limit")
    desire(store, task, B, 10)
    found = row(store)
    assert (found.next_at, found.tries, found.desired) == (at(300), 1, B)
    assert lease(store, seconds=299) is None
    assert lease(store, seconds=300) is not None


def test_giving_up_is_shown_until_the_content_is_stated_again(store: Store, task: Task) -> None:
    desire(store, task, A)
    lease(store)
    with store.write() as tx:
        assert surfaces.give_up(TENANT, tx, row(store).id, TOKEN, NOW, "e" * 5000)
    found = row(store)
    assert (found.state, len(found.error or "")) == (SurfaceState.FAILED, 2000)
    assert lease(store, seconds=999) is None
    desire(store, task, B, 5)
    assert (row(store).state, row(store).tries, row(store).next_at) == ("pending", 0, at(5))


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_changes_nothing(
    store: Store, task: Task
) -> None:
    desire(store, task, A)
    lease(store)
    assert lease(store, "q" * 32, 60) is None
    assert lease(store, "q" * 32, 61) is not None
    before = row(store)
    assert before.tries == 2
    assert publish(store, A) is None
    with store.write() as tx:
        assert not surfaces.remember_object(TENANT, tx, before.id, TOKEN, 1, None)
        assert not surfaces.postpone(TENANT, tx, before.id, TOKEN, NOW, NOW, "x")
        assert not surfaces.give_up(TENANT, tx, before.id, TOKEN, NOW, "x")
    assert row(store) == before


def test_the_object_is_remembered_before_the_content_is_settled(store: Store, task: Task) -> None:
    desire(store, task, A)
    lease(store)
    with store.write() as tx:
        assert surfaces.remember_object(TENANT, tx, row(store).id, TOKEN, 55, "u")
    found = row(store)
    assert (found.object_id, found.object_url, found.published_hash) == (55, "u", None)


def test_another_installation_sees_and_changes_nothing(store: Store, task: Task) -> None:
    desire(store, task, A)
    before = row(store)
    with store.write() as tx:
        assert surfaces.find(OTHER, tx, REPO_ID, KIND, SUBJECT) is None
        assert surfaces.get(OTHER, tx, before.id) is None
        assert surfaces.of_task(OTHER, tx, task.id) == []
        assert surfaces.lease(OTHER, tx, before.id, TOKEN, NOW, 60) is None
    assert row(store) == before


def test_equal_subjects_of_different_kinds_and_installations_are_different_surfaces(
    store: Store, task: Task
) -> None:
    foreign = look(store, put(store, installation_id=OTHER))
    with store.write() as tx:
        for kind in SurfaceKind:
            assert surfaces.desire(TENANT, tx, task, kind, SUBJECT, A, NOW)
        assert surfaces.desire(OTHER, tx, foreign, KIND, SUBJECT, B, NOW)
    with store.read() as tx:
        assert len(surfaces.of_task(TENANT, tx, task.id)) == len(SurfaceKind)
        assert len(surfaces.of_task(OTHER, tx, foreign.id)) == 1


def test_due_surfaces_of_a_task_come_in_the_order_of_their_time(store: Store, task: Task) -> None:
    with store.write() as tx:
        surfaces.desire(TENANT, tx, task, KIND, "late", A, at(9))
        surfaces.desire(TENANT, tx, task, KIND, "early", A, at(1))
        surfaces.desire(TENANT, tx, task, KIND, "future", A, at(99))
    with store.read() as tx:
        first = surfaces.next_due_of_task(tx, task.id, at(10))
        assert surfaces.next_due_of_task(tx, new_task_id(), at(10)) is None
    assert first is not None
    assert first.subject == "early"


def test_the_refused_generation_leaves_the_transaction_usable(store: Store, task: Task) -> None:
    newer = look(store, put(store))
    desire(store, newer, B)
    with store.write() as tx:
        assert not surfaces.desire(TENANT, tx, task, KIND, SUBJECT, A, NOW)
        assert tasks.insert_new(TENANT, tx, new_task())


def test_the_repositorys_newest_name_is_kept(store: Store, task: Task) -> None:
    desire(store, task, A)
    renamed = look(store, put(store, repo_owner="new-owner", repo_name="renamed"))
    desire(store, renamed, B)
    assert str(row(store).repo) == "new-owner/renamed"
