"""From a request to an answer: limit -> who -> may -> input -> do -> record. Knows no Flask.

The order matters: a stranger learns nothing about paths, bodies or parameters, and costs a look
at one row. What can't be recorded is not answered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel
from werkzeug.http import parse_etags

from coven.api_tokens import TokenScope, digest_of, id_of
from coven.errors import ConfigurationError, GovernanceRefused, StoreUnavailable
from coven.governance import codes
from coven.governance.identity import KeyRing
from coven.governance.signed_requests import check_request
from coven.governance.signing import PublicKeys
from coven.services import Services
from coven.store import rules
from coven.store.engine import Tx
from coven.values import InstallationId
from webhooks.api import inputs
from webhooks.api.auth import OPEN, Caller, Tokens, Unauthorized, bearer
from webhooks.api.context import Call, Lines, Outcome, Place
from webhooks.api.cursors import BadCursor, Cursors
from webhooks.api.governance import refused
from webhooks.api.limiter import Failures
from webhooks.api.operations import Operation
from webhooks.api.problems import (
    MEDIA_TYPE,
    Problem,
    bad_field,
    unauthorized,
    unavailable,
)
from webhooks.api.recording import Recorder
from webhooks.nearby import is_loopback, without_port

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the web layer hands it over."""

    path: dict[str, str]
    query: bytes
    body: bytes
    media_type: str | None
    authorization: str | None
    if_none_match: str | None
    address: str
    host: str
    forwarded: bool
    """Whether a proxy stands in between, by its headers."""
    method: str = "GET"
    target: str = ""
    """Path with query, as sent."""
    signed: Mapping[str, str] = field(default_factory=dict)
    """Headers of an operator's signature, as sent."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What to send."""

    status: int
    body: bytes | Iterator[bytes]
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def problem_reply(problem: Problem) -> Reply:
    """A refusal as it is sent."""
    return Reply(problem.status, _json(problem.body()), MEDIA_TYPE, problem.headers)


