"""A finished review: judged, compared with what stands, and stated on every surface."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import structlog

from coven import texts_review as texts
from coven.contract.exit_codes import Verdict
from coven.contract.result import Result
from coven.github.models import PullRequest
from coven.github.repo_client import RepoClient
from coven.memory.record import KEY as MEMORY
from coven.memory.record import record, refusals
from coven.publication import (
    DEEPEN_BUTTON,
    FIX_BUTTON,
    CheckAction,
    ReviewContent,
    review_subject,
    status_comment_subject,
)
from coven.services import Services
from coven.settings.models import ReviewPolicy
from coven.store import surfaces, tasks
from coven.store.tasks import Ending, Task
from coven.surfacing import Surfacing, check_run, status_comment, voice_of, work_of
from coven.texts import spoken, with_section
from coven.texts_review import FindingText, Links, ReviewReport
from coven.values import Conclusion, Lane, Severity, SurfaceKind, SurfaceState, TaskState
from worker import repo_file, settle, show
from worker.attempt import Attempt
from worker.memory import MemoryReport, judged
from worker.requeue_head import queue_new_head
from worker.review import report as reports
from worker.review.conclusion import concluded_review
from worker.review.earlier import KEY, Known, read_back, stored
from worker.review.report import Facts, Reviewed
from worker.review.source import existing_files

_log = structlog.get_logger(__name__)

LOOK_BACK = 30
"""Tasks of a thread among which earlier reviews are looked for."""
WITHHELD = "withheld"
"""Where the stored result says how many findings each gate kept back."""


def conclude_review(attempt: Attempt, client: RepoClient, verdict: Verdict, result: Result) -> None:
    """Settle a review that came to a result. Raises ``LeaseLost`` and ``CovenError``."""
    task, services = attempt.task, attempt.services
    pull = client.pull(task.thread)
    if pull.head_sha != task.head_sha:
        _stale(attempt, verdict, result, pull)
        return
    policy = services.settings.review.for_repo(task.repo)
    earlier = _earlier_reviews(services, task)
    reviewed = _judge(attempt, result, policy, earlier)
    memory = memory_of(attempt, result)
    report = replace(reviewed.report, memory_refused=refusals(memory.judged))
    voice, work = voice_of(services.settings, attempt.familiar, task), work_of(task)
    own_file = repo_file.problems_of_change(attempt.prepared) if attempt.prepared else None
    text = texts.check_review(voice, work, report, _links(services, attempt))
    check = check_run(
        task,
        attempt.familiar,
        voice,
        with_section(text, repo_file.section(own_file)),
        conclusion=concluded_review(
            report.evidence, [finding.severity for finding in report.findings], policy.fail_on
        ),
        annotations=[*repo_file.marks(own_file), *reviewed.annotations],
    )
    done = report.evidence == "complete"
    comment = status_comment(
        task,
        attempt.familiar,
        "done" if done else "partial",
        texts.comment_review(voice, work, report, digest=policy.publish == "advisory_comment"),
    )
    wanted = [
        with_actions(check, actions_for(task, report.findings)) if check else None,
        comment,
        _review_surface(attempt, report, policy, earlier),
    ]
    settle.finish(
        services,
        task,
        Ending(
            TaskState.COMPLETED,
            verdict.outcome,
            summary=spoken(report.summary) or texts.review_title(report),
            result_status=verdict.status,
            result=masked(attempt, result, memory)
            | {KEY: stored(reviewed.known), WITHHELD: dict(report.withheld)},
        ),
        attempt.closing(verdict.outcome),
        [surfacing for surfacing in wanted if surfacing],
        memory=memory,
    )


def actions_for(task: Task, findings: object) -> tuple[CheckAction, ...]:
    """The buttons of a finished review: nothing is fixed in somebody else's repository."""
    return (FIX_BUTTON, DEEPEN_BUTTON) if findings and not task.from_fork else (DEEPEN_BUTTON,)


def with_actions(surfacing: Surfacing, actions: tuple[CheckAction, ...]) -> Surfacing:
    """The same Check Run with buttons; only a finished review has annotations, and once."""
    content = surfacing.content.model_copy(update={"actions": actions, "first_marks": True})
    return Surfacing(surfacing.kind, surfacing.subject, content)


def memory_of(attempt: Attempt, result: Result) -> MemoryReport:
    """The decisions on the memory report, which stand beside the review and never against it."""
    memory = attempt.prepared.memory if attempt.prepared is not None else None
    return judged(attempt.services, attempt.task, memory, result, attempt.redactor, attempt.number)


def masked(attempt: Attempt, result: Result, memory: MemoryReport) -> dict[str, Any]:
    """The result as it is stored, with the decisions on memory in place of the raw report."""
    raw: dict[str, Any] = result.model_dump(mode="json", exclude={"memory_used"})
    if result.memory_used is not None:
        raw[MEMORY] = record(memory.grant, memory.judged)
    return {key: attempt.redactor.tree(value) for key, value in raw.items()}


def is_serious(severity: Severity, policy: ReviewPolicy) -> bool:
    """Whether a finding of this severity asks for changes (high, unless ``fail_on`` says)."""
    threshold = Severity.HIGH if policy.fail_on == "none" else Severity(policy.fail_on)
    return severity.rank >= threshold.rank


