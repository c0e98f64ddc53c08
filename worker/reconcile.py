"""Comparing what is known of tenants with GitHub: events can be lost, and some never existed.

Marketplace events are not in the list of deliveries, and an installation may be older than this
deployment, so both are asked for now and then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog

from coven.errors import CovenError, GitHubError, GitHubNotFound, RateLimited, StoreUnavailable
from coven.github.models import InstallationInfo, PurchaseInfo
from coven.recovery import recover_deliveries
from coven.services import Services
from coven.store import installations, plans, sweeps
from coven.store.installations import Installation
from coven.tenancy import redelivery
from coven.tenancy.facts import Account, InstallationSeen, Repo
from coven.tenancy.plans import ACTIVE, TRIAL, Plan
from coven.values import InstallationId

MAX_ACCOUNTS = 200
"""Plans that one round compares."""

MAX_LISTED = 100
"""Installations whose repositories one round lists."""
MAX_PAGES = 20
"""Pages of 100 repositories that are read of one installation; of more, none counts as gone."""
SKEW = timedelta(minutes=1)
"""What GitHub says is dated so much back: our clock may be ahead of the one that dates events."""

_log = structlog.get_logger(__name__)


def recover(services: Services) -> None:
    """Have deliveries sent again that never arrived. Raises ``StoreUnavailable``."""
    reach = redelivery.window(services.settings.github.api_base_url)
    try:
        done = recover_deliveries(services.store, services.github, services.clock, reach)
    except StoreUnavailable:
        raise
    except CovenError as error:
        _log.warning("recovery_put_off", why=services.redactor.text(str(error)))
        return
    if done.asked or done.given_up or done.refused:
        _log.warning(
            "deliveries_recovered",
            seen=done.seen,
            asked=[missed.guid for missed in done.asked[:20]],
            given_up=[missed.guid for missed in done.given_up[:20]],
            refused=len(done.refused),
        )


def reconcile(services: Services) -> None:
    """Take over what GitHub says about installations and plans. Raises ``StoreUnavailable``."""
    for part in (_installations, _repositories, _plans):
        try:
            part(services)
        except GitHubError as error:
            why = services.redactor.text(str(error))
            _log.warning("reconciliation_put_off", part=part.__name__.strip("_"), why=why)


def _installations(services: Services) -> None:
    asked_at = services.clock.now()
    listed = list(services.github.list_installations())
    for info in listed:
        with services.store.write("reconcile.installation") as tx:
            installations.reconciled(
                InstallationId(info.id),
                tx,
                seen_of(info, services),
                info.suspended,
                services.clock.now(),
            )
    with services.store.read() as tx:
        standing = sweeps.standing_installations(tx)
    ids = {info.id for info in listed}
    for known in standing:
        # One that was learned of after the list was made may well be missing in it.
        if known.id not in ids and known.learned_at < asked_at:
            _confirm_gone(services, known)


def _confirm_gone(services: Services, known: Installation) -> None:
    try:
        services.github.installation(known.id)
    except GitHubNotFound:
        now = services.clock.now()
        with services.store.write("reconcile.gone") as tx:
            installations.gone(known.id, tx, "the App is not installed there any more", now, now)
        _log.warning("installation_gone", installation=known.id)


def _repositories(services: Services) -> None:
    with services.store.read() as tx:
        tenants = sweeps.installations_to_list(tx, MAX_LISTED)
    for tenant in tenants:
        asked_at = services.clock.now()
        try:
            found, complete = services.github.installation_repositories(tenant, MAX_PAGES)
        except GitHubError as error:
            # Suspended or gone since, or limited: the others are asked all the same.
            _log.info("repositories_not_listed", installation=tenant, why=str(error))
            found, complete = [], False
        told = [Repo(r.id, f"{r.owner}/{r.name}", r.private, r.archived) for r in found]
        with services.store.write("reconcile.repositories") as tx:
            changed = installations.listed(
                tenant, tx, told, complete, asked_at - SKEW, services.clock.now()
            )
        if changed:
            _log.info("repositories_corrected", installation=tenant, changed=changed)


def _plans(services: Services) -> None:
    for account in _accounts(services):
        asked_at, seen = services.clock.now(), None
        try:
            seen = plan_of(services.github.purchase(account), services)
        except GitHubNotFound:
            pass  # it has no plan
        except RateLimited:
            raise
        except GitHubError as error:
            _log.info("plan_not_compared", account=account, why=str(error))
            continue
        with services.store.write("reconcile.plan") as tx:
            if plans.reconcile(tx, seen, account, asked_at, services.clock.now()):
                _log.warning("plan_corrected", account=account, state=seen and seen.state)


def _accounts(services: Services) -> list[int]:
    """Accounts with a plan, longest not compared first; where plans are needed, others in turn."""
    with services.store.read() as tx:
        known = sweeps.accounts_with_plans(tx, MAX_ACCOUNTS)
        standing = sweeps.standing_installations(tx)
    if not services.settings.billing.require_plan:
        return known
    others = sorted({i.account_id for i in standing if i.account_id is not None} - set(known))
    first = int(services.clock.now().timestamp() // 3600) * MAX_ACCOUNTS % max(len(others), 1)
    return known + (others[first:] + others[:first])[:MAX_ACCOUNTS]


def seen_of(info: InstallationInfo, services: Services) -> InstallationSeen:
    """What the API says, as the fact that an event would tell, as of now."""
    account = None
    if info.account_id is not None:
        account = Account(info.account_id, info.account_login, info.account_type)
    return InstallationSeen(
        account,
        services.clock.now() - SKEW,
        selection=info.selection,
        permissions=tuple(sorted(info.permissions.items())),
        events=info.events,
    )


def plan_of(info: PurchaseInfo, services: Services) -> Plan:
    """What the Marketplace says about an account."""
    return Plan(
        account_id=info.account_id,
        state=TRIAL if info.on_free_trial else ACTIVE,
        effective_at=info.updated_at or services.clock.now(),
        account_login=info.account_login,
        account_type=info.account_type,
        plan_id=info.plan_id,
        plan_name=info.plan_name,
        unit_count=info.unit_count,
        trial_ends_at=info.free_trial_ends_on,
        next_billing_at=info.next_billing_date,
        pending=_pending(info),
        pending_at=info.pending_at,
    )


def _pending(info: PurchaseInfo) -> dict[str, Any] | None:
    if info.pending_at is None:
        return None
    return {
        "plan_id": info.pending_plan_id,
        "plan_name": info.pending_plan_name,
        "unit_count": info.pending_units,
    }
