"""Examples that travel with a rule: what it must match and what it must not. Pure.

They guard against the rule that looks right and never matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coven.governance.actions import Action, MalformedAction, parse_action
from coven.governance.facts import all_facts
from coven.governance.rules import CompiledRule
from coven.governance.shapes import InvalidMatcher
from coven.governance.strict_json import JsonValue
from coven.governance.world import Origin, Scope, World

KEYS = ("match", "no_match")
EXAMPLES = 50
"""The most examples of one sort."""


def read_examples(examples: Mapping[str, JsonValue]) -> tuple[list[Action], list[Action]]:
    """Which actions must match, and which must not. Raises ``InvalidMatcher``."""
    for key in examples:
        if key not in KEYS:
            raise InvalidMatcher(f"`examples` has `{key[:80]}`; use {' and '.join(KEYS)}")
    match, no_match = (_actions(key, examples.get(key, ())) for key in KEYS)
    return match, no_match


def failed_examples(compiled: CompiledRule, world: World) -> tuple[str, ...]:
    """A sentence for each example that does not hold. Raises ``InvalidMatcher``."""
    match, no_match = read_examples(compiled.rule.examples or {})
    return tuple(
        f"example {n + 1} of `{key}` {verb}; correct the rule or the example"
        for key, actions, wanted, verb in (
            ("match", match, True, "does not match"),
            ("no_match", no_match, False, "matches"),
        )
        for n, action in enumerate(actions)
        if _fires(compiled, action, world) is not wanted
    )


def _fires(compiled: CompiledRule, action: Action, world: World) -> bool:
    scope = Scope(
        origin=compiled.origin or Origin.ADAPTER,
        namespace=compiled.rule.namespace,
        cwd="/example",
        workspace="/example",
    )
    return any(
        one.kind is compiled.rule.kind and compiled.fires(facts)
        for one, facts in all_facts(action, scope, world, guess=False)
    )


def _actions(key: str, values: JsonValue) -> list[Action]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidMatcher(f"`examples.{key}` is not a list; write a list of actions")
    if len(values) > EXAMPLES:
        raise InvalidMatcher(f"`examples.{key}` has more than {EXAMPLES} items; keep the telling")
    try:
        return [parse_action(value) for value in values]
    except MalformedAction as error:
        raise InvalidMatcher(
            f"`examples.{key}` has an action that can't be read: {error}"
        ) from None
