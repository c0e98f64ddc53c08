"""What GitHub's answers about a person come to: per installation a scope and repositories. Pure.

Write access to a repository lets its memory be decided there, as a command on a thread would. Only
the account itself decides for all repositories of its installation. Reading needs rights that
somebody gave: that a public repository can be read by anybody proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from coven.api_tokens import TokenScope
from coven.github.oauth import AppInstallation, OAuthPerson
from webhooks.dashboard.sessions import Grant

MOST_REPOS = 60
"""Of one installation; more do not fit into a cookie. The first ones by name are taken."""
MOST_INSTALLATIONS = 20

_WRITES = frozenset({"admin", "maintain", "push"})


def grants_of(person: OAuthPerson, found: Iterable[AppInstallation]) -> tuple[Grant, ...]:
    """The grants of a person; installations without any right are left out."""
    grants = [grant for each in found if (grant := _grant(person, each)) is not None]
    return tuple(sorted(grants, key=lambda each: each.installation)[:MOST_INSTALLATIONS])


def _grant(person: OAuthPerson, found: AppInstallation) -> Grant | None:
    if found.account_id == person.id:
        return Grant(found.id, TokenScope.MEMORY_WRITE)
    writes = sorted(r.full_name for r in found.repos if r.rights & _WRITES)
    if writes:
        return Grant(found.id, TokenScope.MEMORY_WRITE, tuple(writes[:MOST_REPOS]))
    reads = sorted(
        r.full_name for r in found.repos if "triage" in r.rights or (r.private and r.rights)
    )
    if reads:
        return Grant(found.id, TokenScope.READ, tuple(reads[:MOST_REPOS]))
    return None