class Api:
    """Answers requests. Made once per process; safe for threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.tokens = Tokens(services.settings.api, services.store)
        self._failures = Failures(services.clock.monotonic)
        self._cursors = Cursors(services.secret_key)
        self._recorder = Recorder(services)

    def answer(self, operation: Operation, asked: Asked) -> Reply:
        """The answer to one request. Raises nothing that we know of."""
        caller: Caller | None = None
        try:
            inputs.refuse_tokens_in(asked.query)
            caller = self._operator(asked) if operation.signed else self._caller(operation, asked)
            return self._serve(operation, asked, caller)
        except Problem as problem:
            self._recorder.refused(caller, operation.name, problem.code)
            _log.info(
                "api_refused",
                operation=operation.name,
                code=problem.code,
                caller=caller.name if caller is not None else None,
            )
            return problem_reply(problem)
        except GovernanceRefused as error:
            _log.warning("api_rules_refuse", operation=operation.name, why=str(error))
            forbidden = refused(error)
            self._recorder.refused(caller, operation.name, forbidden.code)
            return problem_reply(forbidden)
        except StoreUnavailable as error:
            _log.error("api_store_unavailable", operation=operation.name, why=str(error))
            return problem_reply(
                unavailable("store_unavailable", "the ledgers can't be reached now; try again soon")
            )

    def _operator(self, asked: Asked) -> Caller:
        """Who signed this request. Raises ``Problem``: one and the same, whatever is wrong."""
        services = self._services
        now = services.clock.now()
        found = None
        try:
            keys = KeyRing.of(services.settings).public_keys("operator")
        except ConfigurationError as error:
            _log.error("api_operator_keys_unusable", why=str(error))
            keys = PublicKeys([])
        host = asked.host
        found = check_request(
            asked.signed, asked.method, asked.target, host, asked.body, keys, now.timestamp()
        )
        if found is not None:
            # Before anything is done, and for all processes: a nonce counts once.
            with services.store.write("api.nonce") as tx:
                fresh = rules.use_nonce(tx, found.key_id, found.nonce, now)
                epoch = rules.newest_epoch(tx)
        if found is None or not fresh:
            raise _stale()
        if found.epoch != epoch:
            raise Problem(
                409,
                codes.EPOCH_CONFLICT,
                f"If-Match: the rules are at epoch {epoch}; read them again, then sign anew",
                field="If-Match",
            )
        return Caller(f"operator:{found.key_id}", None, TokenScope.ADMIN)

    def _caller(self, operation: Operation, asked: Asked) -> Caller:
        if self._is_open_to(asked) and asked.authorization is None:
            if operation.writes:
                raise unauthorized(
                    "open mode never writes; send a token: Authorization: Bearer cvn_…"
                )
            return OPEN
        try:
            secret: str | None = bearer(asked.authorization)
            missing = None
        except Unauthorized as error:
            secret, missing = None, error
        digest = digest_of(secret) if secret is not None else None
        wait = self._failures.wait_secs(asked.address, digest)
        # A token of the ledger can't be guessed, so looking it up is right even then: whoever
        # shares an address with an attacker, behind a proxy, is not locked out.
        if wait and (secret is None or id_of(secret) is None):
            raise _slow_down(wait)
        try:
            if secret is None or digest is None:
                raise missing or Unauthorized("send a token")
            caller = self.tokens.caller(secret, self._services.clock.now())
        except Unauthorized as error:
            self._failures.failed(asked.address, digest)
            raise (_slow_down(wait) if wait else unauthorized(str(error))) from None
        self._failures.passed(digest)
        return caller

    def _is_open_to(self, asked: Asked) -> bool:
        """Open mode is for this machine: by bind, by peer, by name, and through no proxy."""
        settings = self._services.settings
        return (
            settings.api.mode == "open"
            and is_loopback(settings.server.bind.rpartition(":")[0])
            and is_loopback(asked.address)
            and is_loopback(without_port(asked.host))
            and not asked.forwarded
        )

    def _serve(self, operation: Operation, asked: Asked, caller: Caller) -> Reply:
        if not caller.may(operation.scope):
            raise Problem(
                403,
                "scope_missing",
                f"this token has the scope {caller.scope}, and this needs {operation.scope}; "
                "make one with `coven-github tokens create --scope`",
            )
        query = inputs.read_query(operation.query, asked.query)
        body: BaseModel = inputs.NoBody()
        if operation.body is not None:
            body = inputs.read_body(operation.body, asked.body, asked.media_type)
        elif asked.body:
            raise Problem(400, "unexpected_body", "this takes no body; leave it out")
        installation = _view(caller, query, body)
        question = _question(operation, installation, caller, query)
        place = self._place(question, getattr(query, "cursor", None))

        def call_in(tx: Tx) -> Outcome | Lines:
            return operation.handler(
                Call(self._services, tx, caller, installation, asked.path, query, body, place)
            )

        store = self._services.store
        if operation.writes and not operation.commits:
            with store.write(f"api.{operation.name}") as tx:
                outcome = call_in(tx)
                self._record(tx, operation, caller, installation, outcome)
        else:
            with store.read() as tx:
                outcome = call_in(tx)
            with store.write("api.audit") as tx:
                self._record(tx, operation, caller, installation, outcome)
        if isinstance(outcome, Lines):
            return Reply(200, outcome.lines, "application/x-ndjson", outcome.headers)
        for ring in outcome.after:
            ring()
        return self._reply(operation, asked, outcome, question)

    def _record(
        self,
        tx: Tx,
        operation: Operation,
        caller: Caller,
        installation: InstallationId | None,
        outcome: Outcome | Lines,
    ) -> None:
        rows = outcome.rows if isinstance(outcome, Outcome) else None
        self._recorder.good(
            tx, caller, installation, operation.name, rows=rows, target=outcome.target
        )

    def _place(self, question: str, cursor: str | None) -> Place | None:
        if cursor is None:
            return None
        try:
            return self._cursors.read(question, cursor)
        except BadCursor:
            raise bad_field(
                "cursor",
                "is not one of this list; send next_cursor as it came, with the same filters, "
                "or start without it",
                "bad_cursor",
            ) from None

    def _reply(self, operation: Operation, asked: Asked, outcome: Outcome, question: str) -> Reply:
        facts = outcome.answer.model_dump(mode="json", by_alias=True)
        if "next_cursor" in facts and outcome.next is not None:
            facts["next_cursor"] = self._cursors.write(question, outcome.next)
        content = _json(facts)
        headers = {"Vary": "Authorization"}
        if operation.writes:
            return Reply(200, content, headers=headers)
        etag = hashlib.sha256(content).hexdigest()[:32]
        headers |= {"ETag": f'W/"{etag}"', "Cache-Control": "private, no-cache"}
        if asked.if_none_match and parse_etags(asked.if_none_match).contains_weak(etag):
            return Reply(304, b"", headers=headers)
        return Reply(200, content, headers=headers)


def _stale() -> Problem:
    detail = (
        "the operator's signature was not accepted; sign the request anew: a trusted key, this "
        "machine's time, a fresh nonce, and exactly the method, path, host, body and If-Match sent"
    )
    return Problem(401, codes.STALE_REQUEST, detail)


def _slow_down(wait_secs: int) -> Problem:
    return Problem(
        429,
        "too_many_failures",
        f"too many refused tokens from this address; wait {wait_secs} s",
        headers={"Retry-After": str(wait_secs)},
    )


def _view(caller: Caller, query: BaseModel, body: BaseModel) -> InstallationId | None:
    """Whose data is asked for: a tenant's own, whatever it says."""
    named = {
        value
        for value in (
            getattr(query, "installation_id", None),
            getattr(body, "installation_id", None),
        )
        if value is not None
    }
    if caller.installation is not None:
        if named - {caller.installation}:
            raise Problem(
                403,
                "other_installation",
                f"installation_id: this token sees {caller.installation} only; leave it out",
                field="installation_id",
            )
        return caller.installation
    if len(named) > 1:
        raise bad_field("installation_id", "query and body name different ones; name one")
    return InstallationId(named.pop()) if named else None


def _question(
    operation: Operation, installation: InstallationId | None, caller: Caller, query: BaseModel
) -> str:
    """What a cursor belongs to."""
    filters: dict[str, Any] = query.model_dump(mode="json", exclude={"cursor", "limit"})
    repos = sorted(repo.key for repo in caller.repos)
    return json.dumps([operation.name, installation, repos, filters], sort_keys=True)


def _json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode(
        "utf-8", "replace"
    )
