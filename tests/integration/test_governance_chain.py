"""The audit chain on both databases: append-only, contiguous, and every change is found."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from coven.errors import GovernanceRefused, StoreUnavailable
from coven.governance.actions import FilesystemWrite
from coven.governance.audit import (
    Anchor,
    Event,
    Recorder,
    anchor_of,
    append,
    export,
    imported,
    redacted,
    row_hash,
    verify,
    verify_store,
)
from coven.governance.signing import PublicKeys, Signer
from coven.redaction import Redactor
from coven.store import chain
from coven.store.engine import Store, open_store
from tests.ledger import NOW, TENANT
from tests.support.governance import office

SEED = b"\x05" * 32
SIGNER = Signer.from_seed(SEED)
THIEF = Signer.from_seed(b"\x06" * 32)
KEYS = PublicKeys([SIGNER.public])
ROWS = 6


def event(number: int) -> Event:
    return Event("governance.check", {"number": number}, installation_id=TENANT)


@pytest.fixture
def filled(store: Store) -> Store:
    for number in range(ROWS):
        Recorder(store, SIGNER).commit([event(number)], NOW + timedelta(seconds=number))
    return store


def held(store: Store) -> tuple[list[dict[str, Any]], tuple[int, bytes] | None]:
    with store.read() as tx:
        return [dict(row) for row in chain.rows(tx)], chain.head(tx)


def test_what_was_appended_verifies(filled: Store) -> None:
    report = verify_store(filled, KEYS)
    assert report.ok
    assert (report.rows_checked, report.head_sequence) == (ROWS, ROWS)
    assert report.as_json()["ok"] is True


def test_several_events_share_one_transaction(store: Store) -> None:
    assert Recorder(store, SIGNER).commit([event(1), event(2)], NOW)[0] == 2
    assert verify_store(store, KEYS).rows_checked == 2


def test_an_empty_chain_verifies(store: Store) -> None:
    assert verify_store(store, KEYS).ok


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM signed_events WHERE sequence = 3",
        "UPDATE signed_events SET agent_id = 'x' WHERE sequence = 3",
        "UPDATE signed_events SET payload = '{}' WHERE sequence = 3",
        "UPDATE signed_events SET payload = NULL, event_type = 'x' WHERE sequence = 3",
        "UPDATE signed_events SET task_id = 'x', payload = NULL WHERE sequence = 3",
        "DELETE FROM governance_rules",
    ],
)
def test_the_database_refuses_to_change_the_record(filled: Store, statement: str) -> None:
    with filled.write() as tx:
        tx.execute(
            text(
                "INSERT INTO governance_rules (id, kind, matcher, severity, reason, created_by, "
                "created_at) VALUES ('X', 'bash', '{}', 'log', 'x', 'x', 0)"
            )
        )
    refused = pytest.raises((StoreUnavailable, IntegrityError), match=r"append-only|keeps its rows")
    with refused, filled.write() as tx:
        tx.execute(text(statement))
    assert verify_store(filled, KEYS).ok


def test_payloads_may_be_emptied_and_the_chain_still_verifies(filled: Store) -> None:
    with filled.write() as tx:
        assert chain.empty_payloads(tx, NOW + timedelta(seconds=2), TENANT) == 2
    report = verify_store(filled, KEYS)
    assert report.ok
    assert report.pruned_payloads == 2


Rows = list[dict[str, Any]]


def resealed(rows: Rows, start: int, signer: Signer) -> Rows:
    """Somebody writes the end anew, hashes and all."""
    previous = rows[start - 1]["row_hash"] if start else chain.GENESIS
    for number, row in enumerate(rows[start:], start + 1):
        row |= {"prev_hash": previous, "sequence": number, "key_id": signer.key_id}
        row["row_hash"] = previous = row_hash(row)
        row["signature"] = signer.sign(previous)
    return rows


def edit(rows: Rows) -> Rows:
    rows[2]["agent_id"] = "somebody else"
    return rows


def edit_payload(rows: Rows) -> Rows:
    rows[2]["payload"] = '{"number":99}'
    return rows


def edit_time(rows: Rows) -> Rows:
    rows[2]["timestamp"] = "2020-01-01T00:00:00.000+00:00"
    return rows


def edit_tenant(rows: Rows) -> Rows:
    rows[2]["installation_id"] = 999
    return rows


def delete(rows: Rows) -> Rows:
    return rows[:2] + rows[3:]


def reorder(rows: Rows) -> Rows:
    rows[2], rows[3] = rows[3] | {"sequence": 3}, rows[2] | {"sequence": 4}
    return rows


def insert(rows: Rows) -> Rows:
    rows.insert(2, dict(rows[1], id="new"))
    for number, row in enumerate(rows, 1):
        row["sequence"] = number
    return rows


def repair_one_successor(rows: Rows) -> Rows:
    """W14: the repair that fools a chain whose links do not accumulate."""
    rows[2]["agent_id"] = "somebody else"
    rows[2]["row_hash"] = row_hash(rows[2])
    rows[3]["prev_hash"] = rows[2]["row_hash"]
    return rows


def rewrite_end(rows: Rows) -> Rows:
    rows[2]["agent_id"] = "somebody else"
    return resealed(rows, 2, THIEF)


def unsign(rows: Rows) -> Rows:
    rows[2]["signature"] = b""
    return rows


@pytest.mark.parametrize(
    "change",
    [
        edit,
        edit_payload,
        edit_time,
        edit_tenant,
        delete,
        reorder,
        insert,
        repair_one_successor,
        rewrite_end,
        unsign,
    ],
)
def test_every_change_is_found_at_its_first_row(
    filled: Store, change: Callable[[Rows], Rows]
) -> None:
    rows, head = held(filled)
    report = verify(change(rows), head, KEYS)
    assert not report.ok
    assert report.chain_break is not None
    assert report.chain_break["sequence"] == 3


@pytest.mark.parametrize("left", [0, 3, ROWS - 1])
def test_a_cut_end_is_found(filled: Store, left: int) -> None:
    rows, head = held(filled)
    report = verify(rows[:left], head, KEYS)
    assert report.truncation
    assert report.chain_break == {
        "sequence": left + 1,
        "problem": f"is missing: the chain went on to row {ROWS}",
    }


def test_a_cut_end_with_its_head_is_found_by_the_anchor(filled: Store) -> None:
    rows, head = held(filled)
    assert head is not None
    anchor = Anchor.parse(f'{{"sequence": {ROWS}, "row_hash": "{head[1].hex()[:16]}"}}')
    shorter, new_head = rows[:4], (4, rows[3]["row_hash"])
    assert verify(shorter, new_head, KEYS).ok, "nothing inside can show this"
    report = verify(shorter, new_head, KEYS, anchors=[anchor])
    assert not report.ok
    assert report.truncation


def test_an_end_rewritten_with_the_stolen_key_is_found_by_the_anchor(filled: Store) -> None:
    rows, head = held(filled)
    assert head is not None
    anchor = Anchor(ROWS, head[1].hex())
    rows[2]["agent_id"] = "somebody else"
    forged = resealed(rows, 2, SIGNER)
    new_head = (ROWS, forged[-1]["row_hash"])
    assert verify(forged, new_head, KEYS).ok, "nothing inside can show this"
    report = verify(forged, new_head, KEYS, anchors=[anchor])
    assert report.chain_break is not None
    assert report.chain_break["sequence"] == ROWS


def test_the_present_head_can_be_kept_elsewhere_and_found_again(filled: Store) -> None:
    kept = anchor_of(filled, SIGNER)
    assert kept is not None
    anchor = Anchor.parse(json.dumps(kept))
    Recorder(filled, SIGNER).commit([event(9)], NOW)
    report = verify_store(filled, KEYS, anchors=[anchor])
    assert report.ok
    assert report.anchors_checked == 1


def test_an_empty_chain_has_no_anchor(store: Store) -> None:
    assert anchor_of(store, SIGNER) is None


def test_a_short_anchor_is_refused() -> None:
    with pytest.raises(ValueError, match="16 hex"):
        Anchor.parse('{"sequence": 1, "row_hash": "abc"}')


def test_a_later_part_verifies_by_itself(filled: Store) -> None:
    report = verify_store(filled, KEYS, since=3)
    assert report.ok
    assert report.rows_checked == ROWS - 3


def test_an_export_verifies_without_the_database(filled: Store) -> None:
    rows, head = held(filled)
    lines = list(export(rows))
    assert verify(imported(lines), head, KEYS).ok


def test_a_missing_head_is_found_and_stops_the_record(filled: Store) -> None:
    with filled.write() as tx:
        tx.execute(text("DELETE FROM chain_head"))
    assert not verify_store(filled, KEYS).ok
    with pytest.raises(GovernanceRefused, match="audit_unavailable"):
        Recorder(filled, SIGNER).commit([event(1)], NOW)


def test_what_rolls_back_leaves_no_gap(filled: Store) -> None:
    def append_and_fail() -> None:
        with filled.write() as tx:
            append(tx, SIGNER, [event(9)], NOW)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        append_and_fail()
    Recorder(filled, SIGNER).commit([event(10)], NOW)
    assert verify_store(filled, KEYS).rows_checked == ROWS + 1


def test_a_payload_holds_no_secret_and_a_nonce() -> None:
    hidden = "s3cret-value-of-ours"
    one = redacted(Redactor([hidden]), {"command": f"curl -H {hidden}"})
    two = redacted(Redactor([hidden]), {"command": f"curl -H {hidden}"})
    assert hidden not in str(one)
    assert one["nonce"] != two["nonce"]


def _check_many(url: str, folder: Path, count: int) -> None:
    opened = open_store(url)
    desk = office(opened, folder, key=False)
    for number in range(count):
        desk.gate.check(FilesystemWrite(f"/srv/{os.getpid()}/{number}"), "p")
    opened.close()


@pytest.mark.timeout(300)
def test_eight_processes_make_one_contiguous_chain(store_url: str, tmp_path: Path) -> None:
    opened = open_store(store_url)
    office(opened, tmp_path).admin.add("X1", "bash", '{"command_substring":"x"}', "log", "x")
    opened.close()
    signed = 2
    processes, each = 8, 200
    context = multiprocessing.get_context("fork")
    started = [
        context.Process(target=_check_many, args=(store_url, tmp_path, each))
        for _ in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0] * processes
    opened = open_store(store_url)
    report = office(opened, tmp_path, key=False).proven()
    opened.close()
    assert report.ok
    assert report.head_sequence == report.rows_checked == processes * each + signed
