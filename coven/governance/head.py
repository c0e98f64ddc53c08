"""The signed policy head, and the highest epoch ever seen, kept outside the database.

A row's own signature can't show that another row is gone, or that an older signed row came back.
The head covers all rows of one epoch; the file beside the database remembers the newest head, so
that a restored old database is found out too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coven.errors import GovernanceRefused
from coven.governance.locked import locked
from coven.governance.signing import (
    PublicKeys,
    Signer,
    head_message,
    policy_digest,
    rule_message,
)
from coven.governance.strict_json import JsonRefused
from coven.governance.wire import Seam, governed_make_dir, governed_write
from coven.settings.models import Settings

FILE_NAME = "policy-head.json"
RESIGN = "look at `coven-github rules list`, restore a backup or re-sign with the operator key"


class PolicyUnusable(GovernanceRefused):
    """The policy can't be trusted, so nothing is allowed. ``code`` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(
            f"{code}: {message}",
            public="The rules of this server can't be verified, so nothing runs. "
            "Ask its operator to run `coven-github governance status`.",
        )
        self.code = code


UNAVAILABLE = "governance:unavailable"
TAMPERED = "governance:policy_tampered"
ROLLBACK = "governance:rollback"


@dataclass(frozen=True, slots=True)
class Head:
    """Which policy is in force. Epoch 0: nothing was ever signed."""

    epoch: int
    digest: bytes


UNSIGNED = Head(0, b"")


def verify(
    rows: Sequence[Mapping[str, Any]], head: Mapping[str, Any] | None, keys: PublicKeys
) -> Head:
    """The head, once it and every row are proven. Pure. Raises ``PolicyUnusable``."""
    if not keys:
        raise PolicyUnusable(
            UNAVAILABLE,
            "no operator.pub is in the key folder; copy it there, or run "
            "`coven-github identity generate`",
        )
    if head is None:
        raise PolicyUnusable(
            UNAVAILABLE,
            "no policy was signed yet; run `coven-github governance install-defaults`",
        )
    for row in rows:
        _verify_row(row, keys)
    try:
        digest = policy_digest(rows)
    except (JsonRefused, TypeError) as error:
        raise PolicyUnusable(TAMPERED, f"a rule can't be read ({error}); {RESIGN}") from None
    words = head_message(
        head["epoch"], bytes(head["digest"]), head["rule_count"], head["signed_at"]
    )
    if not keys.verify(head["key_id"], bytes(head["signature"]), words):
        raise PolicyUnusable(
            TAMPERED, f"the head of epoch {head['epoch']} is not signed by a trusted key; {RESIGN}"
        )
    if digest != bytes(head["digest"]) or len(rows) != head["rule_count"]:
        raise PolicyUnusable(
            TAMPERED, f"the rules are not those of epoch {head['epoch']}; {RESIGN}"
        )
    return Head(head["epoch"], digest)


def _verify_row(row: Mapping[str, Any], keys: PublicKeys) -> None:
    if row["signature"] is None:
        # Shipped rules that nobody enabled; the head covers them all the same.
        if row["enabled"] or row["removed_at"] is not None:
            raise PolicyUnusable(TAMPERED, f"rule {row['id']} is not signed; {RESIGN}")
        return
    try:
        words = rule_message(row)
    except (JsonRefused, TypeError) as error:
        raise PolicyUnusable(TAMPERED, f"rule {row['id']} can't be read ({error})") from None
    if not keys.verify(row["key_id"], bytes(row["signature"]), words):
        trusted = "is not signed as it stands" if row["key_id"] in keys else "has an unknown key"
        raise PolicyUnusable(TAMPERED, f"rule {row['id']} {trusted}; {RESIGN}")


def sign_head(
    rows: Sequence[Mapping[str, Any]], epoch: int, signed_at: int, signer: Signer
) -> dict[str, Any]:
    """The row of the next head over these rules. Raises ``JsonRefused``."""
    digest = policy_digest(rows)
    return {
        "epoch": epoch,
        "digest": digest,
        "rule_count": len(rows),
        "signed_at": signed_at,
        "key_id": signer.key_id,
        "signature": signer.sign(head_message(epoch, digest, len(rows), signed_at)),
    }


class HighWater:
    """The newest head that this machine ever saw, in a file of the state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, settings: Settings) -> HighWater:
        """``<state_dir>/governance/policy-head.json``."""
        return cls(settings.server.state_dir / "governance" / FILE_NAME)

    def read(self) -> Head:
        """``UNSIGNED`` when nothing was seen yet. Raises ``PolicyUnusable`` for a broken file."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return UNSIGNED
        except OSError as error:
            raise PolicyUnusable(
                UNAVAILABLE, f"can't read {self._path} ({error.strerror}); correct its rights"
            ) from None
        try:
            value = json.loads(text)
            return Head(int(value["epoch"]), bytes.fromhex(value["digest"]))
        except (ValueError, KeyError, TypeError):
            raise PolicyUnusable(
                ROLLBACK,
                f"{self._path} is damaged; compare `coven-github governance status` with your "
                "records, then remove it",
            ) from None

    def check(self, head: Head) -> None:
        """Refuse an older head, or another one of the same epoch; remember a newer one.

        Raises ``PolicyUnusable``.
        """
        if head == self._judged(head):
            return
        try:
            governed_make_dir(Seam(), self._path.parent, point="governance.high_water")
            with locked(self._path.with_name(".lock")):
                if head == self._judged(head):
                    return
                text = json.dumps({"epoch": head.epoch, "digest": head.digest.hex()})
                governed_write(Seam(), self._path, text.encode(), point="governance.high_water")
        except OSError as error:
            raise PolicyUnusable(
                UNAVAILABLE,
                f"can't write {self._path} ({error.strerror}); free space or correct its rights",
            ) from None

    def _judged(self, head: Head) -> Head:
        seen = self.read()
        if head.epoch < seen.epoch:
            raise PolicyUnusable(
                ROLLBACK,
                f"the database holds epoch {head.epoch}, but epoch {seen.epoch} was in force "
                "here; restore a newer backup, or run `coven-github rules resign --sign`",
            )
        if head.epoch == seen.epoch and head.digest != seen.digest:
            raise PolicyUnusable(
                ROLLBACK,
                f"epoch {head.epoch} was another policy before; "
                "run `coven-github rules resign --sign`",
            )
        return seen
