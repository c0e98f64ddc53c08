"""What one installation may use, and who said so. Pure.

Explicit limits win field by field: the installation's own block, else the tier of an entitled
plan, else ``[limits]``. A plan that is no entitlement leaves the smallest tier, never "no limits".
Which lanes and familiars serve a repository says ``Settings.scope_for``, narrowed by its own file
(:mod:`coven.tenancy.repo_file`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from coven.settings.models import Settings
from coven.tenancy.plans import STARTER, Plan, entitled, settled, tier_of
from coven.values import InstallationId

Source = Literal["default", "limits", "installation", "plan"]


@dataclass(frozen=True, slots=True)
class Said:
    """A value, and which layer it comes from."""

    value: Any
    source: Source


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of an installation; None: without one."""

    max_concurrent: int | None = None
    max_concurrent_per_repo: int | None = None
    max_tasks_per_day: int | None = None
    max_minutes_per_month: int | None = None
    weight: int = 1
    when_over: Literal["wait", "end"] = "wait"
    refusal: str | None = None
    """Why this installation is served nothing at all: ``no_plan``, ``suspended``, ``deleted``."""


@dataclass(frozen=True, slots=True)
class Used:
    """What an installation has used, and what it uses now."""

    running: int = 0
    tasks_today: int = 0
    seconds_this_month: float = 0.0


@dataclass(frozen=True, slots=True)
class Over:
    """A limit is reached. ``resets_at``: when work may begin again."""

    limit: Literal["max_tasks_per_day", "max_minutes_per_month"]
    allowed: int
    resets_at: datetime


def limits_of(
    settings: Settings, installation: InstallationId, plan: Plan | None, now: datetime
) -> dict[str, Said]:
    """Every limit with its source."""
    block = settings.installation(installation)
    own = block.limits if block is not None else None
    tier = None
    if plan is not None:
        tier = tier_of(settled(plan, now).plan_name) if entitled(plan, now) else STARTER
    found: dict[str, Said] = {}
    for name in type(settings.limits).model_fields:
        explicit = getattr(own, name) if own is not None else None
        by_tier = getattr(tier, name, None)
        general = getattr(settings.limits, name)
        if explicit is not None:
            found[name] = Said(explicit, "installation")
        elif tier is not None and hasattr(tier, name):
            found[name] = Said(by_tier, "plan")
        elif general is not None:
            found[name] = Said(general, "limits")
        else:
            found[name] = Said(_DEFAULTS.get(name), "default")
    return found


_DEFAULTS: dict[str, Any] = {"weight": 1, "when_over": "wait"}


def refusal_of(
    settings: Settings,
    installation: InstallationId,
    state: str | None,
    plan: Plan | None,
    now: datetime,
) -> str | None:
    """Why an installation is served nothing, or None. ``state``: of its row, None without one."""
    if state in ("suspended", "deleted"):
        return state
    vouched = settings.installation(installation) is not None
    if settings.billing.require_plan and not vouched and not entitled(plan, now):
        return "no_plan"
    return None


def allowance(
    settings: Settings,
    installation: InstallationId,
    state: str | None,
    plan: Plan | None,
    now: datetime,
) -> Allowance:
    """What the claiming transaction holds an installation to."""
    values = {n: s.value for n, s in limits_of(settings, installation, plan, now).items()}
    return Allowance(**values, refusal=refusal_of(settings, installation, state, plan, now))


def over(allowed: Allowance, used: Used, now: datetime) -> Over | None:
    """The limit that forbids to begin another session before its reset; the later reset wins."""
    month = allowed.max_minutes_per_month
    if month is not None and used.seconds_this_month >= month * 60:
        return Over("max_minutes_per_month", month, next_month(now))
    day = allowed.max_tasks_per_day
    if day is not None and used.tasks_today >= day:
        return Over("max_tasks_per_day", day, next_day(now))
    return None


def has_slot(allowed: Allowance, running: int) -> bool:
    """Whether one more session may run now."""
    return allowed.max_concurrent is None or running < allowed.max_concurrent


def full_repos(allowed: Allowance, running: dict[int, int]) -> list[int]:
    """Repositories that already run as many sessions as they may."""
    most = allowed.max_concurrent_per_repo
    return [] if most is None else [repo for repo, count in running.items() if count >= most]


def today(now: datetime) -> str:
    """The UTC day that usage counts for."""
    return now.astimezone(UTC).date().isoformat()


def month_start(now: datetime) -> str:
    """The first UTC day of the month."""
    return now.astimezone(UTC).date().replace(day=1).isoformat()


def next_day(now: datetime) -> datetime:
    """Midnight UTC after ``now``."""
    return _midnight(now.astimezone(UTC).date() + timedelta(days=1))


def next_month(now: datetime) -> datetime:
    """Midnight UTC of the first of the next month."""
    first = now.astimezone(UTC).date().replace(day=1)
    return _midnight((first + timedelta(days=32)).replace(day=1))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
