"""Routing as data: a payload and a configuration in, plain facts out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from coven.settings.models import Settings

FIXTURES = Path(__file__).parents[1] / "fixtures" / "payloads"
Facts = dict[str, Any]
ABSENT = object()
"""As a change: the field is not there."""


@dataclass(frozen=True)
class Case:
    """``rule``: what it holds. ``changes``: dotted paths of the fixture, with their new values.

    ``want``: facts that must hold of each part of the answer, in order; a text is the reason of an
    ignored delivery.
    """

    rule: str
    fixture: str
    want: str | Facts | list[Facts]
    changes: Facts = field(default_factory=dict)
    config: Facts = field(default_factory=dict)
    event: str | None = None
    bot_id: int | None = None

    @property
    def wanted(self) -> list[Facts]:
        """``want`` in its long form."""
        if isinstance(self.want, str):
            return [{"ignored": self.want}]
        return [self.want] if isinstance(self.want, dict) else self.want


BASE: Facts = {
    "github": {"app_id": 4242},
    "familiars": [
        {
            "id": "cody",
            "display_name": "Cody",
            "bot_username": "cody-familiar[bot]",
            "trigger_labels": ["coven:fix", "coven:review"],
        },
        {
            "id": "nova",
            "display_name": "Nova",
            "bot_username": "nova-familiar[bot]",
            "trigger_labels": ["nova", "coven:review"],
        },
    ],
    "review": {"pull_request": True},
}


def settings_of(config: Facts) -> Settings:
    """The base configuration with whole sections replaced key by key."""
    merged = dict(BASE)
    for section, values in config.items():
        both = isinstance(values, dict) and isinstance(merged.get(section), dict)
        merged[section] = merged[section] | values if both else values
    return Settings.model_validate(merged)


def body_of(case: Case) -> Facts:
    """The fixture with the changes of the case."""
    body: Facts = json.loads((FIXTURES / f"{case.fixture}.json").read_text())
    for path, value in case.changes.items():
        *parents, last = path.split(".")
        target: Any = body
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is ABSENT:
            target.pop(last, None)
        else:
            target[last] = value
    return body


def outcome(routing: ModuleType, payloads: ModuleType, case: Case) -> list[Facts]:
    """What these modules make of a case."""
    body = body_of(case)
    event = case.event or case.fixture.split(".")[0]
    facts = payloads.facts_of(body)
    try:
        routed = routing.route(event, body, facts, settings_of(case.config), case.bot_id)
    except payloads.BadPayload as error:
        return [{"rejected": error.reason}]
    return [_plain(item) for item in (routed if isinstance(routed, tuple) else (routed,))]


def holds(case: Case, got: list[Facts]) -> bool:
    """Whether the answer is the wanted one."""
    pairs = zip(case.wanted, got, strict=False)
    return len(got) == len(case.wanted) and all(
        want.items() <= have.items() for want, have in pairs
    )


def _plain(item: Any) -> Facts:
    # By name: a mutated copy of the modules has classes of its own.
    match type(item).__name__:
        case "Intent":
            return _intent(item)
        case "Ignored":
            return {
                "ignored": item.reason,
                "effects": [_effect(effect) for effect in item.effects],
                "answers": item.answer is not None,
            }
        case "Tenancy":
            fact = {"fact": type(item.fact).__name__} | asdict(item.fact)
            effects = [_effect(effect) for effect in item.effects]
            where = {"installation": item.installation_id, "effects": effects}
            return {"learned": item.reason} | where | {k: _value(v) for k, v in fact.items()}
        case "Click":
            told = {"head": item.head_sha, "task": item.external_id, "branch": item.branch}
            return {"click": item.wanted} | told
    raise AssertionError(item)


def _intent(item: Any) -> Facts:
    return {
        "verb": item.verb,
        "lane": str(item.lane),
        "needs": item.needs.name,
        "reason": item.reason,
        "familiar": item.familiar.id,
        "thread": item.thread,
        "is_pull": item.is_pull,
        "key": item.semantic_key,
        "ignored_as": item.ignored_as,
        "approved": item.payload.get("approved_sha"),
        "args": item.payload.get("args"),
        "comment": item.comment_id,
        "actor": item.actor.id if item.actor else None,
        "author": item.author.id if item.author else None,
        "edited": item.edited,
        "voided_by": list(item.voided_by),
        "from_fork": item.from_fork,
        "external": item.external,
        "at": item.source_at.isoformat() if item.source_at else None,
        "answers": item.answer is not None,
    }


def _effect(effect: Any) -> str:
    kind = type(effect).__name__
    match kind:
        case "Cancel":
            more = effect.trigger or ",".join(map(str, sorted(effect.comments)))
            return f"cancel {effect.of.name} #{effect.thread} {more}".rstrip()
        case "BranchGone":
            return f"branch {effect.branch}"
        case "ReposGone":
            return f"repos {','.join(map(str, sorted(effect.repo_ids)))}"
        case "Gone":
            return f"gone {'for good' if effect.for_good else 'for now'}"
        case "Back":
            return f"back {effect.error}"
        case "Moved":
            return f"moved #{effect.thread} {effect.head_sha[:3]}"
    raise AssertionError(effect)


def _value(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
