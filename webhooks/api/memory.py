"""What the API does with the memory book. Its rules are the book's; here are words and shapes.

The book belongs to one installation, so a service token names one. A token of some repositories
names one of them and sees what is below it, never what the installation shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from coven import memory_shown
from coven.memory.book import (
    Activity,
    Decided,
    Decision,
    Entry,
    EntryState,
    Person,
    Refusal,
    Revoked,
    parse_id,
    shown,
)
from coven.memory.keys import KeyPrefix
from coven.services import Services
from coven.store import book
from coven.values import InstallationId, RepoId, RepoName, TaskId
from webhooks.api import inputs, reads, shapes
from webhooks.api.context import Call, Lines, Outcome
from webhooks.api.problems import Problem, bad_field, not_found

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Target = Annotated[str, Field(min_length=1, max_length=200)]


def _prefix(value: str) -> str:
    KeyPrefix.parse(value)
    return value


class MemoryQuery(inputs.Paged):
    repo: inputs.Repo | None = None
    scope: Literal["repo", "tenant_shared"] | None = None
    state: EntryState | None = None
    prefix: Annotated[str, Field(max_length=200), AfterValidator(_prefix)] | None = Field(
        default=None, description="A key or what it begins with, by whole segments."
    )
    task: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = Field(
        default=None, description="Proposed by this task."
    )
    q: inputs.Text | None = Field(default=None, description="In text or key.")


class ExportQuery(inputs.Scoped):
    repo: inputs.Repo | None = None
    state: EntryState | None = None


class ActivityQuery(inputs.Paged):
    repo: inputs.Repo | None = None


class DecideBody(inputs.Body):
    installation_id: inputs.BodyId | None = None
    text_hash: Hash = Field(description="`textHash` of the entry as it was shown.")


def _either(given: str, other: str) -> dict[str, Any]:
    kinds = {given: {"type": "string"}, other: {"type": "null"}}
    return {"required": [given], "properties": kinds}


class RevokeBody(inputs.Body):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [_either("key", "prefix"), _either("prefix", "key")]}
    )

    installation_id: inputs.BodyId | None = None
    repo: inputs.Repo | None = None
    key: Target | None = Field(default=None, description="A key, or the id of an entry.")
    prefix: Target | None = Field(default=None, description="Everything at and below it.")

    @model_validator(mode="after")
    def _one_target(self) -> RevokeBody:
        if (self.key is None) == (self.prefix is None):
            raise ValueError("give either key or prefix")
        return self


class MemoryItem(shapes.Shape):
    id: str
    installation_id: int
    key: str
    scope: str
    repo: str | None
    repo_id: int | None
    summary: str
    shown: str
    """The text with everything that hides made visible."""
    text_hash: str
    state: EntryState
    version: int
    source: str
    trust: str
    task_id: str | None
    head_sha: str | None
    thread: int | None
    familiar_id: str | None
    actor: str | None
    author: str | None
    decided_by: str | None
    decided_at: datetime | None
    replaced_by: str | None
    redacted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    supplied: int
    cited: int
    last_cited_at: datetime | None


class DecisionItem(shapes.Shape):
    act: str
    target: str
    text_hash: str | None
    by: str | None
    task_id: str | None
    detail: str | None
    at: datetime


class MemoryAnswer(shapes.Page):
    memory: list[MemoryItem]


class EntryAnswer(shapes.Answer):
    entry: MemoryItem
    decisions: list[DecisionItem]
    runs: list[shapes.ActivityItem]


class ActivityAnswer(shapes.Page):
    activity: list[shapes.ActivityItem]


class ExportLine(MemoryItem):
    decisions: list[DecisionItem]


class DecideAnswer(shapes.Answer):
    id: str
    state: EntryState
    fresh: bool


class RevokeAnswer(shapes.Answer):
    revoked: str
    entries: list[str]
    fresh: bool


def list_memory(call: Call[MemoryQuery, Any]) -> Outcome:
    """Entries of the memory book, newest first."""
    query, tenant = call.query, call.one_installation()
    reach = _reach(call, tenant, query.repo)
    found: list[Entry] = []
    if reach is not _NOWHERE:
        filters = book.Filters(
            repo_id=reach,
            scope=query.scope,
            states=(query.state,) if query.state is not None else (),
            prefix=query.prefix,
            text=query.q,
            task_id=TaskId(query.task) if query.task is not None else None,
        )
        found = book.listed(tenant, call.tx, filters, after=_after(call), limit=query.limit + 1)
    page = found[: query.limit]
    return Outcome(
        MemoryAnswer(memory=[memory_item(each) for each in page]),
        rows=len(page),
        next=[page[-1].seq] if len(found) > len(page) else None,
    )


def show_memory(call: Call[inputs.Scoped, Any]) -> Outcome:
    """One entry, what was decided at its place, and which runs it shaped."""
    tenant = call.one_installation()
    found = _entry(call, tenant)
    return Outcome(
        EntryAnswer(
            entry=memory_item(found),
            decisions=[_decision(each) for each in book.history(tenant, call.tx, found)],
            runs=[reads.activity_item(each) for each in book.tasks_of(tenant, call.tx, found.id)],
        ),
        rows=1,
        target=found.id,
    )


def list_activity(call: Call[ActivityQuery, Any]) -> Outcome:
    """What runs were handed, reported to have used, and proposed; newest first."""
    query, tenant = call.query, call.one_installation()
    reach = _reach(call, tenant, query.repo)
    found: list[Activity] = []
    if reach is not _NOWHERE:
        found = book.activity(
            tenant, call.tx, repo_id=reach, after=_after(call), limit=query.limit + 1
        )
    page = found[: query.limit]
    return Outcome(
        ActivityAnswer(activity=[reads.activity_item(each) for each in page]),
        rows=len(page),
        next=[page[-1].seq] if len(found) > len(page) else None,
    )


def export_memory(call: Call[ExportQuery, Any]) -> Lines:
    """All entries as JSON lines, oldest first, with their origin and every decision."""
    query, tenant = call.query, call.one_installation()
    reach = _reach(call, tenant, query.repo)
    filters = book.Filters(repo_id=reach, states=(query.state,) if query.state is not None else ())
    lines = iter(()) if reach is _NOWHERE else _lines(call.services, tenant, filters)
    return Lines(
        lines,
        target=query.repo,
        headers={"Content-Disposition": f'attachment; filename="memory-{tenant}.jsonl"'},
    )


def revoke_memory(call: Call[Any, RevokeBody]) -> Outcome:
    """Close a key, or everything below a prefix, from the next run on."""
    body, tenant = call.body, call.one_installation()
    reach = _reach(call, tenant, body.repo)
    if reach is _NOWHERE:
        raise not_found()
    target = str(body.key if body.key is not None else body.prefix)
    if body.key is not None and parse_id(target) is None:
        _require_key(target)
    services = call.services
    done = book.revoke(tenant, call.tx, target, _person(call), services.clock.now(), repo_id=reach)
    _raise_if(done, "key" if body.key is not None else "prefix")
    ended = [book.entry(tenant, call.tx, entry_id) for entry_id in done.entries]
    _show_anew(call, *ended)
    return Outcome(
        RevokeAnswer(revoked=str(done.target), entries=list(done.entries), fresh=done.fresh),
        rows=len(done.entries),
        target=done.target,
    )


def approve_memory(call: Call[Any, DecideBody]) -> Outcome:
    """Approve the text that was shown; a changed one needs a new look."""
    return _decide(call, approve=True)


def deny_memory(call: Call[Any, DecideBody]) -> Outcome:
    """Reject a proposal."""
    return _decide(call, approve=False)


def _decide(call: Call[Any, DecideBody], *, approve: bool) -> Outcome:
    tenant = call.one_installation()
    found = _entry(call, tenant)
    memory = call.services.settings.memory
    days = memory.retention_days
    done = book.decide(
        tenant,
        call.tx,
        found.id,
        approve,
        _person(call),
        call.body.text_hash,
        call.services.clock.now(),
        four_eyes=memory.four_eyes,
        keep=timedelta(days=days) if days is not None else None,
    )
    _raise_if(done, "text_hash")
    assert done.entry is not None
    _show_anew(call, done.entry)
    said = DecideAnswer(id=done.entry.id, state=done.entry.state, fresh=done.fresh)
    return Outcome(said, rows=1, target=done.entry.id)


def _show_anew(call: Call[Any, Any], *changed: Entry | None) -> None:
    """What GitHub shows of these entries; the publisher's next sweep writes it."""
    entries = [each for each in changed if each is not None]
    services = call.services
    memory_shown.refresh(services.settings, call.tx, entries, services.clock.now())


