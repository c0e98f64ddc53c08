"""Stretches of text to be masked: merging them and cutting them out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

MASK = "[redacted]"

Span = tuple[int, int]
"""Half-open ``[start, end)`` in characters."""

_MASKS = re.compile(re.escape(MASK))


def merge(spans: Iterable[Span]) -> list[Span]:
    """Sorted, with overlapping and touching spans made one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def outside_masks(text: str, spans: list[Span]) -> list[Span]:
    """Without the spans that lie inside a mask: what is masked already is not a secret."""
    if not spans or MASK not in text:
        return spans
    masks = [match.span() for match in _MASKS.finditer(text)]
    starts = [start for start, _ in masks]
    kept: list[Span] = []
    for start, end in spans:
        at = bisect_right(starts, start) - 1
        if at < 0 or end > masks[at][1]:
            kept.append((start, end))
    return kept


def replace(text: str, spans: list[Span]) -> str:
    """``text`` with each of the merged ``spans`` replaced by the mask."""
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces += (text[position:start], MASK)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)