def _judge(attempt: Attempt, result: Result, policy: ReviewPolicy, earlier: list[Task]) -> Reviewed:
    prepared, task = attempt.prepared, attempt.task
    assert prepared is not None
    assert task.head_sha is not None
    last = next((each for each in earlier if read_back(each.result) is not None), None)
    known = (read_back(last.result) if last else None) or []
    if policy.publish in ("review", "request_changes"):
        known = _posted(attempt.services, task, known)
    return reports.review(
        result,
        Facts(
            changes=prepared.changes,
            sha=task.head_sha,
            floor=policy.min_severity,
            clean=attempt.redactor.text,
            exists=lambda names: existing_files(prepared, names),
            before=known,
            before_sha=last.head_sha if last else None,
            notes=prepared.workspace.notes,
            attempts=task.attempts_used,
            seconds=time.monotonic() - attempt.began,
        ),
    )


def _earlier_reviews(services: Services, task: Task) -> list[Task]:
    """Completed reviews of this thread by this familiar, newest first."""
    with services.store.read() as tx:
        found = tasks.on_thread(
            task.installation_id, tx, task.repo_id, task.thread, limit=LOOK_BACK
        )
    return [
        each
        for each in found
        if each.id != task.id
        and each.lane is Lane.REVIEW
        and each.familiar_id == task.familiar_id
        and each.state is TaskState.COMPLETED
    ]


def _posted(services: Services, task: Task, known: list[Known]) -> list[Known]:
    """Those that stand in a review that was, or still will be, posted: the rest is said again."""
    stands = {
        sha: surface is not None and surface.state is not SurfaceState.FAILED
        for sha, surface in (
            (sha, _review_of(services, task, sha)) for sha in {each.since for each in known}
        )
    }
    return [each for each in known if stands[each.since]]


def _review_of(services: Services, task: Task, sha: str) -> surfaces.Surface | None:
    with services.store.read() as tx:
        return surfaces.find(
            task.installation_id,
            tx,
            task.repo_id,
            SurfaceKind.REVIEW,
            review_subject(sha, task.familiar_id),
        )


def _review_surface(
    attempt: Attempt, report: ReviewReport, policy: ReviewPolicy, earlier: list[Task]
) -> Surfacing | None:
    if policy.publish not in ("review", "request_changes"):
        return None
    task, services = attempt.task, attempt.services
    assert task.head_sha is not None
    standing = [*(f.severity for f in report.findings), *(f.severity for f in report.unseen)]
    serious = any(is_serious(severity, policy) for severity in standing)
    asked = any(
        surface is not None and surface.desired.get("event") == "REQUEST_CHANGES"
        for surface in (
            _review_of(services, task, sha)
            for sha in {each.head_sha for each in earlier if each.head_sha}
        )
    )
    withdraw = texts.WITHDRAWN if asked and not serious else None
    fresh: list[FindingText] = report.fresh
    if not fresh and withdraw is None:
        return None  # What remains stands in the earlier review and in the status comment.
    voice, work = voice_of(services.settings, attempt.familiar, task), work_of(task)
    comments, beside = reports.inline_comments(report)
    body = ""
    if fresh:
        body = texts.review_body(voice, work, report, inline_count=len(comments), off_diff=beside)
    asks = policy.publish == "request_changes" and serious
    return Surfacing(
        SurfaceKind.REVIEW,
        review_subject(task.head_sha, attempt.familiar.id),
        ReviewContent(
            thread=task.thread,
            familiar_id=attempt.familiar.id,
            sha=task.head_sha,
            event="REQUEST_CHANGES" if asks else "COMMENT",
            body=body,
            comments=tuple(comments),
            withdraw=withdraw,
        ),
    )


def _links(services: Services, attempt: Attempt) -> Links:
    task = attempt.task
    with services.store.read() as tx:
        comment = surfaces.find(
            task.installation_id,
            tx,
            task.repo_id,
            SurfaceKind.STATUS_COMMENT,
            status_comment_subject(task.thread, attempt.familiar.id),
        )
    base = services.settings.github.html_base_url.rstrip("/")
    return Links(
        pull=f"{base}/{task.repo}/pull/{task.thread}",
        comment=comment.object_url if comment else None,
    )


def _stale(attempt: Attempt, verdict: Verdict, result: Result, pull: PullRequest) -> None:
    task, services = attempt.task, attempt.services
    why = (
        f"Reviewed `{task.head_sha}`, but the head is now `{pull.head_sha}`. "
        "The findings are about code that was replaced, so they are not shown."
    )
    settle.finish(
        services,
        task,
        Ending(TaskState.SUPERSEDED, "stale", detail=why, result_status=verdict.status),
        attempt.closing("stale", why),
        show.ended(
            services.settings,
            task,
            attempt.familiar,
            state="superseded",
            conclusion=Conclusion.NEUTRAL,
            title="Superseded by a newer commit",
            why=why,
            next_step="The new head is reviewed on its own; ask for a review if it is not.",
        ),
        memory=memory_of(attempt, result),
    )
    queue_new_head(services, task, pull)
