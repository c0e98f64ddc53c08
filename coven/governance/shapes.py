"""Reading the members of a matcher strictly: wrong types, and values that can never match. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from coven.errors import CovenError
from coven.governance.paths import Physical, lexical, text_of
from coven.governance.strict_json import MAX_INTEGER, JsonValue

T = TypeVar("T")

_TEMPLATE = re.compile(r"\$\{([^}]*)\}")


class InvalidMatcher(CovenError):
    """The matcher can't be used; the message names the key and the fix."""

    code = "governance.invalid_matcher"


@dataclass(frozen=True)
class Templates:
    """What ``${workspace}`` and the like stand for on this machine, several values each."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        workspace: str,
        state_dir: str,
        github_hosts: Sequence[str],
        model_hosts: Sequence[str],
        programs: Sequence[str] = (),
        physical: Physical | None = None,
    ) -> Templates:
        """From settings; folders stand for their real paths as well, if ``physical`` is given."""
        return cls(
            {
                "workspace": _folders(workspace, physical),
                "state_dir": _folders(state_dir, physical),
                "github_hosts": tuple(github_hosts),
                "model_hosts": tuple(model_hosts),
                "programs": tuple(programs),
            }
        )

    def expand(self, key: str, text: str) -> tuple[str, ...]:
        """Every text that ``text`` stands for. Raises ``InvalidMatcher`` for an unknown name."""
        found = _TEMPLATE.search(text)
        if not found:
            return (text,)
        if found[1] not in self.values:
            known = ", ".join(f"${{{name}}}" for name in sorted(self.values)) or "no template"
            raise InvalidMatcher(f"`{key}` uses ${{{found[1]}}}, which is unknown; use {known}")
        return tuple(
            text[: found.start()] + value + rest
            for value in self.values[found[1]]
            for rest in self.expand(key, text[found.end() :])
        )


@dataclass(frozen=True)
class Members:
    """The members of one matcher, read by name."""

    raw: Mapping[str, JsonValue]
    templates: Templates = field(default_factory=Templates)

    def __contains__(self, key: str) -> bool:
        return key in self.raw

    def require_known(self, known: Sequence[str], needed: Sequence[str]) -> None:
        """Raise unless every key is known and one of the needed ones is there."""
        for key in self.raw:
            if key not in known:
                raise InvalidMatcher(
                    f"`{key[:80]}` is not a key of this kind of rule; use {', '.join(known)}"
                )
        if not any(key in self.raw for key in needed):
            raise InvalidMatcher(f"the rule can never match; add one of {', '.join(needed)}")

    def text(self, key: str) -> str:
        """A text that is not empty."""
        return _text(key, self.raw[key])

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts that is not empty, templates filled in."""
        value = self.raw[key]
        if not isinstance(value, list | tuple):
            raise InvalidMatcher(f"`{key}` is not a list; write a list of texts")
        found = tuple(
            text for item in value for text in self.templates.expand(key, _text(key, item))
        )
        if not found:
            raise InvalidMatcher(f"`{key}` is empty, so it can never match; name something")
        return found

    def expanded(self, key: str) -> tuple[str, ...]:
        """A text with its templates filled in."""
        found = self.templates.expand(key, self.text(key))
        if not found:
            raise InvalidMatcher(f"`{key}` stands for nothing, so it can never match")
        return found

    def count(self, key: str, least: int = 0, most: int = MAX_INTEGER) -> int:
        """A whole number within bounds."""
        return _count(key, self.raw[key], least, most)

    def counts(self, key: str, least: int, most: int) -> tuple[int, ...]:
        """A list of whole numbers that is not empty."""
        value = self.raw[key]
        if not isinstance(value, list | tuple) or not value:
            raise InvalidMatcher(f"`{key}` is not a list with numbers; write one")
        return tuple(_count(key, item, least, most) for item in value)

    def true(self, key: str) -> None:
        """Exactly ``true``: the opposite would never match."""
        if self.raw[key] is not True:
            raise InvalidMatcher(f"`{key}` must be true; leave it out otherwise")

    def words(self, key: str) -> tuple[tuple[str, ...], ...]:
        """A list whose items are words or lists of alternatives."""
        value = self.raw[key]
        if not isinstance(value, list | tuple) or not value:
            raise InvalidMatcher(f"`{key}` is not a list with words; write one")
        found = []
        for item in value:
            choices = item if isinstance(item, list | tuple) else (item,)
            if not choices:
                raise InvalidMatcher(f"`{key}` has an empty list of alternatives; name one")
            found.append(tuple(_text(key, choice) for choice in choices))
        return tuple(found)


def refusing(key: str, read: Callable[[], T]) -> T:
    """``read()``, with its ``ValueError`` told as an ``InvalidMatcher`` of ``key``."""
    try:
        return read()
    except ValueError as error:
        raise InvalidMatcher(f"`{key}` can't be used: {error}") from None


def _folders(path: str, physical: Physical | None) -> tuple[str, ...]:
    written = text_of(lexical(path))
    if physical is None:
        return (written,)
    return tuple(dict.fromkeys((written, physical(written))))


def _text(key: str, value: JsonValue) -> str:
    if not isinstance(value, str):
        raise InvalidMatcher(f"`{key}` holds something that is not a text; write a text")
    if not value or "\0" in value:
        raise InvalidMatcher(f"`{key}` holds an empty text or a NUL byte, which can never match")
    return value


def _count(key: str, value: JsonValue, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidMatcher(f"`{key}` is not a whole number; write one")
    if not least <= value <= most:
        raise InvalidMatcher(f"`{key}` is out of range; write a number from {least} to {most}")
    return value
