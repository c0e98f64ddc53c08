"""Codes of the ledgers in words. What has none is shown as it is."""

from __future__ import annotations

MEMORY_REASONS = {
    "out_of_scope": "not allowed to this run",
    "secret": "held a credential",
    "pii": "held personal data",
    "low_confidence": "the run was not sure enough",
    "revoked": "the place is revoked",
    "not_addressable": "no usable key",
    "approval_required": "the run may not decide this itself",
    "policy_disabled": "memory was off for this run",
}
MEMORY_OUTCOMES = {
    "accepted": "accepted",
    "unknown": "the book has no such entry",
    "not_kept": "not kept: the session came to no result",
}


def outcome(word: str) -> str:
    """What became of a line of a memory report."""
    kind, _, reason = word.partition(":")
    if kind == "rejected" and reason:
        return f"refused: {MEMORY_REASONS.get(reason, reason)}"
    return MEMORY_OUTCOMES.get(word, word)
