"""``deliveries replay``: send a payload to the running receiver, signed as GitHub signs it."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from dataclasses import dataclass
from pathlib import Path

import requests

from coven.errors import ConfigurationError, CovenError
from coven.settings.models import Settings
from coven.store import deliveries
from coven.store.engine import Tx
from coven.values import parse_delivery_id

_SECONDS = 35
"""Longer than any answer of the receiver takes."""
MARKETPLACE = "marketplace_purchase"


class NotReplayable(CovenError):
    """There is nothing to send: the delivery is unknown, or its body is not kept any more."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What goes to the receiver."""

    event: str
    delivery: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver said."""

    delivery: str
    status: int
    body: str


def from_file(path: Path, event: str, delivery: str | None) -> Parcel:
    """A payload from a file, under a new delivery id unless one is given. Raises ``CovenError``."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise NotReplayable(f"{path} can't be read: {error.strerror}") from error
    return Parcel(event, delivery or f"replay-{uuid.uuid4()}", body)


def from_ledger(tx: Tx, delivery: str) -> Parcel:
    """A delivery that is known, under its own id: what was accepted does not run twice.

    Raises ``NotReplayable``.
    """
    parsed = parse_delivery_id(delivery)
    known = deliveries.find(tx, parsed) if parsed else None
    if known is None:
        raise NotReplayable(f"no delivery {delivery} is known; look with `deliveries list`")
    body = deliveries.body_of(known.installation_id, tx, known.id)
    if body is None:
        raise NotReplayable(
            f"the body of {delivery} is not kept any more (storage.delivery_body_days); "
            "have GitHub deliver it again from the App's page *Advanced*"
        )
    return Parcel(known.event, known.id, body)


def send(settings: Settings, parcel: Parcel, url: str | None) -> Answer:
    """Post it to ``url``, by default this machine's receiver. Raises ``CovenError``."""
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": parcel.event,
        "X-GitHub-Delivery": parcel.delivery,
        "X-Hub-Signature-256": _signature(settings, parcel),
    }
    where = url or f"http://{_reachable(settings.server.bind)}/webhook"
    try:
        answer = requests.post(
            where, data=parcel.body, headers=headers, timeout=_SECONDS, allow_redirects=False
        )
    except requests.RequestException as error:
        raise CovenError(
            f"{where} does not answer ({type(error).__name__}); start it with `coven-github web`, "
            "or name it with --url"
        ) from error
    return Answer(parcel.delivery, answer.status_code, answer.text.strip())


def _signature(settings: Settings, parcel: Parcel) -> str:
    secrets = settings.github.active_webhook_secrets()
    own = settings.github.marketplace_webhook_secret
    if parcel.event == MARKETPLACE and own is not None:
        secrets = (own.get_secret_value().encode(), *secrets)
    if not secrets:
        raise ConfigurationError("github.webhook_secret is not set, so nothing can be signed")
    return f"sha256={hmac.new(secrets[0], parcel.body, hashlib.sha256).hexdigest()}"


def _reachable(bind: str) -> str:
    """The address under which a server that listens on ``bind`` is reached from here."""
    host, _, port = bind.rpartition(":")
    return f"{'127.0.0.1' if host in ('0.0.0.0', '[::]', '') else host}:{port}"  # noqa: S104
