"""``tasks``: what is wanted, what runs, and how it ended."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from coven.cli import exits, ledger
from coven.cli.context import ConfigOption, JsonOption, opened_store
from coven.cli.ledger import Story
from coven.cli.output import complain, plain, show_json, show_pairs, show_table
from coven.clock import SystemClock
from coven.store.attempts import Attempt
from coven.store.ending import Cancel
from coven.store.engine import Tx
from coven.store.tasks import Task
from coven.values import TaskState

app = typer.Typer(help="Look at tasks and cancel them.", no_args_is_help=True)

TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="Task id, or how it begins.")]
_HIDDEN = {"lease_token", "payload"}
"""Left out of what is shown: a capability, and text from outside that can be long."""

SHOWN_LINES = 20
"""How much of an attempt's output people see; ``--json`` has all that was kept."""


@app.command("list")
def list_(
    installation: Annotated[int | None, typer.Option(help="Of this installation only.")] = None,
    state: Annotated[TaskState | None, typer.Option(help="In this state only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first."""
    with opened_store(config) as store, store.read() as tx:
        found = ledger.list_tasks(tx, installation, state, limit)
    if as_json:
        show_json([_facts(task) for task in found])
        return
    show_table(
        ["ID", "STATE", "VERB", "REPOSITORY", "THREAD", "FAMILIAR", "TRIES", "OUTCOME", "CREATED"],
        [
            (
                task.id[:12],
                task.state,
                task.verb,
                task.repo,
                f"#{task.thread}",
                task.familiar_id,
                f"{task.attempts_used}/{task.max_attempts}",
                task.outcome,
                task.created_at,
            )
            for task in found
        ],
        "No tasks.",
    )


@app.command()
def show(task_id: TaskArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one task with its attempts and what GitHub shows of it."""
    with opened_store(config) as store, store.read() as tx:
        story = ledger.tell(tx, _one(tx, task_id))
    if as_json:
        show_json(
            {
                "task": _facts(story.task),
                "attempts": [_without_hidden(asdict(attempt)) for attempt in story.attempts],
                "surfaces": [_without_hidden(asdict(surface)) for surface in story.surfaces],
            }
        )
        return
    _show(story)


@app.command()
def cancel(task_id: TaskArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Cancel a task. A running one is stopped by its worker within seconds."""
    with opened_store(config) as store, store.write("cli.cancel") as tx:
        task = _one(tx, task_id)
        answer = ledger.cancel(tx, task, SystemClock().now())
    if as_json:
        show_json({"task": task.id, "answer": answer})
    else:
        print(_ANSWERS[answer].format(id=task.id, state=task.state))
    if answer is Cancel.OVER:
        raise typer.Exit(exits.FAILED)


_ANSWERS = {
    Cancel.ASKED: "Task {id} was asked to stop; see `coven-github tasks show {id}`.",
    Cancel.SETTLED_SOON: "Task {id} will not start; GitHub shows it as cancelled soon.",
    Cancel.ALREADY_ASKED: "Task {id} was asked to stop before.",
    Cancel.OVER: "Task {id} is {state}; there is nothing to cancel.",
}


def _one(tx: Tx, start: str) -> Task:
    """The one task meant; exits with :data:`exits.NOT_FOUND` when there is none, or several."""
    found = ledger.find_tasks(tx, start) if ledger.is_task_id_start(start) else []
    if len(found) == 1:
        return found[0]
    if found:
        complain(f"{start} begins several task ids; give more of it")
    else:
        complain(f"there is no task {start[:40]}; see `coven-github tasks list`")
    raise typer.Exit(exits.NOT_FOUND)


def _facts(task: Task) -> dict[str, object]:
    return _without_hidden(asdict(task))


def _without_hidden(values: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if key not in _HIDDEN}


def _show(story: Story) -> None:
    task = story.task
    show_pairs(
        [
            ("task", task.id),
            ("state", task.state),
            ("outcome", task.outcome),
            ("detail", task.detail),
            ("summary", task.summary),
            ("work", f"{task.verb} on {task.repo}#{task.thread} by {task.familiar_id}"),
            ("asked by", task.actor_login),
            ("trust", f"{task.trust_scope} (content {task.content_trust})"),
            ("head", task.head_sha),
            ("branch", task.branch),
            ("pull request", task.pr_number),
            ("installation", task.installation_id),
            ("delivery", task.delivery_id),
            ("created", task.created_at),
            ("not before", task.not_before),
            ("waits for", task.waiting_for),
            ("expires", task.expires_at),
            ("cancel asked", task.cancel_requested_at),
            ("finished", task.finished_at),
        ]
    )
    print()
    show_table(
        ["ATTEMPT", "ROUND", "STARTED", "TOOK", "EXIT", "SIGNAL", "OUTCOME", "DETAIL"],
        [
            (
                a.number,
                a.round,
                a.started_at,
                _took(a.started_at, a.finished_at),
                a.exit_code,
                a.signal,
                a.outcome,
                a.detail,
            )
            for a in story.attempts
        ],
        "No attempts yet.",
    )
    for attempt in story.attempts:
        _show_output(attempt)
    print()
    show_table(
        ["SURFACE", "SUBJECT", "STATE", "TRIES", "URL", "LAST ERROR"],
        [(s.kind, s.subject, s.state, s.tries, s.object_url, s.error) for s in story.surfaces],
        "Nothing to show on GitHub yet.",
    )


def _show_output(attempt: Attempt) -> None:
    """What the runtime did otherwise than agreed, and the end of what it printed."""
    for number, deviation in enumerate(attempt.tolerated or ()):
        if number == 0:
            print(f"\nTolerated in attempt {attempt.number}:")
        print(f"  {plain(deviation)}")
    for name, tail in (("stdout", attempt.stdout_tail), ("stderr", attempt.stderr_tail)):
        lines = (tail or "").splitlines()
        if lines:
            shown = lines[-SHOWN_LINES:]
            left = f" (last {len(shown)} of {len(lines)} lines)" if len(shown) < len(lines) else ""
            print(f"\n{name} of attempt {attempt.number}{left}:")
            for line in shown:
                print(f"  {plain(line)}")


def _took(start: datetime, end: datetime | None) -> str:
    return f"{(end - start).total_seconds():.1f} s" if end is not None else ""
