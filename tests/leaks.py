"""A net below all tests: nothing that the suite prints or logs holds a secret.

What a test captured (stdout, stderr, log) is searched for the forms of real credentials, and for
the secrets that tests are given; logs of whole products are searched by their invariants. A test
that has to show a made-up secret says so with ``@pytest.mark.shows_secrets``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

SHAPES = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"\bgh[opsru]_[A-Za-z0-9]{30,}"),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    # A JSON Web Token of an App: three parts, the first two objects.
    re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{40,}"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
)
_known: set[str] = set()


def remember(*secrets: str) -> None:
    """Secrets of this process's tests that have no form of their own."""
    _known.update(secret for secret in secrets if len(secret) >= 16)


def found_in(text: str) -> list[str]:
    """What of a text is secret, as the start of each; enough to find it and no more."""
    hits = [match.group()[:12] for shape in SHAPES for match in shape.finditer(text)]
    return hits + [secret[:4] for secret in _known if secret in text]


def found_in_files(files: Iterable[Path]) -> list[str]:
    """The same for log files, with their names."""
    return [
        f"{file.name}: {hit}…"
        for file in files
        for hit in found_in(file.read_text(encoding="utf-8", errors="replace"))
    ]


def check(item: pytest.Item, report: pytest.TestReport) -> None:
    """Fail a phase of a test whose captured output holds a secret."""
    if item.get_closest_marker("shows_secrets") is not None:
        return
    hits = [
        f"{name}: {hit}…"
        for name, content in report.sections
        if name.startswith("Captured")
        for hit in found_in(content)
    ]
    if hits:
        report.outcome = "failed"
        report.longrepr = "the output holds a secret: " + ", ".join(sorted(set(hits)))
