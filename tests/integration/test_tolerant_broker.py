from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kombu import Consumer
from redis import Redis
from structlog.testing import capture_logs

from coven.embedded import EmbeddedBroker
from coven.queues import RUN_SESSION, SESSIONS, celery_app
from coven.settings.models import Settings

pytestmark = pytest.mark.broker

JUNK = [
    b"not json",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b"null",
    b"5",
    b'"text"',
    b'{"properties": 5}',
    b'{"properties": {}, "body": "x"}',
    json.dumps({"properties": {"delivery_tag": "t", "body_encoding": "base64"}}).encode(),
]


def test_what_is_no_message_is_dropped_and_the_message_behind_it_arrives(
    broker_factory: Callable[[], EmbeddedBroker],
) -> None:
    broker = broker_factory()
    app = celery_app(Settings(), broker.url)
    with Redis(unix_socket_path=str(broker.socket)) as client:
        client.lpush(SESSIONS, *JUNK)
    app.send_task(RUN_SESSION, args=["0" * 32], queue=SESSIONS)
    arrived: list[Any] = []

    def take(body: Any, message: Any) -> None:
        arrived.append(body)
        message.ack()

    with (
        capture_logs() as logs,
        app.connection_for_read() as connection,
        Consumer(connection, [app.amqp.queues[SESSIONS]], callbacks=[take], accept=["json"]),
    ):
        for _ in range(2 * len(JUNK)):
            if any(body and body[0] == ["0" * 32] for body in arrived):
                break
            connection.drain_events(timeout=5)
    assert arrived[-1][0] == ["0" * 32]
    dropped = [log for log in logs if log["event"] == "broker_entry_dropped"]
    assert len(dropped) + len(arrived) == len(JUNK) + 1
    assert not any("not json" in repr(log) for log in logs)
