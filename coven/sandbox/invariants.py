"""What must be true when everything has come to rest, read from the sandbox and the store only.

Run after every end-to-end test and after the demo. Each broken promise is one sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import select

from coven.publication import (
    CheckRunContent,
    PullRequestContent,
    ReactionContent,
    ReviewContent,
    StatusCommentContent,
)
from coven.settings.models import Settings
from coven.store.engine import Store
from coven.store.schema import metadata
from coven.store.surfaces import FIELDS as SURFACE_FIELDS
from coven.store.surfaces import Surface
from coven.store.surfaces import from_row as surface_from_row
from coven.store.tables import attempts, deliveries
from coven.store.tasks import FIELDS as TASK_FIELDS
from coven.store.tasks import Task
from coven.store.tasks import from_row as task_from_row
from coven.values import TERMINAL_STATES, SurfaceKind, SurfaceState, TaskState

Json = Any

_TOKEN = re.compile(rb"gh[pousr]_[A-Za-z0-9_.\-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----")
_ROUTING = re.compile(r"(task|ignored|rejected):[!-~]+( [!-~]+)*\Z")


def broken(
    store: Store,
    settings: Settings,
    state: Mapping[str, Json],
    sent: Sequence[Mapping[str, Json]],
    requests: Sequence[Mapping[str, Json]],
    logs: Path | None = None,
) -> list[str]:
    """Every broken promise; empty when all hold.

    ``state``, ``sent`` and ``requests`` are the sandbox's own dump of what it shows, the
    deliveries it sent, and the requests it got.
    """
    with store.read() as tx:
        rows = [dict(row._mapping) for row in tx.execute(select(deliveries))]
        all_tasks = [task_from_row(row) for row in tx.execute(select(*TASK_FIELDS))]
        shown = [surface_from_row(row) for row in tx.execute(select(*SURFACE_FIELDS))]
        open_attempts = tx.execute(
            select(attempts.c.task_id).where(attempts.c.finished_at.is_(None))
        ).all()
    found = [
        *_deliveries(rows, all_tasks, sent),
        *_tasks(all_tasks),
        *(f"the attempt of task {row.task_id} never ended" for row in open_attempts),
        *_surfaces(shown, state),
        *_nothing_twice(state),
        *_nothing_left(settings),
        *_secrets(store, settings, state, logs),
        *(
            f"the sandbox got a request that it does not know: {r['method']} {r['path']}"
            for r in requests
            if r.get("unexpected")
        ),
    ]
    return sorted(set(found))


def broken_surfaces(store: Store, state: Mapping[str, Json]) -> list[str]:
    """The promises about what GitHub shows, without those about the work behind it."""
    with store.read() as tx:
        shown = [surface_from_row(row) for row in tx.execute(select(*SURFACE_FIELDS))]
    return sorted({*_surfaces(shown, state), *_nothing_twice(state)})


def _deliveries(
    rows: list[dict[str, Json]], known: list[Task], sent: Sequence[Mapping[str, Json]]
) -> Iterator[str]:
    ledger = {row["id"]: row for row in rows}
    ids = {task.id for task in known}
    for row in rows:
        if not _ROUTING.match(row["routing"]):
            yield f"delivery {row['id']} has no readable routing: {row['routing']!r}"
        if row["routing"].startswith("task:") and row["routing"].removeprefix("task:") not in ids:
            yield f"delivery {row['id']} names a task that does not exist"
    for delivery in sent:
        if delivery["status_code"] in (200, 202) and delivery["guid"] not in ledger:
            yield f"delivery {delivery['guid']} was accepted and is not in the ledger"
        if (delivery["status_code"] or 0) >= 500 and delivery["status_code"] != 503:
            yield f"delivery {delivery['guid']} was answered {delivery['status_code']}"


def _tasks(known: list[Task]) -> Iterator[str]:
    for task in known:
        if task.state is TaskState.WAITING:
            if task.expires_at is None:
                yield f"task {task.id} waits without an expiry"
        elif task.state not in TERMINAL_STATES:
            yield f"task {task.id} is still {task.state}"
        if task.lease_token is not None:
            yield f"task {task.id} still has a lease"
        if task.attempts_used > task.max_attempts:
            yield f"task {task.id} used {task.attempts_used} of {task.max_attempts} attempts"


def _surfaces(shown: list[Surface], state: Mapping[str, Json]) -> Iterator[str]:
    repos = {repo["id"]: repo for repo in state["repositories"]}
    for surface in shown:
        where = f"{surface.kind} {surface.subject}"
        if surface.lease_token is not None:
            yield f"{where} is still leased"
        if surface.state is SurfaceState.FAILED:
            if not surface.error:
                yield f"{where} was given up without a reason"
            continue
        if surface.state is not SurfaceState.PUBLISHED:
            yield f"{where} is still {surface.state}: {surface.error}"
            continue
        repo = repos.get(surface.repo_id)
        if repo is not None:
            yield from (f"{where}: {why}" for why in _differences(surface, repo))


def _differences(surface: Surface, repo: Mapping[str, Json]) -> Iterator[str]:
    if surface.kind is SurfaceKind.CHECK_RUN:
        content = CheckRunContent.model_validate(surface.desired)
        run = _by_id(repo["check_runs"], surface.object_id)
        if run is None:
            yield "there is no such Check Run"
            return
        yield from _differs("name", run["name"], content.name)
        yield from _differs("head", run["head_sha"], content.head_sha)
        yield from _differs("external id", run["external_id"], content.external_id)
        yield from _differs("status", run["status"], content.status)
        yield from _differs("conclusion", run["conclusion"], content.conclusion)
        yield from _differs("title", run["output"]["title"], content.title)
        yield from _differs("summary", run["output"]["summary"], content.whole_summary)
        yield from _differs("annotations", len(run["annotations"]), len(content.annotations))
    elif surface.kind is SurfaceKind.STATUS_COMMENT:
        body = StatusCommentContent.model_validate(surface.desired).whole_body
        comment = _by_id(repo["comments"], surface.object_id)
        if comment is None:
            yield "there is no such comment"
        elif body not in comment["body"]:
            yield "the comment says something else"
    elif surface.kind is SurfaceKind.REACTION:
        yield from _reaction(surface, repo)
    elif surface.kind is SurfaceKind.PULL_REQUEST:
        wanted = PullRequestContent.model_validate(surface.desired)
        pull = next((p for p in repo["pulls"] if p["number"] == surface.object_id), None)
        if pull is None:
            yield "there is no such pull request"
            return
        yield from _differs("head", pull["head"]["ref"], wanted.head)
        yield from _differs("base", pull["base"]["ref"], wanted.base)
        yield from _differs("title", pull["title"], wanted.title)
    elif surface.kind is SurfaceKind.REVIEW:
        yield from _review_differences(surface, repo)


def _review_differences(surface: Surface, repo: Mapping[str, Json]) -> Iterator[str]:
    said = ReviewContent.model_validate(surface.desired)
    review = _by_id(repo["reviews"], surface.object_id)
    if review is None:
        if said.body:
            yield "there is no such review"
        return
    if review["state"] == "APPROVED":
        yield "the review approves"
    remarks = [c for c in repo["review_comments"] if c["pull_request_review_id"] == review["id"]]
    spots = sum(" ".join(c.spot.split()) in " ".join(review["body"].split()) for c in said.comments)
    if len(remarks) + spots < len(said.comments):
        yield f"{len(said.comments)} findings, but {len(remarks)} on lines and {spots} in the body"


def _reaction(surface: Surface, repo: Mapping[str, Json]) -> Iterator[str]:
    content = ReactionContent.model_validate(surface.desired)
    part = "comments" if content.comment_kind == "issue_comment" else "review_comments"
    comment = _by_id(repo[part], content.comment_id)
    if comment is None:
        return  # deleted by a person after it was published
    shown = {name for name in ("eyes", "rocket", "confused") if comment["reactions"][name]}
    yield from _differs("reaction", shown, {content.content})


def _nothing_twice(state: Mapping[str, Json]) -> Iterator[str]:
    app_id = state["app"]["id"]
    for repo in state["repositories"]:
        ours = [run for run in repo["check_runs"] if run["app"]["id"] == app_id]
        for external_id, count in Counter(run["external_id"] for run in ours).items():
            if count > 1:
                yield f"{count} Check Runs have the external id {external_id}"
        yield from (
            f"Check Run {run['id']} is still {run['status']}"
            for run in ours
            if run["status"] != "completed"
        )
        markers: Counter[str] = Counter()
        for comment in [*repo["comments"], *repo["review_comments"]]:
            via = comment.get("performed_via_github_app") or {}
            if via.get("id") == app_id and comment["body"].startswith("<!-- coven-github:"):
                markers[comment["body"].split("-->")[0]] += 1
        yield from (f"{n} comments carry {mark}-->" for mark, n in markers.items() if n > 1)
        reviews = Counter(
            review["body"].split("-->")[0]
            for review in repo["reviews"]
            if review["body"].startswith("<!-- coven-github:")
        )
        yield from (f"{n} reviews carry {mark}-->" for mark, n in reviews.items() if n > 1)
        heads = Counter(p["head"]["ref"] for p in repo["pulls"] if p["state"] == "open")
        yield from (f"{n} open pull requests from {ref}" for ref, n in heads.items() if n > 1)


def _nothing_left(settings: Settings) -> Iterator[str]:
    root = settings.workspace_root
    if root.is_dir():
        yield from (f"workspace {entry.name} was left behind" for entry in root.iterdir())
    for process in psutil.process_iter(["pid", "name"]):
        try:
            place = process.cwd()
        except (psutil.Error, OSError):
            continue
        if Path(place).is_relative_to(root):
            yield f"process {process.pid} ({process.name()}) still runs in a workspace"


def _secrets(
    store: Store, settings: Settings, state: Mapping[str, Json], logs: Path | None
) -> Iterator[str]:
    known = [secret for secret in settings.github.active_webhook_secrets() if len(secret) >= 8]
    key_file = settings.server.state_dir / "secret_key"
    if key_file.is_file():
        known.append(key_file.read_bytes().strip())

    def holds(data: bytes) -> bool:
        return bool(_TOKEN.search(data)) or any(secret in data for secret in known)

    with store.read() as tx:
        for table in metadata.sorted_tables:
            if any(holds(repr(tuple(row)).encode()) for row in tx.execute(select(table))):
                yield f"a secret stands in table {table.name}"
    for repo in state["repositories"]:
        for part in ("check_runs", "comments", "review_comments", "reviews", "pulls", "issues"):
            if holds(repr(repo[part]).encode()):
                yield f"a secret stands in the {part} of {repo['full_name']}"
    for path in sorted(logs.rglob("*.log")) if logs is not None else ():
        if holds(path.read_bytes()):
            yield f"a secret stands in the log {path.name}"


def _by_id(rows: list[dict[str, Json]], wanted: int | None) -> dict[str, Json] | None:
    return next((row for row in rows if row["id"] == wanted), None)


def _differs(what: str, shown: Json, wanted: Json) -> Iterator[str]:
    if shown != wanted:
        yield f"{what} is {shown!r}, wanted {wanted!r}"
