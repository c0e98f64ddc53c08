"""Settings: what is in force, where it comes from, and what the doctor says. Never a secret."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr

from coven import __version__
from coven.settings.defaults import ENV_PREFIX
from coven.settings.doctor import diagnose
from coven.settings.loader import Loaded
from coven.settings.models import Settings
from coven.store.engine import Tx
from webhooks.dashboard.asking import Ask, Page, Shown


@dataclass(frozen=True, slots=True)
class Value:
    """One key. ``source``: default, environment or file."""

    key: str
    value: str
    source: str


def show(ask: Ask, _tx: Tx) -> Shown:
    """The configuration of this process, and the doctor's findings about it."""
    settings = ask.services.settings
    sections: dict[str, list[Value]] = {}
    for each in effective(settings, os.environ):
        sections.setdefault(each.key.partition(".")[0].partition("[")[0], []).append(each)
    findings = diagnose(Loaded(settings, (), None), None).findings
    return Shown(
        "settings.html",
        {
            "title": "Settings",
            "section": "settings",
            "sections_of": sections,
            "findings": [each for each in findings if each.level.value != "ok"],
            "version": __version__,
        },
        rows=sum(map(len, sections.values())),
    )


def effective(settings: Settings, environ: Mapping[str, str]) -> Iterator[Value]:
    """Every key with its value and source; secrets only as set or not."""
    named = {name.casefold() for name in environ if name.startswith(ENV_PREFIX)}
    yield from _below(settings, "", named)


def _below(section: BaseModel, prefix: str, named: set[str]) -> Iterator[Value]:
    given = section.model_fields_set
    for name, field in type(section).model_fields.items():
        value, key = getattr(section, name), f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from _below(value, f"{key}.", named)
        elif _holds_sections(value):
            for index, each in enumerate(value):
                yield from _below(each, f"{key}[{index}].", named)
        else:
            is_default = name not in given or value == field.get_default()
            source = "default" if is_default else "file"
            variable = f"{ENV_PREFIX}{key.replace('.', '__')}".casefold()
            if variable in named or f"{variable}_file" in named:
                source = "environment"
            yield Value(key, _shown(value), source)


def _holds_sections(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], BaseModel)


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "set (hidden)" if value.get_secret_value() else "empty"
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ", ".join(_shown(each) for each in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(each)}" for key, each in value.items()) or "none"
    return str(value)


def _plain(value: Any) -> str:
    if isinstance(value, BaseModel):
        facts = {name: _shown(each) for name, each in value if each is not None}
        return ", ".join(f"{name} = {each}" for name, each in facts.items())
    return _shown(value)


PAGES = (Page(path="/settings", name="settings", view=show, operators=True),)
