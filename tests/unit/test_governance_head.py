"""The signed head finds what row signatures can not: deletion, disabling, rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coven.governance.head import (
    ROLLBACK,
    TAMPERED,
    UNAVAILABLE,
    Head,
    HighWater,
    PolicyUnusable,
    sign_head,
    verify,
)
from coven.governance.seeds import SEEDS
from coven.governance.signing import PublicKeys, Signer, rule_message

SIGNER = Signer.from_seed(b"\x07" * 32)
STRANGER = Signer.from_seed(b"\x08" * 32)
KEYS = PublicKeys([SIGNER.public])


def row(number: int, signer: Signer | None = SIGNER, **changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "examples": None,
        "removed_at": None,
        "key_id": None,
        "signature": None,
        **SEEDS[number].row(),
        **changes,
    }
    if signer is not None:
        value |= {"key_id": signer.key_id, "attest_level": "operator_signed"}
        value["signature"] = signer.sign(rule_message(value))
    return value


def rows() -> list[dict[str, Any]]:
    return [row(0, enabled=1), row(1, enabled=1, revision=2), row(2, None), row(3)]


def code_of(found: list[dict[str, Any]], head: dict[str, Any] | None) -> str:
    with pytest.raises(PolicyUnusable) as caught:
        verify(found, head, KEYS)
    return caught.value.code


def test_a_signed_policy_verifies() -> None:
    head = sign_head(rows(), 3, 1_000, SIGNER)
    assert verify(rows(), head, KEYS).epoch == 3


def test_w1_an_edited_rule_is_tampering_and_never_skipped() -> None:
    head = sign_head(rows(), 1, 1_000, SIGNER)
    for member, value in {
        "severity": "log",
        "matcher": '{"glob":"/nowhere"}',
        "namespace": "installation/9",
        "kind": "bash",
        "reason": "x",
        "created_by": "x",
        "enabled": 0,
        "revision": 9,
        "examples": '{"match":[]}',
        "removed_at": 5,
        "key_id": STRANGER.key_id,
        "attest_level": "unsigned",
        "created_at": 7,
    }.items():
        changed = rows()
        changed[0][member] = value
        assert code_of(changed, head) == TAMPERED, member


def test_w2_a_deleted_rule_is_found() -> None:
    head = sign_head(rows(), 1, 1_000, SIGNER)
    assert code_of(rows()[1:], head) == TAMPERED


def test_w2_an_older_signed_row_is_found() -> None:
    older = row(1, enabled=0, revision=1)
    head = sign_head(rows(), 2, 1_000, SIGNER)
    assert code_of([rows()[0], older, *rows()[2:]], head) == TAMPERED


def test_w3_an_enabled_rule_without_signature_is_tampering() -> None:
    unsigned = [row(0, None, enabled=1)]
    assert code_of(unsigned, sign_head(unsigned, 1, 1, SIGNER)) == TAMPERED


def test_a_stranger_signs_nothing_here() -> None:
    strange = [row(0, STRANGER, enabled=1)]
    assert code_of(strange, sign_head(strange, 1, 1, SIGNER)) == TAMPERED
    assert code_of(rows(), sign_head(rows(), 1, 1, STRANGER)) == TAMPERED


def test_a_head_with_another_epoch_than_signed_is_tampering() -> None:
    assert code_of(rows(), sign_head(rows(), 1, 1, SIGNER) | {"epoch": 9}) == TAMPERED


def test_an_unreadable_matcher_is_tampering() -> None:
    changed = rows()
    changed[0]["matcher"] = '{"glob":1,"glob":2}'
    assert code_of(changed, sign_head(rows(), 1, 1, SIGNER)) == TAMPERED


def test_nothing_signed_and_no_key_are_no_licence() -> None:
    assert code_of(rows(), None) == UNAVAILABLE
    with pytest.raises(PolicyUnusable, match="identity generate"):
        verify(rows(), sign_head(rows(), 1, 1, SIGNER), PublicKeys([]))


def test_w2_an_older_database_is_a_rollback(tmp_path: Path) -> None:
    water = HighWater(tmp_path / "governance" / "policy-head.json")
    water.check(Head(1, b"a"))
    water.check(Head(3, b"c"))
    water.check(Head(3, b"c"))
    for head in (Head(2, b"b"), Head(0, b""), Head(3, b"other")):
        with pytest.raises(PolicyUnusable) as caught:
            water.check(head)
        assert caught.value.code == ROLLBACK
    assert water.read() == Head(3, b"c")


@pytest.mark.parametrize("text", ["", "{}", '{"epoch":"x","digest":""}', "[1]", '{"epoch":1}'])
def test_a_damaged_memory_is_no_memory_of_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy-head.json"
    path.write_text(text)
    with pytest.raises(PolicyUnusable) as caught:
        HighWater(path).check(Head(1, b"a"))
    assert caught.value.code == ROLLBACK
