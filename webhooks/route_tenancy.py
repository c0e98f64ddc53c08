"""Routing of what events tell about tenants, repositories and rights. Pure.

None of these fields is trusted to be there: whatever is readable is kept as a fact.
"""

from __future__ import annotations

from typing import Any, cast, get_args

from coven.errors import GitHubForbidden, InstallationGone
from coven.github.events import RIGHTS_EVENTS
from coven.tenancy.facts import (
    AccountRenamed,
    InstallationRemoved,
    InstallationSeen,
    InstallationSuspended,
    PlanChanged,
    Purchase,
    PurchaseAction,
    Repo,
    RepositoriesSelected,
    RepositoryChange,
    RepositoryChanged,
    RepositoryDeleted,
)
from coven.values import InstallationId
from webhooks.intents import Back, Effect, Gone, Ignored, ReposGone, Tenancy
from webhooks.payloads import (
    MAX_ID,
    BadPayload,
    Facts,
    account_of,
    flag_of,
    id_of,
    member_of,
    moment,
    repo_of,
    text_of,
)

Body = dict[str, Any]

TENANCY = frozenset(
    {
        *RIGHTS_EVENTS,
        "installation",
        "installation_repositories",
        "installation_target",
        "repository",
        "marketplace_purchase",
        "github_app_authorization",
    }
)
"""The events that :func:`route_tenancy` takes."""


def route_tenancy(event: str, body: Body, facts: Facts) -> Tenancy | Ignored:
    """The fact in an event. Raises ``BadPayload`` when it is about nobody that can be named."""
    if event == "marketplace_purchase":
        return _purchase(body, facts)
    if event == "github_app_authorization":
        return Ignored("authorization_revoked")
    if facts.installation_id is None:
        return Ignored("no_installation")
    tenant, action = facts.installation_id, facts.action or ""
    match event:
        case "installation":
            return _installation(tenant, action, body)
        case "installation_repositories":
            return _selected(tenant, action, body)
        case "installation_target":
            return _renamed(tenant, body, "account")
        case "repository":
            return _repository(tenant, action, body)
        case "organization" if action == "renamed":
            return _renamed(tenant, body, "organization")
    return Ignored("rights_may_have_changed")


def _installation(tenant: InstallationId, action: str, body: Body) -> Tenancy:
    shown = body.get("installation")
    account = account_of(member_of(shown, "account"))
    at = moment(member_of(shown, "updated_at"))
    if action == "deleted":
        gone = Gone(tenant, "the App was uninstalled", for_good=True)
        removed = InstallationRemoved(account, at)
        return Tenancy("installation_deleted", tenant, removed, (gone,))
    if action == "suspend":
        stopped = Gone(tenant, "the App was suspended", for_good=False)
        at = moment(member_of(shown, "suspended_at")) or at
        suspended = InstallationSuspended(True, account, at)
        return Tenancy("installation_suspended", tenant, suspended, (stopped,))
    if action == "unsuspend":
        # What ended meanwhile could not be shown: a Check Run would stay open for ever.
        back = Back(tenant, InstallationGone.__name__)
        resumed = InstallationSuspended(False, account, at)
        return Tenancy("installation_unsuspended", tenant, resumed, (back,))
    created = action == "created"
    seen = InstallationSeen(
        account,
        at,
        created,
        text_of(member_of(shown, "repository_selection"), 20),
        _permissions(member_of(shown, "permissions")),
        _names(member_of(shown, "events")),
        _repos(body.get("repositories")),
    )
    if created:
        return Tenancy("installation_created", tenant, seen)
    allowed = Back(tenant, GitHubForbidden.__name__)
    return Tenancy("permissions_accepted", tenant, seen, (allowed,))


