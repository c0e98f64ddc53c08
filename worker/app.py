"""The Celery app of the workers, built from services that are handed in."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from typing import Any

import structlog
from celery import Celery, signals

from coven.metrics_flush import Flusher
from coven.queues import RUN_CONTROL, RUN_PUBLISH, RUN_SESSION, UPKEEP, UPKEEP_PREFIX, celery_app
from coven.services import Services
from coven.values import TaskId
from worker import lifecycle, upkeep
from worker.control import run_control
from worker.publish.publisher import publish_task
from worker.upkeep import JOBS, Job

_log = structlog.get_logger(__name__)


def create_worker(services: Services, broker_url: str) -> Celery:
    """A Celery app whose tasks are thin entries to the functions that do the work."""
    app = celery_app(services.settings, broker_url)
    app.conf.beat_scheduler = "celery.beat:Scheduler"
    app.conf.beat_schedule = {
        job.name: {
            "task": f"{UPKEEP_PREFIX}{job.name}",
            "schedule": job.every_secs,
            "options": {"queue": UPKEEP, "expires": max(10.0, job.every_secs)},
        }
        for job in JOBS
    }
    draining = multiprocessing.get_context("fork").Event()
    drain_secs = services.settings.worker.drain_secs

    @app.task(name=RUN_SESSION)  # type: ignore[untyped-decorator]
    def run_session(task_id: str) -> None:
        if lifecycle.run_task(services, TaskId(task_id), draining, worker_name()):
            upkeep.wake_next(services)

    @app.task(name=RUN_CONTROL)  # type: ignore[untyped-decorator]
    def run_control_task(task_id: str) -> None:
        run_control(services, TaskId(task_id), worker_name())

    @app.task(name=RUN_PUBLISH)  # type: ignore[untyped-decorator]
    def run_publish(task_id: str) -> None:
        publish_task(services, TaskId(task_id))

    for job in JOBS:
        _register_job(app, services, job)

    def on_fork(**_: Any) -> None:
        # Connections of the parent must not be used by two processes.
        services.store.engine.dispose(close=False)
        flusher = Flusher(services)
        flusher.start()
        signals.worker_process_shutdown.connect(lambda **_: flusher.stop(), weak=False)

    def on_shutdown(**_: Any) -> None:
        _log.info("worker_draining", grace_secs=drain_secs)
        timer = threading.Timer(drain_secs, draining.set)
        timer.daemon = True
        timer.start()

    signals.worker_process_init.connect(on_fork, weak=False)
    signals.worker_shutting_down.connect(on_shutdown, weak=False)
    return app


def _register_job(app: Celery, services: Services, job: Job) -> None:
    @app.task(name=f"{UPKEEP_PREFIX}{job.name}")  # type: ignore[untyped-decorator]
    def run_job() -> None:
        upkeep.perform(services, job)


def worker_name() -> str:
    """``host:pid`` of this process, for people who read attempts."""
    return f"{socket.gethostname()}:{os.getpid()}"
