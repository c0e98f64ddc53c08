"""What an operator does to the rules: every change is signed, and one transaction with its head.

A change is planned from what is there (:meth:`Admin.plan`), signed with the operator's key, and
accepted like one that was signed on another machine (:meth:`Admin.accept`): proven against the
trusted keys, the row's revision and the epoch. So there is one way in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coven.errors import CovenError
from coven.governance.audit import Event, Recorder, redacted
from coven.governance.engine import Engine, templates_of
from coven.governance.head import PolicyUnusable, sign_head, verify
from coven.governance.policy import build_policy
from coven.governance.rules import Rule, compile_rule
from coven.governance.selftest import failed_examples
from coven.governance.shapes import InvalidMatcher
from coven.governance.signing import PublicKeys, Signer, key_message, rule_message
from coven.governance.strict_json import canonical
from coven.governance.world import no_machine
from coven.redaction import Redactor
from coven.store import chain
from coven.store import rules as ledger
from coven.store.engine import Tx

Row = dict[str, Any]
SIGNED = "operator_signed"
_NEW: Row = {
    "namespace": "_global",
    "enabled": 1,
    "signature": None,
    "attest_level": "unsigned",
    "revision": 0,
    "key_id": None,
    "removed_at": None,
    "examples": None,
}


class EpochConflict(CovenError):
    """Somebody else changed the rules meanwhile."""

    code = "governance.epoch_conflict"
    public = "The rules were changed meanwhile; look at them again, then repeat the change."


class NoSuchRule(CovenError):
    """There is no rule with this id, or its id was used before; the message says which."""

    code = "governance.no_such_rule"


@dataclass(frozen=True, slots=True)
class Change:
    """Signed rows, and the signed head over the table that has them."""

    rows: tuple[Row, ...]
    head: Row
    event_type: str


@dataclass(frozen=True)
class Admin:
    """The operator's side. ``recorder`` signs the audit rows with the service's key."""

    engine: Engine
    recorder: Recorder

    def add(
        self,
        rule_id: str,
        kind: str,
        matcher: str,
        severity: str,
        reason: str,
        *,
        namespace: str = "_global",
        created_by: str = "operator",
        enabled: bool = True,
        examples: Mapping[str, Any] | None = None,
    ) -> Row:
        """A new rule. Raises ``InvalidMatcher``, ``NoSuchRule`` for a used id, ``KeyProblem``."""
        row = _NEW | {
            "id": rule_id,
            "kind": kind,
            "matcher": matcher,
            "severity": severity,
            "reason": reason,
            "namespace": namespace,
            "created_by": created_by,
            "created_at": self._now(),
            "enabled": int(enabled),
            "examples": canonical(dict(examples)).decode() if examples else None,
        }
        self._require_sound(row | {"revision": 1})

        def change(rows: list[Row]) -> list[Row]:
            if any(known["id"] == rule_id for known in rows):
                raise NoSuchRule(
                    f"the id {rule_id} is or was used; choose another, ids are never used twice"
                )
            return [row]

        return self.change(change, "governance.rule_added")[0]

    def enable(self, rule_id: str) -> Row:
        """Let a rule bind; its matcher and examples must hold. Raises as :meth:`add`."""

        def change(rows: list[Row]) -> list[Row]:
            row = _named(rows, rule_id) | {"enabled": 1}
            self._require_sound(row)
            return [row]

        return self.change(change, "governance.rule_enabled")[0]

    def disable(self, rule_id: str) -> Row:
        """Let a rule rest. Raises ``NoSuchRule``, ``KeyProblem``, ``EpochConflict``."""
        return self.change(
            lambda rows: [_named(rows, rule_id) | {"enabled": 0}], "governance.rule_disabled"
        )[0]

    def remove(self, rule_id: str) -> Row:
        """Take a rule out for good: the row stays as a tombstone. Raises as :meth:`disable`."""
        gone = {"enabled": 0, "removed_at": self._now()}
        return self.change(lambda rows: [_named(rows, rule_id) | gone], "governance.rule_removed")[
            0
        ]

    def resign(self, *, although_tampered: bool = False) -> list[Row]:
        """Sign all rows and a new head with the present key: after a rotation or a restored backup.

        The present table must verify, unless the operator has looked at every rule and says so.
        """
        return self.change(
            lambda rows: [row for row in rows if row["signature"] or row["enabled"]],
            "governance.rule_resigned",
            prove=not although_tampered,
        )

    def vouch(self, role: str, public: bytes) -> None:
        """Let auditors who have only the operator's key trust another public key."""
        signer = self.engine.keys.signer("operator")
        keys = PublicKeys([public])
        name = next(iter(keys.raw))
        now = self._now()
        row = {
            "key_id": name,
            "role": role,
            "public_key": public,
            "created_at": now,
            "retired_at": None,
            "signed_by": signer.key_id,
            "signature": signer.sign(key_message(role, public, now)),
        }

        def write(tx: Tx) -> list[Event]:
            ledger.put_key(tx, row)
            return [self._event("governance.key_vouched", {"key_id": name, "role": role})]

        self.recorder.commit_with(write, self.engine.clock.now())

    def plan(
        self,
        change: Callable[[list[Row]], list[Row]],
        event_type: str,
        signer: Signer,
        rows: list[Row],
        epoch: int,
    ) -> Change:
        """What ``change`` makes of these rows, signed. Pure but for the clock."""
        signed = []
        for row in change(rows):
            row = row | {
                "revision": row["revision"] + 1,
                "key_id": signer.key_id,
                "attest_level": SIGNED,
            }
            signed.append(row | {"signature": signer.sign(rule_message(row))})
        head = sign_head(_merged(rows, signed), epoch, self._now(), signer)
        return Change(tuple(signed), head, event_type)

    def accept(self, change: Change, tx: Tx, before: Sequence[Row]) -> list[Event]:
        """Write a signed change, proven; the events that belong to it.

        ``before`` are the rows of this transaction. Raises ``EpochConflict``, ``PolicyUnusable``,
        ``InvalidMatcher``.
        """
        for row in change.rows:
            self._require_sound(row)
        verify(_merged(before, change.rows), change.head, self.engine.keys.public_keys("operator"))
        if change.head["epoch"] != self._next_epoch(tx):
            raise EpochConflict(f"epoch {change.head['epoch']} is not the next one")
        known = {row["id"]: row for row in before}
        for row in change.rows:
            old = known.get(row["id"])
            if old is None:
                written = row["revision"] == 1 and ledger.insert_rule(tx, row)
            else:
                written = row["revision"] == old["revision"] + 1 and ledger.change_rule(
                    tx, row["id"], old["revision"], row
                )
            if not written:
                raise EpochConflict(f"rule {row['id']} was changed meanwhile")
        if not ledger.insert_head(tx, change.head):
            raise EpochConflict(f"epoch {change.head['epoch']} is taken")
        return self._events(change)

    def accept_signed(self, change: Change) -> int:
        """Write a change that was signed elsewhere; the new epoch. Raises as :meth:`accept`."""

        def write(tx: Tx) -> list[Event]:
            return self.accept(change, tx, [dict(row) for row in ledger.all_rules(tx)])

        self.recorder.commit_with(write, self.engine.clock.now())
        return int(change.head["epoch"])

    def change(
        self, change: Callable[[list[Row]], list[Row]], event_type: str, *, prove: bool = True
    ) -> list[Row]:
        """Apply ``change`` to the rows, sign what it gives, and accept it; the rows as written.

        Raises ``KeyProblem``, ``PolicyUnusable``, ``EpochConflict``, ``InvalidMatcher``.
        """
        signer = self.engine.keys.signer("operator")
        keys = self.engine.keys.public_keys("operator")
        done: list[Row] = []

        def write(tx: Tx) -> list[Event]:
            rows = [dict(row) for row in ledger.all_rules(tx)]
            head = ledger.newest_head(tx)
            if prove:
                self._require_proven(rows, head, keys)
            planned = self.plan(change, event_type, signer, rows, self._next_epoch(tx))
            done.extend(planned.rows)
            return self.accept(planned, tx, rows)

        self.recorder.commit_with(write, self.engine.clock.now())
        self.engine.policy()
        return done

    def _require_proven(
        self, rows: Sequence[Row], head: Mapping[str, Any] | None, keys: PublicKeys
    ) -> None:
        """Never sign on top of what somebody changed by hand. Raises ``PolicyUnusable``."""
        if head is not None:
            verify(rows, head, keys)
            return
        odd = [row["id"] for row in rows if row["signature"] or row["created_by"] != "system:seed"]
        if odd:
            raise PolicyUnusable(
                "governance:policy_tampered",
                f"nothing was ever signed here, but rule {odd[0]} is there; look at it, then run "
                "`coven-github rules resign --sign --although-tampered`",
            )

    def _require_sound(self, row: Mapping[str, Any]) -> None:
        rule = Rule.read(row)
        compiled = compile_rule(rule, templates_of(self.engine.settings))
        broken = failed_examples(compiled, no_machine(self.engine.world.analyse))
        if broken:
            raise InvalidMatcher(f"an example of rule {rule.id} does not hold: {broken[0]}")

    def _next_epoch(self, tx: Tx) -> int:
        # Above what was ever in force here, so that a restored backup is not refused for ever.
        return max(ledger.newest_epoch(tx), self.engine.water.read().epoch) + 1

    def _events(self, change: Change) -> list[Event]:
        by = change.head["key_id"]
        events = [
            self._event(
                change.event_type,
                {
                    "rule_id": row["id"],
                    "revision": row["revision"],
                    "enabled": bool(row["enabled"]),
                    "severity": row["severity"],
                    "matcher": row["matcher"],
                    "key_id": by,
                },
            )
            for row in change.rows
        ]
        epoch, digest = change.head["epoch"], bytes(change.head["digest"]).hex()
        facts = {"epoch": epoch, "digest": digest, "key_id": by}
        return [*events, self._event("governance.policy_advanced", facts)]

    def _event(self, event_type: str, facts: Mapping[str, Any]) -> Event:
        return Event(event_type, redacted(Redactor(), facts), agent_id="operator")

    def _now(self) -> int:
        return int(self.engine.clock.now().timestamp())


