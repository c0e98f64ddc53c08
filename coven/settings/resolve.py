"""From what was written to what the models take: secrets read from files, paths made absolute.

Works on plain data before validation, and collects every problem instead of stopping at one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from coven.settings.defaults import MAX_SECRET_BYTES, is_placeholder
from coven.settings.models import Section, Settings
from coven.settings.problems import Problem
from coven.settings.schema import FILE_SUFFIX, Kind, keys_of, nearest, secret_of, shape_of

_PROGRAMS = frozenset({"coven_code_bin", "docker_bin"})
_NOT_GUESSABLE = frozenset({"private_key", "broker_url", "database_url"})
"""Secrets with a grammar of their own: a placeholder is caught where they are read."""


class Resolver:
    """Resolves one configuration; ``problems`` grows as it goes."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.problems: list[Problem] = []

    def resolve(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The data of a whole configuration, ready for validation."""
        return self._table(Settings, raw, "")

    def _table(self, section: type[Section], raw: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in raw.items():
            key = f"{prefix}{name}"
            bare = secret_of(section, name)
            if bare is not None:
                self._from_file(section, raw, bare, value, prefix, found)
            elif name in section.model_fields:
                kept, clean = self._value(section, name, value, key)
                if kept:
                    found[name] = clean
            else:
                self._unknown(section, name, key)
        return found

    def _value(self, section: type[Section], name: str, value: Any, key: str) -> tuple[bool, Any]:
        shape = shape_of(section, name)
        if shape.section is not None:
            return True, self._below(shape.kind, shape.section, value, key)
        if shape.kind is Kind.CHOICE and not isinstance(value, str):
            return self._wrong(key, "must be one of " + ", ".join(shape.words))
        if isinstance(value, (datetime, date, time)):
            return self._wrong(key, f"must be {shape.kind.value}, not a date")
        if isinstance(value, float) and not math.isfinite(value):
            return self._wrong(key, "must be a finite number")
        if shape.kind is Kind.SECRET and isinstance(value, str):
            return self._secret(value, name, key)
        if shape.kind is Kind.SECRET_LIST and isinstance(value, list):
            return True, self._secrets(value, name, key)
        if shape.kind is Kind.PATH and isinstance(value, str):
            return self._path(value, key)
        if shape.kind is Kind.PATH_LIST and isinstance(value, list):
            return True, [self._path(v, key)[1] if isinstance(v, str) else v for v in value]
        if shape.kind is Kind.CHOICE and isinstance(value, str):
            folded = {word.casefold(): word for word in shape.words}
            word = folded.get(value.strip().casefold())
            if word is None:
                return self._wrong(key, "must be one of " + ", ".join(shape.words))
            return True, word
        if name in _PROGRAMS and isinstance(value, str) and "/" in value:
            return self._path(value, key)
        return True, value

    def _below(self, kind: Kind, section: type[Section], value: Any, key: str) -> Any:
        if kind is Kind.SECTION and isinstance(value, Mapping):
            return self._table(section, value, f"{key}.")
        if kind is Kind.SECTION_MAP and isinstance(value, Mapping):
            return {
                name: self._table(section, item, f'{key}."{name}".')
                if isinstance(item, Mapping)
                else item
                for name, item in value.items()
            }
        if kind is Kind.SECTION_LIST and isinstance(value, list):
            return [
                self._table(section, item, f"{key}[{index}].")
                if isinstance(item, Mapping)
                else item
                for index, item in enumerate(value)
            ]
        return value

    def _unknown(self, section: type[Section], name: str, key: str) -> None:
        guess = nearest(name, keys_of(section))
        advice = f"did you mean {guess!r}?" if guess else "remove it (see docs/configuration.md)"
        self.problems.append(Problem(_printable(key), "is no known key", advice))

    def _from_file(
        self,
        section: type[Section],
        raw: Mapping[str, Any],
        bare: str,
        value: Any,
        prefix: str,
        found: dict[str, Any],
    ) -> None:
        key = f"{prefix}{bare}{FILE_SUFFIX}"
        if bare in raw:
            self._wrong(key, f"is set together with {bare}", "keep one of the two")
            return
        text = self._read_secret(value, key)
        if text is None:
            return
        if shape_of(section, bare).kind is Kind.SECRET_LIST:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            found[bare] = self._secrets(lines, bare, key)
            return
        kept, clean = self._secret(text, bare, key)
        if kept:
            found[bare] = clean

    def _read_secret(self, value: Any, key: str) -> str | None:
        if not isinstance(value, str) or not value.strip():
            self._wrong(key, "must be the path of a file")
            return None
        kept, name = self._path(value, key)
        if not kept:
            return None
        try:
            if not Path(name).is_file():
                self._wrong(key, f"there is no file {name}", "create it, or correct the path")
                return None
            with Path(name).open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
        except OSError as error:
            advice = "let the user of this process read it"
            self._wrong(key, f"{name} can't be read ({error.strerror})", advice)
            return None
        try:
            text = data.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError:
            self._wrong(key, f"{name} is not a text file", "store the secret as UTF-8 text")
            return None
        if len(data) > MAX_SECRET_BYTES:
            self._wrong(key, f"{name} is larger than {MAX_SECRET_BYTES} bytes", "correct the path")
            return None
        if not text.strip():
            self._wrong(key, f"{name} is empty", "write the secret into it")
            return None
        return text

    def _secret(self, value: str, name: str, key: str) -> tuple[bool, Any]:
        if not value.strip():
            return self._wrong(key, "is blank", "set the secret, or remove the key")
        if name not in _NOT_GUESSABLE and is_placeholder(value):
            return self._wrong(
                key, "is a placeholder from an example", "generate one: openssl rand -hex 32"
            )
        return True, value

    def _secrets(self, values: list[Any], name: str, key: str) -> list[Any]:
        kept = []
        for index, value in enumerate(values):
            keep, clean = (
                self._secret(value, name, f"{key}[{index}]")
                if isinstance(value, str)
                else (True, value)
            )
            if keep:
                kept.append(clean)
        return kept

    def _path(self, value: str, key: str) -> tuple[bool, Any]:
        if not value.strip() or "\x00" in value:
            return self._wrong(key, "must be a path")
        try:
            return True, str(self._base / Path(value).expanduser())
        except RuntimeError:
            return self._wrong(key, "names a home folder that does not exist")

    def _wrong(
        self, key: str, problem: str, next_step: str = "correct the value"
    ) -> tuple[bool, None]:
        self.problems.append(Problem(_printable(key), problem, next_step))
        return False, None


def _printable(key: str) -> str:
    # A key comes from the file: keep a pasted secret, or a terminal escape, out of the message.
    shown = "".join(char if char.isprintable() else "?" for char in key)
    return shown if len(shown) <= 120 else f"{shown[:100]}…"
