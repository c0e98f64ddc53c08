"""Random lives of tasks, compared step by step with a small model of the ledger."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from coven.store import sweeps, tasks
from coven.store.engine import Store
from coven.store.tasks import Ending, Task
from coven.values import LIVE_STATES, TERMINAL_STATES, InstallationId, TaskId, TaskState
from tests.ledger import NOW, new_task

LEASE = 60.0
KEYS = st.sampled_from(["a", "b", "c"])
TOKENS = st.sampled_from(["1" * 32, "2" * 32, "3" * 32])
_installations = itertools.count(1000)


@dataclass(frozen=True)
class Model:
    """What must be true of one task."""

    id: TaskId
    key: str
    max_attempts: int
    state: TaskState = TaskState.QUEUED
    round: int = 1
    used: int = 0
    token: str | None = None
    lease_until: datetime | None = None
    not_before: datetime | None = None
    cancel: str | None = None
    expires_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.state in LIVE_STATES

    def held_by(self, token: str) -> bool:
        return self.state is TaskState.RUNNING and self.token == token

    def agrees_with(self, row: Task) -> bool:
        return self == Model(
            id=row.id,
            key=row.semantic_key.rpartition(":")[2],
            max_attempts=row.max_attempts,
            state=row.state,
            round=row.round,
            used=row.attempts_used,
            token=row.lease_token,
            lease_until=row.lease_expires_at,
            not_before=row.not_before,
            cancel=row.cancel_reason if row.cancel_requested_at else None,
            expires_at=row.expires_at,
        )


class LedgerMachine(RuleBasedStateMachine):
    """Every rule does the same to the store and to the model; both must answer alike."""

    ids: Bundle[TaskId] = Bundle("ids")

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.tenant = InstallationId(next(_installations))
        self.now = NOW
        self.model: dict[TaskId, Model] = {}

    def _set(self, task_id: TaskId, expected: Model | None, got: Task | None) -> None:
        assert (got is not None) is (expected is not None)
        if expected is not None and got is not None:
            self.model[task_id] = expected
            assert expected.agrees_with(got), (expected, got)

    @initialize()
    def begin(self) -> None:
        with self.store.read() as tx:
            assert tasks.recent(self.tenant, tx) == []

    @rule(seconds=st.sampled_from([1, 30, 61, 600]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(target=ids, key=KEYS, budget=st.integers(1, 2), delay=st.sampled_from([None, 0, 45]))
    def insert(self, key: str, budget: int, delay: int | None) -> object:
        not_before = None if delay is None else self.now + timedelta(seconds=delay)
        new = new_task(
            installation_id=self.tenant,
            semantic_key=f"{self.tenant}:{key}",
            max_attempts=budget,
            not_before=not_before,
        )
        with self.store.write() as tx:
            written = tasks.insert_new(self.tenant, tx, new)
        assert written is not any(m.live and m.key == key for m in self.model.values())
        if not written:
            return multiple()
        self.model[new.id] = Model(new.id, key, budget, not_before=not_before)
        return new.id

    @rule(task_id=ids, token=TOKENS, limit=st.sampled_from([None, 1, 2]))
    def claim(self, task_id: TaskId, token: str, limit: int | None) -> None:
        before = self.model[task_id]
        running = sum(m.state is TaskState.RUNNING for m in self.model.values())
        free = (
            before.state is TaskState.QUEUED
            and before.cancel is None
            and before.used < before.max_attempts
            and (before.not_before is None or before.not_before <= self.now)
            and (limit is None or running < limit)
        )
        after = replace(
            before,
            state=TaskState.RUNNING,
            used=before.used + 1,
            token=token,
            lease_until=self.now + timedelta(seconds=LEASE),
            not_before=None,
        )
        with self.store.write() as tx:
            got = tasks.claim(self.tenant, tx, task_id, token, self.now, LEASE, limit)
        self._set(task_id, after if free else None, got)

    @rule(task_id=ids, token=TOKENS)
    def heartbeat(self, task_id: TaskId, token: str) -> None:
        before = self.model[task_id]
        with self.store.write() as tx:
            pulse = tasks.heartbeat(self.tenant, tx, task_id, token, self.now, LEASE)
        assert pulse.alive is before.held_by(token)
        if pulse.alive:
            assert pulse.cancel_reason == before.cancel
            until = self.now + timedelta(seconds=LEASE)
            self.model[task_id] = replace(before, lease_until=until)

    @rule(task_id=ids, token=TOKENS, back=st.booleans(), delay=st.sampled_from([None, 45]))
    def requeue(self, task_id: TaskId, token: str, back: bool, delay: int | None) -> None:
        before = self.model[task_id]
        not_before = None if delay is None else self.now + timedelta(seconds=delay)
        after = replace(
            before,
            state=TaskState.QUEUED,
            used=before.used - back,
            token=None,
            lease_until=None,
            not_before=not_before,
        )
        with self.store.write() as tx:
            got = tasks.requeue(
                self.tenant, tx, task_id, token, self.now, not_before, "x", give_back_attempt=back
            )
        self._set(task_id, after if before.held_by(token) else None, got)

    @rule(task_id=ids, token=TOKENS, state=st.sampled_from(TERMINAL_STATES))
    def finish(self, task_id: TaskId, token: str, state: TaskState) -> None:
        before = self.model[task_id]
        after = replace(before, state=state, token=None, lease_until=None, expires_at=None)
        with self.store.write() as tx:
            got = tasks.finish(self.tenant, tx, task_id, token, self.now, Ending(state, "x"))
        self._set(task_id, after if before.held_by(token) else None, got)

    @rule(task_id=ids, token=TOKENS)
    def wait(self, task_id: TaskId, token: str) -> None:
        before, until = self.model[task_id], self.now + timedelta(seconds=100)
        after = replace(
            before, state=TaskState.WAITING, token=None, lease_until=None, expires_at=until
        )
        with self.store.write() as tx:
            got = tasks.wait(self.tenant, tx, task_id, token, self.now, "answer", until)
        self._set(task_id, after if before.held_by(token) else None, got)

    @rule(task_id=ids)
    def resume(self, task_id: TaskId) -> None:
        before = self.model[task_id]
        after = replace(
            before,
            state=TaskState.QUEUED,
            round=before.round + 1,
            used=0,
            cancel=None,
            expires_at=None,
            not_before=None,
        )
        with self.store.write() as tx:
            got = tasks.resume(self.tenant, tx, task_id, self.now)
        self._set(task_id, after if before.state is TaskState.WAITING else None, got)

    @rule(task_id=ids)
    def revive(self, task_id: TaskId) -> None:
        before = self.model[task_id]
        taken = any(m.live and m.key == before.key for m in self.model.values())
        after = replace(
            before,
            state=TaskState.QUEUED,
            round=before.round + 1,
            used=0,
            cancel=None,
            not_before=None,
        )
        with self.store.write() as tx:
            got = tasks.revive_failed(self.tenant, tx, task_id, self.now)
        possible = before.state is TaskState.FAILED and not taken
        self._set(task_id, after if possible else None, got)

    @rule(task_id=ids)
    def ask_to_stop(self, task_id: TaskId) -> None:
        before = self.model[task_id]
        with self.store.write() as tx:
            got = tasks.request_cancel(self.tenant, tx, task_id, self.now, "stop")
        possible = before.state is TaskState.RUNNING and before.cancel is None
        self._set(task_id, replace(before, cancel="stop") if possible else None, got)

    @rule(task_id=ids, state=st.sampled_from(TERMINAL_STATES))
    def settle(self, task_id: TaskId, state: TaskState) -> None:
        before = self.model[task_id]
        after = replace(before, state=state, token=None, lease_until=None, expires_at=None)
        with self.store.write() as tx:
            got = tasks.settle_idle(self.tenant, tx, task_id, self.now, Ending(state, "x"))
        possible = before.state in {TaskState.QUEUED, TaskState.WAITING}
        self._set(task_id, after if possible else None, got)

    @rule(task_id=ids, lost=TOKENS, token=TOKENS)
    def seize(self, task_id: TaskId, lost: str, token: str) -> None:
        before = self.model[task_id]
        over = before.lease_until is not None and before.lease_until < self.now
        until = self.now + timedelta(seconds=LEASE)
        after = replace(before, token=token, lease_until=until)
        with self.store.write() as tx:
            got = tasks.seize(self.tenant, tx, task_id, lost, token, self.now, LEASE)
        self._set(task_id, after if before.held_by(lost) and over else None, got)

    @rule(task_id=consumes(ids))
    def another_tenant_asks(self, task_id: TaskId) -> None:
        with self.store.write() as tx:
            other = InstallationId(1)
            assert tasks.get(other, tx, task_id) is None
            assert (
                tasks.settle_idle(other, tx, task_id, self.now, Ending(TaskState.FAILED, "x"))
                is None
            )

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        with self.store.read() as tx:
            rows = {row.id: row for row in tasks.recent(self.tenant, tx, 1000)}
            expired = {row.id for row in sweeps.expired_leases(tx, self.now, 10_000)}
            overdue = {row.id for row in sweeps.overdue_waiting(tx, self.now, 10_000)}
            dead = {row.id for row in sweeps.exhausted(tx, 10_000)}
        assert set(rows) == set(self.model)
        for task_id, expected in self.model.items():
            assert expected.agrees_with(rows[task_id]), (expected, rows[task_id])
        mine = set(self.model)
        assert expired & mine == {
            m.id
            for m in self.model.values()
            if m.state is TaskState.RUNNING and m.lease_until and m.lease_until < self.now
        }
        assert overdue & mine == {
            m.id
            for m in self.model.values()
            if m.state is TaskState.WAITING and m.expires_at and m.expires_at < self.now
        }
        assert dead & mine == {
            m.id
            for m in self.model.values()
            if m.state is TaskState.QUEUED and (m.used >= m.max_attempts or m.cancel is not None)
        }

    @invariant()
    def a_key_has_one_live_task(self) -> None:
        live = [m.key for m in self.model.values() if m.live]
        assert len(live) == len(set(live))


def test_random_lives_of_tasks_agree_with_the_model(store: Store) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: LedgerMachine(store),
        settings=settings(
            max_examples=25 if store.dialect == "sqlite" else 10,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
