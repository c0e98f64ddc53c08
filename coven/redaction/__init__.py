"""Masking of secrets in everything that leaves: logs, rows, comments, briefs, child output.

``Redactor`` works on whole texts, ``StreamRedactor`` on byte chunks of any size. Redact first and
cut afterwards: a cut secret is not recognised any more.
"""

from __future__ import annotations

from coven.redaction.redactor import JSON, Redactor
from coven.redaction.spans import MASK
from coven.redaction.stream import StreamRedactor

__all__ = ["JSON", "MASK", "Redactor", "StreamRedactor"]
