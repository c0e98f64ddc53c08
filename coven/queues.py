"""Names and settings of the Celery side, shared by whoever sends and whoever runs.

Celery only says *look now*: a message holds a task id and nothing else, and no result is kept.
The SQL ledgers decide. Settings follow what Celery 5.7 on Redis was measured to do: the
visibility time-out must exceed every run, or a message is delivered again while its worker works.
"""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from kombu.entity import Queue

from coven.settings.models import Settings
from coven.tolerant_broker import TolerantAMQP

SESSIONS: Final = "sessions"
CONTROL: Final = "control"
PUBLISH: Final = "publish"
UPKEEP: Final = "upkeep"
QUEUES: Final = (SESSIONS, CONTROL, PUBLISH, UPKEEP)

RUN_SESSION: Final = "coven.session.run"
RUN_CONTROL: Final = "coven.control.run"
RUN_PUBLISH: Final = "coven.publish.run"
UPKEEP_PREFIX: Final = "coven.upkeep."

OVERHEAD_SECS: Final = 900
"""Checkout, push and judging around a session, at most."""


def celery_settings(settings: Settings, broker_url: str) -> dict[str, Any]:
    """Celery configuration for this product."""
    hard_limit = settings.worker.timeout_secs + int(settings.worker.grace_secs) + OVERHEAD_SECS
    return {
        "broker_url": broker_url,
        "broker_transport_options": {
            "visibility_timeout": hard_limit + 600,
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_acquire_timeout": 5,
        "result_backend": None,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_acks_late": True,
        "task_time_limit": hard_limit,
        "task_default_queue": UPKEEP,
        "task_queues": [Queue(name) for name in QUEUES],  # type: ignore[no-untyped-call]
        "task_create_missing_queues": False,
        "task_routes": {
            RUN_SESSION: {"queue": SESSIONS},
            RUN_CONTROL: {"queue": CONTROL},
            RUN_PUBLISH: {"queue": PUBLISH},
            f"{UPKEEP_PREFIX}*": {"queue": UPKEEP},
        },
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_max_tasks_per_child": 50,
        "enable_utc": True,
        "timezone": "UTC",
    }


def celery_app(settings: Settings, broker_url: str) -> Celery:
    """A Celery app with our settings and no tasks; enough to send wake-ups."""
    app = Celery("coven-github", set_as_current=False, amqp=TolerantAMQP)
    app.conf.update(celery_settings(settings, broker_url))
    return app
