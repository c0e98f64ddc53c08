"""From an exit code and a result to an ending that people see."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from coven import texts
from coven.contract.exit_codes import Outcome, Verdict, judge
from coven.contract.result import Finding, Result
from coven.github.repo_client import RepoClient
from coven.github_limits import ANNOTATION_TITLE
from coven.markdown import plain
from coven.publication import Annotation, PullRequestContent, pull_request_subject
from coven.store.tasks import Ending
from coven.texts import FindingText, ReviewReport
from coven.values import Conclusion, Lane, Severity, SurfaceKind, TaskState
from worker import branch as branches
from worker import settle, show
from worker.attempt import Attempt
from worker.review.anchors import changed_lines
from worker.review.gates import gate, normal_path
from worker.show import LEVELS, Surfacing

MAX_ANNOTATIONS = 200
"""Annotations on one Check Run; further findings stand in its text."""


def conclude(attempt: Attempt, client: RepoClient) -> None:
    """Judge what came back and settle the task. Raises ``LeaseLost`` and ``CovenError``."""
    services, task = attempt.services, attempt.task
    assert attempt.end is not None
    assert attempt.reading is not None
    policy = services.settings.review.for_repo(task.repo)
    verdict = judge(
        attempt.end,
        attempt.reading,
        lane=task.lane,
        profile=services.settings.worker.profile,
        fail_on=policy.fail_on,
    )
    result = attempt.reading.result
    if verdict.retry:
        settle.retry_or_fail(
            services,
            task,
            attempt.familiar,
            attempt.closing(verdict.outcome, verdict.text),
            why=verdict.text,
            next_step="Write the command again when the cause is gone.",
            conclusion=verdict.conclusion,
            start_sha=_start(attempt),
        )
    elif result is not None and verdict.outcome in (Outcome.succeeded, Outcome.partial):
        if task.lane is Lane.REVIEW:
            _review(attempt, client, verdict, result)
        else:
            _fix(attempt, client, verdict, result)
    elif result is not None and verdict.outcome is Outcome.needs_input:
        _question(attempt, verdict, result)
    else:
        _failed(attempt, verdict, result)


def _review(attempt: Attempt, client: RepoClient, verdict: Verdict, result: Result) -> None:
    task, services = attempt.task, attempt.services
    head = client.pull(task.thread).head_sha
    if head != task.head_sha:
        _stale(attempt, verdict, head)
        return
    report, annotations = _report(attempt, result)
    voice, work = show.voice_of(services.settings, attempt.familiar, task), show.work_of(task)
    text = texts.check_review(voice, work, report)
    check = show.check_run(
        task,
        attempt.familiar,
        voice,
        text,
        conclusion=verdict.conclusion,
        annotations=annotations,
    )
    body = texts.comment_review(voice, work, report, None)
    state = "done" if report.evidence == "complete" else "partial"
    comment = show.status_comment(
        task, attempt.familiar, "done" if state == "done" else "partial", body
    )
    ending = Ending(
        TaskState.COMPLETED,
        verdict.outcome,
        summary=report.summary,
        result_status=verdict.status,
        result=_masked(attempt, result),
    )
    settle.finish(
        services,
        task,
        ending,
        attempt.closing(verdict.outcome),
        [surfacing for surfacing in (check, comment) if surfacing],
    )


def _report(attempt: Attempt, result: Result) -> tuple[ReviewReport, list[Annotation]]:
    assert attempt.prepared is not None
    changes = attempt.prepared.changes
    clean = attempt.redactor.text
    review = result.review
    gated = gate(
        review.findings,
        changed=[change.filename for change in changes.files],
        supporting=review.supporting_files,
        floor=attempt.services.settings.review.for_repo(attempt.task.repo).min_severity,
    )
    on_diff = changed_lines(changes.patch)
    found = [_finding_text(finding, on_diff, clean) for finding in gated.findings]
    annotations = [
        _annotation(finding) for finding in found if finding.anchored and finding.line is not None
    ]
    return (
        ReviewReport(
            summary=clean(result.summary),
            evidence=review.evidence_status,
            files_changed=len(changes.files),
            files_reviewed=[clean(path) for path in review.reviewed_files],
            supporting_files=[clean(path) for path in review.supporting_files],
            findings=found,
            withheld=gated.withheld,
            tests=[(clean(run.command), run.status) for run in review.tests_run],
            limitations=[
                *(clean(limit) for limit in review.limitations),
                *(["The diff was too large to be shown whole."] if changes.truncated else []),
            ],
            no_findings_reason=clean(review.no_findings_reason or "") or None,
            attempts=attempt.task.attempts_used,
            seconds=time.monotonic() - attempt.began,
        ),
        annotations[:MAX_ANNOTATIONS],
    )


def _finding_text(finding: Finding, on_diff: dict[str, set[int]], clean: show.Clean) -> FindingText:
    path = normal_path(finding.file)
    return FindingText(
        severity=Severity(finding.severity),
        file=clean(path),
        line=finding.line,
        title=clean(finding.title),
        body=clean(finding.body),
        recommendation=clean(finding.recommendation) if finding.recommendation else None,
        anchored=finding.line is not None and finding.line in on_diff.get(path, set()),
    )


def _annotation(finding: FindingText) -> Annotation:
    assert finding.line is not None
    return Annotation.model_validate(
        {
            "path": finding.file,
            "start_line": finding.line,
            "end_line": finding.line,
            "level": LEVELS[finding.severity],
            "title": plain(finding.title, ANNOTATION_TITLE),
            "message": texts.annotation_message(finding),
        }
    )


def _fix(attempt: Attempt, client: RepoClient, verdict: Verdict, result: Result) -> None:
    task, services = attempt.task, attempt.services
    assert attempt.prepared is not None
    delivered = branches.publish_branch(services, attempt.prepared, client, result)
    clean = attempt.redactor.text
    voice, work = show.voice_of(services.settings, attempt.familiar, task), show.work_of(task)
    summary = clean(result.summary)
    branch = delivered.branch if delivered else None
    text = texts.check_fix(
        voice,
        work,
        summary,
        branch,
        delivered.commits if delivered else 0,
        [clean(path) for path in (delivered.files if delivered else ())],
    )
    on_start = _start(attempt) if services.settings.checks.on_start_commit else None
    anchor = delivered.sha if delivered else on_start
    check = show.check_run(
        task,
        attempt.familiar,
        voice,
        text,
        conclusion=verdict.conclusion,
        # Pull request work was queued on its head, and a Check Run can't move.
        head_sha=None if task.is_pull else anchor,
    )
    comment = show.status_comment(
        task, attempt.familiar, "done", texts.comment_fix(voice, work, summary, branch)
    )
    wanted: list[Surfacing | None] = [check, comment]
    if delivered is not None:
        wanted.append(
            Surfacing(
                SurfaceKind.PULL_REQUEST,
                pull_request_subject(delivered.branch),
                PullRequestContent(
                    head=delivered.branch,
                    head_sha=delivered.sha,
                    base=delivered.base,
                    title=texts.pull_request_title(work, summary),
                    body=texts.pull_request_body(
                        voice,
                        work,
                        clean(result.pr_body),
                        closes=not task.is_pull,
                        commits=delivered.commits,
                        start_sha=_start(attempt) or "",
                    ),
                    thread=task.thread,
                    familiar_id=attempt.familiar.id,
                ),
            )
        )
    settle.finish(
        services,
        task,
        Ending(
            TaskState.COMPLETED,
            verdict.outcome,
            summary=summary,
            result_status=verdict.status,
            branch=branch,
            result=_masked(attempt, result),
        ),
        attempt.closing(verdict.outcome),
        [surfacing for surfacing in wanted if surfacing],
    )


def _question(attempt: Attempt, verdict: Verdict, result: Result) -> None:
    task, services = attempt.task, attempt.services
    voice, work = show.voice_of(services.settings, attempt.familiar, task), show.work_of(task)
    question = attempt.redactor.text(result.summary)
    check = show.check_run(
        task,
        attempt.familiar,
        voice,
        texts.check_ended(voice, "Needs input", question, "answer on the thread"),
        conclusion=Conclusion.ACTION_REQUIRED,
        head_sha=_start(attempt) if services.settings.checks.on_start_commit else None,
    )
    comment = show.status_comment(
        task, attempt.familiar, "needs input", texts.comment_question(voice, work, question)
    )
    settle.wait(
        services,
        task,
        attempt.closing(verdict.outcome),
        "answer",
        timedelta(hours=settle.ANSWER_HOURS),
        [surfacing for surfacing in (check, comment) if surfacing],
        result_status=verdict.status,
        outcome=verdict.outcome,
        summary=question,
    )


def _stale(attempt: Attempt, verdict: Verdict, head: str) -> None:
    why = (
        f"Reviewed {attempt.task.head_sha}, but the head is now {head}. "
        "The findings are about code that was replaced, so they are not shown."
    )
    settle.finish(
        attempt.services,
        attempt.task,
        Ending(TaskState.SUPERSEDED, "stale", detail=why, result_status=verdict.status),
        attempt.closing("stale", why),
        show.ended(
            attempt.services.settings,
            attempt.task,
            attempt.familiar,
            state="superseded",
            conclusion=Conclusion.NEUTRAL,
            title="Superseded by a newer commit",
            why=why,
            next_step="The new head is reviewed on its own; ask for a review if it is not.",
        ),
    )


def _failed(attempt: Attempt, verdict: Verdict, result: Result | None) -> None:
    said = attempt.redactor.text(result.summary) if result else ""
    why = f"{verdict.text}\n\n{said}" if said.strip() else verdict.text
    settle.finish(
        attempt.services,
        attempt.task,
        Ending(
            TaskState.FAILED,
            verdict.outcome,
            summary=said or None,
            detail=verdict.text,
            result_status=verdict.status,
        ),
        attempt.closing(verdict.outcome, verdict.text),
        show.ended(
            attempt.services.settings,
            attempt.task,
            attempt.familiar,
            state="failed",
            conclusion=verdict.conclusion,
            title="Failed",
            why=why,
            start_sha=_start(attempt),
        ),
    )


def _start(attempt: Attempt) -> str | None:
    return attempt.prepared.workspace.start_sha if attempt.prepared else None


def _masked(attempt: Attempt, result: Result) -> dict[str, Any]:
    masked: dict[str, Any] = {}
    for key, value in result.model_dump(mode="json").items():
        masked[key] = attempt.redactor.tree(value)
    return masked
