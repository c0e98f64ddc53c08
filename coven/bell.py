"""Rings for the workers: a wake-up by Celery task name, best effort and within a budget.

A bell that can't be heard loses nothing: the dispatcher sends again what stands queued in SQL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as BudgetExceeded

import structlog
from celery import Celery

from coven.queues import CONTROL, PUBLISH, RUN_CONTROL, RUN_PUBLISH, RUN_SESSION, SESSIONS
from coven.values import TaskId

MAX_RINGING = 64
"""Wake-ups that may hang on a dead broker at once; more are dropped at once."""

_log = structlog.get_logger(__name__)


class CeleryBell:
    """Sends wake-ups through one Celery app; ``budget_secs`` bounds each call."""

    def __init__(self, app: Celery, budget_secs: float) -> None:
        self._app = app
        self._budget_secs = budget_secs
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._ringing = 0

    def session(self, task_id: TaskId) -> bool:
        return self._ring(RUN_SESSION, SESSIONS, task_id)

    def control(self, task_id: TaskId) -> bool:
        return self._ring(RUN_CONTROL, CONTROL, task_id)

    def publish(self, task_id: TaskId) -> bool:
        return self._ring(RUN_PUBLISH, PUBLISH, task_id)

    def answers(self) -> bool:
        """Whether the broker accepts a connection within the budget."""
        return self._within_budget(self._ping, "ping") is True

    def _ring(self, name: str, queue: str, task_id: TaskId) -> bool:
        def send() -> bool:
            self._app.send_task(name, args=[task_id], queue=queue, retry=False, ignore_result=True)
            return True

        return self._within_budget(send, name) is True

    def _ping(self) -> bool:
        with self._app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=self._budget_secs)
        return True

    def _within_budget(self, call: Callable[[], bool], what: str) -> bool | None:
        # The pool is made on first use, in the process that uses it: threads don't survive a fork.
        with self._lock:
            if self._ringing >= MAX_RINGING:
                return None
            if self._pool is None:
                self._pool = ThreadPoolExecutor(4, thread_name_prefix="bell")
            self._ringing += 1
            future: Future[bool] = self._pool.submit(call)
        future.add_done_callback(self._rung)
        try:
            return future.result(timeout=self._budget_secs)
        except BudgetExceeded:
            _log.warning("bell_not_heard", what=what, why="budget exceeded")
        except Exception as error:  # noqa: BLE001 - any broker fault means: SQL will tell later
            _log.warning("bell_not_heard", what=what, why=type(error).__name__)
        return None

    def _rung(self, _: Future[bool]) -> None:
        with self._lock:
            self._ringing -= 1


class SilentBell:
    """Tells nobody; counts what it was asked to tell. For tools and tests without a broker."""

    def __init__(self) -> None:
        self.rung: list[tuple[str, TaskId]] = []

    def session(self, task_id: TaskId) -> bool:
        self.rung.append((RUN_SESSION, task_id))
        return False

    def control(self, task_id: TaskId) -> bool:
        self.rung.append((RUN_CONTROL, task_id))
        return False

    def publish(self, task_id: TaskId) -> bool:
        self.rung.append((RUN_PUBLISH, task_id))
        return False
