"""Rules about ``custom`` actions: their kind, and what JSON pointers find in the payload. Pure.

A pointer that leads nowhere finds nothing, and its condition does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from coven.governance import strict_json
from coven.governance.actions import Custom
from coven.governance.globs import wildcard
from coven.governance.matchers import Condition, Finding, yes
from coven.governance.shapes import InvalidMatcher, Members
from coven.governance.strict_json import JsonRefused, JsonValue

KEYS = ("kind", "where", "namespace_glob", "tier", "title_contains")
NEEDED = ("kind",)

_Test: TypeAlias = Callable[[JsonValue], bool]


class _Missing:
    """Nothing stands at the pointer."""


MISSING = _Missing()


def conditions(members: Members) -> tuple[Condition[Custom], ...]:
    """The parts of one matcher. Raises ``InvalidMatcher``."""
    kind = members.text("kind")
    found: list[Condition[Custom]] = [lambda action: yes(action.custom_kind == kind)]
    if "where" in members:
        clauses = members.raw["where"]
        if not isinstance(clauses, list | tuple) or not clauses:
            raise InvalidMatcher("`where` is not a list with conditions; write one or leave it out")
        found += [_clause(clause) for clause in clauses]
    if "namespace_glob" in members:
        found.append(_at("/namespace", _like(members.text("namespace_glob"))))
    if "tier" in members:
        found.append(_at("/tier", _equal(members.text("tier"))))
    if "title_contains" in members:
        found.append(_at("/title", _holding(members.text("title_contains"))))
    return tuple(found)


def _follow(document: JsonValue, steps: Sequence[str]) -> JsonValue | _Missing:
    """What RFC 6901 finds, or ``MISSING``."""
    value = document
    for step in steps:
        if isinstance(value, Mapping):
            if step not in value:
                return MISSING
            value = value[step]
        elif isinstance(value, list | tuple):
            index = step.isascii() and step.isdigit() and (step == "0" or step[0] != "0")
            if not index or len(step) > 9 or int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def _clause(clause: JsonValue) -> Condition[Custom]:
    if not isinstance(clause, Mapping):
        raise InvalidMatcher(
            "`where` has an item that is not an object; write `pointer` and a test"
        )
    pointer = clause.get("pointer")
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise InvalidMatcher("`pointer` is not a JSON pointer; begin it with `/`")
    if any(
        char == "~" and pointer[n + 1 : n + 2] not in ("0", "1") for n, char in enumerate(pointer)
    ):
        raise InvalidMatcher("`pointer` has a `~` that is not `~0` or `~1`; escape it")
    tests = [key for key in clause if key != "pointer"]
    if len(tests) != 1 or tests[0] not in ("equals", "in", "glob", "contains"):
        raise InvalidMatcher("each `where` item has one of equals, in, glob, contains; write one")
    return _at(pointer, _test(tests[0], clause[tests[0]]))


def _test(name: str, wanted: JsonValue) -> _Test:
    if name == "equals":
        return _equal(wanted)
    if name == "in":
        if not isinstance(wanted, list | tuple) or not wanted:
            raise InvalidMatcher("`in` is not a list with values; write one")
        tests = [_equal(value) for value in wanted]
        return lambda value: any(test(value) for test in tests)
    if name == "contains":
        return _holding(wanted)
    if not isinstance(wanted, str) or not wanted:
        raise InvalidMatcher("`glob` is not a text; write one")
    return _like(wanted)


def _at(pointer: str, test: _Test) -> Condition[Custom]:
    steps = _steps(pointer)

    def condition(action: Custom) -> Finding:
        value = _follow(action.payload, steps)
        return yes(not isinstance(value, _Missing) and test(value))

    return condition


def _equal(wanted: JsonValue) -> _Test:
    try:
        form = strict_json.canonical(wanted)  # so that true is not 1
    except JsonRefused as refused:
        raise InvalidMatcher(f"a value can't be compared: {refused}") from None
    if isinstance(wanted, str):
        return lambda value: isinstance(value, str) and value == wanted
    return lambda value: strict_json.canonical(value) == form


def _like(pattern: str) -> _Test:
    glob = wildcard(pattern)
    return lambda value: isinstance(value, str) and glob.matches(value)


def _holding(wanted: JsonValue) -> _Test:
    equal = _equal(wanted)

    def test(value: JsonValue) -> bool:
        if isinstance(value, str):
            return isinstance(wanted, str) and wanted in value
        return isinstance(value, list | tuple) and any(equal(item) for item in value)

    if wanted == "":
        raise InvalidMatcher("`contains` is empty, so it always matches; name something")
    return test


def _steps(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
