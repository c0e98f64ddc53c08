"""The lock files: complete, fresh, pinned by hash, and silent about where packages come from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    found = [PIN.match(line) for line in lines if not line.startswith((" ", "#"))]
    assert all(found), f"{name} has a line that is no pin"
    return {canonicalize_name(m[1]): m[2] for m in found if m}


def wanted(*extras: str) -> list[Requirement]:
    texts = list(PROJECT["dependencies"])
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ()), ("requirements-dev.lock", ("dev",))]
)
def test_every_declared_dependency_is_pinned_within_its_bounds(
    lock: str, extras: tuple[str, ...]
) -> None:
    have = pins(lock)
    stale = [
        str(requirement)
        for requirement in wanted(*extras)
        if have.get(canonicalize_name(requirement.name)) not in requirement.specifier
    ]
    assert stale == [], f"run `make lock`: {lock} is older than pyproject.toml"


def test_both_locks_agree() -> None:
    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert run.items() <= dev.items()


def test_the_build_backend_is_pinned_so_that_the_install_fetches_nothing() -> None:
    assert "setuptools" in pins("requirements.lock")


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_every_pin_has_a_hash_and_no_line_names_an_index(lock: str) -> None:
    text = (ROOT / lock).read_text()
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert [b.split()[0] for b in blocks if "--hash=sha256:" not in b] == []
    assert "://" not in text
    assert not re.search(r"^\s*(-i|--index|--extra-index|--find-links|-f)\b", text, re.M)
