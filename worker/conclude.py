"""From an exit code and a result to an ending that people see."""

from __future__ import annotations

from coven import texts
from coven.contract.exit_codes import Outcome, Verdict, judge
from coven.contract.result import Result
from coven.github.repo_client import RepoClient
from coven.memory.record import refusals
from coven.publication import PullRequestContent, pull_request_subject
from coven.store.tasks import Ending
from coven.surfacing import Surfacing, check_run, status_comment, voice_of, work_of
from coven.texts_review import with_memory
from coven.values import Lane, SurfaceKind, TaskState
from coven.waiting import ANSWER_PATIENCE, WAITING_FOR_ANSWER
from worker import branch as branches
from worker import settle, show, tool_rules
from worker.attempt import Attempt
from worker.review.conclusion import concluded
from worker.review.ending import conclude_review, masked, memory_of


def conclude(attempt: Attempt, client: RepoClient) -> None:
    """Judge what came back and settle the task.

    Raises ``LeaseLost`` and ``CovenError``, of which ``ActionEscalated`` makes the task wait.
    """
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
            conclusion=concluded(verdict),
            start_sha=attempt.start_sha,
        )
    elif result is not None and verdict.outcome in (Outcome.succeeded, Outcome.partial):
        if task.lane is Lane.REVIEW:
            conclude_review(attempt, client, verdict, result)
        else:
            _fix(attempt, client, verdict, result)
    elif result is not None and verdict.outcome is Outcome.needs_input:
        assert attempt.prepared is not None
        if attempt.prepared.tools is not None and attempt.asked is not None:
            tool_rules.ask(services, attempt.prepared.tools, task, attempt.asked)
        _question(attempt, verdict, result)
    else:
        _failed(attempt, verdict, result)


def _fix(attempt: Attempt, client: RepoClient, verdict: Verdict, result: Result) -> None:
    task, services = attempt.task, attempt.services
    assert attempt.prepared is not None
    delivered = branches.publish_branch(services, attempt.prepared, client, result)
    attempt.tolerated += delivered.tolerated if delivered else ()
    clean = attempt.redactor.text
    voice, work = voice_of(services.settings, attempt.familiar, task), work_of(task)
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
    on_start = attempt.start_sha if services.settings.checks.on_start_commit else None
    anchor = delivered.sha if delivered else on_start
    memory = memory_of(attempt, result)
    check = check_run(
        task,
        attempt.familiar,
        voice,
        with_memory(text, refusals(memory.judged)),
        conclusion=concluded(verdict),
        # Pull request work was queued on its head, and a Check Run can't move.
        head_sha=None if task.is_pull else anchor,
    )
    partial = verdict.outcome is Outcome.partial
    comment = status_comment(
        task,
        attempt.familiar,
        "partial" if partial else "done",
        texts.comment_fix(
            voice,
            work,
            summary,
            branch,
            commits=delivered.commits if delivered else 0,
            partial=partial,
        ),
    )
    wanted: list[Surfacing | None] = [check, comment]
    if delivered is not None:
        wanted.append(_pull_request(attempt, delivered, summary, clean(result.pr_body)))
    settle.finish(
        services,
        task,
        Ending(
            TaskState.COMPLETED,
            verdict.outcome,
            summary=summary,
            result_status=verdict.status,
            branch=branch,
            result=masked(attempt, result, memory),
        ),
        attempt.closing(verdict.outcome),
        [surfacing for surfacing in wanted if surfacing],
        memory=memory,
    )


def _pull_request(
    attempt: Attempt, delivered: branches.PublishedBranch, summary: str, body: str
) -> Surfacing:
    """The draft for the branch. ``summary`` and ``body`` are the result's, redacted."""
    task = attempt.task
    voice, work = voice_of(attempt.services.settings, attempt.familiar, task), work_of(task)
    content = PullRequestContent(
        head=delivered.branch,
        head_sha=delivered.sha,
        base=delivered.base,
        title=texts.pull_request_title(work, summary),
        body=texts.pull_request_body(
            voice,
            work,
            body,
            closes=not task.is_pull,
            commits=delivered.commits,
            start_sha=attempt.start_sha or "",
        ),
        thread=task.thread,
        familiar_id=attempt.familiar.id,
    )
    return Surfacing(SurfaceKind.PULL_REQUEST, pull_request_subject(delivered.branch), content)


def _question(attempt: Attempt, verdict: Verdict, result: Result) -> None:
    task, services = attempt.task, attempt.services
    voice, work = voice_of(services.settings, attempt.familiar, task), work_of(task)
    question = attempt.redactor.text(result.summary)
    check = check_run(
        task,
        attempt.familiar,
        voice,
        texts.check_ended(voice, "Needs input", question, "answer on the thread"),
        conclusion=concluded(verdict),
        head_sha=attempt.start_sha if services.settings.checks.on_start_commit else None,
    )
    comment = status_comment(
        task, attempt.familiar, "needs input", texts.comment_question(voice, work, question)
    )
    settle.wait(
        services,
        task,
        attempt.closing(verdict.outcome),
        WAITING_FOR_ANSWER,
        ANSWER_PATIENCE,
        [surfacing for surfacing in (check, comment) if surfacing],
        memory=memory_of(attempt, result),
        result_status=verdict.status,
        outcome=verdict.outcome,
        summary=question,
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
            conclusion=concluded(verdict),
            title="Timed out" if verdict.outcome is Outcome.timed_out else "Failed",
            why=why,
            start_sha=attempt.start_sha,
        ),
        memory=memory_of(attempt, result) if result is not None else None,
    )