def audit_keys(engine: Engine) -> PublicKeys:
    """Every service key that proves rows of the record: of the key folder, and vouched for.

    A voucher counts when a trusted operator key signed it. Raises ``KeyProblem``,
    ``StoreUnavailable``.
    """
    operators = engine.keys.public_keys("operator")
    with engine.store.read() as tx:
        rows = ledger.keys(tx)
    vouched = [
        bytes(row["public_key"])
        for row in rows
        if row["role"] == "service"
        and operators.verify(
            row["signed_by"],
            bytes(row["signature"]),
            key_message("service", bytes(row["public_key"]), row["created_at"]),
        )
    ]
    return PublicKeys([*engine.keys.public_keys("service").raw.values(), *vouched])


def listed(engine: Engine) -> list[dict[str, Any]]:
    """Every rule with what becomes of it at a check (``enforcement_state``)."""
    with engine.store.read() as tx:
        rows = [dict(row) for row in ledger.all_rules(tx)]
    keys = engine.keys.public_keys("operator")
    try:
        engine.policy()
        trusted = True
    except CovenError:
        trusted = False
    return [
        shown(row) | {"enforcement_state": _state(engine, row, keys, trusted=trusted)}
        for row in rows
    ]


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON: parsed matcher and examples, signature in hex."""
    value = dict(row)
    signature = value.pop("signature", None)
    return value | {
        "matcher": json.loads(value["matcher"]),
        "examples": json.loads(value["examples"]) if value.get("examples") else None,
        "enabled": bool(value["enabled"]),
        "signature": bytes(signature).hex() if signature else None,
    }


def _state(engine: Engine, row: Row, keys: PublicKeys, *, trusted: bool) -> str:
    if row["removed_at"] is not None:
        return "removed"
    if not row["enabled"]:
        return "disabled"
    try:
        build_policy([Rule.read(row)], templates=templates_of(engine.settings))
    except CovenError:
        return "inert"
    if not engine.signed:
        return "enforced"
    if row["signature"] is None:
        return "skipped_unsigned"
    if row["key_id"] not in keys:
        return "key_untrusted"
    if not keys.verify(row["key_id"], bytes(row["signature"]), rule_message(row)):
        return "skipped_signature_invalid"
    return "enforced" if trusted else "tampered"


def _named(rows: Sequence[Row], rule_id: str) -> Row:
    for row in rows:
        if row["id"] == rule_id and row["removed_at"] is None:
            return row
    raise NoSuchRule(f"there is no rule {rule_id}; see `coven-github rules list`")


def _merged(before: Sequence[Row], changed: Sequence[Row]) -> list[Row]:
    merged = {row["id"]: row for row in [*before, *changed]}
    return list(merged.values())


def status(engine: Engine) -> dict[str, Any]:
    """What ``governance status`` says: mode, policy, keys and whether all of it can be trusted."""
    problem: str | None = None
    epoch, enforced = 0, 0
    try:
        policy = engine.policy()
        epoch = policy.epoch
        enforced = sum(len(found) for found in policy.by_kind.values())
    except CovenError as error:
        problem = str(error)
    with engine.store.read() as tx:
        head = chain.head(tx)
    return {
        "mode": engine.settings.governance.mode,
        "enabled": engine.settings.governance.enabled,
        "unsigned_mode": not engine.signed,
        "policy_epoch": epoch,
        "rules_enforced": enforced,
        "operator_keys": sorted(engine.keys.public_keys("operator").raw),
        "service_keys": sorted(engine.keys.public_keys("service").raw),
        "key_dir": str(engine.keys.folder),
        "audit_sequence": head[0] if head else 0,
        "audit_head": head[1].hex() if head else None,
        "problem": problem,
        "ok": problem is None,
    }
