"""What surfaces call a refusal, for programs; codes of verdicts stand with the engine."""

from __future__ import annotations

from typing import Final

STALE_REQUEST: Final = "governance.stale_request"
"""Anything about an operator's signature over a request; deliberately one code."""
EPOCH_CONFLICT: Final = "governance.epoch_conflict"
INVALID_MATCHER: Final = "governance.invalid_matcher"
POLICY_TAMPERED: Final = "governance.policy_tampered"
ROLLBACK: Final = "governance.rollback"
UNAVAILABLE: Final = "governance.unavailable"
SELF_APPROVAL: Final = "governance.self_approval"
ALREADY_DECIDED: Final = "governance.already_decided"
OFF: Final = "governance.off"
"""Rules are switched off on this server."""
