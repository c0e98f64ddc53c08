"""Writes the audit of the API: every answer one row, refusals counted together per minute."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog

from coven.errors import StoreUnavailable
from coven.services import Services
from coven.store import api_audit, api_tokens
from coven.store.engine import Tx
from coven.values import InstallationId
from webhooks.api.auth import Caller

FLUSH_SECS = 10.0
"""How long equal refusals are collected before they are written."""
MOST_KINDS = 1_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Kind:
    installation: InstallationId | None
    caller: str
    code: str


@dataclass(slots=True)
class _Count:
    action: str
    times: int
    due: float


class Recorder:
    """Writes the audit. Made once per process; safe for threads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._waiting: dict[_Kind, _Count] = {}

    def good(
        self,
        tx: Tx,
        caller: Caller,
        installation: InstallationId | None,
        action: str,
        *,
        rows: int | None,
        target: str | None,
    ) -> None:
        """Note what a caller read or changed. Raises ``StoreUnavailable``: then nothing is said."""
        now = self._services.clock.now()
        api_audit.record(
            installation,
            tx,
            at=now,
            caller=caller.name,
            action=action,
            result="ok",
            target=target,
            rows=rows,
        )
        if caller.token_id is not None:
            api_tokens.used(tx, caller.token_id, now)

    def refused(self, caller: Caller | None, action: str, code: str) -> None:
        """Note a refusal; the first of its kind at once, more of them every ten seconds."""
        installation = caller.installation if caller is not None else None
        kind = _Kind(installation, caller.name if caller is not None else "anonymous", code)
        now = self._services.clock.monotonic()
        with self._lock:
            count = self._waiting.setdefault(kind, _Count(action, 0, now))
            count.times += 1
            count.action = action
            full = len(self._waiting) > MOST_KINDS
            ready = {
                each: waiting
                for each, waiting in self._waiting.items()
                if full or waiting.due <= now
            }
            for each, waiting in ready.items():
                if waiting.times and not full:
                    self._waiting[each] = _Count(waiting.action, 0, now + FLUSH_SECS)
                else:
                    del self._waiting[each]
        written = {each: waiting for each, waiting in ready.items() if waiting.times}
        if written:
            self._write(written)

    def _write(self, counts: dict[_Kind, _Count]) -> None:
        now = self._services.clock.now()
        try:
            with self._services.store.write("api.refused") as tx:
                for kind, count in counts.items():
                    api_audit.count_refusals(
                        kind.installation,
                        tx,
                        at=now,
                        caller=kind.caller,
                        action=count.action,
                        result=kind.code,
                        times=count.times,
                    )
        except StoreUnavailable as error:
            # It stays refused; the log has it.
            for kind, count in counts.items():
                _log.error(
                    "api_refusal_not_recorded",
                    caller=kind.caller,
                    code=kind.code,
                    times=count.times,
                    why=str(error),
                )
