"""What the API does with the memory book. Its rules are the book's; here are words and shapes.

The book belongs to one installation, so a service token names one. A token of some repositories
names one of them and sees what is below it, never what the installation shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from coven import memory_shown
from coven.memory.book import (
    Activity,
    Decided,
    Entry,
    Person,
    Refusal,
    Revoked,
    Source,
    parse_id,
)
from coven.memory.keys import KeyPrefix
from coven.services import Services
from coven.store import book, book_sharing
from coven.values import InstallationId, RepoId, RepoName, TaskId
from webhooks.api import inputs, items
from webhooks.api.context import Call, Lines, Outcome
from webhooks.api.memory_shapes import (
    ActivityAnswer,
    ActivityQuery,
    DecideAnswer,
    DecideBody,
    EntryAnswer,
    ExportQuery,
    MemoryAnswer,
    MemoryQuery,
    RevokeAnswer,
    RevokeBody,
    UnshareBody,
    decision_item,
    export_line,
    memory_item,
)
from webhooks.api.problems import Problem, bad_field, not_found


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
            decisions=[decision_item(each) for each in book.history(tenant, call.tx, found)],
            runs=[items.activity_item(each) for each in book.tasks_of(tenant, call.tx, found.id)],
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
        ActivityAnswer(activity=[items.activity_item(each) for each in page]),
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


def share_memory(call: Call[Any, DecideBody]) -> Outcome:
    """Give an approved text to runs in all repositories of the installation, public ones too."""
    tenant, services = call.one_installation(), call.services
    found, days = _entry(call, tenant), services.settings.memory.retention_days
    done = book_sharing.share(
        tenant,
        call.tx,
        found.id,
        _person(call),
        call.body.text_hash,
        Source.API,
        services.clock.now(),
        keep=timedelta(days=days) if days is not None else None,
    )
    _raise_if(done, "text_hash")
    assert done.entry is not None
    said = DecideAnswer(id=done.entry.id, state=done.entry.state, fresh=done.fresh)
    return Outcome(said, rows=1, target=done.entry.id)


def unshare_memory(call: Call[Any, UnshareBody]) -> Outcome:
    """Revoke a shared text, by its id or by the id of the entry that was shared."""
    tenant, now = call.one_installation(), call.services.clock.now()
    found = _entry(call, tenant)
    done = book_sharing.unshare(tenant, call.tx, found.id, _person(call), now)
    _raise_if(done, "entry_id")
    _show_anew(call, *(book.entry(tenant, call.tx, each) for each in done.entries))
    return Outcome(
        RevokeAnswer(revoked=str(done.target), entries=list(done.entries), fresh=done.fresh),
        rows=len(done.entries),
        target=done.target,
    )


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


def _lines(services: Services, tenant: InstallationId, filters: book.Filters) -> Iterator[bytes]:
    """A batch at a time, each in a transaction of its own: a slow reader holds nothing."""
    after: int | None = 0
    while after is not None:
        with services.store.read() as tx:
            batch, after = book.export_batch(tenant, tx, filters, after=after)
        for values in batch:
            line = export_line(values).model_dump(mode="json", by_alias=True)
            yield (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace")


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
    mine = call.caller.repos
    # By id: the name that the entry knows may be another repository's by now.
    if mine and (
        found.repo_id is None
        or found.repo_id not in {book.repo_named(tenant, call.tx, name) for name in mine}
    ):
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
    Refusal.NOT_APPROVED: "only what is approved and in use can be shared; look at its state",
    Refusal.NOT_SHARED: "nothing is shared from there; list memory with scope=tenant_shared",
    Refusal.NOT_PENDING: "it was decided before; look at its state",
    Refusal.TEXT_CHANGED: "the text is not the one with this hash; read it again, then decide",
    Refusal.OWN_CHANGE: (
        "the author of a change can't approve what it taught, and a token may be anybody's; let "
        "another maintainer approve it on GitHub"
    ),
    Refusal.REVOKED_KEY: "the place is revoked; lift that first: coven-github memory lift",
    Refusal.EXPIRED: "it is too old; let it be proposed again",
}


def _person(call: Call[Any, Any]) -> Person:
    return call.caller.person or Person(None, f"api:{call.caller.name}")


def _after(call: Call[Any, Any]) -> int | None:
    return int(str(call.place[0])) if call.place else None
