"""The policy in force: read from the database at every check, proven whenever it changed.

What was proven is kept together with exactly the rows that it was made of, and every check reads
the rows again. So another process's change is seen at once, and so is a row that was edited by hand
under an unchanged head.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coven.clock import Clock
from coven.errors import ConfigurationError, StoreUnavailable
from coven.governance.actions import Action, Kind
from coven.governance.bash import analyse
from coven.governance.evaluate import Decision, decide
from coven.governance.head import TAMPERED, UNAVAILABLE, HighWater, PolicyUnusable, verify
from coven.governance.identity import KeyRing
from coven.governance.policy import Evaluator, Policy, PolicyCorrupt, Verdict, build_policy
from coven.governance.rules import Rule
from coven.governance.shapes import InvalidMatcher, Templates
from coven.governance.strict_json import JsonValue
from coven.governance.world import Scope, World, no_machine, this_machine
from coven.settings.models import Settings
from coven.store import rules as ledger
from coven.store.engine import Store, Tx

DECIDE_SECS = 5.0
"""The most time for one verdict; after that it is a refusal."""
PROVE_SECS = 60.0
"""An unchanged policy is proven again after so long: a key may have been taken away."""


@dataclass(frozen=True, slots=True)
class _Proven:
    """A policy, what it was made of, and when it was proven (monotonic)."""

    made_of: object
    policy: Policy
    at: float


@dataclass
class Engine:
    """Safe for threads; one per process."""

    settings: Settings
    store: Store
    clock: Clock
    keys: KeyRing
    water: HighWater
    world: World
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)
    _kept: _Proven | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, settings: Settings, store: Store, clock: Clock) -> Engine:
        """The engine of this process."""
        return cls(
            settings,
            store,
            clock,
            KeyRing.of(settings),
            HighWater.of(settings),
            this_machine(analyse),
        )

    @property
    def signed(self) -> bool:
        """Whether only what the operator signed is in force."""
        return self.settings.governance.mode == "signed"

    def decide(
        self, asked: Action | Mapping[str, JsonValue] | str | bytes, scope: Scope
    ) -> Decision:
        """The verdict. Never raises: whatever goes wrong refuses. Nothing is written down."""
        until = self.clock.monotonic() + DECIDE_SECS
        return decide(
            self.policy, asked, scope, self.world, expired=lambda: self.clock.monotonic() > until
        )

    def policy(self) -> Policy:
        """The policy in force, proven. Raises ``PolicyUnusable`` and ``PolicyCorrupt``."""
        try:
            with self.store.read() as tx:
                return self.policy_in(tx)
        except StoreUnavailable as error:
            raise PolicyUnusable(UNAVAILABLE, str(error)) from error

    def policy_in(self, tx: Tx) -> Policy:
        """As :meth:`policy`, within a transaction."""
        head = ledger.newest_head(tx)
        rows = ledger.raw_rules(tx)
        made_of = (tuple((head or {}).values()), rows)
        kept, now = self._kept, self.clock.monotonic()
        if kept is not None and kept.made_of == made_of and now - kept.at < PROVE_SECS:
            return kept.policy
        with self._lock:
            policy = self._prove([ledger.named(row) for row in rows], head)
            self._kept = _Proven(made_of, policy, now)
        return policy

    def _prove(self, rows: list[dict[str, Any]], head: Mapping[str, Any] | None) -> Policy:
        epoch = int(head["epoch"]) if head else 0
        if self.signed:
            try:
                proven = verify(rows, head, self.keys.public_keys("operator"))
            except ConfigurationError as error:
                raise PolicyUnusable(UNAVAILABLE, str(error)) from error
            self.water.check(proven)
        try:
            rules = [Rule.read(row) for row in rows]
        except InvalidMatcher as error:
            raise PolicyUnusable(TAMPERED, str(error)) from error
        except TypeError as error:
            raise PolicyCorrupt(f"a rule can't be read ({error})") from error
        return build_policy(
            rules,
            templates=templates_of(self.settings),
            world=no_machine(analyse),
            physical=os.path.realpath,
            epoch=epoch,
            defaults=self._defaults(),
            evaluators=self.evaluators,
        )

    def _defaults(self) -> dict[Kind, Verdict]:
        if self.settings.governance.default_network_request == "refuse":
            return {Kind.NETWORK_REQUEST: Verdict.REFUSE}
        return {}


def templates_of(settings: Settings) -> Templates:
    """What ``${workspace}`` and the like stand for here."""
    bases = (settings.github.api_base_url, settings.github.html_base_url)
    hosts = tuple(dict.fromkeys(urlsplit(base).hostname or "" for base in bases))
    # The hook's canary runs as a harness runs the hook: through a shell.
    programs = (
        settings.worker.coven_code_bin,
        settings.worker.container.docker_bin,
        *("git", "bwrap", "/bin/sh", sys.executable),
    )
    files = (os.path.realpath(shutil.which(program) or program) for program in programs)
    return Templates.of(
        workspace=str(settings.workspace_root),
        state_dir=str(settings.server.state_dir.absolute()),
        github_hosts=hosts,
        model_hosts=settings.governance.model_hosts,
        programs=tuple(dict.fromkeys(Path(program).name for program in (*programs, *files))),
        physical=os.path.realpath,
    )


def ready(engine: Engine) -> Callable[[], bool]:
    """The check ``governance`` of ``/readyz``. Raises ``PolicyUnusable`` with the reason."""

    def check() -> bool:
        engine.policy()
        return True

    return check
