"""What a rule is, whom it binds, and its matcher made ready to be asked. Pure.

A rule that can't be read, or that could never match, raises ``InvalidMatcher``: at writing time
that is told to the operator, at loading time the policy counts as corrupt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from coven.governance import (
    custom,
    file_rules,
    request_rules,
    shell_rules,
    spawn,
    strict_json,
)
from coven.governance.actions import Custom, Kind
from coven.governance.file_rules import FileFacts
from coven.governance.matchers import Condition, Finding, all_of
from coven.governance.paths import Physical
from coven.governance.request_rules import RequestFacts
from coven.governance.shapes import InvalidMatcher, Members, Templates
from coven.governance.shell_rules import ShellFacts
from coven.governance.spawn import SpawnFacts
from coven.governance.strict_json import JsonRefused, JsonValue
from coven.governance.world import Origin, Scope

GLOBAL = "_global"
REASON_CHARS = 1000

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NAMESPACE = re.compile(
    r"_global|installation/[1-9][0-9]*"
    r"(?:/repo/[A-Za-z0-9_-]+/[A-Za-z0-9._-]+(?:/familiar/[A-Za-z0-9._-]+)?)?"
)

Facts: TypeAlias = FileFacts | RequestFacts | SpawnFacts | ShellFacts | Custom


class Severity(StrEnum):
    """What a matching rule demands."""

    LOG = "log"
    WARN = "warn"
    ESCALATE = "escalate"
    REFUSE = "refuse"

    @property
    def rank(self) -> int:
        """Higher is more severe."""
        return list(Severity).index(self)

    @property
    def blocks(self) -> bool:
        """Whether the action may not happen (now)."""
        return self in (Severity.ESCALATE, Severity.REFUSE)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rules, read strictly. Times are epoch seconds."""

    id: str
    kind: Kind
    matcher: Mapping[str, JsonValue] = field(hash=False)
    severity: Severity
    reason: str
    namespace: str = GLOBAL
    created_by: str = ""
    created_at: int = 0
    enabled: bool = True
    revision: int = 1
    key_id: str | None = None
    signature: bytes | None = None
    attest_level: str = "unsigned"
    removed_at: int | None = None
    examples: Mapping[str, JsonValue] | None = field(default=None, hash=False)

    @property
    def live(self) -> bool:
        """Whether it is asked at all."""
        return self.enabled and self.removed_at is None

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Rule:
        """From the columns of its row (``matcher`` and ``examples`` as JSON text or objects).

        Raises ``InvalidMatcher``.
        """
        known = set(cls.__dataclass_fields__)
        values = {key: value for key, value in row.items() if key in known}
        for key in ("id", "kind", "matcher", "severity", "reason"):
            if values.get(key) is None:
                raise InvalidMatcher(f"`{key}` is missing; every rule has one")
        values["kind"] = _member(Kind, "kind", values["kind"])
        values["severity"] = _member(Severity, "severity", values["severity"])
        values["matcher"] = _object("matcher", values["matcher"])
        if values.get("examples") is not None:
            values["examples"] = _object("examples", values["examples"], floats=True)
        if values.get("enabled", True) not in (0, 1, True, False):
            raise InvalidMatcher("`enabled` is not true or false; write one of them")
        values["enabled"] = bool(values.get("enabled", True))
        rule = cls(**values)
        rule.require_sound()
        return rule

    def require_sound(self) -> None:
        """Raise ``InvalidMatcher`` unless id, reason, namespace and revision can be used."""
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise InvalidMatcher("`id` is not usable; write letters, digits, `.`, `_`, `-`")
        if not isinstance(self.reason, str) or not 0 < len(self.reason.strip()) <= REASON_CHARS:
            raise InvalidMatcher(f"`reason` is empty or longer than {REASON_CHARS}; say why")
        if not isinstance(self.namespace, str) or not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidMatcher(
                "`namespace` is not usable; write _global, installation/<id>, "
                "installation/<id>/repo/<owner>/<name>, or that with /familiar/<id>"
            )
        if not isinstance(self.revision, int) or self.revision < 1:
            raise InvalidMatcher("`revision` is below 1; write a whole number from 1")


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule whose matcher can be asked."""

    rule: Rule
    conditions: tuple[Condition[Any], ...]
    origin: Origin | None
    segments: tuple[str, ...]

    @property
    def judges_unanalysable(self) -> bool:
        """Whether it says what happens to commands that can't be analysed."""
        return "unanalyzable" in self.rule.matcher

    def binds(self, scope: Scope, segments: tuple[str, ...]) -> bool:
        """Whether the rule is about this actor at all."""
        if self.origin is not None and self.origin is not scope.origin:
            return False
        return segments[: len(self.segments)] == self.segments

    def fires(self, facts: Facts) -> bool:
        """Whether the matcher holds. What can't be known counts for rules that block only."""
        found = all_of(self.conditions, facts)
        return found is Finding.YES or (found is Finding.POSSIBLE and self.rule.severity.blocks)


def compile_rule(
    rule: Rule, templates: Templates | None = None, physical: Physical = str
) -> CompiledRule:
    """Make the matcher ready. Raises ``InvalidMatcher`` for one that can never match as meant."""
    keys, needed, read = _KINDS[rule.kind]
    members = Members(rule.matcher, templates or Templates())
    members.require_known((*keys, "origin"), needed)
    origin = None
    if "origin" in members:
        origin = _member(Origin, "origin", members.text("origin"))
    found = read(members, physical)
    return CompiledRule(rule, found, origin, namespace_segments(rule.namespace))


def namespace_segments(namespace: str) -> tuple[str, ...]:
    """The parts of a namespace; ``_global`` is the beginning of all. Case does not matter."""
    return () if namespace == GLOBAL else tuple(namespace.lower().split("/"))


_Read: TypeAlias = Callable[[Members, Physical], tuple[Condition[Any], ...]]
_KINDS: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...], _Read]] = {
    Kind.BASH: (
        shell_rules.KEYS,
        shell_rules.NEEDED,
        lambda members, _: shell_rules.conditions(members),
    ),
    Kind.FILESYSTEM_WRITE: (file_rules.KEYS, file_rules.NEEDED, file_rules.conditions),
    Kind.NETWORK_REQUEST: (
        request_rules.KEYS,
        request_rules.NEEDED,
        lambda members, _: request_rules.conditions(members),
    ),
    Kind.PROCESS_SPAWN: (
        spawn.KEYS,
        spawn.NEEDED,
        lambda members, _: spawn.conditions(members),
    ),
    Kind.CUSTOM: (custom.KEYS, custom.NEEDED, lambda members, _: custom.conditions(members)),
}


def _object(key: str, value: object, *, floats: bool = False) -> Mapping[str, JsonValue]:
    try:
        found: Any = strict_json.loads(value) if isinstance(value, str | bytes) else value
        strict_json.require(found, floats=floats)
    except JsonRefused as refused:
        raise InvalidMatcher(f"`{key}` can't be read: {refused}") from None
    if not isinstance(found, Mapping):
        raise InvalidMatcher(f"`{key}` is not a JSON object; write one")
    return found


def _member(names: Any, key: str, value: object) -> Any:
    if not isinstance(value, str) or value not in set(names):
        raise InvalidMatcher(f"`{key}` is not known; use one of {', '.join(names)}")
    return names(value)
