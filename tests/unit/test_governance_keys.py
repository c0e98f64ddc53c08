"""Keys on disk and what is signed with them: vectors, wrong modes, links, rotation."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coven.governance import signing
from coven.governance.identity import KeyProblem, KeyRing
from coven.governance.signing import PublicKeys, Signer

ROW: dict[str, Any] = {
    "id": "R001",
    "kind": "filesystem_write",
    "matcher": '{"glob":"/tmp/**"}',
    "severity": "refuse",
    "reason": "no /tmp writes",
    "namespace": "_global",
    "created_by": "system:seed",
    "enabled": 1,
    "revision": 1,
}
SIGNER = Signer.from_seed(b"\x07" * 32)
KEYS = PublicKeys([SIGNER.public])


def test_the_published_vector_holds() -> None:
    public = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"
    assert SIGNER.public.hex() == public
    message = signing.rule_message(ROW)
    assert hashlib.sha256(message).hexdigest() == (
        "6af2fbb710461bee5e8c5226b72a2cfba4c55b1016bd652c5509c685fe391994"
    )
    assert SIGNER.sign(message).hex() == (
        "c6c8b257c3607e3a4e94f4b5345068590d31e7f66709a56f96e72ac3300fcfa6"
        "75af990b00da622a6835d41797b6d4325664290ef3ccc11998b2e18e3250f501"
    )


CHANGES = {
    "id": "R002",
    "kind": "bash",
    "matcher": '{"glob":"/tmp/*"}',
    "severity": "warn",
    "reason": "other",
    "namespace": "installation/1",
    "created_by": "mallory",
    "enabled": 0,
    "revision": 2,
}


@pytest.mark.parametrize("member", sorted(CHANGES))
def test_a_change_of_any_signed_member_breaks_the_signature(member: str) -> None:
    signature = SIGNER.sign(signing.rule_message(ROW))
    assert KEYS.verify(SIGNER.key_id, signature, signing.rule_message(ROW))
    changed = signing.rule_message(ROW | {member: CHANGES[member]})
    assert not KEYS.verify(SIGNER.key_id, signature, changed)


def test_w19_a_signature_is_worth_nothing_for_another_purpose() -> None:
    value = signing.rule_value(ROW)
    signature = SIGNER.sign(signing.message(signing.RULE_DOMAIN, value))
    other = signing.message(signing.POLICY_DOMAIN, value)
    assert not KEYS.verify(SIGNER.key_id, signature, other)


@pytest.mark.parametrize("signature", [None, b"", b"x" * 63, b"x" * 64, b"x" * 65])
def test_a_signature_of_the_wrong_form_never_verifies(signature: bytes | None) -> None:
    assert not KEYS.verify(SIGNER.key_id, signature, b"data")


def test_an_unknown_key_never_verifies() -> None:
    assert not KEYS.verify("0" * 16, SIGNER.sign(b"data"), b"data")
    assert not KEYS.verify(None, SIGNER.sign(b"data"), b"data")


def test_no_key_material_is_shown() -> None:
    assert (b"\x07" * 32).hex() not in repr(SIGNER)
    assert "_private" not in repr(SIGNER)


def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_pair_has_raw_bytes_and_the_right_modes(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    made = keys.generate("operator")
    assert mode(keys.folder / "operator.priv") == 0o600
    assert mode(keys.folder / "operator.pub") == 0o644
    assert len((keys.folder / "operator.priv").read_bytes()) == 32
    assert (keys.folder / "operator.pub").read_bytes() == made.public
    assert keys.signer("operator").key_id == made.key_id


def test_w3_signer_and_verifier_read_the_same_folder(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    signature = keys.generate("operator").sign(b"x")
    found = keys.public_keys("operator")
    assert found.verify(keys.signer("operator").key_id, signature, b"x")


@pytest.mark.parametrize("wrong", [0o644, 0o640, 0o660, 0o604, 0o400, 0o700])
def test_a_private_key_with_another_mode_is_refused_with_the_fix(
    tmp_path: Path, wrong: int
) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    (keys.folder / "operator.priv").chmod(wrong)
    with pytest.raises(KeyProblem, match=r"governance\.no_operator_key.*chmod 600"):
        keys.signer("operator")


@pytest.mark.parametrize("name", ["operator.priv", "operator.pub"])
def test_a_link_is_refused(tmp_path: Path, name: str) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    path = keys.folder / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyProblem, match="is a link"):
        keys.signer("operator")


def test_a_public_key_that_others_may_write_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    (keys.folder / "operator.pub").chmod(0o666)
    with pytest.raises(KeyProblem, match="chmod 644"):
        keys.public_keys("operator")


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    keys.folder.chmod(0o777)
    with pytest.raises(KeyProblem, match="chmod go-w"):
        keys.public_keys("operator")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    os.chown(keys.folder / "operator.priv", 12345, -1)
    with pytest.raises(KeyProblem, match="chown"):
        keys.signer("operator")


def test_a_key_of_the_wrong_length_is_an_error_and_not_no_key(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    (keys.folder / "operator.pub").write_bytes(b"short")
    with pytest.raises(KeyProblem, match="32 raw bytes"):
        keys.public_keys("operator")


def test_two_halves_that_are_no_pair_are_refused(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    keys.generate("operator")
    (keys.folder / "operator.pub").write_bytes(SIGNER.public)
    with pytest.raises(KeyProblem, match="no pair"):
        keys.signer("operator")


def test_a_missing_key_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(KeyProblem, match=r"governance\.no_operator_key.*identity generate"):
        ring(tmp_path).signer("operator")
    assert not ring(tmp_path).public_keys("operator")


def test_a_key_is_not_replaced_by_accident_and_the_old_one_stays_trusted(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    old = keys.generate("operator")
    with pytest.raises(KeyProblem, match="--force"):
        keys.generate("operator")
    new = keys.generate("operator", force=True)
    assert old.key_id != new.key_id
    trusted = keys.public_keys("operator")
    assert old.key_id in trusted
    assert new.key_id in trusted
    (keys.folder / "trusted_keys" / f"{old.key_id}.pub").unlink()
    assert old.key_id not in keys.public_keys("operator")


def test_processes_that_start_together_share_one_service_key(tmp_path: Path) -> None:
    keys = ring(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        made = {signer.key_id for signer in pool.map(lambda _: keys.service(), range(16))}
    assert len(made) == 1
    assert set(keys.public_keys("service").raw) == made
