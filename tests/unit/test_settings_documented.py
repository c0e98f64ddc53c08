"""The documentation of the configuration is complete and true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from coven.settings.loader import load
from coven.settings.schema import Kind, walk

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "configuration.md").read_text()
ROWS = dict(re.findall(r"^\| `([^`]+)` \| ([^|]*) \|", TEXT, re.M))
TABLES = (Kind.SECTION, Kind.SECTION_LIST, Kind.SECTION_MAP)


def keys() -> list[str]:
    """Every key that holds a value; per-repository overrides are described, not listed."""
    return [key for key, shape in walk() if shape.kind not in TABLES and "owner/name" not in key]


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    assert sorted(ROWS) == sorted(keys())


def shown(default: object) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None or default == ():
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`"


@pytest.mark.parametrize("key", keys())
def test_the_default_in_the_row_is_the_default_in_the_code(key: str) -> None:
    from coven.settings.models import Section, Settings
    from coven.settings.schema import shape_of

    section: type[Section] = Settings
    *steps, name = key.replace("[]", "").split(".")
    for step in steps:
        below = shape_of(section, step).section
        assert below is not None
        section = below
    default = section.model_fields[name].default
    assert not isinstance(default, SecretStr)
    assert ROWS[key].strip() == shown(default)


def test_the_example_loads_once_its_secrets_exist(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "coven-github.example.toml").read_text()
    text = text.replace("/etc/coven-github", str(tmp_path))
    for name in ("webhook-secret", "service-token"):
        (tmp_path / name).write_text("0123456789abcdef0123456789abcdef\n")
    path = tmp_path / "coven-github.toml"
    path.write_text(text)
    loaded = load(path, {}, tmp_path)
    assert [str(problem) for problem in loaded.problems] == []
