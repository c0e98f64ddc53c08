"""The reconciler: lease a surface, find its object, act, write back, until nothing differs.

A crash at any line is healed by the next try, because every try but a first one looks for its
object before it creates one. Whoever lost the lease writes nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType

import structlog
from pydantic import ValidationError

from coven.errors import CovenError, LeaseLost, RateLimited, StoreUnavailable
from coven.github.roles import Role
from coven.github_limits import CREATIONS_PER_HOUR, CREATIONS_PER_MINUTE
from coven.governance.context import Acting, acting
from coven.metrics import FIRST_SURFACE
from coven.services import Services
from coven.store import pacing, surfaces, tasks
from coven.store.engine import Tx
from coven.store.surfaces import Surface
from coven.store.tasks import Task
from coven.telemetry import bound
from coven.tracing import within
from coven.values import SurfaceKind, SurfaceState, TaskId, new_token
from worker.publish import (
    check_run,
    feedback,
    pull_request,
    reaction,
    reply,
    review,
    status_comment,
)
from worker.publish.decide import (
    MAX_TRIES,
    Decision,
    creation_allowed_at,
    decide,
)
from worker.publish.hold import Hold, Published, lease_secs

_log = structlog.get_logger(__name__)

MAX_SURFACES = 50
"""Surfaces of one task that one wake-up publishes."""
MAX_ROUNDS = 5
"""How often in a row one surface is published because it changed meanwhile."""

KINDS: Mapping[SurfaceKind, Callable[[Hold], Published]] = MappingProxyType(
    {
        SurfaceKind.CHECK_RUN: check_run.publish,
        SurfaceKind.STATUS_COMMENT: status_comment.publish,
        SurfaceKind.REPLY: reply.publish,
        SurfaceKind.REVIEW: review.publish,
        SurfaceKind.PULL_REQUEST: pull_request.publish,
        SurfaceKind.REACTION: reaction.publish,
    }
)


def publish_task(services: Services, task_id: TaskId) -> int:
    """Publish every due surface of a task; returns how many are still pending.

    GitHub's failures are recorded on the surface and never raised. Raises ``StoreUnavailable``,
    and an unexpected error after the other surfaces had their turn.
    """
    unexpected: Exception | None = None
    for _ in range(MAX_SURFACES):
        with services.store.read() as tx:
            surface = surfaces.next_due_of_task(tx, task_id, services.clock.now())
        if surface is None:
            break
        try:
            publish_surface(services, surface)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - raised below, after the other surfaces
            unexpected = unexpected or error
    if unexpected is not None:
        raise unexpected
    return _pending(services, task_id)


def publish_surface(services: Services, surface: Surface) -> Surface | None:
    """Make GitHub equal to one surface. The row afterwards, or None when it is not ours to touch.

    Raises ``StoreUnavailable``; an unexpected error is recorded and raised.
    """
    row: Surface | None = surface
    for _ in range(MAX_ROUNDS):
        if row is None or _deferred(services, row):
            return row
        row = _once(services, row)
        if row is None or row.state is not SurfaceState.PENDING or row.error is not None:
            return row
    return row


def _once(services: Services, surface: Surface) -> Surface | None:
    token = new_token()
    timeout = services.settings.github.timeout_secs
    with services.store.write("publish.lease") as tx:
        row = surfaces.lease(
            surface.installation_id,
            tx,
            surface.id,
            token,
            services.clock.now(),
            lease_secs(timeout),
        )
        if row is None:
            return None
        task = tasks.get(row.installation_id, tx, row.task_id)
    if row.tries > MAX_TRIES:
        return _settle(services, row, token, Decision(None, f"given up after {MAX_TRIES} tries"))
    try:
        with (
            within(task.traceparent if task else None),
            bound(task=row.task_id, installation=row.installation_id),
            acting(_showing(row, task)),
        ):
            hold = Hold(
                services=services,
                client=services.github.for_repo(
                    row.installation_id, row.repo_id, row.repo, Role.PUBLISH
                ),
                surface=row,
                token=token,
                started_at=task.started_at if task else None,
                finished_at=task.finished_at if task else None,
            )
            return _publish(hold)
    except StoreUnavailable:
        raise
    except LeaseLost:
        return None
    except CovenError as error:
        return _settle(services, row, token, decide(error, row.tries, _jitter(token)), error)
    except ValidationError as error:
        reason = f"the desired content can't be read: {error.error_count()} problems"
        return _settle(services, row, token, Decision(None, reason))
    except Exception as error:
        # Never only in a lease that quietly expires: the row says what happened.
        _settle(services, row, token, decide(error, row.tries, _jitter(token)))
        raise


def _showing(row: Surface, task: Task | None) -> Acting:
    """For whom it is published. People always learn how their work stands, whatever rules say."""
    return Acting(
        installation=row.installation_id,
        repo_id=row.repo_id,
        repo=str(row.repo),
        familiar=task.familiar_id if task else None,
        task_id=row.task_id,
        publishing=row.kind in (SurfaceKind.CHECK_RUN, SurfaceKind.STATUS_COMMENT),
    )


def _publish(hold: Hold) -> Surface | None:
    row = hold.surface
    kind = KINDS.get(row.kind)
    if kind is None:
        reason = f"this release does not publish {row.kind}"
        return _settle(hold.services, row, hold.token, Decision(None, reason))
    done = kind(hold)
    hold.point("acted")
    with hold.services.store.write("publish.store") as tx:
        after = surfaces.published(
            row.installation_id,
            tx,
            row.id,
            hold.token,
            hold.services.clock.now(),
            row.desired_hash,
            done.object_id,
            done.url,
        )
        if after is not None:
            feedback.was_published(tx, row, hold.services.clock.now())
            _note_first(hold.services, tx, row)
    hold.point("stored")
    if after is not None:
        _log.info("surface_published", kind=row.kind, object=done.object_id)
    return after


def _note_first(services: Services, tx: Tx, row: Surface) -> None:
    """Measure how long people waited for the first sign of a task."""
    mine = surfaces.of_task(row.installation_id, tx, row.task_id)
    seen = any(each.published_at is not None for each in mine if each.id != row.id)
    task = tasks.get(row.installation_id, tx, row.task_id)
    if task is not None and row.published_at is None and not seen:
        waited = services.clock.now() - task.created_at
        services.meter.observe(FIRST_SURFACE, waited.total_seconds(), task.lane)


def _settle(
    services: Services,
    row: Surface,
    token: str,
    decision: Decision,
    error: CovenError | None = None,
) -> Surface | None:
    now = services.clock.now()
    reason = services.redactor.text(decision.reason)
    _log.warning(
        "surface_given_up" if decision.delay_secs is None else "surface_put_off",
        task=row.task_id,
        installation=row.installation_id,
        kind=row.kind,
        why=reason,
    )
    with services.store.write("publish.settle") as tx:
        if decision.delay_secs is None:
            if surfaces.give_up(row.installation_id, tx, row.id, token, now, reason):
                feedback.was_given_up(tx, row, error.public if error else reason, now)
        else:
            until = now + timedelta(seconds=decision.delay_secs)
            surfaces.postpone(row.installation_id, tx, row.id, token, now, until, reason)
            if isinstance(error, RateLimited):
                pacing.defer(row.installation_id, tx, now, until, None)
        return surfaces.get(row.installation_id, tx, row.id)


def _deferred(services: Services, row: Surface) -> bool:
    """Whether the installation has to wait; then this surface does, without counting a try."""
    now = services.clock.now()
    with services.store.read() as tx:
        until = pacing.held_until(row.installation_id, tx, now)
        if until is None and row.object_id is None:
            minute = pacing.nth_publication(
                row.installation_id, tx, now - timedelta(minutes=1), CREATIONS_PER_MINUTE
            )
            hour = pacing.nth_publication(
                row.installation_id, tx, now - timedelta(hours=1), CREATIONS_PER_HOUR
            )
            until = creation_allowed_at(minute, hour, now)
    if until is None or until <= now:
        return False
    with services.store.write("publish.defer") as tx:
        pacing.defer(row.installation_id, tx, now, until, row.id)
    return True


def _pending(services: Services, task_id: TaskId) -> int:
    with services.store.read() as tx:
        task = tasks.locate(tx, task_id)
        if task is None:
            return 0
        mine = surfaces.of_task(task.installation_id, tx, task_id)
    return sum(surface.state is SurfaceState.PENDING for surface in mine)


def _jitter(token: str) -> float:
    # The lease token is random already; a number in [0, 1) out of it.
    return int(token[:8], 16) / 0x1_0000_0000
