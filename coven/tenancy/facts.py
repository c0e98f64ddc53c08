"""What GitHub's events tell about tenants, as plain facts. Pure data.

Each fact says how something *is*, as of ``at``: the time that the payload states. Deliveries
arrive late, twice and out of order, so a ledger takes a fact only when it knows nothing newer.
``None`` means that the payload does not say: it never means "no", and never overwrites what is
known. Identity is the numeric id; names are for people and may change at any time.

Facts about an installation go to ``coven.store.installations.learn``. A marketplace purchase
belongs to an account and names no installation: it goes to ``coven.store.plans.learn``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Account:
    """The owner of an installation or a repository. ``kind``: ``User``, ``Organization``, …."""

    id: int
    login: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository as one payload shows it."""

    id: int
    full_name: str | None = None
    private: bool | None = None
    archived: bool | None = None
    default_branch: str | None = None


@dataclass(frozen=True, slots=True)
class InstallationSeen:
    """Installed, or its grant changed (``created``, ``new_permissions_accepted``).

    ``permissions``: pairs of name and level. ``selection``: ``all`` or ``selected``. ``repos``:
    what the payload lists; with ``selected`` and ``created`` that is every repository.
    """

    account: Account | None
    at: datetime | None
    created: bool = False
    """A new installation: what was known under this id has ended before."""
    selection: str | None = None
    permissions: tuple[tuple[str, str], ...] | None = None
    events: tuple[str, ...] | None = None
    repos: tuple[Repo, ...] = ()


@dataclass(frozen=True, slots=True)
class InstallationRemoved:
    """Uninstalled. Final: everything of this tenant is to be purged."""

    account: Account | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class InstallationSuspended:
    """Suspended (``suspended``), or taken up again."""

    suspended: bool
    account: Account | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class RepositoriesSelected:
    """Repositories that the installation gained or lost."""

    added: tuple[Repo, ...]
    removed: tuple[Repo, ...]
    selection: str | None
    account: Account | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class AccountRenamed:
    """The account of the installation has another login now."""

    account: Account
    former_login: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """The account that owns a repository of this installation: told by every event.

    For installations that are older than this deployment. ``repo``: where the event happened.
    """

    account: Account
    repo: Repo
    at: datetime | None


RepositoryChange = Literal[
    "created",
    "edited",
    "renamed",
    "transferred",
    "privatized",
    "publicized",
    "archived",
    "unarchived",
]


@dataclass(frozen=True, slots=True)
class RepositoryChanged:
    """A repository is now as ``repo`` and ``owner`` say."""

    change: RepositoryChange
    repo: Repo
    owner: Account | None
    at: datetime | None
    former_name: str | None = None
    """The name (without owner) before a renaming."""
    former_owner: Account | None = None
    """Whose it was before a transfer."""


@dataclass(frozen=True, slots=True)
class RepositoryDeleted:
    """The repository is gone. Its id is never used again; its name may be."""

    repo: Repo
    owner: Account | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Purchase:
    """One state of a marketplace subscription, as written in the payload."""

    plan_id: int | None
    plan_name: str | None
    unit_count: int | None
    billing_cycle: str | None
    on_free_trial: bool | None
    free_trial_ends_on: datetime | None
    next_billing_date: datetime | None


PurchaseAction = Literal[
    "purchased", "changed", "cancelled", "pending_change", "pending_change_cancelled"
]


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """A marketplace purchase. ``at``: its effective date, which lies ahead for pending changes."""

    action: PurchaseAction
    account: Account
    purchase: Purchase
    previous: Purchase | None
    at: datetime | None


InstallationFact = (
    InstallationSeen
    | InstallationRemoved
    | InstallationSuspended
    | RepositoriesSelected
    | AccountRenamed
    | AccountSeen
    | RepositoryChanged
    | RepositoryDeleted
)
"""Facts about one installation."""

Fact = InstallationFact | PlanChanged
"""Everything that events tell about tenants."""
