"""The audit chain: every row holds the hash of the one before it, and the service's signature.

Because ``prev_hash`` is inside ``row_hash``, a changed row breaks every later one; because each row
is signed, nobody without the service's key can write them anew; because heads are anchored outside
(:class:`Anchor`), not even somebody who has that key can cut or rewrite the end unseen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from coven.errors import GovernanceRefused, StoreUnavailable
from coven.governance.locked import locked
from coven.governance.signing import (
    ANCHOR_DOMAIN,
    AUDIT_DOMAIN,
    PublicKeys,
    Signer,
    message,
)
from coven.governance.strict_json import canonical
from coven.redaction import Redactor
from coven.store import chain
from coven.store.engine import Store, Tx
from coven.store.tables import clean_text
from coven.values import InstallationId, TaskId

ATTEST = "service_signed"
LISTED = 20
"""How many bad rows of a sort a report names; all are counted."""
MIN_ANCHOR_HEX = 16
"""The shortest prefix of a hash that an anchor may give."""


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be written down. ``payload`` is redacted already."""

    event_type: str
    payload: Mapping[str, Any]
    agent_id: str = "adapter"
    task_id: TaskId | None = None
    installation_id: InstallationId | None = None
    decision_id: str | None = None


def redacted(redactor: Redactor, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload without secrets, and with a nonce so that short texts can't be guessed later."""
    tree = _clean(payload)
    # One look at all of it is quicker than one at each text, and there is rarely a secret. What
    # JSON writes in another way is looked at as it is.
    whole = [json.dumps(tree, ensure_ascii=False), *_escaped(tree)]
    if any(redactor.has_secret(text) for text in whole):
        tree = redactor.tree(tree)
    return {**tree, "nonce": secrets.token_hex(16)}


def append(tx: Tx, signer: Signer, events: Sequence[Event], now: datetime) -> tuple[int, bytes]:
    """Write events behind the head; sequence and hash of the last row.

    Do it last in a transaction: everybody else who appends waits for its end. Raises
    ``ChainBroken``.
    """
    sequence, previous = chain.lock_head(tx)
    written = []
    for event in events:
        sequence += 1
        row = _row(event, sequence, previous, now)
        row["key_id"] = signer.key_id
        row["row_hash"] = previous = row_hash(row)
        row["signature"] = signer.sign(previous)
        written.append(row)
    chain.append(tx, written)
    return sequence, previous


def _row(event: Event, sequence: int, previous: bytes, now: datetime) -> dict[str, Any]:
    payload = canonical(dict(event.payload))
    return {
        "sequence": sequence,
        "id": uuid.uuid4().hex,
        "agent_id": clean_text(event.agent_id),
        "event_type": event.event_type,
        "payload": payload.decode("utf-8"),
        "payload_hash": hashlib.sha256(payload).digest(),
        "attest_level": ATTEST,
        "timestamp": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "task_id": event.task_id,
        "installation_id": event.installation_id,
        "decision_id": event.decision_id,
        "prev_hash": previous,
    }


_TEXTS = ("id", "agent_id", "event_type")
_LATER = ("attest_level", "key_id", "timestamp", "task_id", "decision_id", "installation_id")


def row_hash(row: Mapping[str, Any]) -> bytes:
    """SHA-256 over the domain, every member with its length, the sequence and ``prev_hash``."""
    parts = [AUDIT_DOMAIN.encode("ascii"), b"\0"]
    parts.extend(_prefixed(row[name]) for name in _TEXTS)
    parts.append(_prefixed(bytes(row["payload_hash"])))
    parts.extend(_prefixed(row[name]) for name in _LATER)
    parts.append(struct.pack(">Q", row["sequence"]))
    parts.append(bytes(row["prev_hash"]))
    return hashlib.sha256(b"".join(parts)).digest()


def _prefixed(value: str | int | bytes | None) -> bytes:
    if value is None:
        return b"\0"
    data = value if isinstance(value, bytes) else str(value).encode("utf-8")
    return b"\1" + struct.pack(">Q", len(data)) + data


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _escaped(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if json.dumps(value, ensure_ascii=False) != f'"{value}"':
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _escaped(item)
    elif isinstance(value, list):
        for item in value:
            yield from _escaped(item)


class Recorder:
    """Appends in a transaction of its own: the row is committed when the call returns."""

    def __init__(self, store: Store, signer: Signer) -> None:
        self._store = store
        self.signer = signer

    def commit(self, events: Sequence[Event], now: datetime) -> tuple[int, bytes]:
        """Write and commit. Raises ``GovernanceRefused``: what isn't on record doesn't happen."""
        return self.commit_with(lambda _: events, now)[1:]

    def commit_with(
        self, write: Callable[[Tx], Sequence[Event]], now: datetime
    ) -> tuple[Sequence[Event], int, bytes]:
        """As :meth:`commit`, with what ``write`` changes in the same transaction.

        ``write`` gives the events; what it raises passes, with nothing written.
        """
        try:
            with self._turn(), self._store.write("audit.commit") as tx:
                events = write(tx)
                return events, *append(tx, self.signer, events, now)
        except (StoreUnavailable, chain.ChainBroken, ValueError, OSError) as error:
            raise audit_unavailable(error) from error

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """SQLite's writers poll, and one of many may starve; a file lock lets them queue."""
        folder = self._store.folder
        if folder is None:
            yield
            return
        with locked(folder / ".audit.lock"):
            yield


def audit_unavailable(error: Exception) -> GovernanceRefused:
    """The refusal for a record that can't be written."""
    return GovernanceRefused(
        f"governance:audit_unavailable: {error}; look at `coven-github governance status`",
        public="The audit record can't be written at the moment, so nothing runs.",
    )


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head of the chain that is kept elsewhere; ``row_hash`` in hex, maybe only its beginning."""

    sequence: int
    row_hash: str

    @classmethod
    def parse(cls, line: str) -> Anchor:
        """From a line of an anchor file. Raises ``ValueError``."""
        value = json.loads(line)
        anchor = cls(int(value["sequence"]), str(value["row_hash"]).lower())
        if len(anchor.row_hash) < MIN_ANCHOR_HEX:
            raise ValueError(f"an anchor needs at least {MIN_ANCHOR_HEX} hex digits of the hash")
        return anchor


@dataclass
class Report:
    """What a verification found. ``ok`` only when everything is clean."""

    rows_checked: int = 0
    head_sequence: int = 0
    head_hash: str = ""
    chain_break: dict[str, Any] | None = None
    """The first bad row: its sequence, and what is wrong with it."""
    gaps: list[list[int]] = field(default_factory=list)
    signature_failures: int = 0
    payload_mismatches: int = 0
    unsigned_rows: int = 0
    pruned_payloads: int = 0
    truncation: bool = False
    anchors_checked: int = 0
    policy_head_ok: bool | None = None
    """Set by whoever also looks at the policy."""

    @property
    def ok(self) -> bool:
        return self.chain_break is None and not self.truncation and self.policy_head_ok is not False

    def bad(self, sequence: int, problem: str) -> None:
        """Note the first bad row."""
        if self.chain_break is None:
            self.chain_break = {"sequence": sequence, "problem": problem}

    def as_json(self) -> dict[str, Any]:
        """The JSON form of ``governance audit verify --json``."""
        return {**self.__dict__, "ok": self.ok}


def verify(
    rows: Iterable[Mapping[str, Any]],
    head: tuple[int, bytes] | None,
    keys: PublicKeys,
    *,
    since: int = 0,
    anchors: Iterable[Anchor] = (),
) -> Report:
    """Prove a chain, row by row, in constant memory.

    ``since``: the rows begin after this sequence, and the first one's ``prev_hash`` is believed.
    """
    report = Report()
    wanted = {anchor.sequence: anchor.row_hash for anchor in anchors}
    expected, previous = since + 1, None if since else chain.GENESIS
    for row in rows:
        sequence = row["sequence"]
        report.rows_checked += 1
        if sequence != expected:
            report.gaps = [*report.gaps, [expected, sequence - 1]][:LISTED]
            report.bad(min(expected, sequence), f"rows {expected} to {sequence - 1} are missing")
        digest = bytes(row["row_hash"])
        if previous is not None and bytes(row["prev_hash"]) != previous:
            report.bad(sequence, "does not follow the row before it")
        if row_hash(row) != digest:
            report.bad(sequence, "was changed: its hash is another one")
        _check_signature(report, row, keys, digest)
        _check_payload(report, row)
        anchor = wanted.pop(sequence, None)
        if anchor is not None:
            report.anchors_checked += 1
            if not digest.hex().startswith(anchor):
                report.bad(sequence, "is not the row that was anchored: the end was rewritten")
        expected, previous = sequence + 1, digest
    report.head_sequence = expected - 1
    report.head_hash = (previous or b"").hex()
    _check_end(report, head, {seq for seq in wanted if seq > since})
    return report


def _check_signature(
    report: Report, row: Mapping[str, Any], keys: PublicKeys, digest: bytes
) -> None:
    if not row["signature"]:
        report.unsigned_rows += 1
        report.bad(row["sequence"], "is not signed")
    elif not keys.verify(row["key_id"], bytes(row["signature"]), digest):
        report.signature_failures += 1
        known = "its signature is wrong" if row["key_id"] in keys else "its key is not trusted"
        report.bad(row["sequence"], known)


def _check_payload(report: Report, row: Mapping[str, Any]) -> None:
    if row["payload"] is None:
        report.pruned_payloads += 1
    elif hashlib.sha256(row["payload"].encode("utf-8")).digest() != bytes(row["payload_hash"]):
        report.payload_mismatches += 1
        report.bad(row["sequence"], "its payload was changed")


def _check_end(report: Report, head: tuple[int, bytes] | None, missing: set[int]) -> None:
    last = report.head_sequence
    if head is None:
        report.truncation = last > 0
        if last:
            report.bad(last, "is the last row, but the head of the chain is missing")
    elif head[0] != last:
        report.truncation = True
        report.bad(last + 1, f"is missing: the chain went on to row {head[0]}")
    elif report.rows_checked and head[1].hex() != report.head_hash:
        report.bad(last, "is not the row that the head names")
    if missing:
        report.truncation = True
        report.bad(min(min(missing), last + 1), f"is missing: row {max(missing)} was anchored")


def verify_store(
    store: Store, keys: PublicKeys, *, since: int = 0, anchors: Iterable[Anchor] = ()
) -> Report:
    """Prove the chain of a database; rows that come meanwhile are not looked at.

    Raises ``StoreUnavailable``.
    """
    with store.read() as tx:
        head = chain.head(tx)
        until = head[0] if head else None
        found = verify(chain.rows(tx, since, until), head, keys, since=since, anchors=anchors)
        beyond = next(chain.rows(tx, until), None) if until is not None else None
    if beyond is not None and store.dialect == "sqlite":
        # One snapshot: nothing can have been appended meanwhile.
        found.bad(beyond["sequence"], "stands behind the head of the chain")
    return found


def export(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One JSON object per row, hashes in hex: enough to verify the chain elsewhere."""
    for row in rows:
        value = {
            name: bytes(item).hex() if isinstance(item, bytes | memoryview) else item
            for name, item in row.items()
        }
        yield json.dumps(value, sort_keys=True, ensure_ascii=False)


def imported(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Rows from what :func:`export` wrote. Raises ``ValueError``."""
    binary = ("payload_hash", "prev_hash", "row_hash", "signature")
    for line in lines:
        value = json.loads(line)
        yield value | {name: bytes.fromhex(value[name]) for name in binary}


def anchor_of(store: Store, signer: Signer) -> dict[str, Any] | None:
    """The present head to be kept elsewhere, one line of an anchor file; None for an empty chain.

    Raises ``StoreUnavailable``.
    """
    with store.read() as tx:
        found = chain.head(tx)
    if found is None or found[0] == 0:
        return None
    sequence, digest = found
    statement = message(ANCHOR_DOMAIN, {"sequence": sequence, "row_hash": digest.hex()})
    return {
        "sequence": sequence,
        "row_hash": digest.hex(),
        "key_id": signer.key_id,
        "signature": signer.sign(statement).hex(),
    }
