"""Wake-ups are best effort: bounded in time, never an error, nothing but a task id."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from coven.bell import MAX_RINGING, CeleryBell
from coven.queues import (
    CONTROL,
    PUBLISH,
    RUN_CONTROL,
    RUN_PUBLISH,
    RUN_SESSION,
    SESSIONS,
    celery_app,
    celery_settings,
)
from coven.settings.models import Settings
from coven.values import TaskId

TASK = TaskId("a" * 32)


class App:
    """Stands for a Celery app: records what is sent, or misbehaves."""

    def __init__(self, effect: Any = None) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.effect = effect

    def send_task(self, name: str, **options: Any) -> None:
        if self.effect is not None:
            self.effect()
        self.sent.append((name, options))


def bell(app: App, budget: float = 0.2) -> CeleryBell:
    return CeleryBell(app, budget)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ring", "name", "queue"),
    [
        ("session", RUN_SESSION, SESSIONS),
        ("control", RUN_CONTROL, CONTROL),
        ("publish", RUN_PUBLISH, PUBLISH),
    ],
)
def test_a_message_holds_the_task_id_and_nothing_else(ring: str, name: str, queue: str) -> None:
    app = App()
    assert getattr(bell(app), ring)(TASK) is True
    [(sent, options)] = app.sent
    assert sent == name
    assert options["args"] == [TASK]
    assert options["queue"] == queue
    assert options["retry"] is False
    assert not options.get("kwargs")


def test_a_broker_that_hangs_costs_the_budget_and_no_more() -> None:
    release = threading.Event()
    began = time.monotonic()
    assert bell(App(lambda: release.wait(5)), budget=0.1).session(TASK) is False
    assert time.monotonic() - began < 1.0
    release.set()


def test_a_broker_that_refuses_is_not_an_error() -> None:
    def refuse() -> None:
        raise OSError("refused")

    assert bell(App(refuse)).session(TASK) is False


def test_wake_ups_that_hang_do_not_pile_up() -> None:
    release = threading.Event()
    app = App(lambda: release.wait(10))
    slow = bell(app, budget=0.001)
    for _ in range(MAX_RINGING):
        slow.session(TASK)
    began = time.monotonic()
    assert slow.session(TASK) is False
    assert time.monotonic() - began < 0.5
    release.set()


def test_a_real_broker_gets_the_message(broker_url: str) -> None:
    app = celery_app(Settings(), broker_url)
    assert CeleryBell(app, 5.0).session(TASK) is True
    with app.connection_for_read() as connection:
        message = connection.SimpleQueue(SESSIONS).get(timeout=5)
        message.ack()
    assert message.payload[0] == [TASK]
    assert message.content_type == "application/json"
    assert CeleryBell(app, 5.0).answers() is True


def test_a_broker_that_is_not_there_does_not_answer() -> None:
    app = celery_app(Settings(), "redis://127.0.0.1:1/0")
    assert CeleryBell(app, 0.5).answers() is False


def test_no_message_is_delivered_again_while_a_session_may_still_run() -> None:
    settings = Settings.model_validate({"worker": {"timeout_secs": 3_000, "grace_secs": 60}})
    celery = celery_settings(settings, "redis://x")
    visible = celery["broker_transport_options"]["visibility_timeout"]
    assert visible > celery["task_time_limit"] > 3_060


def test_only_json_is_accepted_and_no_result_is_kept() -> None:
    celery = celery_settings(Settings(), "redis://x")
    assert celery["accept_content"] == ["json"]
    assert celery["task_serializer"] == "json"
    assert celery["result_backend"] is None
    assert celery["task_ignore_result"] is True
    assert celery["worker_prefetch_multiplier"] == 1
    assert celery["task_acks_late"] is True
    assert celery["worker_enable_remote_control"] is False
