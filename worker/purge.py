"""Carrying out purges: step by step, in batches, again after a failure, and noted for audit.

A step that is through is never done twice, and a repository that is back withdraws its purge
between two steps.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import structlog

from coven.errors import CovenError
from coven.services import Services
from coven.store import api_tokens, book_retention, chain, escalations, purges, sweeps
from coven.store.engine import Tx
from coven.store.purges import KEEP_ROWS, Purge
from coven.values import RepoId
from worker.workspace.checkout import Workspaces
from worker.workspace.upkeep import forget_installation

BATCH = 500
LOOK_AGAIN = timedelta(seconds=5)
"""How soon a session that was asked to stop is looked for again."""
BACKOFF_BASE = timedelta(seconds=30)
BACKOFF_CAP = timedelta(hours=1)

_log = structlog.get_logger(__name__)

Drop = Callable[[Tx, Purge], int]


def purge_due(services: Services) -> None:
    """Go on with every purge whose time has come. Raises ``StoreUnavailable``."""
    with services.store.read() as tx:
        due = sweeps.due_purges(tx, services.clock.now())
    for purge in due:
        try:
            _carry_on(services, purge)
        except (CovenError, OSError) as error:
            _put_off(services, purge, error)


def _carry_on(services: Services, purge: Purge) -> None:
    tenant, repo = purge.installation_id, RepoId(purge.repo_id)
    now = services.clock.now()
    if "sessions" not in purge.steps:
        with services.store.write("purge.sessions") as tx:
            running = purges.stop_sessions(tenant, tx, repo, purge.reason, now)
            if running:
                purges.put_off(tenant, tx, purge, now + LOOK_AGAIN, None)
                return
            current = purges.note(tenant, tx, purge, "sessions", 0)
    else:
        current = purge
    for step, drop in _steps(purge):
        if current is None:
            return  # withdrawn
        if step in current.steps:
            continue
        removed = _drop_all(services, current, drop)
        with services.store.write("purge.note") as tx:
            current = purges.note(tenant, tx, current, step, removed)
    if current is None:
        return
    if "mirrors" not in current.steps:
        _forget_mirrors(services, current)
        with services.store.write("purge.note") as tx:
            current = purges.note(tenant, tx, current, "mirrors", 1)
    if current is None:
        return
    with services.store.write("purge.finish") as tx:
        finished = purges.finish(tenant, tx, current, services.clock.now())
    if finished:
        _log.warning(
            "purge_finished",
            installation=tenant,
            repo=purge.repo_id or None,
            reason=purge.reason,
            **{f"removed_{step}": count for step, count in current.steps.items()},
        )


def _steps(purge: Purge) -> list[tuple[str, Drop]]:
    if KEEP_ROWS in purge.steps:
        return []
    tenant, repo = purge.installation_id, RepoId(purge.repo_id)
    steps: list[tuple[str, Drop]] = [
        (
            "memory",
            lambda tx, _: book_retention.purge(tenant, tx, repo_id=repo or None, batch=BATCH),
        ),
        ("escalations", lambda tx, _: escalations.purge(tenant, tx, repo or None)),
        ("surfaces", lambda tx, _: purges.drop_surfaces(tenant, tx, repo, BATCH)),
        ("tasks", lambda tx, _: purges.drop_tasks(tenant, tx, repo, BATCH)),
        ("deliveries", lambda tx, _: purges.blank_deliveries(tenant, tx, repo, BATCH)),
    ]
    if not repo:
        steps.append(("labels", lambda tx, _: purges.drop_labels(tenant, tx)))
        at = purge.requested_at
        # The chain of hashes stays; what it said about this account goes.
        steps.append(("audit", lambda tx, _: chain.empty_payloads(tx, at, tenant)))
        steps.append(("api_tokens", lambda tx, _: api_tokens.revoke_all(tenant, tx, at)))
    return steps


def _drop_all(services: Services, purge: Purge, drop: Drop) -> int:
    total = 0
    while True:
        with services.store.write("purge.drop") as tx:
            removed = drop(tx, purge)
        total += removed
        if removed == 0:
            return total


def _forget_mirrors(services: Services, purge: Purge) -> None:
    workspaces = Workspaces(services.settings, services.seam, services.clock, services.redactor)
    if purge.repo_id:
        workspaces.mirrors.discard(purge.installation_id, RepoId(purge.repo_id))
    else:
        forget_installation(workspaces.mirrors, purge.installation_id)


def _put_off(services: Services, purge: Purge, error: Exception) -> None:
    wait = min(BACKOFF_BASE * 2 ** min(purge.tries, 10), BACKOFF_CAP)
    why = services.redactor.text(str(error))
    _log.warning("purge_put_off", installation=purge.installation_id, why=why, tries=purge.tries)
    with services.store.write("purge.put_off") as tx:
        purges.put_off(purge.installation_id, tx, purge, services.clock.now() + wait, why)


def forget_gone(services: Services) -> int:
    """Remove this machine's mirrors of installations that are gone; how many folders went.

    Every worker machine has mirrors of its own, and a purge runs on one of them only.
    """
    workspaces = Workspaces(services.settings, services.seam, services.clock, services.redactor)
    root = workspaces.mirrors.root
    present = [int(folder.name) for folder in root.glob("*") if folder.name.isdigit()]
    if not present:
        return 0
    with services.store.read() as tx:
        gone = sweeps.gone_installations(tx, present)
    for tenant in gone:
        forget_installation(workspaces.mirrors, tenant)
    return len(gone)
