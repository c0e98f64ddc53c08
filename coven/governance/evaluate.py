"""From an action and a policy to one decision. Pure: time and the machine are handed in.

All rules are asked about the action and about everything it would cause. The most severe match
wins; of equals the lowest id is reported; all are listed. Whatever goes wrong refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coven.errors import GovernanceRefused
from coven.governance.actions import (
    Action,
    Kind,
    load_action,
    parse_action,
)
from coven.governance.facts import all_facts
from coven.governance.policy import Opinion, Policy, Verdict
from coven.governance.rules import Severity
from coven.governance.strict_json import JsonValue
from coven.governance.world import Scope, World

UNAVAILABLE = "governance:unavailable"
TIMEOUT = "governance:timeout"
DEFAULT = "governance:default"
"""The rule id that is reported when no rule matches and the kind is refused by default."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule, or a registered evaluator, that had something to say."""

    rule_id: str
    verdict: Verdict
    severity: Severity
    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The one answer. ``rewritten`` stands exactly with ``MODIFY`` and has been judged itself."""

    verdict: Verdict
    rule_id: str | None = None
    reason: str | None = None
    matched: tuple[Match, ...] = ()
    rewritten: Action | None = None
    policy_epoch: int = 0

    @property
    def is_allowed(self) -> bool:
        """Whether something may happen: the action, or with ``MODIFY`` the rewritten one."""
        return self.verdict in (Verdict.ALLOW, Verdict.WARN, Verdict.MODIFY)

    @property
    def is_blocking(self) -> bool:
        """Whether nothing may happen."""
        return not self.is_allowed

    def json(self) -> dict[str, JsonValue]:
        """The ``decision`` object of the check envelope."""
        found: dict[str, JsonValue] = {"decision": self.verdict.value}
        if self.rule_id is not None:
            found |= {"rule_id": self.rule_id, "reason": self.reason}
        return found

    def matched_json(self) -> list[JsonValue]:
        """The ``matched`` list of the check envelope."""
        return [
            {"rule_id": match.rule_id, "severity": match.severity.value, "kind": match.kind.value}
            for match in self.matched
        ]


def refusal(code: str, reason: str, epoch: int = 0) -> Decision:
    """A refusal that no rule pronounced; ``code`` begins with ``governance:``."""
    return Decision(Verdict.REFUSE, code, reason, policy_epoch=epoch)


def decide(
    load: Callable[[], Policy],
    asked: Action | Mapping[str, JsonValue] | str | bytes,
    scope: Scope,
    world: World,
    *,
    expired: Callable[[], bool] = lambda: False,
) -> Decision:
    """Judge an action, or its JSON form, by the policy that ``load`` gives. Never raises.

    ``expired`` says that the time for an answer is over.
    """
    epoch = 0
    try:
        policy = load()
        epoch = policy.epoch
        return _judge(policy, _action(asked), scope, world, expired)
    except _Expired:
        return refusal(TIMEOUT, "the rules took too long to ask; try again", epoch)
    except GovernanceRefused as error:
        return refusal(getattr(error, "code", UNAVAILABLE), str(error), epoch)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong refuses
        return refusal(UNAVAILABLE, f"the rules can't be asked ({type(error).__name__})", epoch)


class _Expired(Exception):
    """No time is left."""


def _action(asked: Action | Mapping[str, JsonValue] | str | bytes) -> Action:
    if isinstance(asked, str | bytes):
        return load_action(asked)
    return parse_action(asked) if isinstance(asked, Mapping) else asked


def _judge(
    policy: Policy,
    action: Action,
    scope: Scope,
    world: World,
    expired: Callable[[], bool],
    *,
    again: bool = False,
) -> Decision:
    matches = _rule_matches(policy, action, scope, world, expired)
    rewritten: Action | None = None
    for name in sorted(policy.evaluators):
        opinion = policy.evaluators[name](action, scope)
        if opinion is not None:
            matches.append(_opinion_match(name, opinion, action))
            if opinion.verdict is Verdict.MODIFY and rewritten is None:
                rewritten = opinion.rewritten
    matches.sort(key=lambda match: (-_RANKS[match.verdict], match.rule_id))
    if expired():
        raise _Expired
    if not matches:
        return Decision(Verdict.ALLOW, policy_epoch=policy.epoch)
    first = matches[0]
    if first.verdict is Verdict.ALLOW:
        return Decision(Verdict.ALLOW, matched=_listed(matches), policy_epoch=policy.epoch)
    verdict = Verdict.REFUSE if first.verdict is Verdict.ASK else first.verdict
    decision = Decision(
        verdict, first.rule_id, first.reason, _listed(matches), policy_epoch=policy.epoch
    )
    if verdict is Verdict.MODIFY:
        if again or rewritten is None or rewritten.kind is not action.kind:
            return _turned_down(decision, "the rewritten action is not usable")
        result = _judge(policy, rewritten, scope, world, expired, again=True)
        if result.verdict not in (Verdict.ALLOW, Verdict.WARN):
            return _turned_down(decision, f"the rewritten action is not allowed: {result.reason}")
        return Decision(
            Verdict.MODIFY,
            first.rule_id,
            first.reason,
            _listed([*decision.matched, *result.matched]),
            rewritten,
            policy.epoch,
        )
    return decision


def _rule_matches(
    policy: Policy, action: Action, scope: Scope, world: World, expired: Callable[[], bool]
) -> list[Match]:
    bound = policy.binding(scope)
    guess = not any(rule.judges_unanalysable for rule in bound[Kind.BASH])
    matches: list[Match] = []
    for one, facts in all_facts(action, scope, world, guess=guess):
        if expired():
            raise _Expired
        found = False
        for rule in bound[one.kind]:
            if rule.fires(facts):
                found = True
                matches.append(_rule_match(rule.rule.id, rule.rule.severity, one, rule.rule.reason))
        if not found and policy.defaults.get(one.kind, Verdict.ALLOW) is not Verdict.ALLOW:
            reason = f"no rule allows or forbids this, and `{one.kind}` is refused by default"
            matches.append(_rule_match(DEFAULT, Severity.REFUSE, one, reason))
    return matches


_BY_SEVERITY = {
    Severity.LOG: Verdict.ALLOW,
    Severity.WARN: Verdict.WARN,
    Severity.ESCALATE: Verdict.ESCALATE,
    Severity.REFUSE: Verdict.REFUSE,
}
_RANKS = {
    Verdict.ALLOW: 0,
    Verdict.WARN: 1,
    Verdict.MODIFY: 2,
    Verdict.ESCALATE: 3,
    Verdict.ASK: 4,
    Verdict.REFUSE: 4,
}


def _rule_match(rule_id: str, severity: Severity, action: Action, reason: str) -> Match:
    return Match(rule_id, _BY_SEVERITY[severity], severity, action.kind, reason)


def _opinion_match(name: str, opinion: Opinion, action: Action) -> Match:
    severity = {
        Verdict.ALLOW: Severity.LOG,
        Verdict.WARN: Severity.WARN,
        Verdict.MODIFY: Severity.WARN,
        Verdict.ESCALATE: Severity.ESCALATE,
    }.get(opinion.verdict, Severity.REFUSE)
    return Match(name, opinion.verdict, severity, action.kind, opinion.reason)


def _turned_down(decision: Decision, why: str) -> Decision:
    return Decision(
        Verdict.REFUSE, decision.rule_id, why, decision.matched, policy_epoch=decision.policy_epoch
    )


def _listed(matches: list[Match]) -> tuple[Match, ...]:
    return tuple(dict.fromkeys(matches))
