"""Changes to the rules of tenancy, each of which must break a case.

``old`` stands exactly once in ``coven/tenancy/<module>.py`` and is replaced by ``new``.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    rule: str
    module: str
    old: str
    new: str


DEPENDENTS = {"plans": ("policy",)}
"""Modules that have taken names over from the changed one."""

MUTATIONS = (
    # plans
    Mutation(
        "late events change a plan", "plans", "return at < current.effective_at", "return False"
    ),
    Mutation(
        "a purchase undoes a cancellation of the same instant",
        "plans",
        'return current.state == CANCELLED and fact.action != "cancelled"',
        "return False",
    ),
    Mutation(
        "a cancellation of the same instant is ignored",
        "plans",
        'return current.state == CANCELLED and fact.action != "cancelled"',
        "return True",
    ),
    Mutation(
        "a cancellation leaves the plan active",
        "plans",
        'if fact.action != "cancelled":',
        "if True:",
    ),
    Mutation(
        "a trial is a paid plan",
        "plans",
        "TRIAL if fact.purchase.on_free_trial else ACTIVE",
        "ACTIVE",
    ),
    Mutation(
        "a trial never ends",
        "plans",
        "return current.trial_ends_at is None or now < current.trial_ends_at",
        "return True",
    ),
    Mutation(
        "a trial without an end is none",
        "plans",
        "return current.trial_ends_at is None or now < current.trial_ends_at",
        "return current.trial_ends_at is not None and now < current.trial_ends_at",
    ),
    Mutation(
        "the last instant of a trial counts",
        "plans",
        "now < current.trial_ends_at",
        "now <= current.trial_ends_at",
    ),
    Mutation(
        "no plan is a plan",
        "plans",
        "    if plan is None:\n        return False",
        "    if plan is None:\n        return True",
    ),
    Mutation("cancelled is entitled", "plans", "return current.state == ACTIVE", "return True"),
    Mutation("a pending change never happens", "plans", "now < plan.pending_at", "True"),
    Mutation("a pending change happens at once", "plans", "now < plan.pending_at", "False"),
    Mutation(
        "a pending change is made from nothing",
        "plans",
        "current is None or current.state == CANCELLED or at",
        "current is None or at",
    ),
    Mutation(
        "a pending change is not withdrawn",
        "plans",
        "return replace(current, pending=None, pending_at=None)",
        "return current",
    ),
    Mutation(
        "an old pending change is taken",
        "plans",
        "or at < current.effective_at:\n        return None",
        "or False:\n        return None",
    ),
    Mutation(
        "a pending cancellation is forgotten",
        "plans",
        'CANCELLED if plan.pending.get("cancelled") else plan.state',
        "plan.state",
    ),
    Mutation(
        "a happened change does not move the date",
        "plans",
        "effective_at=plan.pending_at",
        "effective_at=plan.effective_at",
    ),
    Mutation(
        "an unknown plan has no limits", "plans", "in name), STARTER)", "in name), DEDICATED)"
    ),
    Mutation(
        "names of plans are compared by case",
        "plans",
        '(plan_name or "").casefold()',
        '(plan_name or "")',
    ),
    # limits
    Mutation(
        "the plan beats the block",
        "policy",
        "if explicit is not None:",
        "if explicit is not None and tier is None:",
    ),
    Mutation(
        "the general limit beats the plan",
        "policy",
        "elif tier is not None and hasattr(tier, name):",
        "elif tier is not None and hasattr(tier, name) and general is None:",
    ),
    Mutation(
        "no entitlement is no limit",
        "policy",
        "if entitled(plan, now) else STARTER",
        "if entitled(plan, now) else None",
    ),
    Mutation(
        "no entitlement keeps the tier",
        "policy",
        "if entitled(plan, now) else STARTER",
        "if True else STARTER",
    ),
    Mutation(
        "a pending change does not reach the limits",
        "policy",
        "tier_of(settled(plan, now).plan_name)",
        "tier_of(plan.plan_name)",
    ),
    Mutation(
        "a block of another installation counts",
        "policy",
        "block = settings.installation(installation)\n    own",
        "block = next(iter(settings.installations), None)\n    own",
    ),
    Mutation(
        "a suspended installation is served",
        "policy",
        'if state in ("suspended", "deleted"):',
        'if state in ("deleted",):',
    ),
    Mutation(
        "a deleted installation is served",
        "policy",
        'if state in ("suspended", "deleted"):',
        'if state in ("suspended",):',
    ),
    Mutation(
        "no plan is needed though one is",
        "policy",
        "settings.billing.require_plan and not vouched",
        "False and not vouched",
    ),
    Mutation(
        "a plan is always needed",
        "policy",
        "settings.billing.require_plan and not vouched",
        "not vouched",
    ),
    Mutation("nobody is vouched for", "policy", "and not vouched and not", "and not"),
    Mutation(
        "anybody's block vouches",
        "policy",
        "vouched = settings.installation(installation) is not None",
        "vouched = bool(settings.installations)",
    ),
    Mutation(
        "one task more than the day allows",
        "policy",
        "used.tasks_today >= day",
        "used.tasks_today > day",
    ),
    Mutation(
        "one second more than the month allows",
        "policy",
        "used.seconds_this_month >= month * 60",
        "used.seconds_this_month > month * 60",
    ),
    Mutation("minutes are hours", "policy", "month * 60", "month * 3600"),
    Mutation(
        "the earlier reset is told",
        "policy",
        "    if month is not None and used",
        "    if allowed.max_tasks_per_day is None and month is not None and used",
    ),
    Mutation("the day resets after two", "policy", "timedelta(days=1)", "timedelta(days=2)"),
    Mutation(
        "the month resets with the day",
        "policy",
        'Over("max_minutes_per_month", month, next_month(now))',
        'Over("max_minutes_per_month", month, next_day(now))',
    ),
    Mutation(
        "the day resets with the month",
        "policy",
        'Over("max_tasks_per_day", day, next_day(now))',
        'Over("max_tasks_per_day", day, next_month(now))',
    ),
    Mutation(
        "one session more than allowed",
        "policy",
        "running < allowed.max_concurrent",
        "running <= allowed.max_concurrent",
    ),
    Mutation("one session more per repository", "policy", "if count >= most]", "if count > most]"),
    # lanes and familiars
    Mutation(
        "the repository's file drops no familiar",
        "repo_file",
        "return self.familiars is None or familiar_id in self.familiars",
        "return True",
    ),
    Mutation(
        "enabled = false is not heard", "repo_file", "return self.enabled and bool", "return bool"
    ),
    Mutation(
        "lanes of the file are not heard",
        "repo_file",
        "return self.enabled and bool(getattr(self.lanes, lane))",
        "return self.enabled",
    ),
    # the file itself
    Mutation("a file of any size", "repo_file", "if len(data) > MAX_BYTES:", "if False:"),
    Mutation("any depth", "repo_file", "if self._depth > MAX_DEPTH:", "if False:"),
    Mutation("aliases", "repo_file", "if isinstance(event, yaml.AliasEvent):", "if False:"),
    Mutation("tags", "repo_file", 'getattr(event, "tag", None) is not None', "False"),
    Mutation("a key twice", "repo_file", "if key in seen:", "if False:"),
    Mutation("keys of any kind", "repo_file", "if not isinstance(key, str):", "if False:"),
    Mutation(
        "yes is true",
        "repo_file",
        'r"^(?:true|false)$"), list("tf")',
        'r"^(?:true|false|yes)$"), list("tfy")',
    ),
    Mutation(
        "bytes of any kind",
        "repo_file",
        'data.decode("utf-8-sig")',
        'data.decode("utf-8-sig", "replace")',
    ),
    # turns
    Mutation("idle tenants save up", "fair", "max(turn.finished, virtual_now)", "turn.finished"),
    Mutation(
        "served last comes first",
        "fair",
        "return start_of(turn, virtual_now), served,",
        "return start_of(turn, virtual_now), -served,",
    ),
    Mutation(
        "virtual time does not order",
        "fair",
        "return start_of(turn, virtual_now), served,",
        "return 0, served,",
    ),
    Mutation("weights do nothing", "fair", "STRIDE // max(weight, 1)", "STRIDE"),
    Mutation(
        "a weight may stop time",
        "fair",
        "max(STRIDE // max(weight, 1), 1)",
        "STRIDE // max(weight, 1)",
    ),
    Mutation("waiting does not age", "fair", "head.priority + waited / AGE_SECS", "head.priority"),
    Mutation(
        "a clock that ran ahead lowers priority",
        "fair",
        "max((now - head.created_at).total_seconds(), 0.0)",
        "(now - head.created_at).total_seconds()",
    ),
    Mutation("newer tasks first", "fair", "-head.seq)", "head.seq)"),
    Mutation(
        "urgency beats turns", "fair", "if leading and candidate[2] != leading[0][2]:", "if False:"
    ),
    Mutation(
        "of equals the first, not the urgent",
        "fair",
        "max(leading, key=lambda found: aged(found[1], now), default=None)",
        "leading[0] if leading else None",
    ),
    # deliveries
    Mutation("recorded ones are asked for again", "redelivery", "guid in known or any", "any"),
    Mutation(
        "accepted ones are asked for again",
        "redelivery",
        "guid in known or any(attempt.ok for attempt in tried)",
        "guid in known",
    ),
    Mutation(
        "only the last attempt counts",
        "redelivery",
        "any(attempt.ok for attempt in tried)",
        "tried[-1].ok",
    ),
    Mutation(
        "only the first attempt counts",
        "redelivery",
        "any(attempt.ok for attempt in tried)",
        "tried[0].ok",
    ),
    Mutation(
        "the oldest attempt is asked for", "redelivery", "newest = max(tried", "newest = min(tried"
    ),
    Mutation("out of reach is asked for", "redelivery", "if first_at <= now - reach:", "if False:"),
    Mutation(
        "attempts underway are asked for",
        "redelivery",
        "if newest.delivered_at > now - max(settle, _pause(len(tried) if patient else 1)):",
        "if False:",
    ),
    Mutation(
        "no pause", "redelivery", "max(settle, _pause(len(tried) if patient else 1))", "settle"
    ),
    Mutation("a person waits too", "redelivery", "len(tried) if patient else 1", "len(tried)"),
    Mutation("a person gives up too", "redelivery", "elif patient and len", "elif len"),
    Mutation("a pause that does not grow", "redelivery", "PAUSE * 2 **", "PAUSE * 1 **"),
    Mutation(
        "a pause without an end",
        "redelivery",
        "attempts - 2, 10), PAUSE_CAP",
        "attempts - 2, 10), PAUSE * 2**10",
    ),
    Mutation(
        "asked for without end",
        "redelivery",
        "elif patient and len(tried) >= MAX_ATTEMPTS:",
        "elif False:",
    ),
    Mutation(
        "given up one too early", "redelivery", "len(tried) >= MAX_ATTEMPTS", "len(tried) >= 2"
    ),
    Mutation(
        "no order of events",
        "redelivery",
        "key=lambda missed: missed.first_at",
        "key=lambda missed: missed.attempt",
    ),
    Mutation(
        "open ones fall behind the watermark",
        "redelivery",
        "min(started - settle, done.oldest_open or started)",
        "started - settle",
    ),
    Mutation(
        "the watermark runs ahead",
        "redelivery",
        "min(started - settle, done.oldest_open or started)",
        "min(started, done.oldest_open or started)",
    ),
    Mutation(
        "the watermark is not heard",
        "redelivery",
        "return max(watermark, now - reach) if",
        "return now - reach if",
    ),
    Mutation(
        "the watermark beats the window",
        "redelivery",
        "return max(watermark, now - reach) if",
        "return watermark if",
    ),
    Mutation(
        "one window for all",
        "redelivery",
        "return WINDOW if hosted else WINDOW_GHES",
        "return WINDOW",
    ),
)
