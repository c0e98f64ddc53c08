"""Tasks: the list with its filters, and the whole story of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask import Response

from coven.api_tokens import TokenScope
from coven.store import attempts, book, chain, escalations, listing, surfaces
from coven.store.engine import Tx
from coven.store.escalations import Status
from coven.store.tasks import Task
from coven.values import LIVE_STATES, DeliveryId, RepoName, TaskState
from webhooks.api import handlers, inputs, items, reads, shapes
from webhooks.dashboard import choosing
from webhooks.dashboard.asking import Ask, Done, Page, Sent, Shown
from webhooks.dashboard.lines import csv_lines
from webhooks.dashboard.rendering import url
from webhooks.dashboard.story import findings_of, moments, verdict_of

VERBS = ("review", "fix", "deepen", "garden", "status", "help", "memory")
MOST_LINES = 10_000
"""Rows of one CSV file; narrow the filter for others."""
_BATCH = 200
VERDICTS = 100


def show_list(ask: Ask, tx: Tx) -> Shown:
    """Tasks, newest first. The address holds the filter, so it can be saved."""
    query = ask.read(inputs.TasksQuery)
    found = handlers.list_tasks(ask.call(tx, query))
    assert isinstance(found.answer, shapes.TasksAnswer)
    return Shown(
        "tasks.html",
        {
            "title": "Tasks",
            "section": "tasks",
            "tasks": found.answer.tasks,
            "query": query,
            "states": list(TaskState),
            "verbs": VERBS,
            "familiars": [each.id for each in ask.services.settings.familiars],
            "cursor": ask.next_page(query, found),
        },
        rows=found.rows,
    )


def export(ask: Ask, _tx: Tx) -> Sent:
    """The filtered tasks as CSV."""
    query = ask.read(inputs.TasksQuery)
    want = listing.TasksWanted(
        state=query.state,
        repo=RepoName.parse(query.repo) if query.repo else None,
        thread=query.thread,
        familiar=query.familiar,
        verb=query.verb,
        since=query.since,
        until=query.until,
        text=query.q,
        within=ask.caller.repos,
    )
    response = Response(csv_lines(_COLUMNS, _rows(ask, want)), mimetype="text/csv")
    response.headers["Content-Disposition"] = 'attachment; filename="tasks.csv"'
    return Sent(response)


_COLUMNS = (
    *("id", "created", "state", "outcome", "verb", "repository", "thread", "title", "familiar"),
    *("asked_by", "attempts", "finished", "summary"),
)


def _rows(ask: Ask, want: listing.TasksWanted) -> Iterator[tuple[object, ...]]:
    """A batch at a time, each in a transaction of its own: a slow reader holds nothing."""
    before: int | None = None
    for _ in range(MOST_LINES // _BATCH):
        with ask.services.store.read() as tx:
            batch = reads.tasks_page(ask.installation, tx, want, _BATCH, before)
        for each in batch:
            yield (
                each.id,
                each.created_at,
                each.state.value,
                each.outcome,
                each.verb,
                items.name_of(each),
                each.thread,
                each.title,
                each.familiar_id,
                each.actor_login,
                each.attempts_used,
                each.finished_at,
                each.summary,
            )
        if len(batch) < _BATCH:
            return
        before = batch[-1].seq


def show(ask: Ask, tx: Tx) -> Shown:
    """All that the ledgers know of one task, from the delivery to what GitHub shows."""
    found, caller = choosing.task(ask, tx)
    owner, settings = found.installation_id, ask.services.settings
    tries = attempts.of_task(owner, tx, found.id)
    shown = surfaces.of_task(owner, tx, found.id)
    came = listing.delivery(owner, tx, DeliveryId(found.delivery_id)) if found.delivery_id else None
    asked = escalations.of_task(owner, tx, found.id, list(Status))
    checks = [each.object_url for each in shown if each.kind == "check_run" and each.object_url]
    return Shown(
        "task.html",
        {
            "title": f"{found.verb} {items.name_of(found)}#{found.thread}",
            "section": "tasks",
            "task": found,
            "facts": items.task_facts(settings, found, checks[-1] if checks else None),
            "moments": moments(found, came, tries, shown, asked),
            "attempts": tries,
            "surfaces": shown,
            "delivery": came,
            "escalations": asked,
            "findings": findings_of(found.result),
            "memory": _memory(found, tx),
            "verdicts": [verdict_of(row) for row in chain.of_task(owner, tx, found.id, VERDICTS)],
            # What programs printed, and texts from outside, are for those who may decide here.
            "inside": caller.may(TokenScope.MEMORY_WRITE),
            "clean": ask.services.redactor.text,
            "may_end": caller.may(TokenScope.ADMIN),
            "is_live": found.state in LIVE_STATES,
            "is_failed": found.state is TaskState.FAILED,
        },
        rows=1,
        target=found.id,
        owner=owner,
    )


def _memory(found: Task, tx: Tx) -> dict[str, int]:
    """How many lines of each kind; a report of thousands is counted up to a bound."""
    counts: dict[str, int] = {}
    for line in book.of_task(found.installation_id, tx, found.id, limit=500):
        good = not line.activity.outcome.startswith("rejected:")
        word = line.activity.op if good else "refused"
        counts[word] = counts.get(word, 0) + 1
    return counts


def cancel(ask: Ask, tx: Tx) -> Done:
    """Ask for the end of a task."""
    found, _ = choosing.task(ask, tx)
    body = ask.body(inputs.CancelBody, reason=ask.form.get("reason", "").strip() or None)
    done = handlers.cancel_task(ask.call(tx, body=body)).answer
    assert isinstance(done, shapes.CancelAnswer)
    said = {
        "asked": "The task was asked to stop; its worker does so within seconds.",
        "settled soon": "The task will not start; GitHub shows it as cancelled soon.",
        "already asked": "The task was asked to stop before.",
    }
    return _done(found, said[done.answer])


def retry(ask: Ask, tx: Tx) -> Done:
    """Run a failed task again."""
    found, _ = choosing.task(ask, tx)
    again = handlers.retry_task(ask.call(tx))
    return _done(found, "The task runs again, with a fresh budget.", again.after)


def _done(found: Task, text: str, after: tuple[Any, ...] = ()) -> Done:
    where = url("tasks", found.id)
    return Done(where, text, found.id, owner=found.installation_id, after=after)


PAGES = (
    Page(path="/tasks", name="tasks", view=show_list),
    Page(path="/tasks.csv", name="tasks_csv", view=export),
    Page(path="/tasks/<task_id>", name="task", view=show),
    Page(
        path="/tasks/<task_id>/cancel",
        name="task_cancel",
        view=cancel,
        method="POST",
        scope=TokenScope.ADMIN,
    ),
    Page(
        path="/tasks/<task_id>/retry",
        name="task_retry",
        view=retry,
        method="POST",
        scope=TokenScope.ADMIN,
    ),
)
