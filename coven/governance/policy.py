"""All live rules made ready, filed by kind, and the opinions of registered evaluators. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from coven.errors import GovernanceRefused
from coven.governance.actions import Action, Kind
from coven.governance.paths import Physical
from coven.governance.rules import CompiledRule, Rule, compile_rule, namespace_segments
from coven.governance.selftest import failed_examples
from coven.governance.shapes import InvalidMatcher, Templates
from coven.governance.world import Scope, World

ACTORS = 1000
"""For how many actors a policy remembers which of its rules bind them."""


class Verdict(StrEnum):
    """What the boundary does with an action."""

    ALLOW = "allow"
    WARN = "warn"
    MODIFY = "modify"
    ASK = "ask"
    ESCALATE = "escalate"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a registered evaluator thinks; ``rewritten`` goes with ``MODIFY`` only."""

    verdict: Verdict
    reason: str
    rewritten: Action | None = None


Evaluator: TypeAlias = Callable[[Action, Scope], "Opinion | None"]
"""Code that judges what rules can't express. ``None``: no opinion."""


class PolicyCorrupt(GovernanceRefused):
    """A live rule can't be used as it stands, so nothing may happen."""

    code = "governance:policy_tampered"


@dataclass(frozen=True)
class Policy:
    """What is asked at every check."""

    by_kind: Mapping[Kind, Sequence[CompiledRule]] = field(default_factory=dict)
    epoch: int = 0
    defaults: Mapping[Kind, Verdict] = field(default_factory=dict)
    """``ALLOW`` or ``REFUSE`` for a kind when no rule matches; ``ALLOW`` when absent."""
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)
    """By the id under which their opinions are reported."""
    _binding: dict[object, Mapping[Kind, Sequence[CompiledRule]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def binding(self, scope: Scope) -> Mapping[Kind, Sequence[CompiledRule]]:
        """The rules that bind this actor; worked out once per origin and namespace."""
        key = (scope.origin, scope.namespace)
        found = self._binding.get(key)
        if found is None:
            if len(self._binding) >= ACTORS:
                self._binding.clear()
            segments = namespace_segments(scope.namespace)
            found = {
                kind: tuple(r for r in self.by_kind.get(kind, ()) if r.binds(scope, segments))
                for kind in Kind
            }
            self._binding[key] = found
        return found


def build_policy(
    rules: Iterable[Rule],
    *,
    templates: Templates | None = None,
    world: World | None = None,
    physical: Physical = str,
    epoch: int = 0,
    defaults: Mapping[Kind, Verdict] | None = None,
    evaluators: Mapping[str, Evaluator] | None = None,
) -> Policy:
    """The policy of these rules. ``world`` re-runs their examples, when given.

    Raises ``PolicyCorrupt`` when a live rule is unusable or breaks one of its own examples.
    """
    filed: dict[Kind, list[CompiledRule]] = {kind: [] for kind in Kind}
    for rule in sorted(rules, key=lambda rule: rule.id):
        if not rule.live:
            continue
        try:
            compiled = compile_rule(rule, templates, physical)
            broken = failed_examples(compiled, world) if world and rule.examples else ()
        except InvalidMatcher as error:
            raise PolicyCorrupt(f"rule {rule.id}: {error}") from None
        if broken:
            raise PolicyCorrupt(f"rule {rule.id}: {broken[0]}")
        filed[rule.kind].append(compiled)
    return Policy(
        {kind: tuple(found) for kind, found in filed.items()},
        epoch,
        defaults or {},
        evaluators or {},
    )
