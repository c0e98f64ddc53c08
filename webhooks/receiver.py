"""``POST /webhook``: verify -> record -> route -> wake, in exactly this order.

Size and raw bytes come from the web layer. Then: signature, headers, known delivery id, body,
route, rights, one transaction, wake-up, answer. Nothing after the transaction can lose the work:
a broker that is down only means that the dispatcher finds the task a little later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

import structlog

from coven import telemetry, tracing
from coven.errors import StoreUnavailable
from coven.github.events import EVENTS, RIGHTS_EVENTS
from coven.governance.context import Acting, acting
from coven.governance.gate import deferring
from coven.metrics import ACCEPT, DELIVERIES, IGNORED, OTHER, REJECTED
from coven.services import Services
from coven.store import deliveries, intake
from coven.store.deliveries import Delivery, Received
from coven.trust import bot_permission
from coven.values import Lane, TaskId, parse_delivery_id
from webhooks.body import BadBody, decode
from webhooks.followups import needs_ledger, resolve
from webhooks.identity import Identity
from webhooks.intents import Click, Ignored, Intent, Needs, Routed, Tenancy
from webhooks.lookup import KEEP_SECS, ClientFactory, Lookup
from webhooks.payloads import BadPayload, Facts, facts_of
from webhooks.recorder import Recorder
from webhooks.routing import route
from webhooks.settled import Settled
from webhooks.signature import verified
from webhooks.trust import Admitted, Rights, admit, wants_rights

MARKETPLACE = "marketplace_purchase"
_EVENT = re.compile(r"[a-z][a-z0-9_]{0,79}", re.ASCII)
_ROUTINGS = ("task", "ignored", "duplicate", "learned", "pong")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and JSON body of an answer."""

    status: int
    body: dict[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """What the web layer hands over."""

    raw: bytes
    signature: str | None
    event: str | None
    delivery: str | None
    media_type: str | None = None
    traceparent: str | None = None


class Tally:
    """Counts answers by kind, for the metrics of this process."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, kind: str) -> None:
        with self._lock:
            self._counts[kind] += 1

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


class Receiver:
    """Takes deliveries. Made once per process; safe for threads."""

    def __init__(self, services: Services, github: ClientFactory | None = None) -> None:
        self._services = services
        self._secrets = services.settings.github.active_webhook_secrets()
        own = services.settings.github.marketplace_webhook_secret
        # The Marketplace's webhook has a secret of its own, which must open nothing else.
        listing = own.get_secret_value().encode() if own is not None else b""
        self._market_secrets = (*self._secrets, listing) if listing else self._secrets
        self._recorder = Recorder(services)
        self._lookup = Lookup(github or services.github, services.clock)
        self._bot = Identity(services.github)
        self.tally = Tally()

    def receive(self, request: Request) -> Reply:
        """Answer one delivery; every outcome is counted and logged once."""
        began = self._services.clock.monotonic()
        with tracing.within(request.traceparent):
            reply = self._receive(request)
        self._services.meter.observe(ACCEPT, self._services.clock.monotonic() - began)
        return reply

    def _receive(self, request: Request) -> Reply:
        secrets = self._market_secrets if request.event == MARKETPLACE else self._secrets
        if not verified(request.raw, request.signature, secrets):
            # Length and type tell a mangled body from a wrong secret, and give nothing away.
            _log.warning(
                "signature_refused",
                signed=request.signature is not None,
                body_bytes=len(request.raw),
                media_type=(request.media_type or "")[:80],
            )
            return self._refuse(401, "invalid_signature")
        event = request.event or ""
        if not _EVENT.fullmatch(event):
            return self._refuse(400, "bad_event_header" if event else "missing_event_header")
        delivery = parse_delivery_id(request.delivery)
        if delivery is None:
            given = "bad" if request.delivery else "missing"
            return self._refuse(400, f"{given}_delivery_header")
        received = Received(delivery, event, request.raw, "", self._services.clock.now())
        with telemetry.bound(delivery=delivery, event_name=event):
            try:
                reply = self._take(request, received)
                self._measure(event, reply.body)
                return reply
            except StoreUnavailable as error:
                _log.error("store_unavailable", why=str(error))
                return self._refuse(503, "store_unavailable")

    def _take(self, request: Request, received: Received) -> Reply:
        with self._services.store.read() as tx:
            known = deliveries.find(tx, received.id)
        if known is not None and known.task_id is not None:
            return self._again(known, received)
        try:
            body = decode(request.raw, request.media_type)
        except BadBody as error:
            return self._reject(received, known, error.reason)
        facts = facts_of(body)
        received = _with(received, facts)
        with telemetry.bound(installation=facts.installation_id, repository=facts.repo_name):
            try:
                routed = self._resolve(
                    route(received.event, body, facts, self._services.settings, self._bot.id)
                )
            except BadPayload as error:
                return self._reject(received, known, error.reason)
            with deferring() as verdicts:
                decided: list[Admitted | Ignored | Tenancy] = (
                    [routed] if isinstance(routed, Ignored | Tenancy) else [*self._admit(routed)]
                )
                settled = self._recorder.settle(received, known, decided, facts.seen, verdicts)
            self._wake(settled)
            return self._answer(settled)

    def _again(self, known: Delivery, received: Received) -> Reply:
        settled = self._recorder.again(known, received.received_at)
        self._wake(settled)
        return self._answer(settled)

    def _resolve(self, routed: Routed) -> tuple[Intent, ...] | Ignored | Tenancy:
        """Look up what the delivery refers to: earlier work, or a question that waits."""
        if not isinstance(routed, Click) and not needs_ledger(routed):
            return routed
        with self._services.store.read() as tx:
            return resolve(tx, routed)

    def _admit(self, intents: tuple[Intent, ...]) -> list[Admitted | Ignored]:
        """Look the rights up, all within one budget, and decide."""
        clock = self._services.clock
        deadline = clock.monotonic() + self._services.settings.github.lookup_budget_secs
        decided: list[Admitted | Ignored] = []
        changed = self._rights_changed(intents)
        for intent in intents:
            with acting(_acting_for(intent)):
                rights = self._rights(intent, deadline, changed)
                author = None
                if _author_matters(intent, rights):
                    author = self._lookup.rights(intent, intent.author, deadline, changed)
            decided.append(admit(intent, rights, author))
        return decided

    def _rights(self, intent: Intent, deadline: float, changed: datetime | None) -> Rights:
        actor = intent.actor
        if not wants_rights(intent):
            return Rights("no_account", self._services.clock.now())
        if actor is not None and actor.id in self._services.settings.commands.bots:
            # GitHub knows no rights of bots; the operator vouches for this one.
            return Rights("listed_bot", self._services.clock.now(), bot_permission(actor.id))
        return self._lookup.rights(intent, actor, deadline, changed)

    def _rights_changed(self, intents: tuple[Intent, ...]) -> datetime | None:
        """When GitHub last told of a change, as long as an older look-up may still be kept."""
        since = self._services.clock.now() - timedelta(seconds=KEEP_SECS)
        with self._services.store.read() as tx:
            return intake.rights_changed_at(intents[0].installation_id, tx, RIGHTS_EVENTS, since)

    def _wake(self, settled: Settled) -> None:
        """Best effort and within the budget: who is not rung for is found by the dispatcher."""
        clock, bell = self._services.clock, self._services.bell
        deadline = clock.monotonic() + self._services.settings.queue.wake_budget_secs
        rings = [
            *((bell.session, task) for task in settled.sessions),
            *((bell.control, task) for task in settled.controls),
            *((bell.publish, task) for task in settled.publications),
        ]
        for ring, task in rings:
            if clock.monotonic() >= deadline or not ring(task):
                _log.warning("wake_up_missed", task=task)
                return

    def _answer(self, settled: Settled) -> Reply:
        if settled.duplicate:
            return self._say(200, "duplicate", {"duplicate": True}, settled.task_id)
        if settled.routing.startswith("learned:"):
            learned = settled.routing.removeprefix("learned:")
            return self._say(202, "learned", {"learned": learned})
        reason = settled.routing.removeprefix("ignored:")
        if settled.routing == "ignored:ping":
            return self._say(200, "pong", {"pong": True})
        if reason != settled.routing:
            return self._say(202, "ignored", {"ignored": reason}, settled.task_id)
        return self._say(202, "task", {"task": settled.task_id}, settled.task_id)

    def _say(
        self, status: int, kind: str, facts: dict[str, object], task: TaskId | None = None
    ) -> Reply:
        self.tally.add(kind)
        more = {"task": task, "ignored": facts.get("ignored")}
        known = {name: value for name, value in more.items() if value is not None}
        _log.info("delivery_settled", outcome=kind, **known)
        return Reply(status, {"ok": True} | facts)

    def _reject(self, received: Received, known: Delivery | None, reason: str) -> Reply:
        self._recorder.reject(received, known, reason)
        _log.warning("delivery_rejected", why=reason, body_bytes=len(received.body))
        return self._refuse(400, reason)

    def _measure(self, event: str, body: Mapping[str, object]) -> None:
        known = event if event in EVENTS else OTHER
        routing = next((word for word in _ROUTINGS if word in body), "rejected")
        self._services.meter.count(DELIVERIES, known, routing)
        if routing == "ignored":
            self._services.meter.count(IGNORED, str(body["ignored"]).partition(":")[0])

    def _refuse(self, status: int, error: str) -> Reply:
        self.tally.add(error.partition(":")[0])
        self._services.meter.count(REJECTED, error.partition(":")[0])
        return Reply(status, {"ok": False, "error": error})


def _acting_for(intent: Intent) -> Acting:
    return Acting(
        installation=intent.installation_id,
        repo_id=intent.repo_id,
        repo=str(intent.repo),
        familiar=intent.familiar.id,
    )


def _author_matters(intent: Intent, rights: Rights) -> bool:
    # Content counts as what its author is trusted with, but only work that starts needs to know.
    return (
        intent.needs is Needs.WRITE
        and intent.lane is not Lane.CONTROL
        and not intent.from_fork
        and intent.author is not None
        and intent.author != intent.actor
        and rights.permission is not None
        and rights.permission.can_write
    )


def _with(received: Received, facts: Facts) -> Received:
    return replace(
        received,
        action=facts.action,
        installation_id=facts.installation_id,
        repo_id=facts.repo_id,
        repo_name=facts.repo_name,
        sender_id=facts.sender_id,
        sender_login=facts.sender_login,
    )
