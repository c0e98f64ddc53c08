"""The redactor: how fast, and whether time grows in step with the text."""

from __future__ import annotations

import random
from pathlib import Path

from coven.redaction import Redactor
from tests.bench.report import best, ms, ratio, table

MIB = 2**20
GROWTH_TARGET = 8.0
"""Four times the text costs four times the time, give or take a busy machine; a quadratic pattern
would cost sixteen."""


def measure(folder: Path) -> None:
    """Print the table."""
    rng = random.Random(1)
    words = [f"word{n}" for n in range(500)]
    prose = " ".join(rng.choices(words, k=200_000))
    lines = "\n".join(
        f"2026-01-01 12:00:00 INFO step {n} path=/a/b/c took={n}ms" for n in range(9_000)
    )
    token = "ghp_" + "a1B2" * 9
    texts = {
        "prose": prose,
        "log lines": lines,
        "one long run": "a1B2" * (MIB // 4),
        "nearly tokens": "ghs_ " * (MIB // 5),
        "tokens only": f"{token} " * (MIB // 41),
        "broken JWTs": "eyJ.eyJ." * (MIB // 8),
        "split by U+200B": "a\u200b" * (MIB // 4),
        "key=value": "password: x secret=y " * (MIB // 21),
    }
    redactor = Redactor(["live-value-0123456789abcdef", "another-live-value-9876543210"])
    redactor.text("warm up")
    rows: list[tuple[object, ...]] = []
    baseline = 0.0
    for name, text in texts.items():
        one = (text * (MIB // len(text) + 1))[:MIB]
        small = best(5, lambda _, one=one: redactor.text(one))  # type: ignore[misc]
        large = best(3, lambda _, one=one: redactor.text(one * 4))  # type: ignore[misc]
        baseline = baseline or small
        rows.append(
            (
                name,
                ms(small),
                f"{1 / small:.1f} MB/s",
                ratio(small, baseline),
                ratio(large, small, GROWTH_TARGET),
            )
        )
    table("Redaction of 1 MiB", ["TEXT", "TIME", "SPEED", "AGAINST PROSE", "4 MIB AGAINST 1"], rows)
