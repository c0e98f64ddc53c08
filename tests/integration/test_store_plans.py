"""The questions asked all day are answered through an index on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from coven.memory.book import EntryState
from coven.store import (
    api_audit,
    api_tokens,
    attempts,
    book,
    book_sweeps,
    deliveries,
    intake,
    listing,
    pacing,
    rollup,
    surfaces,
    sweeps,
    tasks,
)
from coven.store.engine import Store, Tx
from coven.store.tasks import Ending
from coven.values import DeliveryId, SurfaceKind, TaskId, TaskState
from tests.ledger import NOW, REPO_ID, TENANT, look, put, received
from tests.memory_book import ANN, REPO, new_entry

TASK = TaskId("0" * 32)
TOKEN = "t" * 32
END = Ending(TaskState.FAILED, "x")
MINUTE = timedelta(minutes=1)
WAITING = book.Filters(repo_id=REPO_ID, states=(EntryState.PENDING,))

ANY_TASK = listing.TasksWanted()
SOME_TASKS = listing.TasksWanted(state=TaskState.FAILED, verb="fix", text="x", since=NOW)
ANY_DELIVERY = listing.DeliveriesWanted(since=NOW)
ANY_CALL = api_audit.Wanted()

HOT: dict[str, Callable[[Tx], object]] = {
    "deliveries.find": lambda tx: deliveries.find(tx, DeliveryId("d")),
    "deliveries.recent": lambda tx: deliveries.recent(TENANT, tx),
    "deliveries.body_of": lambda tx: deliveries.body_of(TENANT, tx, DeliveryId("d")),
    "deliveries.reroute": lambda tx: deliveries.reroute(tx, received(), "x"),
    "tasks.get": lambda tx: tasks.get(TENANT, tx, TASK),
    "tasks.locate": lambda tx: tasks.locate(tx, TASK),
    "tasks.live_with_key": lambda tx: tasks.live_with_key(TENANT, tx, "k"),
    "tasks.automatic_review_of": lambda tx: tasks.automatic_review_of(TENANT, tx, "k", "a"),
    "tasks.on_thread": lambda tx: tasks.on_thread(TENANT, tx, REPO_ID, 3),
    "tasks.recent": lambda tx: tasks.recent(TENANT, tx),
    "tasks.claim": lambda tx: tasks.claim(TENANT, tx, TASK, TOKEN, NOW, 60, 3),
    "tasks.heartbeat": lambda tx: tasks.heartbeat(TENANT, tx, TASK, TOKEN, NOW, 60),
    "tasks.finish": lambda tx: tasks.finish(TENANT, tx, TASK, TOKEN, NOW, END),
    "tasks.older": lambda tx: tasks.older_automatic_reviews(TENANT, tx, REPO_ID, 3, "c", NOW),
    "tasks.newest_head_at": lambda tx: tasks.newest_head_at(TENANT, tx, REPO_ID, 3),
    "intake.delivery": lambda tx: intake.tasks_of_delivery(TENANT, tx, DeliveryId("d")),
    "intake.body": lambda tx: intake.task_of_same_body(TENANT, tx, "e", "0" * 64, DeliveryId("d")),
    "intake.comment": lambda tx: intake.tasks_of_comment(TENANT, tx, REPO_ID, "k", 5),
    "intake.ignored": lambda tx: intake.was_ignored(TENANT, tx, REPO_ID, "r", NOW),
    "intake.head": lambda tx: intake.tasks_of_head(TENANT, tx, REPO_ID, "a" * 40, "cody/fix-3"),
    "intake.live": lambda tx: intake.live_tasks(TENANT, tx),
    "intake.asked": lambda tx: intake.asked_since(TENANT, tx, NOW, REPO_ID, 3),
    "intake.asked_anywhere": lambda tx: intake.asked_since(TENANT, tx, NOW),
    "intake.resumed": lambda tx: intake.resumed_at(TENANT, tx, NOW, REPO_ID, 3),
    "intake.resumed_anywhere": lambda tx: intake.resumed_at(TENANT, tx, NOW, None, None),
    "intake.marked": lambda tx: intake.marked_after(TENANT, tx, REPO_ID, "closed:3:", NOW, NOW),
    "intake.rights": lambda tx: intake.rights_changed_at(TENANT, tx, ("team",), NOW),
    "intake.on_branch": lambda tx: intake.live_on_branch(TENANT, tx, REPO_ID, "main"),
    "pacing.held_until": lambda tx: pacing.held_until(TENANT, tx, NOW),
    "pacing.nth": lambda tx: pacing.nth_publication(TENANT, tx, NOW, 80),
    "pacing.defer": lambda tx: pacing.defer(TENANT, tx, NOW, NOW, None),
    "sweeps.leased": lambda tx: sweeps.leased(tx, NOW),
    "attempts.of_task": lambda tx: attempts.of_task(TENANT, tx, TASK),
    "attempts.progress": lambda tx: attempts.progress(TENANT, tx, TASK, TOKEN, NOW, phase="x"),
    "surfaces.find": lambda tx: surfaces.find(TENANT, tx, REPO_ID, SurfaceKind.REPLY, "s"),
    "surfaces.of_task": lambda tx: surfaces.of_task(TENANT, tx, TASK),
    "surfaces.next_due_of_task": lambda tx: surfaces.next_due_of_task(tx, TASK, NOW),
    "surfaces.lease": lambda tx: surfaces.lease(TENANT, tx, 1, TOKEN, NOW, 60),
    "sweeps.due_tasks": lambda tx: sweeps.due_tasks(tx, NOW, MINUTE),
    "sweeps.expired_leases": lambda tx: sweeps.expired_leases(tx, NOW),
    "sweeps.overdue_waiting": lambda tx: sweeps.overdue_waiting(tx, NOW),
    "sweeps.exhausted": lambda tx: sweeps.exhausted(tx),
    "sweeps.due_surfaces": lambda tx: sweeps.due_surfaces(tx, NOW),
    "sweeps.drop_bodies": lambda tx: sweeps.drop_bodies(tx, NOW),
    "listing.tasks": lambda tx: listing.tasks_page(TENANT, tx, ANY_TASK, 50, 9_000),
    "listing.some_tasks": lambda tx: listing.tasks_page(TENANT, tx, SOME_TASKS, 50),
    "listing.check_runs": lambda tx: listing.check_run_urls(TENANT, tx, [TASK]),
    "listing.deliveries": lambda tx: listing.deliveries_page(
        TENANT, tx, ANY_DELIVERY, 50, (NOW, "d")
    ),
    "listing.delivery": lambda tx: listing.delivery(TENANT, tx, DeliveryId("d")),
    "listing.routing": lambda tx: listing.routing_counts(TENANT, tx, ANY_DELIVERY),
    "rollup.done": lambda tx: rollup.done(TENANT, tx, rollup.DoneWanted()),
    "api_tokens.find": lambda tx: api_tokens.find(tx, "0123456789ab"),
    "api_tokens.used": lambda tx: api_tokens.used(tx, "0123456789ab", NOW),
    "api_audit.page": lambda tx: api_audit.page(TENANT, tx, ANY_CALL, 50, 9_000),
    "api_audit.caller": lambda tx: api_audit.page(
        TENANT, tx, api_audit.Wanted(caller="c"), 50, 9_000
    ),
    "sweeps.deliveries_page": lambda tx: sweeps.deliveries_page(tx, ANY_DELIVERY, 50, (NOW, "d")),
    "sweeps.drop_api_audit": lambda tx: sweeps.drop_api_audit(tx, NOW),
    "sweeps.drop_output": lambda tx: sweeps.drop_output(tx, NOW),
    "book.entry": lambda tx: book.entry(TENANT, tx, "M-00000000"),
    "book.listed": lambda tx: book.listed(TENANT, tx),
    "book.listed of a repository": lambda tx: book.listed(TENANT, tx, WAITING),
    "book.usable": lambda tx: book.usable(TENANT, tx, REPO_ID, NOW, shared=True),
    "book.denied": lambda tx: book.denied(TENANT, tx, REPO_ID, REPO),
    "book.is_revoked": lambda tx: book.is_revoked(TENANT, tx, REPO_ID, "a/b"),
    "book.known": lambda tx: book.known(TENANT, tx, REPO_ID, REPO, ["repo/octo/demo/a/b"], NOW),
    "book.follow": lambda tx: book.follow(TENANT, tx, REPO_ID, REPO),
    "book.propose": lambda tx: book.propose(TENANT, tx, new_entry(), NOW),
    "book.revoke": lambda tx: book.revoke(TENANT, tx, f"tenant/{TENANT}/a", ANN, NOW),
    "book.of_task": lambda tx: book.of_task(TENANT, tx, TASK),
    "book.tasks_of": lambda tx: book.tasks_of(TENANT, tx, "M-00000000"),
    "book.activity": lambda tx: book.activity(TENANT, tx, repo_id=REPO_ID),
    "book_sweeps.expire": lambda tx: book_sweeps.expire(tx, NOW),
    "book_sweeps.drop": lambda tx: book_sweeps.drop(tx, NOW),
}


def plan_of(store: Store, call: Callable[[Tx], object]) -> str:
    """How the database would execute every statement of a call."""
    statements: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_: object) -> None:
        statements.append((statement, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    with store.write() as tx:
        call(tx)
    event.remove(store.engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if store.dialect == "sqlite" else "EXPLAIN"
    lines: list[str] = []
    with store.write() as tx:
        if store.dialect == "postgresql":
            tx.execute(text("SET LOCAL enable_seqscan = off"))
        for statement, parameters in statements:
            if statement.split()[0] in {"SELECT", "UPDATE", "DELETE"}:
                rows = tx.exec_driver_sql(f"{explain} {statement}", parameters)
                lines += [str(row[-1]) for row in rows]
    return "\n".join(lines)


@pytest.mark.parametrize("name", HOT)
def test_hot_questions_use_an_index(store: Store, name: str) -> None:
    plan = plan_of(store, HOT[name])
    assert plan
    if store.dialect == "sqlite":
        scans = [line for line in plan.splitlines() if line.strip().startswith("SCAN")]
        assert scans == [], plan
    else:
        assert "Seq Scan" not in plan, plan
        assert "Index" in plan


def test_the_check_of_a_plan_can_fail(store: Store) -> None:
    plan = plan_of(store, lambda tx: tx.execute(text("SELECT id FROM tasks WHERE title = 'x'")))
    assert ("SCAN" in plan) or ("Seq Scan" in plan)


def test_a_claim_among_many_tasks_touches_few(sqlite_store: Store) -> None:
    ids = [put(sqlite_store) for _ in range(20)]
    plan = plan_of(sqlite_store, lambda tx: tasks.claim(TENANT, tx, ids[3], TOKEN, NOW, 60))
    assert "uq_tasks_id" in plan or "sqlite_autoindex_tasks" in plan
    assert look(sqlite_store, ids[3]).state is TaskState.RUNNING


def test_a_comment_is_looked_up_by_its_id_not_through_the_whole_repository(
    sqlite_store: Store,
) -> None:
    assert "ix_tasks_comment" in plan_of(sqlite_store, HOT["intake.comment"])


def test_a_page_of_tasks_is_read_in_order_and_no_further(store: Store) -> None:
    plan = plan_of(store, HOT["listing.tasks"])
    assert "ix_tasks_page" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