def memory_item(each: Entry) -> MemoryItem:
    """An entry with where it comes from."""
    return MemoryItem.model_validate(_facts(book.exported(each)))


def _lines(services: Services, tenant: InstallationId, filters: book.Filters) -> Iterator[bytes]:
    """A batch at a time, each in a transaction of its own: a slow reader holds nothing."""
    after: int | None = 0
    while after is not None:
        with services.store.read() as tx:
            batch, after = book.export_batch(tenant, tx, filters, after=after)
        for values in batch:
            facts = _facts(values) | {"decisions": [_logged(line) for line in values["decisions"]]}
            line = ExportLine.model_validate(facts).model_dump(mode="json", by_alias=True)
            yield (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _facts(values: dict[str, Any]) -> dict[str, Any]:
    """Plain data of the book under the names of the API."""
    renamed = {
        "shown": shown(values["summary"]),
        "actor": values["actor_login"],
        "author": values["author_login"],
        "decided_by": values["decided_by_login"],
    }
    known = MemoryItem.model_fields
    return {name: value for name, value in values.items() if name in known} | renamed


def _logged(line: dict[str, Any]) -> dict[str, Any]:
    known = DecisionItem.model_fields
    return {name: value for name, value in line.items() if name in known} | {"by": line["by_login"]}


def _decision(each: Decision) -> DecisionItem:
    return DecisionItem(
        act=each.act.value,
        target=each.target,
        text_hash=each.text_hash,
        by=each.by_login,
        task_id=each.task_id,
        detail=each.detail,
        at=each.at,
    )


_NOWHERE = RepoId(-1)
"""A repository that this installation never showed us."""


def _reach(call: Call[Any, Any], tenant: InstallationId, repo: str | None) -> RepoId | None:
    """The repository that is meant; None for all of the installation."""
    mine = call.caller.repos
    if repo is None:
        if not mine:
            return None
        if len(mine) > 1:
            raise Problem(
                400,
                "repo_required",
                "repo: this token sees some repositories; name one",
                field="repo",
            )
        (name,) = mine
    else:
        name = RepoName.parse(repo)
        if not call.caller.sees(name):
            return _NOWHERE
    return book.repo_named(tenant, call.tx, name) or _NOWHERE


def _entry(call: Call[Any, Any], tenant: InstallationId) -> Entry:
    found = book.entry(tenant, call.tx, call.path["entry_id"])
    if found is None:
        raise not_found()
    if call.caller.repos and (found.repo is None or not call.caller.sees(found.repo)):
        raise not_found()
    return found


def _require_key(target: str) -> None:
    try:
        below = KeyPrefix.parse(target).below
    except ValueError as error:
        raise bad_field("key", str(error)) from None
    if not below:
        raise bad_field("key", "names everything of its owner; say so with prefix")


def _raise_if(done: Decided | Revoked, field: str) -> None:
    refused = done.refused
    if refused is None:
        return
    if refused is Refusal.UNKNOWN:
        raise not_found()
    if refused is Refusal.BAD_KEY:
        raise bad_field(field, "is no memory key; write it like repo/<owner>/<name>/<namespace>")
    if refused is Refusal.OTHER_OWNER:
        raise bad_field(field, "names another owner than the one that is meant", "other_owner")
    raise Problem(409, refused.value, _WHY.get(refused, "the book can't be changed so"))


_WHY = {
    Refusal.NOT_PENDING: "it was decided before; look at its state",
    Refusal.TEXT_CHANGED: "the text is not the one with this hash; read it again, then decide",
    Refusal.OWN_CHANGE: "the author of a change can't approve what it taught; ask somebody else",
    Refusal.REVOKED_KEY: "the place is revoked; lift that first: coven-github memory lift",
    Refusal.EXPIRED: "it is too old; let it be proposed again",
}


def _person(call: Call[Any, Any]) -> Person:
    return Person(None, f"api:{call.caller.name}")


def _after(call: Call[Any, Any]) -> int | None:
    return int(str(call.place[0])) if call.place else None