def _selected(tenant: InstallationId, action: str, body: Body) -> Tenancy:
    shown = body.get("installation")
    removed = _repos(body.get("repositories_removed"))
    fact = RepositoriesSelected(
        _repos(body.get("repositories_added")),
        removed,
        text_of(body.get("repository_selection"), 20),
        account_of(member_of(shown, "account")),
        moment(member_of(shown, "updated_at")),
    )
    effects: tuple[Effect, ...] = ()
    if removed:
        ids = frozenset(repo.id for repo in removed)
        effects = (ReposGone(tenant, ids, "the App may not work in this repository any more"),)
    return Tenancy(f"repositories_{action}", tenant, fact, effects)


def _renamed(tenant: InstallationId, body: Body, where: str) -> Tenancy:
    shown = body.get(where)
    account = account_of(shown)
    if account is None:
        raise BadPayload(f"bad_field:{where}.id")
    former = member_of(member_of(body.get("changes"), "login"), "from")
    at = moment(member_of(shown, "updated_at"))
    return Tenancy("account_renamed", tenant, AccountRenamed(account, text_of(former, 120), at))


_WHY_GONE = {
    "archived": "the repository was archived",
    "transferred": "the repository was transferred",
    "deleted": "the repository was deleted",
}


def _repository(tenant: InstallationId, action: str, body: Body) -> Tenancy:
    shown, changes = body.get("repository"), body.get("changes")
    repo = repo_of(shown)
    if repo is None:
        raise BadPayload("bad_field:repository.id")
    owner, at = account_of(member_of(shown, "owner")), moment(member_of(shown, "updated_at"))
    effects: tuple[Effect, ...] = ()
    if action in _WHY_GONE:
        effects = (ReposGone(tenant, frozenset({repo.id}), _WHY_GONE[action]),)
    if action == "deleted":
        return Tenancy("repository_deleted", tenant, RepositoryDeleted(repo, owner, at), effects)
    former = member_of(member_of(changes, "owner"), "from")
    name = member_of(member_of(member_of(changes, "repository"), "name"), "from")
    fact = RepositoryChanged(
        cast(RepositoryChange, action),
        repo,
        owner,
        at,
        text_of(name, 120),
        account_of(member_of(former, "organization")) or account_of(member_of(former, "user")),
    )
    return Tenancy(f"repository_{action}", tenant, fact, effects)


def _purchase(body: Body, facts: Facts) -> Tenancy:
    shown = body.get("marketplace_purchase")
    account = account_of(member_of(shown, "account"))
    if account is None:
        raise BadPayload("bad_field:marketplace_purchase.account.id")
    action = cast(PurchaseAction, facts.action)
    assert action in get_args(PurchaseAction)
    now = _bought(shown)
    before = body.get("previous_marketplace_purchase")
    fact = PlanChanged(
        action,
        account,
        now,
        _bought(before) if isinstance(before, dict) else None,
        moment(body.get("effective_date")),
    )
    return Tenancy(f"plan_{action}", facts.installation_id, fact)


def _bought(shown: object) -> Purchase:
    plan = member_of(shown, "plan")
    units = member_of(shown, "unit_count")
    usable = isinstance(units, int) and not isinstance(units, bool) and 0 <= units <= MAX_ID
    return Purchase(
        id_of(plan),
        text_of(member_of(plan, "name"), 120),
        units if usable and isinstance(units, int) else None,
        text_of(member_of(shown, "billing_cycle"), 20),
        flag_of(member_of(shown, "on_free_trial")),
        moment(member_of(shown, "free_trial_ends_on")),
        moment(member_of(shown, "next_billing_date")),
    )


def _repos(listed: object) -> tuple[Repo, ...]:
    entries = listed if isinstance(listed, list) else []
    return tuple(repo for entry in entries if (repo := repo_of(entry)) is not None)


def _permissions(value: object) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(value, dict):
        return None
    pairs = ((text_of(name, 60), text_of(level, 20)) for name, level in value.items())
    return tuple(sorted((name, level) for name, level in pairs if name and level))


def _names(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(name for entry in value if (name := text_of(entry, 80)) is not None)
