"""The rules of tenancy as cases: name of the rule -> a check. Pure, so that mutations are cheap.

Each check looks functions up in their modules when it runs; ``test_tenancy_mutations`` changes the
modules under it and wants at least one check to fail for each change.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from coven.github.models import HookDelivery
from coven.settings.models import Settings
from coven.tenancy import facts, fair, plans, policy, redelivery, repo_file
from coven.values import InstallationId, RepoId, RepoName

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
TENANT = InstallationId(41)
REPO = RepoName("octo", "demo")
CASES: dict[str, Callable[[], None]] = {}


def case(rule: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def note(check: Callable[[], None]) -> Callable[[], None]:
        assert rule not in CASES, rule
        CASES[rule] = check
        return check

    return note


def table(rule: str, rows: dict[str, Any]) -> Callable[[Callable[[Any], None]], None]:
    """One case per row."""

    def note(check: Callable[[Any], None]) -> None:
        for name, row in rows.items():
            case(f"{rule}: {name}")(lambda row=row: check(row))  # type: ignore[misc]

    return note


# --- plans


def purchase(**changes: Any) -> facts.Purchase:
    values: dict[str, Any] = {
        "plan_id": 1,
        "plan_name": "Team",
        "unit_count": 1,
        "billing_cycle": "monthly",
        "on_free_trial": False,
        "free_trial_ends_on": None,
        "next_billing_date": None,
    }
    return facts.Purchase(**(values | changes))


def change(action: str, at: datetime | None, **bought: Any) -> facts.PlanChanged:
    account = facts.Account(7, "octo", "Organization")
    return facts.PlanChanged(action, account, purchase(**bought), None, at)  # type: ignore[arg-type]


def plan(state: str = "active", at: datetime = NOW - DAY, **facts_: Any) -> plans.Plan:
    return plans.Plan(**({"account_id": 7, "state": state, "effective_at": at} | facts_))


def after(*changes: facts.PlanChanged) -> plans.Plan | None:
    known = None
    for one in changes:
        known = plans.applied(known, one, NOW) or known
    return known


EARLIER, LATER = NOW - 2 * DAY, NOW - DAY
ORDER = {
    "purchase then cancellation": ([("purchased", EARLIER), ("cancelled", LATER)], "cancelled"),
    "cancellation arrives first": ([("cancelled", LATER), ("purchased", EARLIER)], "cancelled"),
    "bought again after cancelling": ([("cancelled", EARLIER), ("purchased", LATER)], "active"),
    "at one instant a cancellation wins": (
        [("cancelled", LATER), ("purchased", LATER)],
        "cancelled",
    ),
    "at one instant a cancellation wins, whichever comes first": (
        [("purchased", LATER), ("cancelled", LATER)],
        "cancelled",
    ),
    "a change keeps it active": ([("purchased", EARLIER), ("changed", LATER)], "active"),
}


@table("plan events are ordered by effective date", ORDER)
def _(row: Any) -> None:
    events, state = row
    known = after(*(change(action, at) for action, at in events))
    assert known is not None
    assert known.state == state


@case("the later of two changes decides the plan, whichever arrives first")
def _() -> None:
    big, small = (
        change("changed", LATER, plan_name="Team"),
        change("purchased", EARLIER, plan_name="Starter"),
    )
    for order in ((small, big), (big, small)):
        known = after(*order)
        assert known is not None
        assert known.plan_name == "Team"


@case("a purchase on trial is a trial with its end")
def _() -> None:
    known = after(change("purchased", LATER, on_free_trial=True, free_trial_ends_on=NOW + DAY))
    assert known is not None
    assert (known.state, known.trial_ends_at) == ("trial", NOW + DAY)


@case("a pending change changes nothing before its time, then everything")
def _() -> None:
    known = after(
        change("purchased", EARLIER, plan_name="Team"),
        change("pending_change", NOW + DAY, plan_name="Starter"),
    )
    assert known is not None
    assert plans.settled(known, NOW).plan_name == "Team"
    assert plans.settled(known, NOW + DAY).plan_name == "Starter"
    assert plans.settled(known, NOW + DAY).pending is None


@case("a pending change that is withdrawn never happens")
def _() -> None:
    known = after(
        change("purchased", EARLIER, plan_name="Team"),
        change("pending_change", NOW + DAY, plan_name="Starter"),
        change("pending_change_cancelled", NOW + DAY),
    )
    assert known is not None
    assert plans.settled(known, NOW + 2 * DAY).plan_name == "Team"


@case("a pending change of nothing known, or of something cancelled, is nothing")
def _() -> None:
    assert plans.applied(None, change("pending_change", NOW), NOW) is None
    assert plans.applied(plan("cancelled"), change("pending_change", NOW + DAY), NOW) is None
    assert plans.applied(plan(), change("pending_change", NOW - 9 * DAY), NOW) is None
    assert plans.applied(plan(), change("pending_change_cancelled", NOW), NOW) is None


@case("an event later than a pending change that has happened is compared with that")
def _() -> None:
    known = plan(
        at=NOW - 3 * DAY, plan_name="Team", pending={"plan_name": "Starter"}, pending_at=NOW - DAY
    )
    assert plans.applied(known, change("changed", NOW - 2 * DAY), NOW) is None
    newer = plans.applied(known, change("changed", NOW, plan_name="Dedicated"), NOW)
    assert newer is not None
    assert newer.plan_name == "Dedicated"


ENTITLED = {
    "no plan": (None, False),
    "active": (plan(), True),
    "cancelled": (plan("cancelled"), False),
    "on trial": (plan("trial", trial_ends_at=NOW + DAY), True),
    "trial over": (plan("trial", trial_ends_at=NOW - DAY), False),
    "trial over this instant": (plan("trial", trial_ends_at=NOW), False),
    "trial without an end": (plan("trial"), True),
    "unknown state": (plan("odd"), False),
    "pending cancellation is not there yet": (
        plan(pending={"cancelled": True}, pending_at=NOW + DAY),
        True,
    ),
    "pending cancellation has come": (plan(pending={"cancelled": True}, pending_at=NOW), False),
}


@table("who is entitled", ENTITLED)
def _(row: Any) -> None:
    known, wanted = row
    # The module may have been loaded anew: its own class, the same facts.
    values = {n: getattr(known, n) for n in known.__dataclass_fields__} if known else None
    assert plans.entitled(plans.Plan(**values) if values else None, NOW) is wanted


TIERS = {
    "Starter": "starter",
    "TEAM yearly": "team",
    "dedicated": "dedicated",
    "Other": "starter",
    "": "starter",
}


@table("the tier stands in the name of the plan", {name or "none": name for name in TIERS})
def _(row: Any) -> None:
    assert plans.tier_of(row).name == TIERS[row]
    assert plans.tier_of(None).name == "starter"


# --- limits


def settings(**changes: Any) -> Settings:
    familiar = {"id": "cody", "display_name": "Cody", "bot_username": "cody[bot]"}
    nova = {"id": "nova", "display_name": "Nova", "bot_username": "nova[bot]"}
    return Settings.model_validate({"familiars": [familiar, nova]} | changes)


def limits(config: dict[str, Any], known: plans.Plan | None) -> dict[str, tuple[Any, str]]:
    found = policy.limits_of(settings(**config), TENANT, known, NOW)
    return {name: (said.value, said.source) for name, said in found.items()}


BLOCK = {"id": 41, "limits": {"max_concurrent": 9}}
LIMITS: dict[str, tuple[dict[str, Any], Any, str, Any, str]] = {
    "nothing is said": ({}, None, "max_concurrent", None, "default"),
    "the general limit": ({"limits": {"max_concurrent": 3}}, None, "max_concurrent", 3, "limits"),
    "the plan before the general limit": (
        {"limits": {"max_concurrent": 3}},
        {"plan_name": "Team"},
        "max_concurrent",
        4,
        "plan",
    ),
    "the block before the plan": (
        {"installations": [BLOCK]},
        {"plan_name": "Team"},
        "max_concurrent",
        9,
        "installation",
    ),
    "field by field": (
        {"installations": [BLOCK]},
        {"plan_name": "Team"},
        "max_tasks_per_day",
        150,
        "plan",
    ),
    "another block says nothing here": (
        {"installations": [{"id": 42, "limits": {"max_concurrent": 9}}]},
        None,
        "max_concurrent",
        None,
        "default",
    ),
    "cancelled is the smallest tier, not no limit": (
        {},
        {"plan_name": "Dedicated", "state": "cancelled"},
        "max_tasks_per_day",
        25,
        "plan",
    ),
    "a trial that is over is the smallest tier": (
        {},
        {"plan_name": "Dedicated", "state": "trial", "trial_ends_at": NOW - DAY},
        "max_concurrent",
        1,
        "plan",
    ),
    "a dedicated plan has no limit": (
        {},
        {"plan_name": "Dedicated"},
        "max_concurrent",
        None,
        "plan",
    ),
    "weight is 1 by default": ({}, None, "weight", 1, "default"),
    "work over a limit waits by default": ({}, None, "when_over", "wait", "default"),
    "a pending change that has come decides the tier": (
        {},
        {
            "plan_name": "Team",
            "pending": {"plan_name": "Starter"},
            "pending_at": NOW - DAY,
            "effective_at": NOW - 2 * DAY,
        },
        "max_concurrent",
        1,
        "plan",
    ),
}


@table("which limit holds", LIMITS)
def _(row: Any) -> None:
    config, bought, name, value, source = row
    known = plan(**bought) if bought is not None else None
    assert limits(config, known)[name] == (value, source)


REFUSALS: dict[str, tuple[dict[str, Any], str | None, Any, str | None]] = {
    "no plan is needed": ({}, None, None, None),
    "a plan is needed": ({"billing": {"require_plan": True}}, "active", None, "no_plan"),
    "and is there": ({"billing": {"require_plan": True}}, "active", "active", None),
    "and was cancelled": ({"billing": {"require_plan": True}}, "active", "cancelled", "no_plan"),
    "the operator vouches": (
        {"billing": {"require_plan": True}, "installations": [{"id": 41}]},
        None,
        None,
        None,
    ),
    "the operator vouches for another one": (
        {"billing": {"require_plan": True}, "installations": [{"id": 42}]},
        None,
        None,
        "no_plan",
    ),
    "suspended": ({"installations": [{"id": 41}]}, "suspended", "active", "suspended"),
    "deleted": ({"installations": [{"id": 41}]}, "deleted", "active", "deleted"),
}


@table("who is served at all", REFUSALS)
def _(row: Any) -> None:
    config, state, bought, wanted = row
    known = plan(bought) if bought else None
    assert policy.refusal_of(settings(**config), TENANT, state, known, NOW) == wanted
    assert policy.allowance(settings(**config), TENANT, state, known, NOW).refusal == wanted


OVER: dict[str, tuple[dict[str, int], dict[str, float], str | None]] = {
    "no limit": ({}, {"tasks_today": 10**6, "seconds_this_month": 10.0**9}, None),
    "one task is left": ({"max_tasks_per_day": 5}, {"tasks_today": 4}, None),
    "the day is used up": ({"max_tasks_per_day": 5}, {"tasks_today": 5}, "max_tasks_per_day"),
    "a second is left": ({"max_minutes_per_month": 2}, {"seconds_this_month": 119.0}, None),
    "the month is used up": (
        {"max_minutes_per_month": 2},
        {"seconds_this_month": 120.0},
        "max_minutes_per_month",
    ),
    "both: the later reset": (
        {"max_minutes_per_month": 1, "max_tasks_per_day": 1},
        {"seconds_this_month": 60.0, "tasks_today": 1},
        "max_minutes_per_month",
    ),
}


@table("when a limit is reached", OVER)
def _(row: Any) -> None:
    allowed, used, wanted = row
    found = policy.over(policy.Allowance(**allowed), policy.Used(**used), NOW)
    assert (found.limit if found else None) == wanted


@case("limits reset at midnight and on the first, by UTC")
def _() -> None:
    assert policy.next_day(NOW) == datetime(2026, 1, 16, tzinfo=UTC)
    assert policy.next_month(NOW) == datetime(2026, 2, 1, tzinfo=UTC)
    assert policy.next_month(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == datetime(
        2027, 1, 1, tzinfo=UTC
    )
    west = NOW.astimezone(tz=None)
    assert policy.today(west) == "2026-01-15"
    assert policy.month_start(NOW) == "2026-01-01"
    late = policy.over(policy.Allowance(max_tasks_per_day=1), policy.Used(tasks_today=1), NOW)
    assert late is not None
    assert late.resets_at == datetime(2026, 1, 16, tzinfo=UTC)
    month = policy.over(
        policy.Allowance(max_minutes_per_month=1), policy.Used(seconds_this_month=99), NOW
    )
    assert month is not None
    assert month.resets_at == datetime(2026, 2, 1, tzinfo=UTC)


@case("slots of an installation and of a repository")
def _() -> None:
    assert policy.has_slot(policy.Allowance(), 10**6)
    assert policy.has_slot(policy.Allowance(max_concurrent=2), 1)
    assert not policy.has_slot(policy.Allowance(max_concurrent=2), 2)
    some = policy.Allowance(max_concurrent_per_repo=2)
    assert policy.full_repos(some, {7: 1, 8: 2, 9: 3}) == [8, 9]
    assert policy.full_repos(policy.Allowance(), {8: 99}) == []


# --- lanes and familiars of a repository


def serving(config: dict[str, Any], text: str | None = None) -> tuple[bool, tuple[str, ...]]:
    """Whether the review lane is on in a repository, and who serves there."""
    scope = settings(**config).scope_for(TENANT, REPO, RepoId(7))
    asked = repo_file.read((text or "").encode()).file
    assert asked is not None
    kept = (familiar.id for familiar in scope.familiars)
    on = scope.triggers.reviews and asked.allows("reviews")
    return on, tuple(name for name in kept if asked.wants(name))


def own(**override: Any) -> dict[str, Any]:
    return {"installations": [{"id": 41, **override}]}


LANES: dict[str, tuple[dict[str, Any], str | None, bool]] = {
    "on by default": ({}, None, True),
    "another block switches nothing off": (
        {"installations": [{"id": 42, "triggers": {"reviews": False}}]},
        None,
        True,
    ),
    "off for the installation": (own(triggers={"reviews": False}), None, False),
    "off for the repository by name": (
        own(repos={"OCTO/demo": {"reviews": False}}),
        None,
        False,
    ),
    "off for the repository by id": (
        own(repos={"7": {"enabled": False}}),
        None,
        False,
    ),
    "another repository": (own(repos={"8": {"enabled": False}}), None, True),
    "off by its own file": ({}, "lanes:\n  reviews: false\n", False),
    "everything off by its own file": ({}, "enabled: false\n", False),
    "its own file can't switch on": (
        own(triggers={"reviews": False}),
        "lanes:\n  reviews: true\n",
        False,
    ),
}


@table("the review lane", LANES)
def _(row: Any) -> None:
    config, text, wanted = row
    assert serving(config, text)[0] is wanted


FAMILIARS: dict[str, tuple[dict[str, Any], str | None, tuple[str, ...]]] = {
    "all": ({}, None, ("cody", "nova")),
    "those of the installation": (own(familiars=["nova"]), None, ("nova",)),
    "fewer for a repository": (own(repos={"7": {"familiars": ["cody"]}}), None, ("cody",)),
    "a repository gets none that the installation has not": (
        own(familiars=["nova"], repos={"7": {"familiars": ["cody"]}}),
        None,
        (),
    ),
    "fewer by its own file": ({}, "familiars: [nova]\n", ("nova",)),
    "its own file adds none": (own(familiars=["cody"]), "familiars: [nova]\n", ()),
}


@table("who serves a repository", FAMILIARS)
def _(row: Any) -> None:
    config, text, wanted = row
    assert serving(config, text)[1] == wanted


# --- .github/coven.yml

BOMB = "a: &a [x]\nb: &b [*a, *a]\n"
BAD_FILES = {
    "an unknown key": ("lane: {}\n", "no known key"),
    "a key twice": ("enabled: true\nenabled: false\n", "twice"),
    "a key twice below": ("lanes:\n  labels: true\n  labels: false\n", "twice"),
    "an alias": (BOMB, "alias"),
    "too deep": ("lanes: " + "[" * 30 + "]" * 30 + "\n", "deep"),
    "a word for a switch": ("enabled: yes\n", "boolean"),
    "a number for a switch": ("enabled: 1\n", "boolean"),
    "a list at the top": ("- enabled\n", "object"),
    "a key that is no word": ("1: true\n", "keys must be words"),
    "tabs": ("lanes:\n\treviews: false\n", "valid YAML"),
    "a tag": ("enabled: !!python/object/apply:os.system [ls]\n", "tags"),
    "a tag that makes no JSON": ("familiars: !!set {cody, nova}\n", "tags"),
    "a tag that does not fit": ("enabled: !!bool maybe\n", "tags"),
    "bytes": ("enabled: !!binary aGk=\n", "tags"),
    "too large": ("# " + "x" * 17_000, "larger"),
    "two documents": ("enabled: true\n---\nenabled: false\n", "valid YAML"),
    "a later version": ("version: 2\n", "less than or equal to 1"),
    "a text for familiars": ("familiars: cody\n", "valid"),
}


@table("a file that can't be used says why", BAD_FILES)
def _(row: Any) -> None:
    text, wanted = row
    found = repo_file.read(text.encode())
    assert found.file is None
    assert wanted in found.problems[0].text, found


@case("a file that is no text, or empty")
def _() -> None:
    assert repo_file.read(b"\xff\xfe").problems[0].text == "is not UTF-8 text"
    for empty in (b"", b"# nothing\n", b"\n\n"):
        assert repo_file.read(empty).file == repo_file.RepoFile()


@case("a problem names its line")
def _() -> None:
    assert repo_file.read(b"enabled: true\nlanes:\n  revews: false\n").problems[0].line == 3
    assert repo_file.read(b"enabled: true\nenabled: true\n").problems[0].line == 2


# --- turns


def turn(tenant: int, finished: int | None, served: int = 0) -> fair.Turn:
    return fair.Turn(tenant, finished, NOW + timedelta(seconds=served) if served else None)


def head(priority: int, waited: float = 0, seq: int = 1) -> fair.Head:
    return fair.Head("t" * 32, priority, seq, NOW - timedelta(seconds=waited))


@case("the smallest start is served, an idle tenant starts now and saves nothing up")
def _() -> None:
    turns = [turn(1, 5000), turn(2, None), turn(3, 10), turn(4, 3000)]
    assert [fair.start_of(t, 3000) for t in turns] == [5000, 3000, 3000, 3000]
    assert [t.installation_id for t in fair.in_order(turns, 3000)] == [2, 3, 4, 1]


@case("of equal starts whoever was served longest ago comes first")
def _() -> None:
    turns = [turn(1, 10, served=9), turn(2, 10, served=5), turn(3, 10, served=7)]
    assert [t.installation_id for t in fair.in_order(turns, 0)] == [2, 3, 1]


@case("a heavier tenant has shorter turns")
def _() -> None:
    assert fair.end_of(0, 1) == fair.STRIDE
    assert fair.end_of(7, 2) == 7 + fair.STRIDE // 2
    assert fair.end_of(0, 10**9) == 1
    assert fair.end_of(0, 0) == fair.STRIDE


@case("priority decides within a tenant, and rises with waiting")
def _() -> None:
    asked, automatic, chore = head(fair.INTERACTIVE), head(fair.REVIEW), head(fair.MAINTENANCE)
    assert fair.first_of([chore, automatic, asked], NOW) is asked
    old_chore = head(fair.MAINTENANCE, waited=21 * 60)
    assert fair.first_of([asked, old_chore], NOW) is old_chore
    assert fair.first_of([head(0, seq=2), head(0, seq=1)], NOW) == head(0, seq=1)
    assert fair.first_of([], NOW) is None
    assert fair.aged(head(5, waited=-100), NOW) == 5


@case("between tenants only those with an equal start are compared by urgency")
def _() -> None:
    one, two, three = (turn(1, 0), head(0), 0), (turn(2, 0), head(10), 0), (turn(3, 9), head(99), 9)
    assert fair.first_tenant([one, two, three], NOW) == two
    assert fair.first_tenant([one, three], NOW) == one
    assert fair.first_tenant([], NOW) is None
    assert fair.first_tenant([one, two], NOW, most=1) == one


# --- missed deliveries


def attempt(guid: str, number: int, status: str, ago: float = 600, **changes: Any) -> HookDelivery:
    values: dict[str, Any] = {
        "id": number,
        "guid": guid,
        "delivered_at": NOW - timedelta(seconds=ago),
        "redelivery": False,
        "status": status,
        "status_code": 0,
        "event": "issues",
        "action": "opened",
        "installation_id": 41,
        "repository_id": 7,
    }
    return HookDelivery(**(values | changes))


MISSED: dict[str, tuple[list[HookDelivery], set[str], list[int]]] = {
    "accepted": ([attempt("a", 1, "OK", status_code=202)], set(), []),
    "timed out": ([attempt("a", 1, "timed out")], set(), [1]),
    "refused with a status": ([attempt("a", 1, "Invalid", status_code=503)], set(), [1]),
    "failed, but in the ledger": ([attempt("a", 1, "timed out")], {"a"}, []),
    "failed, then accepted": (
        [attempt("a", 1, "timed out", 900), attempt("a", 2, "OK", status_code=202)],
        set(),
        [],
    ),
    "accepted, then failed": (
        [attempt("a", 1, "OK", 900, status_code=200), attempt("a", 2, "timed out")],
        set(),
        [],
    ),
    "failed twice: the newest attempt": (
        [attempt("a", 2, "timed out", 600), attempt("a", 1, "timed out", 900)],
        set(),
        [2],
    ),
    "a moment ago": ([attempt("a", 1, "timed out", 10)], set(), []),
    "out of reach": ([attempt("a", 1, "timed out", 4 * 86_400)], set(), []),
    "too often": ([attempt("a", n, "timed out", 25_000 + n) for n in range(20)], set(), []),
    "an outage of hours": (
        [attempt("a", n, "timed out", 25_000 + n) for n in range(19)],
        set(),
        [0],
    ),
    "twice, and not long ago": (
        [attempt("a", n, "timed out", 290 + n) for n in range(2)],
        set(),
        [],
    ),
    "twice, and long enough ago": (
        [attempt("a", n, "timed out", 300 + n) for n in range(2)],
        set(),
        [0],
    ),
    "three times pauses for longer": (
        [attempt("a", n, "timed out", 590 + n) for n in range(3)],
        set(),
        [],
    ),
    "oldest event first": (
        [attempt("a", 1, "timed out", 600), attempt("b", 2, "timed out", 700)],
        set(),
        [2, 1],
    ),
}


@table("which deliveries are asked for again", MISSED)
def _(row: Any) -> None:
    attempts, known, wanted = row
    assert [missed.attempt for missed in redelivery.plan(attempts, known, NOW).again] == wanted


@case("what failed too often is reported, and what is young is counted")
def _() -> None:
    tried = [attempt("a", n, "timed out", 25_000 + n) for n in range(20)]
    found = redelivery.plan([*tried, attempt("b", 9, "timed out", 5)], set(), NOW)
    assert [missed.guid for missed in found.given_up] == ["a"]
    assert found.too_young == 1


@case("a person asks for all at once")
def _() -> None:
    often = [attempt("a", n, "timed out", 25_000 + n) for n in range(20)]
    lately = [attempt("b", n, "timed out", 70 + n) for n in range(3)]
    found = redelivery.plan([*often, *lately], set(), NOW, patient=False)
    assert [missed.guid for missed in found.again] == ["a", "b"]


@case("the next search begins before what may still be open")
def _() -> None:
    none = redelivery.plan([], set(), NOW)
    assert redelivery.next_watermark(none, NOW) == NOW - redelivery.SETTLE
    some = redelivery.plan([attempt("a", 1, "timed out", 900)], set(), NOW)
    assert redelivery.next_watermark(some, NOW) == NOW - timedelta(seconds=900)
    young = redelivery.plan([attempt("a", 1, "timed out", 5)], set(), NOW)
    assert redelivery.next_watermark(young, NOW) == NOW - redelivery.SETTLE
    assert redelivery.since(None, NOW) == NOW - redelivery.WINDOW
    assert redelivery.since(NOW - DAY, NOW) == NOW - DAY
    assert redelivery.since(NOW - 9 * DAY, NOW) == NOW - redelivery.WINDOW


@case("server editions can deliver again for longer")
def _() -> None:
    for hosted in ("https://api.github.com", "https://github.com", "https://api.acme.ghe.com"):
        assert redelivery.window(hosted) == timedelta(days=3)
    assert redelivery.window("https://ghe.example.com/api/v3") == timedelta(days=7)
