"""Memory around a session: what it may know, what it is handed, and what is made of its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from coven.contract.memory import MemoryUsed
from coven.contract.result import Result
from coven.errors import StoreUnavailable
from coven.memory.book import Entry, NewEntry, Refusal, Source
from coven.memory.keys import MemoryKey
from coven.memory.policy import Grant, MemoryFacts, grant_for
from coven.memory.record import KEY, record
from coven.memory.supply import Supply, supply
from coven.memory.validation import Decision, Judged, Kind, Reason, judge_memory
from coven.metrics import MEMORY
from coven.redaction import Redactor
from coven.services import Services
from coven.settings.models import Settings
from coven.store import book
from coven.store.engine import Tx
from coven.store.tasks import Ending, Task
from coven.values import TaskState
from worker.workspace.names import reserved_branch

BRIEF_BYTES = 15 * 1024
"""Room for entries in the brief; some is left for what redaction may lengthen."""

_REASONS = {
    Refusal.REVOKED_KEY: Reason.REVOKED,
    Refusal.UNTRUSTED: Reason.OUT_OF_SCOPE,
    Refusal.OTHER_OWNER: Reason.OUT_OF_SCOPE,
}
"""How a refusal of the book is called in the contract; all others are of low confidence."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """What one attempt was granted, and what it was handed of it."""

    grant: Grant
    supply: Supply


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a session reported, judged, on its way into the ledgers."""

    grant: Grant | None
    judged: Judged
    attempt: int
    redactor: Redactor


def hand_out(services: Services, task: Task, redactor: Redactor) -> SessionMemory:
    """Decide what the run may know, and note what it is handed, before it is handed anything.

    Written down by itself, so that it stands whichever way the session ends. Raises
    ``StoreUnavailable`` when it can't be written down: the attempt comes again.
    """
    now = services.clock.now()
    grant = granted(services.settings, task, _denied(services, task))
    if not grant.policy.enabled:
        return SessionMemory(grant, Supply())
    with services.store.write("memory.supply") as tx:
        book.follow(task.installation_id, tx, task.repo_id, task.repo)
        shared = "tenant_shared" in grant.policy.read_scopes
        usable = book.usable(task.installation_id, tx, task.repo_id, now, shared=shared)
        handed = supply(grant.policy, usable, BRIEF_BYTES, now, redactor.text)
        book.supplied(task.installation_id, tx, task.id, task.repo_id, handed.entries, now)
    return SessionMemory(grant, handed)


def granted(settings: Settings, task: Task, denied: Sequence[str] | None) -> Grant:
    """What this run may read and propose, from the facts of the second look."""
    head_ref = task.head_ref
    if head_ref is None and not task.is_pull:
        head_ref = reserved_branch(task.familiar_id, task.verb, task.thread, task.id)
    facts = MemoryFacts(
        installation_id=task.installation_id,
        account_id=task.account_id,
        account_login=task.account_login,
        repo_id=task.repo_id,
        repo=task.repo,
        visibility=task.repo_visibility,
        default_branch=task.default_branch,
        base_ref=task.base_ref,
        head_ref=head_ref,
        # A pull request whose head is not known is nobody's own.
        same_repo=not task.is_pull or task.head_repo_id == task.repo_id,
        trust=task.trust_scope,
        content_trust=task.content_trust,
    )
    return grant_for(settings, facts, denied)


def judged(
    services: Services,
    task: Task,
    memory: SessionMemory | None,
    result: Result,
    redactor: Redactor,
    attempt: int,
) -> MemoryReport:
    """The decisions on what the run reported, against what was sent and what is revoked by now."""
    now = services.clock.now()
    grant = memory.grant if memory is not None else None
    report = result.memory_used
    denied = _denied(services, task) if report is not None else ()
    known = _known(services, task, report, now)
    found = judge_memory(grant, report, denied, redactor, now, known)
    if found.alarms:
        _log.error("memory_read_beyond_grant", task=task.id, entries=len(found.alarms))
    return MemoryReport(grant, found, attempt, redactor)


def keep_report(
    services: Services, tx: Tx, task: Task, report: MemoryReport, ending: Ending
) -> Ending:
    """Bring a report into the book, in the transaction that ends the task.

    Accepted proposals wait there for a maintainer, or are approved when the policy asks for no
    approval and the run says that it applied them. A session that did not complete teaches
    nothing. Returns the ending with the final decisions: what was revoked since they were made is
    refused here.
    """
    final = note_report(services, tx, task, report, kept=ending.state is TaskState.COMPLETED)
    if KEY not in (ending.result or {}):
        return ending
    stands = report.redactor.tree(record(report.grant, final))
    return replace(ending, result={**(ending.result or {}), KEY: stands})


def note_report(
    services: Services, tx: Tx, task: Task, report: MemoryReport, *, kept: bool = False
) -> Judged:
    """Note all decisions; with ``kept`` accepted proposals go into the book first."""
    final: list[Decision] = []
    full = False
    for each in report.judged.decisions:
        decision = each
        if kept and decision.kind is Kind.PROPOSED and decision.accepted:
            # Once the book takes no more of this run, it is not asked ten thousand times.
            decision = (
                _refused(each, Refusal.TOO_MANY)
                if full
                else _propose(services, tx, task, report, each)
            )
            full = full or decision.detail == Refusal.TOO_MANY
        final.append(decision)
        services.meter.count(MEMORY, decision.kind, decision.reason or "accepted")
    if final:
        now = services.clock.now()
        book.record(task.installation_id, tx, task.id, task.repo_id, report.attempt, final, now)
    return Judged(tuple(final), report.judged.at)


def _propose(
    services: Services, tx: Tx, task: Task, report: MemoryReport, decision: Decision
) -> Decision:
    assert report.grant is not None
    assert decision.target is not None
    shared = decision.scope == "tenant_shared"
    days = services.settings.memory.retention_days
    decided = book.propose(
        task.installation_id,
        tx,
        NewEntry(
            repo_id=None if shared else task.repo_id,
            repo=None if shared else task.repo,
            key=MemoryKey.parse(decision.target),
            summary=decision.summary or "",
            source=Source.RUN,
            trust=report.grant.writer,
            task_id=task.id,
            head_sha=task.head_sha,
            thread=task.thread,
            familiar_id=task.familiar_id,
            actor_id=task.actor_id,
            actor_login=task.actor_login,
            author_id=task.author_id,
            author_login=task.author_login,
        ),
        services.clock.now(),
        keep=timedelta(days=days) if days is not None else None,
        approved=not report.grant.policy.approval_required and decision.approval != "pending",
    )
    if decided.refused is not None:
        return _refused(decision, decided.refused)
    return replace(decision, entry=decided.entry.id if decided.entry else None)


def _refused(decision: Decision, refusal: Refusal) -> Decision:
    reason = _REASONS.get(refusal, Reason.LOW_CONFIDENCE)
    return replace(decision, reason=reason, detail=refusal.value)


def _denied(services: Services, task: Task) -> tuple[str, ...] | None:
    """What is revoked for this run; None when that can't be read or understood."""
    try:
        with services.store.read() as tx:
            return book.denied(task.installation_id, tx, task.repo_id, task.repo)
    except (StoreUnavailable, ValueError) as error:
        _log.error("memory_revocations_unreadable", task=task.id, why=str(error))
        return None


def _known(
    services: Services, task: Task, report: MemoryUsed | None, now: datetime
) -> dict[str, Entry]:
    if report is None or not report.read:
        return {}
    reads = [read.id for read in report.read]
    with services.store.read() as tx:
        return book.known(task.installation_id, tx, task.repo_id, task.repo, reads, now)
