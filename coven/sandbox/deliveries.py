"""Signing and sending webhooks, and the record of every attempt."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import queue
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import requests

from coven.sandbox.answers import not_found
from coven.sandbox.hub import Event, Hub
from coven.sandbox.state import JSON

RESPONSE_KEPT = 4_000


@dataclass
class Sent:
    """One attempt to deliver. Attempts of the same event share ``guid``."""

    id: int
    guid: str
    event: str
    action: str | None
    payload: Any
    body: bytes
    headers: dict[str, str]
    redelivery: bool = False
    delivered_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    duration: float = 0.0
    """Seconds until the receiver answered."""
    status: str = "pending"
    status_code: int = 0
    response: str = ""
    response_headers: dict[str, str] = field(default_factory=dict)


def signature(secret: str, body: bytes) -> str:
    """``X-Hub-Signature-256`` over the raw body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Deliverer:
    """Sends deliveries. Takes the hub's lock only to read the hook and to number attempts."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._sent: list[Sent] = []
        self._owed = 0
        self._lock = threading.Lock()
        self._queue: queue.Queue[Sent | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="sandbox-outbox", daemon=True)
        self._thread.start()
        hub.outbox = self.send_later

    def prepare(
        self,
        event: str,
        payload: Any,
        *,
        guid: str | None = None,
        secret: str | None = None,
        form: bool = False,
        raw: bytes | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> Sent:
        """A signed delivery that is not sent yet; ``headers`` override, None removes one."""
        with self.hub.state.lock:
            hook = self.hub.state.hook
            delivery_id = self.hub.state.new_id()
            app_id = self.hub.app.id
        key = hook.secret if secret is None else secret
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        body = raw if raw is not None else text.encode("utf-8", "surrogatepass")
        kind = "application/json"
        if form:
            body, kind = urlencode({"payload": text}).encode(), "application/x-www-form-urlencoded"
        guid = guid or str(uuid.uuid4())
        sent = {
            "Accept": "*/*",
            "Content-Type": kind,
            "User-Agent": "GitHub-Hookshot/5a0dbox",
            "X-GitHub-Delivery": guid,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": str(hook.id),
            "X-GitHub-Hook-Installation-Target-ID": str(app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
        }
        if key:
            sent["X-Hub-Signature-256"] = signature(key, body)
        for name, value in (headers or {}).items():
            if value is None:
                sent.pop(name, None)
            else:
                sent[name] = value
        action = payload.get("action") if isinstance(payload, dict) else None
        delivery = Sent(delivery_id, guid, event, action, payload, body, sent)
        with self._lock:
            self._sent.append(delivery)
        return delivery

    def send(self, delivery: Sent) -> Sent:
        """Post it once and record what came back. Never raises for the receiver's sake."""
        hook = self.hub.state.hook
        delivery.delivered_at = datetime.now(UTC)
        if hook.url is None:
            delivery.status, delivery.status_code = "no webhook URL is set", 0
            return delivery
        if not delivery.redelivery and self._is_lost(hook.lose_percent):
            return self.lose(delivery)
        started = time.monotonic()
        try:
            with requests.Session() as session:
                session.trust_env = False
                answer = session.post(
                    hook.url,
                    data=delivery.body,
                    headers=delivery.headers,
                    timeout=hook.timeout_secs,
                    allow_redirects=False,
                )
        except requests.Timeout:
            delivery.status = "timed out"
        except requests.RequestException:
            delivery.status = "failed to connect to host"
        else:
            delivery.status_code = answer.status_code
            ok = 200 <= answer.status_code < 300
            delivery.status = "OK" if ok else f"Invalid HTTP Response: {answer.status_code}"
            delivery.response = answer.text[:RESPONSE_KEPT]
            delivery.response_headers = dict(answer.headers)
        delivery.duration = round(time.monotonic() - started, 4)
        return delivery

    def _is_lost(self, percent: int) -> bool:
        # Spread evenly and the same in every run: of each hundred exactly so many.
        with self._lock:
            self._owed += percent
            lost = self._owed >= 100
            self._owed -= 100 if lost else 0
        return lost

    def lose(self, delivery: Sent) -> Sent:
        """Record it as one that never reached the receiver."""
        delivery.status = "failed to connect to host"
        return delivery

    def again(self, delivery: Sent) -> Sent:
        """A further attempt under the same guid, with the same bytes."""
        with self.hub.state.lock:
            delivery_id = self.hub.state.new_id()
        attempt = Sent(
            delivery_id,
            delivery.guid,
            delivery.event,
            delivery.action,
            delivery.payload,
            delivery.body,
            dict(delivery.headers),
            redelivery=True,
        )
        with self._lock:
            self._sent.append(attempt)
        return attempt

    def redeliver_later(self, delivery: Sent) -> None:
        """Send again in the background."""
        self._queue.put(self.again(delivery))

    def send_later(self, event: Event) -> None:
        """Send an event in the background, in order."""
        self._queue.put(self.prepare(*event))

    def flush(self) -> None:
        """Wait until the background has sent everything."""
        self._queue.join()

    def _run(self) -> None:
        while True:
            delivery = self._queue.get()
            try:
                if delivery is None:
                    return
                self.send(delivery)
            finally:
                self._queue.task_done()

    def close(self) -> None:
        """Stop the background thread after what is queued."""
        self._queue.put(None)
        self._thread.join(timeout=5)

    def listed(self) -> list[Sent]:
        """All attempts, oldest first."""
        with self._lock:
            return list(self._sent)

    def one(self, delivery_id: int) -> Sent:
        """An attempt by id; 404 otherwise."""
        for delivery in self.listed():
            if delivery.id == delivery_id:
                return delivery
        raise not_found()

    def clear(self) -> None:
        """Forget all attempts."""
        with self._lock:
            self._sent.clear()


def _number(payload: Any, key: str) -> int | None:
    with contextlib.suppress(TypeError, KeyError):
        value = payload[key]["id"]
        return value if isinstance(value, int) else None
    return None


def delivery_item(sent: Sent) -> JSON:
    """A line of ``GET /app/hook/deliveries``."""
    return {
        "id": sent.id,
        "guid": sent.guid,
        "delivered_at": sent.delivered_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "redelivery": sent.redelivery,
        "duration": sent.duration,
        "status": sent.status,
        "status_code": sent.status_code,
        "event": sent.event,
        "action": sent.action,
        "installation_id": _number(sent.payload, "installation"),
        "repository_id": _number(sent.payload, "repository"),
        "throttled_at": None,
    }


def delivery_detail(sent: Sent) -> JSON:
    """``GET /app/hook/deliveries/{id}``."""
    payload = sent.payload if isinstance(sent.payload, dict) else None
    return {
        **delivery_item(sent),
        "url": "",
        "request": {"headers": sent.headers, "payload": payload},
        "response": {"headers": sent.response_headers, "payload": sent.response},
    }
