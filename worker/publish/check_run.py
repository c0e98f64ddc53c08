"""Check Runs: annotations in batches, completed in the last call, never reopened.

GitHub adds the annotations of every call to the ones that are there and offers no way to remove
one. So a batch is sent only after GitHub's own count said where to go on, and a list that was
posted once stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coven import github_limits as limits
from coven.errors import GitHubRejected
from coven.github.models import ObjectRef
from coven.markdown import cut_bytes, cut_plain
from coven.publication import Annotation, CheckRunContent
from worker.publish.hold import Hold, Published

NOT_TAKEN = (
    "> GitHub did not accept the annotations of this run, so no lines are marked in the diff."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What GitHub has of this run."""

    completed: bool = False
    conclusion: str | None = None
    annotations: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """When the work began and ended, as far as known."""

    started_at: datetime | None = None
    completed_at: datetime | None = None


def publish(hold: Hold) -> Published:
    """Make the Check Run of a surface equal to its content. Raises ``GitHubError``."""
    content = _cleaned(hold, CheckRunContent.model_validate(hold.surface.desired))
    found = _find(hold, content)
    if found is not None:
        hold.remember(found.id, found.url)
    hold.point("looked")
    try:
        return _send(hold, content, found)
    except GitHubRejected:
        if not content.annotations:
            raise
    # One bad path or line loses the whole call; a run without marks beats an open one.
    bare = content.model_copy(
        update={
            "annotations": (),
            "summary": cut_bytes(f"{NOT_TAKEN}\n\n{content.summary}", limits.CHECK_SUMMARY),
        }
    )
    return _send(hold, bare, _find(hold, content, look=True))


def _find(hold: Hold, content: CheckRunContent, *, look: bool = False) -> ObjectRef | None:
    known = hold.surface.object_id
    if known is not None:
        # What is there matters only when something may have been added, or the run was closed.
        unmarked = content.first_marks and hold.surface.error is None
        if look or (content.annotations and not unmarked) or hold.surface.tries > 1:
            hold.ready()
            return hold.client.get_check_run(known)
        return ObjectRef(known, hold.surface.object_url, {})
    # A run that is first shown when it is over may stand there all the same, from ledgers that were
    # since restored from a backup; one more question costs nothing then.
    if hold.first_ever and not look and content.status != "completed":
        return None
    hold.ready()
    ours = [
        run
        for run in hold.client.check_runs(content.head_sha, content.name)
        if run.raw.get("external_id") == content.external_id and _by_us(hold, run)
    ]
    return min(ours, key=lambda run: run.id, default=None)


def _send(hold: Hold, content: CheckRunContent, found: ObjectRef | None) -> Published:
    times = Times(hold.started_at, hold.finished_at or hold.services.clock.now())
    steps = plan(content, shown(found) if found is not None else None, times)
    for step in steps:
        hold.ready()
        if found is None:
            found = hold.client.create_check_run(step)
            if len(steps) > 1:
                hold.remember(found.id, found.url)
        else:
            found = hold.client.update_check_run(found.id, step)
    assert found is not None  # a plan is never empty
    return Published(found.id, found.url)


def _by_us(hold: Hold, run: ObjectRef) -> bool:
    app_id = (run.raw.get("app") or {}).get("id")
    return app_id is None or hold.is_ours(app_id, None, None)


def shown(found: ObjectRef) -> Shown:
    """What an answer of GitHub says about a run."""
    output = found.raw.get("output") or {}
    return Shown(
        completed=found.raw.get("status") == "completed",
        conclusion=found.raw.get("conclusion"),
        annotations=int(output.get("annotations_count") or 0),
    )


def plan(content: CheckRunContent, there: Shown | None, times: Times) -> list[dict[str, Any]]:
    """The request bodies that turn ``there`` (None: nothing) into ``content``. Pure.

    The first one creates when there is nothing. Every body carries the whole text, so that the
    page is right after each of them.
    """
    rest = content.annotations[there.annotations if there else 0 :]
    size = limits.ANNOTATIONS_PER_CALL
    batches = [rest[at : at + size] for at in range(0, len(rest), size)] or [()]
    steps = [
        _step(content, batch, there, times, last=index == len(batches) - 1)
        for index, batch in enumerate(batches)
    ]
    if there is None:
        steps[0] |= {
            "name": content.name,
            "head_sha": content.head_sha,
            "external_id": content.external_id,
        }
    return steps


def _step(
    content: CheckRunContent,
    batch: Sequence[Annotation],
    there: Shown | None,
    times: Times,
    *,
    last: bool,
) -> dict[str, Any]:
    output: dict[str, Any] = {"title": content.title, "summary": content.summary}
    if content.text or there is not None:
        output["text"] = content.text or ""
    if batch:
        output["annotations"] = [_annotation(annotation) for annotation in batch]
    body: dict[str, Any] = {"output": output}
    if content.details_url:
        body["details_url"] = content.details_url
    if there is not None and there.completed:
        # A completed run can't be reopened: its old conclusion would stay beside the new state.
        if content.status == "completed" and last:
            body["actions"] = _actions(content)
            if content.conclusion != there.conclusion:
                body["conclusion"] = content.conclusion
                body["status"] = "completed"
        return body
    finishing = content.status == "completed" and last
    body["status"] = content.status if finishing or content.status != "completed" else "in_progress"
    if body["status"] != "queued" and times.started_at is not None:
        body["started_at"] = _iso(times.started_at)
    if finishing:
        body["conclusion"] = content.conclusion
        body["actions"] = _actions(content)
        if times.completed_at is not None:
            completed = max(times.completed_at, times.started_at or times.completed_at)
            body["completed_at"] = _iso(completed)
    return body


def _annotation(annotation: Annotation) -> dict[str, Any]:
    return {
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": max(annotation.start_line, annotation.end_line),
        "annotation_level": annotation.level,
        "title": annotation.title,
        "message": annotation.message,
    }


def _actions(content: CheckRunContent) -> list[dict[str, str]]:
    return [action.model_dump() for action in content.actions[: limits.ACTIONS]]


def _cleaned(hold: Hold, content: CheckRunContent) -> CheckRunContent:
    """Without secrets and within every limit, whatever those before us did."""
    clean = hold.clean
    finding = [
        _reworded(
            annotation,
            title=cut_plain(clean(annotation.title), limits.ANNOTATION_TITLE),
            message=cut_plain(clean(annotation.message), limits.ANNOTATION_MESSAGE),
        )
        for annotation in content.annotations
    ]
    text = cut_bytes(clean(content.text), limits.CHECK_TEXT) if content.text else None
    return content.model_copy(
        update={
            "name": cut_plain(clean(content.name), limits.CHECK_NAME),
            "title": cut_plain(clean(content.title), limits.CHECK_TITLE),
            "summary": cut_bytes(clean(content.whole_summary), limits.CHECK_SUMMARY),
            "memory": None,
            "text": text,
            "annotations": tuple(finding),
        }
    )


def _reworded(annotation: Annotation, *, title: str, message: str) -> Annotation:
    """The same place with other words; GitHub refuses an empty message."""
    return annotation.model_copy(update={"title": title, "message": message or "(no text)"})


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
