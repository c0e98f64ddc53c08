"""The promises of the product, checked after every end-to-end test (and by the demo)."""

from __future__ import annotations

from coven.sandbox.invariants import broken

__all__ = ["broken"]
